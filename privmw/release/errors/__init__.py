"""How far off fitted answers are: expected errors and intervals, from released values alone."""

from privmw.release.errors.expected import ExpectedErrors, expected_errors_of
from privmw.release.errors.intervals import FittedIntervals, intervals_of

__all__ = ["ExpectedErrors", "FittedIntervals", "expected_errors_of", "intervals_of"]
