"""One release on many machines: a Communicator over MPI, and a support sharded over its ranks.

mpi4py is imported when mpi() is called.
"""

from privmw.extensions.cluster.faults import abort_job, wait_to_report
from privmw.extensions.cluster.mpi import Mpi, mpi

__all__ = ["Mpi", "abort_job", "mpi", "wait_to_report"]
