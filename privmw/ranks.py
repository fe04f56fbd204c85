"""The ranks of a run: the Communicator, and collective operations built on it.

A rank is a process with its own shard of the public rows. All ranks run the same program and make the same
collective calls in the same order. On a single rank, the usual case, these calls return at once. Only
integers are added, so the number of ranks changes no bit. extensions/cluster implements the Communicator over
MPI.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
T = TypeVar("T")

# The number of ranks, as launchers say it.
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_LIMB = 40  # bits of a limb of a large integer: sums of limbs over 2^23 ranks do not overflow


class RankError(RuntimeError):
    """Another rank failed. The message names it; that rank raises the error itself."""


class Communicator(Protocol):
    """Collective operations, with MPI's names: all ranks make the same calls in the same order."""

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def allreduce(self, array: Int64s) -> None:
        """Replace the array by its sum over the ranks, on every rank. Overflow wraps, as in numpy."""

    def broadcast(self, value: T) -> T:
        """The value of rank 0, on every rank; the values of the others are ignored."""

    def gather(self, array: Array) -> list[Array] | None:
        """The 1-D arrays of all ranks, of one dtype, by rank, on rank 0; None elsewhere.

        No array passes through a third rank.
        """

    def alltoallv(self, array: Array, counts: Sequence[int]) -> Array:
        """Send the first counts[0] entries of a 1-D array to rank 0, the next counts[1] to rank 1, and so on.

        Returns the entries that all ranks sent to this one, by rank.
        """


class Alone:
    """The Communicator of a single rank.

    >>> ALONE.rank, ALONE.size, ALONE.broadcast("public")
    (0, 1, 'public')
    """

    rank, size = 0, 1

    def allreduce(self, array: Int64s) -> None:
        """Do nothing: the array is its own sum."""

    def broadcast(self, value: T) -> T:
        """The value itself."""
        return value

    def gather(self, array: Array) -> list[Array] | None:
        """The array itself."""
        return [array]

    def alltoallv(self, array: Array, counts: Sequence[int]) -> Array:
        """The array itself."""
        return array


ALONE = Alone()


def allgather(comm: Communicator, values: npt.ArrayLike) -> Array:
    """Gather 64-bit numbers, equally many from each rank, on every rank: ranks x numbers.

    >>> allgather(ALONE, [2.5, 1.0])
    array([[2.5, 1. ]])
    """
    row = np.atleast_1d(values)
    bits = np.zeros((comm.size, len(row)), np.int64)
    bits[comm.rank] = row.view(np.int64)
    comm.allreduce(bits.reshape(-1))
    return bits.view(row.dtype)


def packed(arrays: Sequence[Array]) -> Array:
    """Arrays of one length as one array of records, so that a single call sends them all.

    >>> [column.tolist() for column in unpacked(packed([np.array([1, 2]), np.array([0.5, 3.0])]))]
    [[1, 2], [0.5, 3.0]]
    """
    records = np.empty(len(arrays[0]), [(str(place), array.dtype) for place, array in enumerate(arrays)])
    for place, array in enumerate(arrays):
        records[str(place)] = array
    return records


def unpacked(records: Array) -> list[Array]:
    """The arrays of `packed`."""
    return [np.ascontiguousarray(records[name]) for name in records.dtype.names or ()]


def allgather_rows(comm: Communicator, arrays: Sequence[Array]) -> list[Array]:
    """The entries of all ranks, by rank, on every rank. Each rank gives arrays of one length."""
    own = packed(arrays)
    return unpacked(comm.alltoallv(np.tile(own, comm.size), [len(own)] * comm.size))


def max_over_ranks(comm: Communicator, value: float) -> float:
    """The largest of the ranks' numbers, on every rank."""
    return float(value) if comm.size == 1 else float(allgather(comm, float(value)).max())


def sum_over_ranks(comm: Communicator, value: int) -> int:
    """The sum of the ranks' integers, from 0 to 2^120 - 1, on every rank.

    >>> sum_over_ranks(ALONE, 2**100) == 2**100
    True
    """
    if comm.size == 1:
        return value
    limbs = np.array([value >> shift & (2**_LIMB - 1) for shift in (0, _LIMB, 2 * _LIMB)], np.int64)
    comm.allreduce(limbs)
    return sum(limb << place * _LIMB for place, limb in enumerate(limbs.tolist()))


def check_same(comm: Communicator, name: str, text: str) -> None:
    """Raise, on every rank, unless the text is the same on all of them."""
    if comm.size == 1:
        return
    digests = allgather(comm, np.frombuffer(hashlib.sha256(text.encode()).digest(), np.int64))
    others = np.flatnonzero((digests != digests[0]).any(axis=1)).tolist()
    if others:
        ranks = ", ".join(map(str, others[:5])) + (", ..." if len(others) > 5 else "")
        raise ValueError(f"{name} must be the same on every rank: rank {ranks} has another than rank 0")


def on_every_rank(comm: Communicator, action: Callable[[], T]) -> T:
    """Call an action on every rank and return its result; if it fails on one rank, every rank raises.

    A rank on which it failed raises that error, the others a RankError that names the first such rank. The
    message stays on its rank, since it may reveal data. The action must not make collective calls.
    """
    if comm.size == 1:
        return action()
    error: Exception | None = None
    result: T | None = None
    try:
        result = action()
    except Exception as raised:
        error = raised
    failed = np.flatnonzero(allgather(comm, np.int64(error is not None))).tolist()
    if error is not None:
        raise error
    if failed:
        raise RankError(f"rank {failed[0]} failed: see its own error message")
    return result  # type: ignore[return-value]


def on_root(comm: Communicator, action: Callable[[], T]) -> T:
    """Call an action on rank 0 only and return its result on every rank; if it fails, every rank raises.

    >>> on_root(ALONE, lambda: 3)
    3
    """
    return comm.broadcast(on_every_rank(comm, lambda: action() if comm.rank == 0 else None))  # type: ignore[return-value]


def launched() -> int:
    """The number of ranks that the launcher started, from its environment variables; 1 without a launcher.

    >>> launched()
    1
    """
    sizes = [os.environ.get(name, "") for name in SIZE_VARIABLES]
    return max([int(size) for size in sizes if size.isdecimal()], default=1)
