"""Records on several ranks: the counts of one table, on rank 0 alone."""

import copy
import os
import pickle
from itertools import pairwise

import numpy as np
import pytest

import privmw as pmw
import privmw.extensions.cluster.sharded_records
from extensions.cluster.thread_ranks import run_ranks
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.ranks import ALONE, RankError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DOMAIN = pmw.Domain({"a": 10, "b": ["x", "y"], "c": 3})
WORKLOAD = pmw.Workload.all(DOMAIN, [1, 2, 3])
SECRET = 77
SIZES = [1, 2, 3, 4]


def table(rows=500, seed=0, private=True):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes], axis=1)
    return pmw.Table.from_codes(codes, DOMAIN, private=private)


def write(path, given, group=37):
    columns = dict(zip(DOMAIN.names, given.columns, strict=True))
    columns["b"] = np.array(["x", "y"])[columns["b"]]
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def parts(size, given):
    """A part for each of several ranks; the first of more than two has none."""
    ends = np.linspace(0, given.n, size + 1 - (size > 2)).astype(int)
    own = [given.take(np.arange(*pair)) for pair in pairwise(ends)]
    return [None, *own] if size > 2 else own


class Watched:
    """A rank that keeps every array that reaches it from others, as it came and as it is."""

    def __init__(self, comm):
        self._comm, self.rank, self.size = comm, comm.rank, comm.size
        self.received, self.kept = [], []

    def _see(self, *arrays):
        self.kept += arrays
        self.received += [array.copy() for array in arrays]

    def allreduce(self, array):
        self._comm.allreduce(array)
        self._see(array)

    def broadcast(self, value):
        found = self._comm.broadcast(value)
        assert not isinstance(found, np.ndarray)
        return found

    def gather(self, array):
        found = self._comm.gather(array)
        self._see(*(found or ()))
        self.kept.append(array)
        return found

    def alltoallv(self, array, counts):
        found = self._comm.alltoallv(array, counts)
        self._see(found)
        return found


@pytest.mark.parametrize("block", [5, 2**20])
@pytest.mark.parametrize("size", SIZES)
def test_rank_0_has_the_counts_of_the_whole_table(tmp_path, size, block, monkeypatch):
    monkeypatch.setattr(privmw.extensions.cluster.sharded_records, "CELLS_PER_GATHER", block)
    whole = table()
    path = write(tmp_path / "t.parquet", whole)

    def program(comm):
        given = ShardedRecords(parts(size, whole)[comm.rank], comm)
        read = ShardedRecords.from_parquet(path, DOMAIN, comm, private=True)
        for records in (given, read):
            assert (records.n, len(records), records.domain, records.private) == (500, 500, DOMAIN, True)
            assert records.comm is comm
        empty = read.counts(pmw.Workload(DOMAIN, []))
        return (
            given.counts(WORKLOAD),
            read.counts(WORKLOAD),
            list(given.batches()),
            list(read.batches()),
            empty,
        )

    found = run_ranks(size, program)
    true = whole.counts(WORKLOAD)
    for rank, (given, read, *_, empty) in enumerate(found):
        for counts in (given, read):
            assert counts.dtype == np.int64
            assert np.array_equal(counts, true if rank == 0 else np.zeros_like(true))
        assert empty.shape == (0,)
    for kind in (2, 3):
        codes = [batch.codes() for each in found for batch in each[kind]]
        assert np.array_equal(np.concatenate(codes), whole.codes())


@pytest.mark.parametrize("unit", [None, "home"])
@pytest.mark.parametrize("size", SIZES)
def test_ranks_together_keep_no_more_codes_than_one_rank_may(tmp_path, monkeypatch, size, unit):
    rows = 48
    codes = {name: np.zeros(rows, np.uint8) for name in ("a", "c")}
    columns = pa.table({**codes, "b": ["x"] * rows, "home": np.arange(rows)})
    path = tmp_path / "table.parquet"
    pq.write_table(columns, path, row_group_size=4)
    capped = {} if unit is None else {"unit": unit, "at_most": 1}

    def kept(comm):
        records = ShardedRecords.from_parquet(path, DOMAIN, comm, private=True, **capped)
        return records._part._kept is not None, records.counts(WORKLOAD)

    needed = scan_bytes(path, capped)
    for memory, expected in ((needed - 1, False), (needed, True)):
        monkeypatch.setattr(privmw.io.scan, "available_memory", lambda memory=memory: 4 * memory)
        found = run_ranks(size, kept)
        assert [held for held, _ in found] == [expected] * size
        assert found[0][1].sum() == rows * len(WORKLOAD)


def scan_bytes(path, capped):
    """The bytes of a table's codes and traces."""
    scan = pmw.scan_table(path, DOMAIN, private=True, **capped)
    return sum(array.nbytes for codes, traces in scan._kept for array in (*codes, *traces.values()))


class Noted(pmw.Table):
    """A table that keeps the counts it has made."""

    __slots__ = ("made",)

    def counts(self, workload):
        self._set(made=super().counts(workload))
        return self.made


@pytest.mark.parametrize("size", [2, 3, 4])
def test_other_ranks_never_hold_the_totals_and_counts_in_transit_are_erased(size):
    def run(whole):
        given = parts(size, whole)
        for rank, part in enumerate(given):
            if part is not None:
                given[rank] = Noted(zip(DOMAIN.names, part.columns, strict=True), DOMAIN, private=True)

        def program(comm):
            watched = Watched(comm)
            return ShardedRecords(given[comm.rank], watched).counts(WORKLOAD), watched

        found = run_ranks(size, program)
        assert not any(part.made.any() for part in given if part is not None)
        for counts, watched in found:
            assert not any(array.any() for array in watched.kept if len(array) == len(counts))
        return found

    whole, other = table(), table(seed=1)
    found, as_well = run(whole), run(other)
    arrived = [array for array in found[0][1].received if len(array) == WORKLOAD.cells]
    assert np.array_equal(sum(arrived), whole.counts(WORKLOAD))
    for (counts, watched), (_, unlike) in zip(found[1:], as_well[1:], strict=True):
        assert not counts.any()
        assert len(watched.received) > 3
        for array, same in zip(watched.received, unlike.received, strict=True):
            assert np.array_equal(array, same), "what a rank receives must not depend on the records"


def test_a_rank_that_cannot_count_ends_the_count_for_all_and_leaves_nothing(tmp_path):
    path = write(tmp_path / "t.parquet", table())
    held = []

    class Failing(Watched):
        def gather(self, array):
            raise AssertionError("nothing must be sent")

    def program(comm):
        own = table(seed=1) if comm.rank == 0 else pmw.scan_table(path, DOMAIN, private=True)
        records = ShardedRecords(own, Failing(comm))
        if comm.rank == 1:
            os.utime(path, ns=(1, 1))
        return records.counts(WORKLOAD)

    zeros = np.zeros_like

    def watched_zeros(*given, **options):
        held.append(zeros(*given, **options))
        return held[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(privmw.extensions.cluster.sharded_records.np, "zeros_like", watched_zeros)
        found = run_ranks(2, program, errors=True)
    assert isinstance(found[0], RankError)
    assert str(found[1]).endswith("(changed since it was opened) must stay as it is")
    assert held
    assert not any(array.any() for array in held)


def test_a_curator_of_one_rank_takes_sharded_records():
    records = ShardedRecords(table(), ALONE)
    support = pmw.Support.full(DOMAIN)
    found, true = (
        pmw.MWPub(rounds=3).release(private, support, WORKLOAD, epsilon=1.0, rng=7)
        for private in (records, table())
    )
    assert np.array_equal(found.weights, true.weights)


def test_records_on_ranks_show_how_many_there_are_and_no_more():
    shown = run_ranks(3, lambda comm: repr(ShardedRecords(parts(3, table())[comm.rank], comm)))
    assert shown == ["ShardedRecords(500 rows x 3 attributes on 3 ranks, private)"] * 3
    for private in (True, False):
        records = ShardedRecords(table(private=private), ALONE)
        for leak in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="records of several ranks must not be pickled"):
                leak(records)


def test_a_bad_value_of_private_records_is_everyones_error_and_nobodys_knowledge(tmp_path):
    write(tmp_path / "a.parquet", table())
    pq.write_table(pa.table({"a": [SECRET], "b": ["x"], "c": [0]}), tmp_path / "b.parquet")
    found = run_ranks(
        3, lambda comm: ShardedRecords.from_parquet(tmp_path, DOMAIN, comm, private=True), errors=True
    )
    assert [type(error) for error in found] == [RankError, RankError, ValueError]
    assert "b.parquet: column 'a' of kind integer: every value must be" in str(found[2])
    assert not any(str(SECRET) in str(error) for error in found)


OTHER = pmw.Domain({"a": 10, "b": ["x", "z"], "c": 3})


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ([None, None], "records (none) must lie on at least one rank"),
        ([table(), 3], "part (int) must be a Table, or None where a rank has no records"),
        ([table(), table(private=False)], "private must be the same on every rank: rank 1 has another"),
        (
            [table(), pmw.Table.from_codes([[0, 0, 0]], OTHER, private=True)],
            "domain must be the same on every",
        ),
    ],
)
def test_records_that_do_not_belong_together_are_everyones_error(own, message):
    found = run_ranks(2, lambda comm: ShardedRecords(own[comm.rank], comm), errors=True)
    assert all(isinstance(error, Exception) for error in found)
    assert any(str(error).startswith(message) for error in found)


def test_records_are_shared_out_once():
    def program(comm):
        return ShardedRecords(ShardedRecords(table(), comm), comm)

    found = run_ranks(2, program, errors=True)
    assert {str(error) for error in found} == {
        "part must be the records of one rank: these are sharded already"
    }


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (3, "workload (3) must be a Workload"),
        (pmw.Workload.all(OTHER, 1), "must be on the domain of the records"),
        (
            pmw.Workload.all(DOMAIN, 1),
            "workload must be the same on every rank: rank 1 has another than rank 0",
        ),
    ],
)
def test_a_workload_that_does_not_fit_is_everyones_error(asked, message):
    def program(comm):
        return ShardedRecords(table(), comm).counts(asked if comm.rank else WORKLOAD)

    found = run_ranks(2, program, errors=True)
    assert all(isinstance(error, Exception) for error in found)
    assert message in str(found[1])


def test_ranks_read_about_as_many_rows_each(tmp_path):
    write(tmp_path / "a.parquet", table(3000), group=10)
    write(tmp_path / "b.parquet", table(1000), group=100)
    for size in (2, 3, 7):
        rows = run_ranks(
            size,
            lambda comm: sum(
                batch.n
                for batch in ShardedRecords.from_parquet(
                    [tmp_path / "a.parquet", tmp_path / "b.parquet"], DOMAIN, comm, private=False
                ).batches()
            ),
        )
        assert sum(rows) == 4000
        assert max(rows) - min(rows) <= 200
