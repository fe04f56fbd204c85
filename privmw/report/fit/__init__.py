"""The report of a fit to noisy answers: its certificate, its agreement, and what non-negativity cost."""

from privmw.report.fit.facts import certificate_in_words
from privmw.report.fit.report import render_fit, write_fit_report

__all__ = ["certificate_in_words", "render_fit", "write_fit_report"]
