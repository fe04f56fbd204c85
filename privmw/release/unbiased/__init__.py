"""Unbiased answers as a release: the noisy values of one shot, and how far their answers may be off.

answers.py      the release: answers, standard errors, covariances, intervals
intervals.py    how far noise reaches: the law of a cell's error, and its quantiles
frame.py        the cells with their estimates, as frames and files
file.py         the release as one file, and back
"""

from privmw.release.unbiased.answers import Intervals, Query, UnbiasedAnswers
from privmw.release.unbiased.file import load_unbiased_answers

__all__ = ["Intervals", "Query", "UnbiasedAnswers", "load_unbiased_answers"]
