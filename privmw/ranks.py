"""Ranks that work on one release: who they are, and how they put together what each of them has.

A rank is a process of its own, with its own shard of the public rows. All of them run the same program and
meet in the calls below, in the same order. One rank alone is the usual case: then nothing happens here, and
rooms that add up over ranks need not know. Only integers are added, so the ranks' number changes no bit.
privmw.cluster has the ranks of MPI. This room knows numbers only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
T = TypeVar("T")

_LIMB = 40  # bits of a large integer that are added up in one place: 2^23 ranks do not overflow


class RankError(RuntimeError):
    """Another rank could not go on. The message says which; that rank raises the error itself."""


class Communicator(Protocol):
    """How ranks meet. Every call is made by all of them, in the same order."""

    @property
    def rank(self) -> int:
        """The number of this rank, from 0."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def allreduce(self, array: Int64s) -> None:
        """Add up over the ranks, in place: every rank then has the sums. Overflow wraps, as in numpy."""

    def broadcast(self, value: T) -> T:
        """Rank 0's value, on every rank; what the others gave is ignored."""

    def gather(self, array: Array) -> list[Array] | None:
        """Each rank's 1-D array, all of one dtype, by rank, on rank 0; None elsewhere.

        No third rank sees any of it.
        """

    def alltoallv(self, array: Array, counts: Sequence[int]) -> Array:
        """Send the first counts[0] entries of a 1-D array to rank 0, the next counts[1] to rank 1, and so on.

        Returns what all ranks sent to this one, by rank.
        """


class Alone:
    """One rank: there is nobody to meet.

    >>> ALONE.rank, ALONE.size, ALONE.broadcast("public")
    (0, 1, 'public')
    """

    rank, size = 0, 1

    def allreduce(self, array: Int64s) -> None:
        """Nothing to add."""

    def broadcast(self, value: T) -> T:
        """The own value."""
        return value

    def gather(self, array: Array) -> list[Array] | None:
        """The own array."""
        return [array]

    def alltoallv(self, array: Array, counts: Sequence[int]) -> Array:
        """The own array."""
        return array


ALONE = Alone()


def allgather(comm: Communicator, own: npt.ArrayLike) -> Array:
    """Each rank's numbers of 64 bits, as many on each, on every rank: ranks x numbers.

    >>> allgather(ALONE, [2.5, 1.0])
    array([[2.5, 1. ]])
    """
    given = np.atleast_1d(own)
    bits = np.zeros((comm.size, len(given)), np.int64)
    bits[comm.rank] = given.view(np.int64)
    comm.allreduce(bits.reshape(-1))
    return bits.view(given.dtype)


def max_over_ranks(comm: Communicator, own: float) -> float:
    """The largest of the ranks' numbers, on every rank."""
    return float(own) if comm.size == 1 else float(allgather(comm, float(own)).max())


def sum_over_ranks(comm: Communicator, own: int) -> int:
    """The sum of the ranks' integers, none negative and below 2^120, on every rank.

    >>> sum_over_ranks(ALONE, 2**100) == 2**100
    True
    """
    if comm.size == 1:
        return own
    limbs = np.array([own >> shift & (2**_LIMB - 1) for shift in (0, _LIMB, 2 * _LIMB)], np.int64)
    comm.allreduce(limbs)
    return sum(limb << place * _LIMB for place, limb in enumerate(limbs.tolist()))


def check_same(comm: Communicator, name: str, own: str) -> None:
    """Refuse, on every rank, what is not the same on all of them."""
    if comm.size == 1:
        return
    digests = allgather(comm, np.frombuffer(hashlib.sha256(own.encode()).digest(), np.int64))
    others = np.flatnonzero((digests != digests[0]).any(axis=1)).tolist()
    if others:
        ranks = ", ".join(map(str, others[:5])) + (", ..." if len(others) > 5 else "")
        raise ValueError(f"{name} must be the same on every rank: rank {ranks} has another than rank 0")


def on_every_rank(comm: Communicator, action: Callable[[], T]) -> T:
    """What an action returns, if it succeeds on all ranks; if not, every rank raises.

    A rank whose own action failed raises that error, the others a RankError that names the first of them. Its
    words stay where they are, as they may tell of the data. The action itself must not meet other ranks.
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
        raise RankError(f"rank {failed[0]} could not go on: it says why")
    return result  # type: ignore[return-value]


def on_root(comm: Communicator, action: Callable[[], T]) -> T:
    """What an action returns on rank 0, where alone it is run, on every rank; its error is everyone's.

    >>> on_root(ALONE, lambda: 3)
    3
    """
    return comm.broadcast(on_every_rank(comm, lambda: action() if comm.rank == 0 else None))  # type: ignore[return-value]
