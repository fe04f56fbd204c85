"""What commands of the core take from extensions. No other module of a command imports them.

Two algorithms that --method names, the ranks of --cluster, and counts that an engine made. A command of an
extension is a line of COMMANDS in privmw/cli/__init__.py.
"""

from privmw.algorithms.dual_query import DualQuery
from privmw.algorithms.fem import FEM
from privmw.cluster import mpi
from privmw.cluster.sharded_support import ShardedSupport
from privmw.extensions.engines import Counts

__all__ = ["FEM", "Counts", "DualQuery", "ShardedSupport", "mpi"]
