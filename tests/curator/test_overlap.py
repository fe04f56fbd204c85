"""A private table given as the public one is found; two samples of one population are not mistaken for it.

Power: on every population below the same records, 60 % of them and twice as many are found; each of the two
statistical signs is needed, as a check without it misses what it is there for.
"""

import os

import numpy as np
import pytest

from extensions.cluster.thread_ranks import run_ranks
from marks.slow import slow
from privmw import Domain, Support, Table
from privmw.curator import overlap
from privmw.curator.overlap import shares_records
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.extensions.cluster.sharded_support import ShardedSupport
from privmw.extensions.population import draw_population


def private_of(table):
    return Table(dict(zip(table.domain.names, table.columns, strict=True)), table.domain, private=True)


def halves(table, seed, share=0.5):
    order = np.random.default_rng(seed).permutation(table.n)
    return table.take(order[: int(share * table.n)]), table.take(order[int(share * table.n) :])


def adult():
    pytest.importorskip("pyarrow")
    if "PRIVMW_DATA" not in os.environ:
        pytest.skip("PRIVMW_DATA is not set")
    import json
    from pathlib import Path

    import pyarrow.parquet as parquet

    folder = Path(os.environ["PRIVMW_DATA"]) / "adult"
    sizes = json.loads((folder / "domain.json").read_text())["adult_pmwpub"]["paper13"]
    read = parquet.read_table(folder / "adult_pmwpub.parquet", columns=list(sizes))
    return Table({name: read[name].to_numpy() for name in sizes}, Domain(sizes), private=False)


POPULATIONS = {
    "demo": lambda: draw_population(20_000, attributes=14, seed=3),
    "few attributes": lambda: draw_population(20_000, attributes=6, seed=3),
    "many attributes": lambda: draw_population(6_000, attributes=67, seed=3),
    "adult": adult,
}


def found(private, public):
    return shares_records(private_of(private), Support.from_table(public))


@pytest.mark.parametrize("name", POPULATIONS)
def test_private_records_among_the_public_ones_are_found(name):
    mine, others = halves(POPULATIONS[name](), 1)
    assert found(mine, mine)
    assert found(mine, mine.take(np.random.default_rng(2).permutation(mine.n)))
    assert found(mine, halves(mine, 2, 0.6)[0])
    assert found(mine, Table.concatenate([mine, others]))


@pytest.mark.parametrize("name", ["demo", "many attributes"])
def test_even_a_small_part_of_the_private_table_is_found(name):
    mine, _ = halves(POPULATIONS[name](), 1)
    assert found(mine, halves(mine, 2, 0.05)[0])


@pytest.mark.parametrize("seeds", [range(3), *slow(range(20))])
@pytest.mark.parametrize("name", POPULATIONS)
def test_disjoint_samples_of_one_population_are_accepted(name, seeds):
    table = POPULATIONS[name]()
    for seed in seeds:
        for share in (0.5, 0.9, 0.1):
            assert not found(*halves(table, seed, share)), (seed, share)


def test_samples_of_two_populations_are_accepted():
    for seed in range(4):
        public = draw_population(20_000, attributes=14, seed=2 * seed)
        assert not found(draw_population(20_000, attributes=14, shift=1.0, seed=2 * seed + 1), public)


@pytest.mark.parametrize("attributes", [6, 14])
def test_small_private_tables_beside_large_public_ones_are_accepted(attributes):
    public = draw_population(20_000, attributes=attributes, seed=5)
    for n in (30, 50, 100, 200):
        for seed in range(4):
            assert not found(draw_population(n, attributes=attributes, seed=100 + seed), public), (n, seed)


def test_a_narrow_public_table_is_accepted():
    mine, others = halves(POPULATIONS["demo"](), 4)
    narrow = others.take(others.column("age") <= 1)
    assert not found(mine, narrow)
    assert not found(narrow, mine)


def test_without_one_of_its_signs_the_check_finds_less(monkeypatch):
    few, _ = halves(POPULATIONS["few attributes"](), 1)
    many, _ = halves(POPULATIONS["many attributes"](), 1)
    with monkeypatch.context() as patch:
        patch.setattr(overlap, "_excess_shared", lambda *_: False)
        assert not found(few, halves(few, 2, 0.6)[0])
    with monkeypatch.context() as patch:
        patch.setattr(overlap, "_excess_unique", lambda *_: False)
        assert not found(many, halves(many, 2, 0.05)[0])


def test_small_and_odd_tables_are_compared_too():
    domain = Domain({"a": 4, "b": 3})
    rows = [[0, 0], [1, 2], [3, 1]]
    table = Table.from_codes(rows, domain, private=False)
    assert not found(table, Table.from_codes(rows[::-1], domain, private=False))  # equal by chance, perhaps
    rows = [[a, b] for a in range(4) for b in range(3)] * 2
    assert found(*(Table.from_codes(order, domain, private=False) for order in (rows, rows[::-1])))
    assert not found(table, Table.from_codes(rows[:1], domain, private=False))
    assert not found(Table.from_codes(rows[:1], domain, private=False), table)


@pytest.mark.parametrize("size", [1, 3])
def test_rows_on_several_ranks_are_compared_on_rank_0(size):
    mine, others = halves(POPULATIONS["demo"](), 1)

    def run(comm):
        verdicts = []
        for public in (mine, others):
            part = public.take(np.arange(comm.rank, public.n, comm.size))
            support = ShardedSupport.from_table(ShardedRecords(part, comm))
            verdicts.append(shares_records(private_of(mine) if comm.rank == 0 else None, support))
        return verdicts

    results = run_ranks(size, run)
    assert results[0] == [True, False]
    assert all(verdicts == [False, False] for verdicts in results[1:])
