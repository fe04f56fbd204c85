import numpy as np
import pytest

import privmw as pmw
from release.cases import DOMAIN, WEIGHTS, WORKLOAD, ledger, release


def test_the_public_frequencies_of_a_release_are_its_weights():
    public = release().as_public()
    assert np.array_equal(public.rows, release().support.rows)
    assert np.abs(public.start() - WEIGHTS).max() < 1e-12
    assert (public.counts > 0).all()  # a row without weight too
    assert np.allclose(public.answers(WORKLOAD), release().answers(), atol=1e-12)


def test_the_weights_of_many_rows_stay_within_a_billionth():
    domain = pmw.Domain({"a": 2**10, "b": 2**8})
    support = pmw.Support.full(domain)
    weights = np.random.default_rng(0).random(support.size) ** 40
    weights[::3] = 0
    weights /= weights.sum()
    workload = pmw.Workload.all(domain, k=1)
    made = pmw.Release(support, workload, weights, ledger=ledger(), settings={})
    assert np.abs(made.as_public().start() - weights).max() < 1e-9


def test_grown_rows_become_public_and_constraints_stay():
    constraints = pmw.Constraints({"invalid": [{"age": [5]}]}, DOMAIN)
    table = pmw.Table.from_codes([[0, 1, 5]], DOMAIN, private=False)
    grown = pmw.Support.from_table(table, constraints).with_rows([[1, 1, 1]]).support
    public = release(support=grown, weights=np.array([0.25, 0.75])).as_public()
    assert public.grown == 0
    assert public.start().tolist() == [0.25, 0.75]
    assert public.constraints == constraints


def test_what_is_made_of_a_seeded_release_is_marked():
    assert release().as_public().table.for_release
    assert not release(ledger=ledger(seeded=True)).as_public().table.for_release


def test_what_is_made_of_a_seeded_release_stays_marked():
    public = release(ledger=ledger(seeded=True)).as_public()
    made = {
        "widened": public.widened(),
        "with rows": public.with_rows(public.rows).support,
        "several": pmw.Support.from_tables([public, release().as_public()]),
        "fewer columns": pmw.Support.from_table(public.table.project(DOMAIN.names[:1]), domain=DOMAIN),
        "reordered": pmw.Support.from_table(public.table.project(DOMAIN.names[::-1]), domain=DOMAIN),
    }
    assert [name for name, support in made.items() if support.table.for_release] == []


def test_a_seeded_release_is_no_public_table_of_one_that_is_published(tmp_path):
    public = release(ledger=ledger(seeded=True)).as_public()
    private = pmw.Table.from_codes(public.rows, DOMAIN, private=True)
    account = pmw.Account.create(tmp_path / "a.account", pmw.Budget.zcdp(1))
    with pytest.raises(ValueError, match="not for release"):
        pmw.release_auto(private, public, WORKLOAD, rho=0.1, account=account)
    assert not account.runs
    experiment = pmw.MWPub(rounds=2).release(private, public, WORKLOAD, rho=0.1, rng=1)
    assert not experiment.ledger.for_release
    published = pmw.MWPub(rounds=2).release(private, release().as_public(), WORKLOAD, rho=0.1)
    assert published.ledger.for_release


def test_a_release_from_last_years_release_can_be_widened_joined_and_saved(tmp_path):
    rng = np.random.default_rng(0)
    domain = pmw.Domain({"a": 4, "b": 5, "c": 3})
    codes = rng.integers(0, domain.sizes, (2000, 3))
    support = pmw.Support.from_table(pmw.Table.from_codes(codes[:40], domain, private=False))
    workload = pmw.Workload.all(domain, k=2)
    made = pmw.Release(support, workload, support.start(), ledger=ledger(), settings={})
    public = made.as_public()
    wider = public.widened(share=0.05)
    old = wider.with_rows(public.rows).added
    assert 1 - wider.start()[old].sum() < 0.05  # some of the new records are rows of the support
    assert wider.start()[old].sum() < 0.999
    assert np.allclose(wider.answers(workload), support.widened(share=0.05).answers(workload), atol=0.01)
    both = pmw.Support.from_tables([public, pmw.Table.from_codes(codes[40:60], domain, private=False)])
    private = pmw.Table.from_codes(codes, domain, private=True)
    again = pmw.release_auto(private, both, workload, epsilon=1, rng=0)
    again.save(tmp_path / "x.release")
    assert pmw.load_release(tmp_path / "x.release") == again


def test_the_shard_of_a_release_is_gathered_first():
    class Two:
        size, rank = 2, 0

    made = release()
    object.__setattr__(made.support, "comm", Two())
    try:
        with pytest.raises(ValueError, match="must be gathered first"):
            made.as_public()
    finally:
        object.__setattr__(made.support, "comm", pmw.ranks.ALONE)
