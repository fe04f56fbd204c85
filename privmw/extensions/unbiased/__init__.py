"""Unbiased answers as a release: the noisy values of one shot, their answers and errors.

answers.py      the release: answers, standard errors, covariances, intervals
intervals.py    the distribution of a cell's error, and its quantiles
frame.py        the cells with their estimates, as frames and files
file.py         the release as one file, and back
"""

from privmw.extensions.unbiased.answers import Intervals, Query, UnbiasedAnswers
from privmw.extensions.unbiased.file import load_unbiased_answers

__all__ = ["Intervals", "Query", "UnbiasedAnswers", "load_unbiased_answers"]
