"""RAP and GEM: products of distributions, fitted by gradient steps, from which rows are drawn at the end."""

from privmw.extensions.relaxed.gem import GEM
from privmw.extensions.relaxed.rap import RAP

__all__ = ["GEM", "RAP"]
