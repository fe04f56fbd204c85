"""The report of a release: its privacy guarantee, its content, and its accuracy."""

from privmw.report.release.report import render, write_report

__all__ = ["render", "write_report"]
