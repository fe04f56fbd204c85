"""The data sets of the papers' experiments, read from the files that their publishers give away.

This room has what is published about the values, one domain file a set, and no record. It knows data and io.
docs/reproduce.md says where the files come from.
"""

from privmw.experiments.domains import domain
from privmw.experiments.readers import adult, loans, survey

__all__ = ["adult", "domain", "loans", "survey"]
