"""The private-data boundary: it alone holds private counts, and lets out only selections and noisy counts.

Every event is charged to the ledger before the counts are read.
"""

from privmw.curator.curator import Curator

__all__ = ["Curator"]
