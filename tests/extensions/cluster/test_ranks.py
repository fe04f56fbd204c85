"""One rank and several put together the same."""

import numpy as np
import pytest

from extensions.cluster.thread_ranks import run_ranks
from privmw.ranks import (
    ALONE,
    RankError,
    allgather,
    check_same,
    max_over_ranks,
    on_every_rank,
    on_root,
    sum_over_ranks,
)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_rank_knows_everyones_numbers(size):
    found = run_ranks(size, lambda comm: allgather(comm, [comm.rank + 0.5, -float(comm.rank)]))
    for each in found:
        assert each.tolist() == [[rank + 0.5, -float(rank)] for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_largest_and_total_are_those_of_all_ranks(size):
    assert run_ranks(size, lambda comm: max_over_ranks(comm, -comm.rank - 1.0)) == [-1.0] * size
    assert run_ranks(size, lambda comm: sum_over_ranks(comm, 2**110 + comm.rank)) == (
        [size * 2**110 + size * (size - 1) // 2] * size
    )
    assert max_over_ranks(ALONE, float("-inf")) == float("-inf")


def test_a_difference_between_ranks_is_everyones_error():
    found = run_ranks(3, lambda comm: check_same(comm, "domain", "ab"[comm.rank == 2]), errors=True)
    message = "domain must be the same on every rank: rank 2 has another than rank 0"
    assert [(type(error), str(error)) for error in found] == [(ValueError, message)] * 3
    assert run_ranks(3, lambda comm: check_same(comm, "domain", "a")) == [None] * 3


def test_an_error_of_one_rank_reaches_all():
    def program(comm):
        def action():
            if comm.rank == 1:
                raise FileNotFoundError("people.parquet must exist")
            return comm.rank

        return on_every_rank(comm, action)

    found = run_ranks(3, program, errors=True)
    assert isinstance(found[1], FileNotFoundError)
    for error in (found[0], found[2]):
        assert isinstance(error, RankError)
        assert str(error) == "rank 1 failed: see its own error message"


def test_only_rank_0_acts_and_all_hear_of_it():
    assert run_ranks(3, lambda comm: on_root(comm, lambda: comm.rank + 7)) == [7, 7, 7]
    found = run_ranks(2, lambda comm: on_root(comm, lambda: [][0]), errors=True)
    assert [type(error) for error in found] == [IndexError, RankError]


def test_a_large_sum_wraps_as_numpy_does():
    def program(comm):
        array = np.array([2**62])
        comm.allreduce(array)
        return array.tolist()

    assert run_ranks(2, program) == [[-(2**63)]] * 2
