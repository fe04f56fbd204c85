"""Displays of notebooks: a panel for each kind of object, and the picture of a marginal."""

from privmw.report.notebook.marginal import plot_marginal
from privmw.report.notebook.panel import panel

__all__ = ["panel", "plot_marginal"]
