"""The report of unbiased answers: the promise, how far answers may be off, pictures."""

from privmw.extensions.unbiased.report.report import render_unbiased, write_unbiased_report

__all__ = ["render_unbiased", "write_unbiased_report"]
