"""One release on many machines: a Communicator over MPI, and a support and records sharded over its ranks.

mpi4py is imported when mpi() is called.
"""

from privmw.extensions.cluster.faults import abort_job, wait_to_report
from privmw.extensions.cluster.mpi import Mpi, mpi
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.extensions.cluster.sharded_support import ShardedSupport

__all__ = ["Mpi", "ShardedRecords", "ShardedSupport", "abort_job", "mpi", "wait_to_report"]
