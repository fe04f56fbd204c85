"""Imports from extensions for commands of the core; no other module of a command has any.

The ranks of --cluster, and an engine's counts. A command of an extension is a
line of COMMANDS in privmw/cli/__init__.py.
"""

from privmw.extensions.cluster import mpi
from privmw.extensions.cluster.sharded_support import ShardedSupport
from privmw.extensions.engines import Counts

__all__ = ["Counts", "ShardedSupport", "mpi"]
