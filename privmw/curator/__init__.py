"""THE DOOR: the only room that holds private counts. Chosen queries and noisy counts leave it, paid for."""

from privmw.curator.curator import Curator

__all__ = ["Curator"]
