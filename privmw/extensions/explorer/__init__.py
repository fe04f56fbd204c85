"""The explorer: a release as one HTML file that counts its rows itself, for readers who install nothing.

explorer.py    what the page holds: rows, weights, intervals and facts
pack.py        codes and weights as few bytes
explore.html.j2, explore.css, explore.js    the page; it runs where it is opened, and fetches nothing
"""

from privmw.extensions.explorer.explorer import marginals_with_intervals, render_explorer, write_explorer

__all__ = ["marginals_with_intervals", "render_explorer", "write_explorer"]
