"""Units over several ranks: the same records enter, and a rank without records learns of no id."""

from itertools import pairwise

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.mpi_jobs import needs_mpi, run_job
from extensions.cluster.test_sharded_records import DOMAIN, SECRET, WORKLOAD, Watched, parts, table
from extensions.cluster.thread_ranks import run_ranks
from privmw.data.unit import id_hashes
from privmw.extensions.cluster import ShardedSupport
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.ranks import ALONE, RankError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

UNIT = {"unit": "household", "at_most": 3}
WHOLE = table()
IDS = np.random.default_rng(2).integers(0, 60, WHOLE.n)  # in no order: most households lie on several ranks
CAPPED = WHOLE.capped(IDS, **UNIT)


def write(path, ids=IDS):
    columns = dict(zip(DOMAIN.names, WHOLE.columns, strict=True))
    columns["b"] = np.array(["x", "y"])[columns["b"]]
    pq.write_table(pa.table({**columns, "household": ids}), path, row_group_size=37)
    return path


def ids_of(size):
    """The ids of each rank's part; the first of more than two has none."""
    ends = np.linspace(0, WHOLE.n, size + 1 - (size > 2)).astype(int)
    own = [IDS[slice(*pair)] for pair in pairwise(ends)]
    return [None, *own] if size > 2 else own


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_any_number_of_ranks_lets_the_same_records_enter(tmp_path, size):
    path = write(tmp_path / "t.parquet")

    def program(comm):
        read = ShardedRecords.from_parquet(path, DOMAIN, comm, private=True, **UNIT)
        given = ShardedRecords(parts(size, WHOLE)[comm.rank], comm).capped(ids_of(size)[comm.rank], **UNIT)
        for records in (read, given):
            assert (records.n, records.unit, records.at_most) == (CAPPED.n, "household", 3)
        assert repr(read).endswith("private, at most 3 of a household)")
        return [
            (records.counts(WORKLOAD), [batch.codes() for batch in records.batches()])
            for records in (read, given)
        ]

    found = run_ranks(size, program)
    assert CAPPED.n < WHOLE.n
    for which in (0, 1):
        counts, _ = found[0][which]
        assert np.array_equal(counts, CAPPED.counts(WORKLOAD))
        codes = [batch for rank in found for batch in rank[which][1]]
        assert np.array_equal(np.concatenate(codes), CAPPED.codes())


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
def test_the_ranks_of_mpi_count_the_same_records(tmp_path, size):
    path, domain, output = write(tmp_path / "t.parquet"), tmp_path / "domain.json", tmp_path / "counts.npy"
    DOMAIN.write(domain)
    done = run_job(size, "unit", path, domain, output)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.array_equal(np.load(output), CAPPED.counts(WORKLOAD))


def test_a_release_on_ranks_is_that_of_the_capped_table(tmp_path):
    path = write(tmp_path / "t.parquet")
    support = pmw.Support.full(DOMAIN)
    alone = pmw.MWPub(rounds=3).release(CAPPED, support, WORKLOAD, epsilon=1.0, rng=7)

    def program(comm):
        records = ShardedRecords.from_parquet(path, DOMAIN, comm, private=True, **UNIT)
        shard = ShardedSupport.of(support, comm)
        release = pmw.MWPub(rounds=3).release(records, shard, WORKLOAD, epsilon=1.0, rng=7)
        return release.ledger, release.gathered()

    found = run_ranks(2, program)
    assert np.array_equal(found[0][1].weights, alone.weights)
    for ledger, _ in found:
        assert ledger.unit == "household of at most 3 records"
        assert ledger.events == alone.ledger.events


def test_a_rank_without_records_receives_no_id():
    size = 3
    hashes = set(id_hashes(IDS).view(np.int64).tolist())

    def program(comm):
        watched = Watched(comm)
        records = ShardedRecords(parts(size, WHOLE)[comm.rank], watched)
        records.capped(ids_of(size)[comm.rank], **UNIT)
        received = [array for array in watched.received if array.dtype == np.int64]
        return sum(np.isin(array, list(hashes)).sum() for array in received), watched.kept

    (none, _), *others = run_ranks(size, program)
    assert none == 0  # it has no part
    assert sum(found for found, _ in others) == WHOLE.n
    # Those that own hashes erase them once they have answered.
    for _, kept in others:
        assert not any(np.isin(array, list(hashes)).any() for array in kept if array.dtype == np.int64)


def test_a_part_of_which_no_record_enters_counts_nothing():
    def program(comm):
        part = WHOLE.take(np.arange(250 * comm.rank, 250 * comm.rank + 250))
        records = ShardedRecords(part, comm).capped([7] * 250, unit="household", at_most=1)
        return records.n, records.counts(WORKLOAD).sum(), len(list(records.batches()))

    found = run_ranks(2, program)
    assert [n for n, _, _ in found] == [1, 1]
    assert found[0][1] == len(WORKLOAD)
    assert sorted(batches for _, _, batches in found) == [0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda comm: ShardedRecords(CAPPED, comm),
            "part must not be capped: records of one household may lie on several ranks",
        ),
        (
            lambda comm: ShardedRecords(WHOLE, comm).capped(IDS, unit="household", at_most=3 + comm.rank),
            "unit and at_most must be the same on every rank: rank 1 has another",
        ),
        (
            lambda comm: ShardedRecords(WHOLE, comm).capped(IDS, **UNIT).capped(IDS, **UNIT),
            "records (at most 3 of a household) must be capped only once",
        ),
        (
            lambda comm: ShardedRecords(WHOLE, comm).capped(IDS[: 500 - comm.rank], **UNIT),
            "ids (499) must be one for each of this rank's 500 records",
        ),
        (
            lambda comm: ShardedRecords(WHOLE, comm).capped(IDS, unit=None, at_most=None),
            "unit and at_most must be given",
        ),
        (
            lambda comm: ShardedRecords(WHOLE, comm).capped(IDS, unit="b", at_most=1),
            "unit ('b') must not be an attribute",
        ),
    ],
)
def test_units_that_cannot_be_protected_are_everyones_error(make, message):
    found = run_ranks(2, make, errors=True)
    assert all(isinstance(error, Exception) for error in found)
    assert any(str(error).startswith(message) for error in found)


def test_a_missing_id_is_everyones_error_and_nobodys_knowledge(tmp_path):
    path = write(tmp_path / "t.parquet", pa.array([f"{SECRET}"] * (WHOLE.n - 1) + [None]))
    found = run_ranks(
        2, lambda comm: ShardedRecords.from_parquet(path, DOMAIN, comm, private=True, **UNIT), errors=True
    )
    assert [type(error) for error in found] == [RankError, ValueError]
    assert "column 'household': every record must have an id" in str(found[1])
    assert str(SECRET) not in str(found[1])


def test_a_capped_table_may_be_the_part_of_one_rank(tmp_path):
    records = ShardedRecords(CAPPED, ALONE)
    assert (records.n, records.unit, records.at_most) == (CAPPED.n, "household", 3)
    opened = pmw.scan_table(write(tmp_path / "t.parquet"), DOMAIN, private=True)
    with pytest.raises(
        TypeError, match=r"part \(Scan\) must be a Table: ShardedRecords\.from_parquet takes a unit itself"
    ):
        ShardedRecords(opened, ALONE).capped(IDS, **UNIT)
