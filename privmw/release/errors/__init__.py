"""Expected errors of answers, and intervals, from released values alone."""

from privmw.release.errors.expected import ExpectedErrors, expected_errors_of
from privmw.release.errors.intervals import FittedIntervals, intervals_of
from privmw.release.errors.measured import (
    MeasuredIntervals,
    measured_intervals_of,
    pair_deviations,
    quantile_of,
)

__all__ = [
    "ExpectedErrors",
    "FittedIntervals",
    "MeasuredIntervals",
    "expected_errors_of",
    "intervals_of",
    "measured_intervals_of",
    "pair_deviations",
    "quantile_of",
]
