"""Every collective call, its result checked on every rank."""

import doctest
import importlib
import os
import sys

import numpy as np

from privmw import kernels
from privmw.extensions.cluster import faults, mpi
from privmw.ranks import (
    RankError,
    allgather,
    check_same,
    max_over_ranks,
    on_every_rank,
    on_root,
    sum_over_ranks,
)

KINDS = ["bool", "i1", "u2", "u4", "i8", "f4", "f8", "c16", "S3", "U2", "M8[s]", [("a", "u2"), ("b", "f8")]]

room = importlib.import_module("privmw.extensions.cluster.mpi")
comm = mpi()
rank, size = comm.rank, comm.size
ranks = range(size)


def refused(kind, action, *given):
    try:
        action(*given)
    except kind:
        return
    raise AssertionError(f"{action} must refuse {given}")


def sums():
    array = np.arange(6).reshape(2, 3) * (rank + 1)
    comm.allreduce(array)
    assert array.tolist() == (np.arange(6).reshape(2, 3) * sum(r + 1 for r in ranks)).tolist()
    wrapped = np.array([2**62 + rank])
    comm.allreduce(wrapped)
    with np.errstate(over="ignore"):
        assert wrapped[0] == np.sum([np.int64(2**62 + r) for r in ranks])
    comm.allreduce(np.empty(0, np.int64))
    long = np.arange(3 * room.ALLREDUCE_ENTRIES + 5)
    comm.allreduce(long)
    assert np.array_equal(long, size * np.arange(3 * room.ALLREDUCE_ENTRIES + 5))
    for bad in (np.zeros(3), np.zeros(3, np.int32), np.zeros((3, 3), np.int64).T[1:], [1, 2]):
        refused(TypeError, comm.allreduce, bad)
    frozen = np.zeros(3, np.int64)
    frozen.flags.writeable = False
    refused(ValueError, comm.allreduce, frozen)


def broadcasts():
    for value in (None, {"rounds": 3, "noisy": np.arange(5)}, b"x" * 10**7, ("a", 2**100)):
        assert repr(comm.broadcast(value if rank == 0 else rank)) == repr(value)


def gathers():
    for kind in KINDS:
        parts = comm.gather(np.full(rank, rank % 2).astype(kind))
        if rank != 0:
            assert parts is None
        else:
            assert [part.tolist() for part in parts] == [
                np.full(r, r % 2).astype(kind).tolist() for r in ranks
            ]
            assert {part.dtype for part in parts} == {np.dtype(kind)}
    long = comm.gather(np.full(10**6, rank))
    assert rank != 0 or [part.sum() for part in long] == [r * 10**6 for r in ranks]
    refused(TypeError, comm.gather, np.array(["a"], object))


def sent(source, target, kind):
    return (np.arange((source + 2 * target) % 3) + source + 7 * target).astype(kind)


def exchanges():
    for kind in KINDS:
        parts = [sent(rank, target, kind) for target in ranks]
        found = comm.alltoallv(np.concatenate(parts), [len(part) for part in parts])
        assert found.dtype == np.dtype(kind)
        assert found.tolist() == np.concatenate([sent(source, rank, kind) for source in ranks]).tolist()
    spread = comm.alltoallv(np.repeat(np.arange(2 * size)[::2], 3), [3] * size)
    assert spread.tolist() == [2 * rank] * 3 * size
    strided = comm.alltoallv(np.arange(2 * size)[::2], np.ones(size, int))
    assert strided.tolist() == [2 * rank] * size
    assert comm.alltoallv(np.empty(0, np.uint8), [0] * size).size == 0
    to_the_last = comm.alltoallv(np.full(10**5, rank), [0] * (size - 1) + [10**5])
    assert to_the_last.size == (size * 10**5 if rank == size - 1 else 0)
    for bad in ([1] * (size + 1), [1], [-1] + [1] * (size - 1), [2] * size):
        refused(ValueError, comm.alltoallv, np.arange(3 * size), bad)
    refused(TypeError, comm.alltoallv, np.zeros((size, 2)), [1] * size)


def functions_of_ranks():
    assert allgather(comm, [rank + 0.5]).tolist() == [[r + 0.5] for r in ranks]
    assert max_over_ranks(comm, float(-rank)) == 0.0
    assert sum_over_ranks(comm, 2**100 + rank) == sum(2**100 + r for r in ranks)
    assert on_root(comm, lambda: rank + 7) == 7
    check_same(comm, "domain", "a")
    if size > 1:
        refused(ValueError, check_same, comm, "domain", f"{rank}")
        refused(RankError if rank else ZeroDivisionError, on_every_rank, comm, lambda: 1 // rank)


def counts():
    assert mpi() is comm
    assert repr(comm) == f"Mpi(rank {rank} of {size})"
    before = comm.collectives, comm.bytes_reduced
    comm.allreduce(np.zeros(1000, np.int64))
    comm.gather(np.zeros(3))
    assert (comm.collectives - before[0], comm.bytes_reduced - before[1]) == (2, 8000)


if size > 1:
    assert kernels.threads() == max(1, len(os.sched_getaffinity(0)) // size)
else:
    assert doctest.testmod(room).failed == 0
    assert doctest.testmod(faults).failed == 0
for check in (sums, broadcasts, gathers, exchanges, functions_of_ranks, counts):
    check()
sys.stdout.write(f"rank {rank} of {size} met\n")
