"""privmw: differentially private answers and synthetic records by re-weighting public rows."""

__version__ = "0.1.0"
