"""What the loop improves: a weighted support, moved by multiplicative weights or by projection.

A model takes measurements and gives answers; it never receives a private value. `adaptive.py` asks of it
`answers()`, `update(measurements)` and `result()`, and nothing else.
"""

from .multiplicative import MultiplicativeWeights
from .projected import ProjectedSupport

__all__ = ["MultiplicativeWeights", "ProjectedSupport"]
