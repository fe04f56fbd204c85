"""A support in shards: the same rows on any number of ranks, as many on each, and every error everyone's."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privmw as pmw
import privmw.data.row_hash
import privmw.data.support
import privmw.extensions.cluster.rows
import privmw.extensions.cluster.sharded_records
import privmw.extensions.cluster.sharded_support
import privmw.io.scan
from extensions.cluster.thread_ranks import run_ranks
from privmw.extensions.cluster import ShardedRecords, ShardedSupport
from privmw.ranks import ALONE, RankError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DOMAIN = pmw.Domain({"age": 7, "sex": ["F", "M"], "code": 300, "town": 70_000})
SMALL = pmw.Domain({"a": 10, "b": ["x", "y"]})
NO_F_AT_0 = pmw.Constraints({"invalid": [{"age": [0], "sex": ["F"]}]}, DOMAIN)
SIZES = [1, 2, 3, 4]


def people(rows=800, seed=0):
    """Codes of which about half the rows are repeated."""
    rng = np.random.default_rng(seed)
    sizes = (7, 2, 300, 70_000)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    return pmw.Table.from_codes(codes[rng.integers(0, rows, rows)], DOMAIN, private=False)


def write(path, table, group):
    columns = dict(zip(table.domain.names, table.columns, strict=True))
    columns["sex"] = np.array(["F", "M"])[columns["sex"]]
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


@pytest.fixture
def folder(tmp_path):
    """Three files of one table, with row groups of different lengths and an empty one."""
    table = people()
    for part, (rows, group) in enumerate([((0, 300), 70), ((300, 310), 3), ((310, 800), 200)]):
        write(tmp_path / f"part-{part}.parquet", table.take(np.arange(*rows)), group)
    with pq.ParquetWriter(tmp_path / "empty.parquet", pq.read_schema(tmp_path / "part-0.parquet")) as writer:
        writer.write_table(pq.read_table(tmp_path / "part-0.parquet").slice(0, 0))
    return tmp_path


def small(path, rows, group=2):
    a, b = zip(*rows, strict=True)
    pq.write_table(pa.table({"a": a, "b": np.array(["x", "y"])[list(b)]}), path, row_group_size=group)
    return path


def whole_of(shards):
    """The codes and counts of all shards, in the order of ranks and hashes."""
    rows = np.concatenate([shard.rows[shard.hash_order()] for shard in shards])
    return rows.tolist(), np.concatenate([shard.counts[shard.hash_order()] for shard in shards]).tolist()


def message_of(found):
    """The one message of the ranks that failed; the others have a RankError."""
    assert all(isinstance(error, Exception) for error in found)
    messages = {str(error) for error in found if not isinstance(error, RankError)}
    assert len(messages) == 1
    return messages.pop()


@pytest.mark.parametrize("constraints", [None, NO_F_AT_0])
@pytest.mark.parametrize("size", SIZES)
def test_shards_of_files_are_the_support_of_their_table(folder, size, constraints):
    def program(comm):
        shard = ShardedSupport.from_parquet(folder, DOMAIN, comm, constraints=constraints)
        return shard, shard.gathered(np.arange(shard.size) + 1000.0 * comm.rank), shard.gathered()

    true = pmw.Support.from_table(people(), constraints)
    shards, with_weights, without = zip(*run_ranks(size, program), strict=True)
    assert max(shard.size for shard in shards) - min(shard.size for shard in shards) <= 1
    assert {(shard.whole_size, shard.records) for shard in shards} == {(true.size, true.records)}
    order = true.hash_order()
    assert whole_of(shards) == (true.rows[order].tolist(), true.counts[order].tolist())
    for shard in shards:
        assert shard == pmw.Support.from_table(
            pmw.Table.from_codes(shard.rows.repeat(shard.counts, 0), DOMAIN, private=False)
        )
        assert shard.constraints == constraints
    whole, weights = with_weights[0]
    assert whole == true
    assert type(whole) is pmw.Support
    assert (whole.comm, whole.constraints) == (ALONE, constraints)
    place = {tuple(row): position for position, row in enumerate(whole.rows.tolist())}
    for rank, shard in enumerate(shards):
        assert all(
            weights[place[tuple(row)]] == 1000.0 * rank + position
            for position, row in enumerate(shard.rows.tolist())
        )
    assert without[0] == (true, None)
    assert set(with_weights[1:]) | set(without[1:]) <= {None}


@pytest.mark.parametrize("size", SIZES)
def test_the_same_rows_make_the_same_shards_wherever_they_come_from(folder, tmp_path, size):
    table = people()
    write(tmp_path / "one.parquet", table, 10_000)
    parts = [tmp_path / f"part-{part}.parquet" for part in range(3)]

    def program(comm):
        own = [None, table.take(np.arange(500, 800)), table.take(np.arange(500))][max(3 - size, 0) :]
        records = ShardedRecords((own + [None] * 4)[comm.rank] if size > 1 else table, comm)
        return [
            ShardedSupport.from_parquet(tmp_path / "one.parquet", DOMAIN, comm),
            ShardedSupport.from_parquet(parts[::-1], DOMAIN, comm),
            ShardedSupport.from_table(records),
            ShardedSupport.of(pmw.Support.from_table(table), comm),
        ]

    for shards in run_ranks(size, program):
        assert all(shard == shards[0] for shard in shards)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=40),
    group=st.integers(1, 9),
    size=st.integers(1, 5),
    pending=st.integers(1, 12),
    bits=st.sampled_from([0, 1, 2, 3, 64]),
)
def test_no_batch_no_rank_and_no_shared_hash_changes_the_rows(
    rows, group, size, pending, bits, tmp_path_factory, monkeypatch
):
    def hashes(columns):
        return privmw.data.row_hash.row_hashes(columns) & ~np.uint64(2 ** (64 - bits) - 1)

    path = small(tmp_path_factory.getbasetemp() / "t.parquet", rows, group)
    true = pmw.Support.from_table(pmw.Table.from_codes(rows, SMALL, private=False))
    with monkeypatch.context() as patch:
        patch.setattr(privmw.extensions.cluster.rows, "row_hashes", hashes)
        patch.setattr(privmw.data.support, "row_hashes", hashes)
        patch.setattr(privmw.extensions.cluster.sharded_support, "ROWS_PER_EXCHANGE", pending)
        patch.setattr(privmw.io.scan, "BATCH", 2)

        def program(comm):
            shard = ShardedSupport.from_parquet(path, SMALL, comm)
            return shard, shard.gathered(), shard == ShardedSupport.of(true, comm)

        found = run_ranks(size, program, errors=true.size < size)
        if true.size < size:
            plural = f"support ({true.size} distinct rows) must have at least one row for each of the {size}"
            assert {str(error) for error in found} == {f"{plural} ranks"}
            return
        shards, gathered, same = zip(*found, strict=True)
        assert all(same)
        assert gathered[0] == (true, None)
        order = true.hash_order()
        assert whole_of(shards) == (true.rows[order].tolist(), true.counts[order].tolist())


@pytest.mark.parametrize("size", SIZES)
def test_more_ranks_than_row_groups_still_have_rows_each(tmp_path, size):
    path = small(tmp_path / "t.parquet", [(i, 0) for i in range(9)], group=100)
    shards = run_ranks(size, lambda comm: ShardedSupport.from_parquet(path, SMALL, comm))
    assert sorted(shard.size for shard in shards) == sorted(
        9 * (r + 1) // size - 9 * r // size for r in range(size)
    )


def test_the_hash_knows_every_code_and_the_order_of_columns_but_not_their_width():
    full = pmw.Support.full(pmw.Domain(dict.fromkeys("abcdefghijklmnopqr", 2)))
    found = privmw.data.row_hash.row_hashes(full.table.columns)
    assert len(np.unique(found)) == full.size
    assert np.unique(found >> np.uint64(62), return_counts=True)[1] == pytest.approx(
        [full.size / 4] * 4, rel=0.02
    )
    wide = [column.astype(np.uint32) for column in full.table.columns]
    assert np.array_equal(privmw.data.row_hash.row_hashes(wide), found)
    assert not np.array_equal(privmw.data.row_hash.row_hashes(wide[::-1]), found)
    codes = [np.array([0, 1, 2], np.uint8), np.array([5, 5, 299], np.uint16)]
    pinned = [1341581284665883086, 13813554096579597547, 16979769659997611860]  # checkpoints know them
    assert privmw.data.row_hash.row_hashes(codes).tolist() == pinned


def test_a_fingerprint_is_that_of_the_rows_counts_and_domain_on_any_ranks():
    support = pmw.Support.from_table(people())
    true = support.fingerprint()
    for size in SIZES:
        assert run_ranks(size, lambda comm: ShardedSupport.of(support, comm).fingerprint()) == [true] * size
    one_more = support.counts.copy()
    one_more[3] += 1
    moved = support.counts.copy()
    moved[[3, 4]] += [1, -1] if moved[4] > 1 else [-1, 1] if moved[3] > 1 else [1, 1]
    renamed = pmw.Domain({"Age": 7, "sex": ["F", "M"], "code": 300, "town": 70_000})
    others = [
        pmw.Support(support.table, one_more),
        pmw.Support(support.table, moved),
        pmw.Support(support.table.take(np.arange(1, support.size)), support.counts[1:]),
        pmw.Support(pmw.Table.from_codes(support.rows, renamed, private=False), support.counts),
    ]
    assert len({true, *(other.fingerprint() for other in others)}) == 5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("constraints", [None, NO_F_AT_0])
def test_a_widened_shard_is_the_shard_of_the_widened_support(size, constraints):
    support = pmw.Support.from_table(people(60), constraints)

    def program(comm):
        shard = ShardedSupport.of(support, comm).widened(4, 0.1, seed=5)
        return shard == ShardedSupport.of(support.widened(4, 0.1, seed=5), comm), shard.constraints

    assert run_ranks(size, program) == [(True, constraints)] * size


def test_every_row_of_a_domain_is_on_one_rank():
    gathered = run_ranks(3, lambda comm: ShardedSupport.full(SMALL, comm).gathered())
    assert gathered[0] == (pmw.Support.full(SMALL), None)


def test_a_shard_says_its_rank_and_is_not_pickled():
    shards = run_ranks(4, lambda comm: ShardedSupport.full(pmw.Domain({"a": 10, "b": 3}), comm))
    assert repr(shards[1]) == (
        "ShardedSupport(rank 1 of 4: 8 of 30 distinct rows x 2 attributes of 30 public records)"
    )
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"a shard of a support must not be pickled: gathered\(\)"):
            call(shards[1])


BAD = {
    "value": (
        pa.table({"a": [3, 77], "b": ["x", "x"]}),
        ValueError,
        "has 1 value outside the domain (first: 77",
    ),
    "kind": (pa.table({"a": ["3"], "b": ["x"]}), TypeError, "has 1 value outside the domain (first: '3'"),
    "column": (pa.table({"a": [3]}), ValueError, "column 'b' is missing"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("first", [True, False])
def test_a_bad_row_group_is_everyones_error(tmp_path, bad, first):
    table, kind, message = BAD[bad]
    small(tmp_path / "b.parquet", [(1, 0), (2, 0), (3, 0)])
    pq.write_table(table, tmp_path / ("a.parquet" if first else "c.parquet"))
    found = run_ranks(3, lambda comm: ShardedSupport.from_parquet(tmp_path, SMALL, comm), errors=True)
    assert message in message_of(found)
    assert sum(isinstance(error, kind) for error in found) == 1


def test_a_damaged_missing_or_other_file_is_everyones_error(tmp_path):
    path = small(tmp_path / "t.parquet", [(i % 10, 0) for i in range(100)], group=20)

    def load(paths=path, domain=SMALL, **options):
        def program(comm):
            mine = paths[comm.rank] if isinstance(paths, dict) else paths
            own = domain[comm.rank] if isinstance(domain, dict) else domain
            return ShardedSupport.from_parquet(mine, own, comm, **options)

        return message_of(run_ranks(2, program, errors=True))

    content = path.read_bytes()
    half = len(content) // 2
    (tmp_path / "cut.parquet").write_bytes(content[:-9])
    (tmp_path / "void.parquet").write_bytes(content[:4] + bytes(half) + content[4 + half :])
    (tmp_path / "nothing.parquet").write_bytes(b"")
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    (tmp_path / "folder").mkdir()
    pq.write_table(pq.read_table(path).slice(0, 0), tmp_path / "rows.parquet")
    assert "cut.parquet must be a whole parquet file" in load(tmp_path / "cut.parquet")
    assert "void.parquet must be a whole parquet file" in load([tmp_path / "void.parquet"])
    assert "nothing.parquet (0 bytes) must not be empty" in load(tmp_path / "nothing.parquet")
    assert "t.csv must be a parquet file: only these have row groups" in load(tmp_path / "t.csv")
    assert "t.csv must be a parquet file: only these have row groups" in load([path, tmp_path / "t.csv"])
    assert "rows.parquet: a table must have at least one row" in load(tmp_path / "rows.parquet")
    assert "gone.parquet must exist" in load(tmp_path / "gone.parquet")
    assert "(a folder) must hold parquet files" in load(tmp_path / "folder")
    assert "t.parquet must be named only once" in load([path, path])
    assert "paths (none) must name at least one parquet file" in load([])
    assert "paths (3) must be a path or a list of paths" in load(3)
    assert "path (3) must be a path" in load([3])
    assert load({0: path, 1: tmp_path / "cut.parquet"}) == (
        "paths must be the same on every rank: rank 1 has another than rank 0"
    )
    assert load(domain={0: SMALL, 1: pmw.Domain({"a": 11, "b": ["x", "y"]})}) == (
        "domain must be the same on every rank: rank 1 has another than rank 0"
    )
    assert load(domain={0: SMALL, 1: 3}) == "domain (3) must be a Domain"
    for bad in (3, pmw.Constraints({"invalid": [{"age": [1], "sex": ["F"]}]}, DOMAIN)):
        assert "must be" in load(constraints=bad)


def test_a_file_that_one_rank_lacks_or_has_otherwise_is_everyones_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small(tmp_path / "t.parquet", [(i % 10, 0) for i in range(100)], group=20)
    small(tmp_path / "longer.parquet", [(i % 10, 0) for i in range(101)], group=21)
    small(tmp_path / "shorter.parquet", [(1, 0)], group=20)
    scan = privmw.extensions.cluster.sharded_records._scan
    for name, message in [
        ("gone.parquet", "No such file or directory: 'gone.parquet'"),
        ("longer.parquet", "longer.parquet must hold the rows that rank 0 finds in it"),
        ("shorter.parquet", "shorter.parquet must be a whole parquet file"),
    ]:

        def here(share, *rest, name=name):
            theirs = [(name, group, rows) for _, group, rows in share]
            return scan(theirs if share[-1][1] == 4 else share, *rest)

        monkeypatch.setattr(privmw.extensions.cluster.sharded_records, "_scan", here)
        found = run_ranks(2, lambda comm: ShardedSupport.from_parquet("t.parquet", SMALL, comm), errors=True)
        assert message in str(found[1])
        assert isinstance(found[0], RankError)


def test_what_is_no_complete_support_or_differs_is_an_error_on_every_rank():
    support, other = pmw.Support.full(SMALL), pmw.Support.full(DOMAIN.project(["age"]))

    def shards(given, size=2):
        return message_of(
            run_ranks(size, lambda comm: ShardedSupport.of(given[comm.rank], comm), errors=True)
        )

    assert (
        shards([support, other]) == "support must be the same on every rank: rank 1 has another than rank 0"
    )
    assert shards([support, 3]) == "support (3) must be a Support"
    rules = pmw.Constraints({"invalid": [{"a": [3], "b": ["x"]}]}, SMALL)
    ruled = pmw.Support(support.table, support.counts, rules)
    assert "constraints must be the same on every rank" in shards([support, ruled])
    assert shards([other] * 8, size=8) == (
        "support (7 distinct rows) must have at least one row for each of the 8 ranks"
    )

    def again(comm):
        return ShardedSupport.of(ShardedSupport.of(support, comm), comm)

    assert "must be complete: it is sharded already" in str(run_ranks(2, again, errors=True)[0])


def test_private_or_sharded_records_make_no_support_of_one_rank():
    table = people(20)
    private = pmw.Table.from_codes(table.codes(), DOMAIN, private=True)

    def program(make, records):
        return lambda comm: make(ShardedRecords(records, comm))

    found = run_ranks(2, program(ShardedSupport.from_table, private), errors=True)
    assert {str(error) for error in found} == {
        "public (a private table) must be public: a support shows its rows"
    }
    found = run_ranks(2, program(pmw.Support.from_table, table), errors=True)
    assert "must lie on one rank: use ShardedSupport.from_table" in message_of(found)
    with pytest.raises(TypeError, match=r"public .* must be a Table"):
        ShardedSupport.from_table(3)


@pytest.mark.parametrize("size", SIZES)
def test_constraints_that_leave_no_row_anywhere_are_said_as_of_one_support(size):
    rules = pmw.Constraints({"invalid": [{"a": [0, 1, 2], "b": ["x"]}, {"a": [1], "b": ["y", "x"]}]}, SMALL)
    table = pmw.Table.from_codes([[0, 0], [1, 0], [1, 1], [1, 1], [2, 0]], SMALL, private=False)
    with pytest.raises(ValueError, match="takes 3 of 4 rows") as alone:
        pmw.Support.from_table(table, rules)
    found = run_ranks(
        size,
        lambda comm: ShardedSupport.from_table(
            ShardedRecords(table if comm.rank == size - 1 else None, comm), rules
        ),
        errors=True,
    )
    assert [(type(error), str(error)) for error in found] == [(ValueError, str(alone.value))] * size


@pytest.mark.parametrize("rules", [NO_F_AT_0, pmw.Constraints({}, DOMAIN)])
def test_constraints_that_differ_are_everyones_error(rules):
    def program(comm):
        records = ShardedRecords(people(), comm)
        return ShardedSupport.from_table(records, rules if comm.rank else None)

    assert "constraints must be the same on every rank" in message_of(run_ranks(2, program, errors=True))


@pytest.mark.parametrize("weights", [np.ones(3), np.ones(10, np.float32), [1.0] * 10])
def test_weights_that_do_not_fit_are_everyones_error(weights):
    def program(comm):
        shard = ShardedSupport.full(SMALL, comm)
        return shard.gathered(weights if comm.rank else shard.start())

    assert "weights" in message_of(run_ranks(2, program, errors=True))


def test_weights_of_some_ranks_only_are_everyones_error():
    def program(comm):
        shard = ShardedSupport.full(SMALL, comm)
        return shard.gathered(shard.start() if comm.rank else None)

    assert "weights must be the same on every rank" in message_of(run_ranks(2, program, errors=True))


def test_a_public_scan_of_row_groups_survives_pickle(tmp_path):
    path = str(small(tmp_path / "t.parquet", [(i, 0) for i in range(10)]))
    scan = pmw.io.scan.Scan.of_groups([(path, [1, 4])], SMALL, private=False)
    again = pickle.loads(pickle.dumps(scan))
    assert [batch.column("a").tolist() for batch in again.batches()] == [[2, 3, 8, 9]]
    assert (again.n, again.path) == (4, path)
