"""The data sets of the papers' experiments, read from the files that their publishers give away.

This package has published information about the values, one domain file per data set, and no records.
docs/reproduce.md says where the files come from.
"""

from privmw.extensions.experiments.readers import adult, domain, loans, survey

__all__ = ["adult", "domain", "loans", "survey"]
