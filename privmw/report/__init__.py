"""The report of a release, as one HTML file that needs no other file, and what reports of extensions share.

    release/          what the report shows: report (the page), facts (figures), words, pictures
    notebook/         what a notebook shows: small panels, and the picture of a marginal
    agreement.py      pictures of how answers agree with noisy ones; also for fits (extensions/postprocess)
    page.py, svg.py   a template becomes a page, a figure becomes a picture in it
    formats.py        numbers and names as a reader sees them

A report receives released values, public rows and, for experiments, true errors; it never sees a table.
Nothing is drawn at random: the same release gives the same bytes. matplotlib and jinja2 are imported when a
report is made.
"""

from privmw.report.notebook import panel, plot_marginal
from privmw.report.page import check_installed
from privmw.report.release import render, write_report

__all__ = [
    "check_installed",
    "panel",
    "plot_marginal",
    "render",
    "write_report",
]
