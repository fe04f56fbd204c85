"""The report of a fit to noisy answers: its certificate, its agreement, and what non-negativity cost."""

from privmw.extensions.postprocess.report.facts import certificate_in_words
from privmw.extensions.postprocess.report.report import render_fit, write_fit_report

__all__ = ["certificate_in_words", "render_fit", "write_fit_report"]
