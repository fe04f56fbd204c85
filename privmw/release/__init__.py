"""What may be published: rows and weights, measurements, history and ledger; as a file, and as answers."""

from privmw.release.agreement import Agreement
from privmw.release.errors import ExpectedErrors, FittedIntervals
from privmw.release.file import load_release
from privmw.release.growth import Growth
from privmw.release.history import Round
from privmw.release.measurements import Measurement
from privmw.release.release import Release

__all__ = [
    "Agreement",
    "ExpectedErrors",
    "FittedIntervals",
    "Growth",
    "Measurement",
    "Release",
    "Round",
    "load_release",
]
