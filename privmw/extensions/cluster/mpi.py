"""The Communicator over MPI, for processes on one machine or many.

Collective calls are non-blocking and polled in Python, so that signals are handled, a rank that waits long
yields its core, and a rank that waits for one which has exited raises. faults.py then aborts
the job. heartbeat.py ends a wait for a rank that was stopped or cut off.
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

from privmw import kernels
from privmw.extensions.cluster import faults
from privmw.extensions.cluster.heartbeat import WAIT, Heartbeats
from privmw.io.extras import need
from privmw.ranks import Array, Int64s, RankError, check_same, launched
from privmw.secrecy import expect
from privmw.version import __version__

T = TypeVar("T")

ALLREDUCE_ENTRIES = 2**20  # per call: more are no faster, and MPI would allocate as much memory again
# Seconds.
SPIN_TIME = 2e-5  # in which a waiting rank keeps its core
YIELD_TIME = 1.0  # until which it yields the core to other processes; after that it sleeps
SLEEP_INTERVAL = 1e-4
EXITING, ERROR = 0, 1  # tags of the messages outside of collective calls


class Mpi:
    """A Communicator over MPI, made by `mpi`.

    collectives: the number of collective calls so far; bytes_reduced: of the arrays of all allreduce calls;
    bytes_sent: to other ranks in all others but broadcasts.
    """

    def __init__(self, library: Any) -> None:
        self._mpi = library
        self._world = library.COMM_WORLD.Dup()
        self._side = library.COMM_WORLD.Dup()  # for messages outside of collective calls
        self._unfinished = False  # whether a collective call was begun and not completed
        self._pending: Any = None  # its request, which keeps alive the memory that MPI still uses
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self.ended: dict[int, int] = {}  # rank that exits -> its number of collective calls
        self.collectives = 0
        self.bytes_reduced = self.bytes_sent = 0
        self._beats = Heartbeats(library) if self.size > 1 else None

    def allreduce(self, array: Int64s) -> None:
        """Replace the array by its sum over the ranks, on every rank. Overflow wraps, as in numpy."""
        right = type(array) is np.ndarray and array.dtype == np.int64 and array.flags.c_contiguous
        expect("array", array, bool(right), "a contiguous array of int64")
        if not array.flags.writeable:
            raise ValueError("array must be writable")
        with self._collective():
            self.bytes_reduced += array.nbytes
            flat = array.reshape(-1)
            for start in range(0, flat.size, ALLREDUCE_ENTRIES):
                self._wait(
                    self._world.Iallreduce(self._mpi.IN_PLACE, flat[start : start + ALLREDUCE_ENTRIES])
                )

    def broadcast(self, value: T) -> T:
        """The value of rank 0, on every rank; the values of the others are ignored. Released values only."""
        with self._collective():
            packed = np.frombuffer(pickle.dumps(value, 5) if self.rank == 0 else b"", np.uint8)
            length = np.array([packed.size])
            self._wait(self._world.Ibcast(length))
            if self.rank != 0:
                packed = np.empty(int(length[0]), np.uint8)
            self._wait(self._world.Ibcast(packed))
            return value if self.rank == 0 else pickle.loads(packed.data)

    def gather(self, array: Array) -> list[Array] | None:
        """The 1-D arrays of all ranks, of one dtype, by rank, on rank 0; None elsewhere.

        Sent from each rank directly to rank 0, since the arrays may be private: MPI's own gather may pass
        through a third rank.
        """
        _check_plain(array)
        with self._collective():
            if self.rank != 0:
                self.bytes_sent += array.nbytes
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

        Returns the entries that all ranks sent to this one, by rank. All arrays have the same dtype.
        """
        _check_plain(array)
        sent = np.array(counts, np.int64)
        if sent.shape != (self.size,) or sent.min() < 0 or sent.sum() != array.size:
            raise ValueError(f"counts must be one for each of the {self.size} ranks, {array.size} together")
        with self._collective():
            self.bytes_sent += array.nbytes - int(sent[self.rank]) * array.itemsize
            received = np.empty(self.size, np.int64)
            self._wait(self._world.Ialltoall(sent, received))
            out = np.empty(int(received.sum()), array.dtype)
            entry = self._mpi.BYTE.Create_contiguous(array.itemsize).Commit()
            try:
                self._wait(
                    self._world.Ialltoallv(
                        [np.ascontiguousarray(array).view(np.uint8), (sent, np.cumsum(sent) - sent), entry],
                        [out.view(np.uint8), (received, np.cumsum(received) - received), entry],
                    )
                )
            finally:
                entry.Free()
            return out

    def exit_barrier(self) -> None:
        """Wait until every rank exits, after the same number of collective calls."""
        if self._unfinished:
            raise RuntimeError("every collective call must be completed: this rank left one unfinished")
        collectives = np.array([self.collectives])
        requests = self._send_to_all(EXITING, collectives)
        began = time.monotonic()
        while len(self.ended) < self.size - 1:
            self._check_exits()
            self._check_alive(time.monotonic() - began)
            time.sleep(SLEEP_INTERVAL)
        while not self._mpi.Request.Testall(requests):
            self._check_alive(time.monotonic() - began)
            time.sleep(SLEEP_INTERVAL)
        if self._beats is not None:
            self._beats.stop()

    def error_announced(self) -> bool:
        """Whether another rank has announced that it reports an error."""
        return bool(self._side.Iprobe(tag=ERROR))

    def announce_error(self) -> None:
        """Announce to the other ranks that this one reports an error."""
        self._pending = self._pending, self._send_to_all(ERROR, np.empty(0, np.int64))

    def abort(self, code: int) -> NoReturn:
        """Abort every rank of the job."""
        self._mpi.COMM_WORLD.Abort(code)
        os._exit(code)

    @contextmanager
    def _collective(self) -> Iterator[None]:
        """One collective call; after an exception in one, a rank cannot make another."""
        if self._unfinished:
            raise RuntimeError("the last collective call must be completed: this rank left it unfinished")
        self._unfinished = True
        self.collectives += 1
        if self._beats is not None:
            self._beats.collectives = self.collectives
        yield
        self._unfinished = False

    def _wait(self, request: Any) -> None:
        self._pending = request
        began = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - began
            if waited > YIELD_TIME:
                self._check_exits()
                self._check_alive(waited)
                time.sleep(SLEEP_INTERVAL)
            elif waited > SPIN_TIME:
                os.sched_yield()
        self._pending = None

    def _send_to_all(self, tag: int, message: Int64s) -> list[Any]:
        """Send a message outside of collective calls to every other rank; returns the requests."""
        return [self._side.Isend(message, rank, tag) for rank in range(self.size) if rank != self.rank]

    def _check_exits(self) -> None:
        """Receive the exits of other ranks; raise if this rank waits for one of them."""
        status = self._mpi.Status()
        while self._side.Iprobe(tag=EXITING, status=status):
            collectives = np.empty(1, np.int64)
            self._side.Recv(collectives, status.Get_source(), EXITING)
            self.ended[status.Get_source()] = int(collectives[0])
        for rank, completed in self.ended.items():
            if completed < self.collectives:
                raise RankError(f"rank {rank} must not exit before the others: they wait for it")

    @property
    def wait(self) -> float:
        """The seconds of silence of a rank after which the others abort the job."""
        return WAIT if self._beats is None else self._beats.wait

    @wait.setter
    def wait(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"wait ({seconds}) must be positive")
        if self._beats is not None:
            self._beats.wait = float(seconds)

    def _check_alive(self, waited: float) -> None:
        if self._beats is not None:
            self._beats.check(waited)

    def __repr__(self) -> str:
        return f"Mpi(rank {self.rank} of {self.size})"


@cache
def mpi() -> Mpi:
    """The Communicator of the ranks that `mpiexec -n 4 python program.py` started.

    Every rank calls it first. The ranks must have the same versions and kernels. Ranks on one machine share
    its cores: the default number of threads becomes the rank's share. From now on, a rank that raises aborts
    the job. Without a launcher there is one rank.

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
    faults.abort_on_error(comm)
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
    """A digest of functions and sums of floats, which another processor may round differently.

    Results that every rank computes by itself, such as a projection, must be the same on all of them.
    """
    numbers = np.linspace(-30.0, 3.0, 4001)
    values = np.concatenate(
        [np.exp(numbers), np.log(numbers + 31), [numbers.sum(), np.einsum("i,i->", numbers, numbers)]]
    )
    return hashlib.sha256(values.tobytes()).hexdigest()


def _check_launched_alone() -> None:
    """Raise if MPI does not connect the ranks: each would make, and pay for, the same release."""
    if launched() > 1:
        raise RuntimeError(
            f"the launcher must be of the MPI that mpi4py loads: it started {launched()} ranks, and none of "
            "them finds another"
        )


def _share_cores(library: Any) -> None:
    """Divide the threads among the ranks of one machine."""
    machine = library.COMM_WORLD.Split_type(library.COMM_TYPE_SHARED)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores_of_ranks = machine.allgather(cores)
    machine.Free()
    if len(cores_of_ranks) > 1:
        share = len(set().union(*cores_of_ranks)) // len(cores_of_ranks)
        kernels.set_threads(max(1, min(share, len(cores))))


def _check_plain(array: Array) -> None:
    right = type(array) is np.ndarray and array.ndim == 1 and not array.dtype.hasobject and array.itemsize
    expect("array", array, bool(right), "a one-dimensional array of plain values")
