import numpy as np
import pytest

import privmw as pmw
from privmw import choose_public

DOMAIN = pmw.Domain({"age": 9, "origin": 24, "sex": ["F", "M"]})
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)
RNG = np.random.default_rng(0)


def drawn(rows, most, private=False):
    codes = np.stack([RNG.integers(0, size, rows) for size in (most, 24, 2)], axis=1)
    return pmw.Table.from_codes(codes, DOMAIN, private=private)


PRIVATE = drawn(2000, 5, private=True)
NEAR, FAR, FARTHER = drawn(500, 5), drawn(500, 7), drawn(500, 9)


@pytest.mark.parametrize("score", ["largest", "mean"])
def test_the_nearest_table_is_chosen_where_the_budget_suffices(score):
    tables = [FAR, pmw.Support.from_table(NEAR), FARTHER]
    chosen = choose_public(PRIVATE, tables, WORKLOAD, epsilon=1, score=score, rng=0)
    assert chosen.index == 1
    assert chosen.support is tables[1]
    assert chosen.ledger.epsilon(0) == 1
    assert not chosen.ledger.for_release
    by_rho = choose_public(PRIVATE, tables, WORKLOAD, rho=0.125, score=score)
    assert (by_rho.index, by_rho.support, by_rho.ledger.rho) == (1, tables[1], 0.125)
    assert by_rho.ledger.for_release


def test_a_table_may_lack_columns_that_are_not_asked():
    fewer = pmw.Table.from_codes(NEAR.codes()[:, [2, 0]], DOMAIN.project(["sex", "age"]), private=False)
    known = pmw.Workload(DOMAIN, [("age", "sex")])
    chosen = choose_public(PRIVATE, [FAR, fewer], known, epsilon=2, rng=0)
    assert (chosen.index, chosen.support.missing) == (1, ("origin",))
    with pytest.raises(ValueError, match=r"tables\[1\]: the public rows lack 'origin'"):
        choose_public(PRIVATE, [FAR, fewer], WORKLOAD, epsilon=2)


def test_a_choice_and_a_release_share_one_account(tmp_path):
    account = pmw.Account.create(tmp_path / "account.jsonl", pmw.Budget.zcdp(0.03))
    chosen = choose_public(PRIVATE, [FAR, NEAR], WORKLOAD, rho=0.01, rng=0, account=account)
    (run,) = account.runs
    assert run.finished
    assert run.what == "choose_public, among 2 tables, Budget.zcdp(0.01)"
    assert account.total == chosen.ledger.total
    pmw.PEP(rounds=2).calibrate(rho=0.01)(PRIVATE, chosen.support, WORKLOAD, rng=0, account=account.path)
    assert 0.0199 < account.total.rho <= 0.02
    for given in ({"rho": 0.011}, {"epsilon": 1}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pmw.curator.Curator, "choose_public", None)
            with pytest.raises(pmw.BudgetError, match="must fit the account"):
                choose_public(PRIVATE, [FAR, NEAR], WORKLOAD, rng=0, account=account, **given)
    assert len(account.runs) == 2


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"tables": []}, ValueError, r"tables \(0\) must be at least two"),
        ({"tables": [NEAR]}, ValueError, r"tables \(1\) must be at least two"),
        ({"tables": NEAR}, TypeError, r"tables \(Table\) must be a list of public tables"),
        ({"tables": [NEAR, 3]}, TypeError, r"tables\[1\] \(int\) must be a Table or a Support"),
        ({"tables": [NEAR, PRIVATE]}, ValueError, r"tables\[1\] \(a private table\) must be public"),
        (
            {"tables": [NEAR, pmw.Support.full(pmw.Domain({"age": 9}))]},
            ValueError,
            r"tables\[1\] .* must be on the domain of the private table",
        ),
        (
            {"tables": [NEAR, pmw.Table.from_codes([[0]], pmw.Domain({"height": 3}), private=False)]},
            ValueError,
            r"tables\[1\]: public: column 'height' must be an attribute of the domain",
        ),
        (
            {"tables": [NEAR, pmw.Support.without_public(DOMAIN)]},
            ValueError,
            r"tables\[1\]: the public rows lack",
        ),
        ({"private": NEAR}, ValueError, "must be a private table"),
        ({"private": "records"}, TypeError, r"private \(str\) must be a Table"),
        ({"workload": [("age",)]}, TypeError, r"workload \(list\) must be a Workload"),
        ({"workload": pmw.Workload.all(pmw.Domain({"age": 9}), k=1)}, ValueError, "must be on the domain"),
        ({"score": "median"}, ValueError, "must be 'largest' or 'mean'"),
        ({"epsilon": None}, TypeError, "exactly one"),
        ({"rho": 1}, TypeError, "exactly one"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"epsilon": None, "rho": 0}, ValueError, "rho"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(changed, error, message, tmp_path):
    account = pmw.Account.create(tmp_path / "account.jsonl", pmw.Budget.zcdp(1))
    given = {"private": PRIVATE, "tables": [NEAR, FAR], "workload": WORKLOAD, "epsilon": 1, **changed}
    with pytest.raises(error, match=message):
        choose_public(
            given.pop("private"), given.pop("tables"), given.pop("workload"), **given, account=account
        )
    assert account.runs == ()
