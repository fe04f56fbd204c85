"""What the loop improves: a weighted support, moved by multiplicative weights or by projection.

A model takes measurements and gives answers; it never receives a private value. Its interface is `Model` of
privmw/algorithms/loop.py. It ends as `(Support, weights)`: the rows may be its own.
"""

from .multiplicative import MultiplicativeWeights
from .projected import ProjectedSupport

__all__ = ["MultiplicativeWeights", "ProjectedSupport"]
