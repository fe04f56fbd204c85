"""Imports from extensions for commands of the core; no other module of a command has any.

The ranks of --cluster, an engine's counts, and rules proposed from a public file. A command of an extension
is a line of COMMANDS in privmw/cli/__init__.py.
"""

from privmw.extensions.cluster import mpi
from privmw.extensions.cluster.sharded_support import ShardedSupport
from privmw.extensions.engines import Counts
from privmw.extensions.rules import propose_rules, written

__all__ = ["Counts", "ShardedSupport", "mpi", "propose_rules", "written"]
