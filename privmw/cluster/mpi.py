"""The ranks of MPI: how processes on one machine or many meet. It moves arrays, whatever they mean.

Every meeting is waited for in Python: signals are heard meanwhile, a rank that waits long leaves its core to
others, and one that waits for a rank which has ended says so. privmw.cluster.faults ends the job then.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.cluster import faults
from privmw.io.extras import need
from privmw.ranks import Array, Int64s, RankError, check_same
from privmw.version import __version__

T = TypeVar("T")

PIECE = 2**20  # entries added up at once: more are no faster, and MPI would take as much memory again
SPIN = 2e-5  # seconds of a wait in which a rank keeps its core
SOON = 1.0  # seconds of a wait in which it yields the core only to who asks; then it sleeps
NAP = 1e-4
ENDED, SPEAKS = 0, 1  # what a rank may say beside the meetings
LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")  # how many a launcher started


class Mpi:
    """The ranks of MPI as a Communicator, made by `mpi`; it counts what it moves.

    meetings: how often the ranks met; bytes_summed: what this rank gave to be added up.
    """

    def __init__(self, library: Any) -> None:
        self._mpi = library
        self._world = library.COMM_WORLD.Dup()
        self._side = library.COMM_WORLD.Dup()  # where ranks say how they end
        self._within = False  # a meeting, or a meeting was left in the midst
        self._pending: Any = None  # keeps the memory that MPI still uses if so
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self.ended: dict[int, int] = {}  # rank -> how often it had met the others
        self.meetings = 0
        self.bytes_summed = 0

    def allreduce(self, array: Int64s) -> None:
        """Add up over the ranks, in place: every rank then has the sums. Overflow wraps, as in numpy."""
        if type(array) is not np.ndarray or array.dtype != np.int64 or not array.flags.c_contiguous:
            raise TypeError("array must be a contiguous array of int64")
        if not array.flags.writeable:
            raise ValueError("array must be writable")
        with self._meeting():
            self.bytes_summed += array.nbytes
            flat = array.reshape(-1)
            for start in range(0, flat.size, PIECE):
                self._wait(self._world.Iallreduce(self._mpi.IN_PLACE, flat[start : start + PIECE]))

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on every rank; what the others gave is ignored. Released values only."""
        with self._meeting():
            packed = np.frombuffer(pickle.dumps(value, 5) if self.rank == 0 else b"", np.uint8)
            length = np.array([packed.size])
            self._wait(self._world.Ibcast(length))
            if self.rank != 0:
                packed = np.empty(int(length[0]), np.uint8)
            self._wait(self._world.Ibcast(packed))
            received: T = value if self.rank == 0 else pickle.loads(packed.data)
            return received

    def gather(self, array: Array) -> list[Array] | None:
        """Each rank's 1-D array, all of one dtype, by rank, on rank 0; None elsewhere.

        From each rank straight to rank 0, and no copy stays anywhere. MPI's own gather may pass through the
        memory of a third rank, which must not see what may be private.
        """
        _check_plain(array)
        with self._meeting():
            if self.rank != 0:
                self._wait(self._world.Isend(np.array([array.size]), 0))
                self._wait(self._world.Isend(np.ascontiguousarray(array).view(np.uint8), 0))
                return None
            parts = [array]
            for rank in range(1, self.size):
                length = np.empty(1, np.int64)
                self._wait(self._world.Irecv(length, rank))
                parts.append(np.empty(int(length[0]), array.dtype))
                self._wait(self._world.Irecv(parts[-1].view(np.uint8), rank))
            return parts

    def alltoallv(self, array: Array, counts: Sequence[int]) -> Array:
        """Send the first counts[0] entries of a 1-D array to rank 0, the next counts[1] to rank 1, and so on.

        Returns what all ranks sent to this one, by rank. Every rank's array has the same dtype.
        """
        _check_plain(array)
        sent = np.array(counts, np.int64)
        if sent.shape != (self.size,) or sent.min() < 0 or sent.sum() != array.size:
            raise ValueError(f"counts must be one for each of the {self.size} ranks, {array.size} together")
        with self._meeting():
            received = np.empty(self.size, np.int64)
            self._wait(self._world.Ialltoall(sent, received))
            out = np.empty(int(received.sum()), array.dtype)
            entry = self._mpi.BYTE.Create_contiguous(array.itemsize).Commit()
            try:
                self._wait(
                    self._world.Ialltoallv(
                        [np.ascontiguousarray(array).view(np.uint8), (sent, _starts(sent)), entry],
                        [out.view(np.uint8), (received, _starts(received)), entry],
                    )
                )
            finally:
                entry.Free()
            return out

    def farewell(self) -> None:
        """Wait at the end until every rank has ended, having met as often."""
        if self._within:
            raise RuntimeError("the ranks must meet to the end: this one left them in the midst")
        ends = np.array([self.meetings])
        saying = self._say(ENDED, ends)
        while len(self.ended) < self.size - 1:
            self._listen()
            time.sleep(NAP)
        self._mpi.Request.Waitall(saying)

    def another_speaks(self) -> bool:
        """Whether another rank has begun to tell of an error."""
        return bool(self._side.Iprobe(tag=SPEAKS))

    def speak(self) -> None:
        """Say that this rank begins to tell of an error."""
        self._pending = self._pending, self._say(SPEAKS, np.empty(0, np.int64))

    def abort(self, code: int) -> NoReturn:
        """End every rank of the job."""
        self._mpi.COMM_WORLD.Abort(code)
        os._exit(code)

    @contextmanager
    def _meeting(self) -> Iterator[None]:
        """One call that every rank makes; who does not come to its end cannot meet the others again."""
        if self._within:
            raise RuntimeError("the ranks must not meet again: this one left them in the midst")
        self._within = True
        self.meetings += 1
        yield
        self._within = False

    def _wait(self, request: Any) -> None:
        self._pending = request
        began = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - began
            if waited > SOON:
                self._listen()
                time.sleep(NAP)
            elif waited > SPIN:
                os.sched_yield()
        self._pending = None

    def _say(self, what: int, words: Int64s) -> list[Any]:
        """Tell every other rank, beside the meetings; they hear it when they listen."""
        return [self._side.Isend(words, rank, what) for rank in range(self.size) if rank != self.rank]

    def _listen(self) -> None:
        """Hear who has ended; one that others wait for will not come."""
        said = self._mpi.Status()
        while self._side.Iprobe(tag=ENDED, status=said):
            met = np.empty(1, np.int64)
            self._side.Recv(met, said.Get_source(), ENDED)
            self.ended[said.Get_source()] = int(met[0])
        for rank, met_before in self.ended.items():
            if met_before < self.meetings:
                raise RankError(f"rank {rank} must not end before the others: they wait for it")

    def __repr__(self) -> str:
        return f"Mpi(rank {self.rank} of {self.size})"


@cache
def mpi() -> Mpi:
    """The ranks that `mpiexec -n 4 python program.py` started: in each of them, itself and the others.

    Every rank calls it, first of all. The ranks must have the same versions and kernels. Those on one machine
    share its cores: the default number of threads becomes each one's part. From now on, a rank that raises
    ends the job. Without a launcher there is one rank.

    >>> comm = mpi()
    >>> comm.rank, comm.size
    (0, 1)
    >>> comm is mpi()
    True
    """
    library = _library()
    comm = Mpi(library)
    if comm.size == 1:
        _check_launched_alone()
        return comm
    faults.join(comm)
    check_same(comm, f"the version of privmw ({__version__})", __version__)
    check_same(comm, f"the version of numpy ({np.__version__})", np.__version__)
    check_same(comm, f"the kernels ({kernels.backend()})", kernels.backend())
    check_same(comm, "the arithmetic of the machines", _arithmetic())
    _share_cores(library)
    return comm


def _library() -> Any:
    need("mpi4py", "run on a cluster", "cluster")
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"an MPI must be installed to run on a cluster ({str(error).partition(chr(10))[0]}): "
            "load the cluster's own, or pip install mpich"
        ) from None


def _arithmetic() -> str:
    """How functions and sums of floats come out here, which another processor may round differently.

    What every rank computes for itself, such as a projection, must be the same on all of them.
    """
    numbers = np.linspace(-30.0, 3.0, 4001)
    found = np.concatenate(
        [np.exp(numbers), np.log(numbers + 31), [numbers.sum(), np.einsum("i,i->", numbers, numbers)]]
    )
    return hashlib.sha256(found.tobytes()).hexdigest()


def launched() -> int:
    """How many processes the launcher of this one started, as far as it says; without a launcher, 1.

    >>> launched()
    1
    """
    said = [os.environ.get(name, "") for name in LAUNCHED]
    return max([int(number) for number in said if number.isdecimal()], default=1)


def _check_launched_alone() -> None:
    """Processes that do not know each other would all make, and pay for, the same release."""
    if launched() > 1:
        raise RuntimeError(
            f"the launcher must be of the MPI that mpi4py loads: it started {launched()} ranks, and none of "
            "them finds another"
        )


def _share_cores(library: Any) -> None:
    """Where several ranks have the same cores, give each of them its part of the threads."""
    here = library.COMM_WORLD.Split_type(library.COMM_TYPE_SHARED)
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    everyones = here.allgather(own)
    here.Free()
    if len(everyones) > 1:
        part = len(set().union(*everyones)) // len(everyones)
        kernels.set_threads(max(1, min(part, len(own))))


def _check_plain(array: Array) -> None:
    if type(array) is not np.ndarray or array.ndim != 1 or array.dtype.hasobject or not array.itemsize:
        raise TypeError("array must be a one-dimensional array of plain values")


def _starts(counts: Int64s) -> npt.NDArray[np.int64]:
    starts: npt.NDArray[np.int64] = np.cumsum(counts) - counts
    return starts
