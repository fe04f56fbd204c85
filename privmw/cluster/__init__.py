"""One release over many machines: the ranks of MPI, and a support whose rows they share.

mpi4py is imported when mpi() is called, and not before.
"""

from privmw.cluster.faults import leave, wait_for_the_first
from privmw.cluster.mpi import Mpi, launched, mpi

__all__ = ["Mpi", "launched", "leave", "mpi", "wait_for_the_first"]
