"""The report of a release: what it promises, what it holds, and how accurate it is."""

from privmw.report.release.report import render, write_report

__all__ = ["render", "write_report"]
