"""Ranks as threads of one process: real exchanges between real shards, without a launcher."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from privmw.ranks import RankError


class ThreadRank:
    """One of several ranks that meet at a barrier; what is sent is copied, as between processes."""

    def __init__(self, rank, size, meeting):
        self.rank, self.size, self._meeting = rank, size, meeting
        self.reduced = []  # the bytes of every sum, in order

    def _all(self, value):
        everyone, barrier = self._meeting
        everyone[self.rank] = value
        barrier.wait(60)
        found = list(everyone)
        barrier.wait(60)
        return found

    def allreduce(self, array):
        assert type(array) is np.ndarray
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        self.reduced.append(array.nbytes)
        parts = self._all(array.copy())
        assert len({part.shape for part in parts}) == 1
        with np.errstate(over="ignore"):
            array[...] = np.add.reduce(parts)

    def broadcast(self, value):
        sent = self._all(pickle.dumps(value) if self.rank == 0 else None)[0]
        return value if self.rank == 0 else pickle.loads(sent)

    def gather(self, array):
        parts = self._all(array.copy())
        return parts if self.rank == 0 else None

    def alltoallv(self, array, counts):
        assert sum(counts) == len(array)
        assert len(counts) == self.size
        parts = np.split(array.copy(), np.cumsum(counts)[:-1])
        return np.concatenate([sent[self.rank] for sent in self._all(parts)])


def run_ranks(size, program, *, errors=False):
    """What program(comm) returns on each of `size` ranks; with errors=True a raised error is returned."""
    everyone, barrier = [None] * size, threading.Barrier(size)
    ranks = [ThreadRank(rank, size, (everyone, barrier)) for rank in range(size)]

    def run(comm):
        try:
            return program(comm)
        except Exception as error:
            if errors:
                return error
            if not isinstance(
                error, RankError
            ):  # another rank raises its own, and may still be at the barrier
                barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        done = [pool.submit(run, comm) for comm in ranks]
    failed = [each.exception() for each in done if each.exception()]
    own = [error for error in failed if not isinstance(error, threading.BrokenBarrierError | RankError)]
    if failed:
        raise (own or failed)[0]
    return [each.result() for each in done]
