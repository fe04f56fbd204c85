"""What a release says of its grown rows, against a slow count of the rows."""

import itertools

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.thread_ranks import run_ranks
from privmw.data import coverage
from privmw.extensions.cluster.sharded_support import ShardedSupport
from privmw.release import Release
from release.cases import SUPPORT, ledger
from release.cases import release as by_hand

DOMAIN = pmw.Domain({"age": 5, "sex": ["F", "M", "X"], "owner": 2, "rooms": 3})


def grown_release(seed=0, public=12, grown=20):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, (4, 2, 2, 3), (public, 4))  # never age 4, never X
    support = pmw.Support.from_table(pmw.Table.from_codes(codes, DOMAIN, private=False))
    support = support.with_rows(rng.integers(0, DOMAIN.sizes, (grown, 4))).support
    weights = rng.random(support.size)
    return Release(
        support, pmw.Workload.all(DOMAIN, k=1), weights / weights.sum(), ledger=ledger(), settings={}
    )


def slow_masses(release, a):
    """The mass of rows with a value of attribute a, and with a pair with it, that no public row has."""
    rows, public = release.support.rows, release.support.rows[release.support.counts > 0]
    value = pair = 0.0
    for row, weight in zip(rows, release.weights, strict=True):
        value += weight * (row[a] not in public[:, a])
        pair += weight * any(
            not ((public[:, a] == row[a]) & (public[:, b] == row[b])).any() for b in range(4) if b != a
        )
    return value, pair


@pytest.mark.parametrize("seed", range(4))
def test_new_values_and_pairs_are_those_that_no_public_row_has(seed):
    release = grown_release(seed)
    growth, counts = release.growth(), release.support.counts
    assert (growth.public_rows, growth.grown_rows) == ((counts > 0).sum(), (counts == 0).sum())
    assert growth.rows == release.support.size
    assert growth.mass == pytest.approx(release.weights[counts == 0].sum())
    assert [attribute.name for attribute in growth.attributes] == list(DOMAIN.names)
    for a, attribute in enumerate(growth.attributes):
        value, pair = slow_masses(release, a)
        assert attribute.new_value_mass == pytest.approx(value)
        assert attribute.new_pair_mass == pytest.approx(pair)
        assert sum(new.mass for new in attribute.new_values) == pytest.approx(value)
        masses = [new.mass for new in attribute.new_values]
        assert masses == sorted(masses, reverse=True)
        for new in attribute.new_values:
            assert new.mass == pytest.approx(release.answer([attribute.name], [new.value]), abs=1e-9)
    assert {new.value for new in growth.attributes[1].new_values} == {2}


def test_a_release_of_public_rows_alone_has_grown_nothing():
    release = grown_release(grown=1)
    public = release.support.counts > 0
    support = pmw.Support(release.support.table.take(public), release.support.counts[public])
    weights = release.weights[public] / release.weights[public].sum()
    alone = Release(support, release.workload, weights, ledger=ledger(), settings={}).growth()
    assert (alone.grown_rows, alone.mass) == (0, 0.0)
    assert all(attribute.new_values == () for attribute in alone.attributes)
    assert all(attribute.new_pair_mass == 0 for attribute in alone.attributes)


def test_without_a_public_record_every_row_is_grown():
    rows = pmw.Support.without_public(DOMAIN).with_rows(list(itertools.product(range(2), repeat=4))).support
    release = Release(rows, pmw.Workload.all(DOMAIN, k=1), np.full(16, 1 / 16), ledger=ledger(), settings={})
    growth = release.growth()
    assert (growth.public_rows, growth.grown_rows, growth.mass) == (0, 16, 1.0)
    assert all(attribute.new_value_mass == 1 for attribute in growth.attributes)
    assert "16 rows (16 grown)" in repr(release)


def test_a_saved_release_says_the_same(tmp_path):
    release = by_hand(
        support=SUPPORT.with_rows([[9, 0, 9]]).support, weights=np.array([0.125, 0.5, 0.0, 0.125, 0.25])
    )
    release.save(tmp_path / "release.npz")
    assert pmw.load_release(tmp_path / "release.npz").growth() == release.growth()
    assert release.growth().grown_rows == 1


def test_pairs_that_are_too_large_to_look_at_are_not_called_new(monkeypatch):
    release = grown_release()
    monkeypatch.setattr(coverage, "MOST_COVERAGE_CELLS", 5)
    attributes = release.growth().attributes
    assert all(attribute.new_pair_mass == 0 for attribute in attributes)
    assert attributes[0].new_value_mass == pytest.approx(slow_masses(release, 0)[0])


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_ranks_the_gathered_release_says_it(ranks):
    whole = grown_release()

    def program(comm):
        shard = ShardedSupport.of(whole.support, comm)
        places = {tuple(row): place for place, row in enumerate(whole.support.rows.tolist())}
        weights = whole.weights[[places[tuple(row)] for row in shard.rows.tolist()]]
        release = Release(shard, whole.workload, weights, ledger=ledger(), settings={})
        with pytest.raises(ValueError, match="must be gathered first"):
            release.growth()
        gathered = release.gathered()
        return None if gathered is None else gathered.growth()

    assert run_ranks(ranks, program) == [whole.growth()] + [None] * (ranks - 1)


def test_a_cell_is_reached_by_a_grown_row_too():
    domain = pmw.Domain({"sex": ["F", "M"]})
    support = pmw.Support.from_table(pmw.Table.from_codes([[0]], domain, private=False))
    noisy = pmw.release.Measurement([0, 1], [900, 100], "discrete-gaussian", 2.0, 0)
    release = Release(
        support.with_rows([[1]]).support,
        pmw.Workload.all(domain, k=1),
        [1.0, 0.0],
        measurements=[noisy],
        ledger=ledger(),
        settings={"particles": 100},
    )
    found = release.agreement()
    assert found.reached.all()
    assert not any("no row has" in reason for reason in found.reasons)
