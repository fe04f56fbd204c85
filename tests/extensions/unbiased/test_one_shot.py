"""One shot by a strategy: what it costs is known before, what is bad is refused before anything is spent."""

import numpy as np
import pytest

import privmw as pmw
from privmw import HDMM, BudgetError, Workload, measure_marginals, strategies
from privmw.extensions.unbiased.one_shot import OneShot

DOMAIN = pmw.Domain({"age": 4, "sex": 2, "one": 1, "edu": 3})
CODES = np.random.default_rng(3).integers(0, DOMAIN.sizes, (2000, 4))
PRIVATE = pmw.Table.from_codes(CODES, DOMAIN, private=True)
WORKLOAD = Workload(DOMAIN, [("age", "sex"), ("sex", "edu")])
STRATEGIES = [strategies.equal(), strategies.hdmm(), strategies.residual("marginals")]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 1e-9}, {"rho": 0.01}], ids=str)
def test_what_a_run_spends_is_what_it_said_before(strategy, budget):
    mechanism = OneShot(strategy=strategy).calibrate(**budget)
    release = mechanism(PRIVATE, WORKLOAD, rng=1)
    ledger = release.ledger
    assert ledger.rho <= mechanism.rho
    assert ledger.rho > 0.98 * mechanism.rho
    if "epsilon" in budget:
        assert ledger.epsilon(1e-9) <= mechanism.epsilon(1e-9) <= 1.0
        assert "epsilon = 1 at delta = 1e-09" in mechanism.statement()
    plan = mechanism.plan(WORKLOAD, n=2000)
    assert plan.shot.events == ledger.events
    np.testing.assert_allclose(plan.fractions, release.standard_errors()[[0, 8]])
    assert "looks at" in str(plan)
    assert repr(strategy) in mechanism.statement()
    assert release.settings == {"algorithm": "OneShot", "strategy": repr(strategy)}
    assert not ledger.for_release
    assert mechanism(PRIVATE, WORKLOAD).ledger.for_release


def test_a_budget_is_said_as_it_was_given():
    assert repr(OneShot().calibrate(rho=0.01).budget).startswith("Budget.zcdp(0.01, event_delta=")


def test_residual_noise_without_a_delta_is_refused_before_a_cost_is_stated():
    with pytest.raises(ValueError, match=r"delta \(0\) must be above 0: residual noise is Gaussian"):
        OneShot().calibrate(epsilon=1.0, delta=0)


def test_pure_privacy_takes_laplace_noise():
    mechanism = HDMM().calibrate(epsilon=1.0, delta=0)
    assert mechanism.epsilon(0) == 1.0
    release = mechanism(PRIVATE, WORKLOAD, rng=1)
    assert release.shot.noise == "discrete-laplace"
    assert 0.999 < release.ledger.epsilon(0) <= 1.0
    assert repr(release).startswith("UnbiasedAnswers(Hdmm, 2 marginals, 14 cells, epsilon")
    assert repr(mechanism.algorithm) == "HDMM(strategy=Hdmm())"


def test_shorthands_do_what_the_mechanism_does():
    by_hand = HDMM().calibrate(1.0, n=2000)(PRIVATE, WORKLOAD, rng=4)
    assert pmw.HDMM().release(PRIVATE, WORKLOAD, epsilon=1.0, rng=4) == by_hand
    by_hand = OneShot(strategy=strategies.equal()).calibrate(rho=0.01)(PRIVATE, WORKLOAD, rng=4)
    assert measure_marginals(PRIVATE, list(WORKLOAD), rho=0.01, strategy=strategies.equal(), rng=4) == by_hand


def test_a_unit_of_several_records_gets_more_noise():
    units = PRIVATE.capped(np.arange(2000) // 4, unit="household", at_most=3)
    mechanism = OneShot(strategy=strategies.equal()).calibrate(rho=0.01)
    one, three = mechanism(PRIVATE, WORKLOAD, rng=1), mechanism(units, WORKLOAD, rng=1)
    assert three.shot.looks[0].scale == pytest.approx(3 * one.shot.looks[0].scale)
    assert "household of at most 3 records" in three.statement()


def test_the_cost_is_reserved_before_and_settled_after(tmp_path):
    limit = pmw.Budget.approximate(1.2, 1e-6, event_delta=1e-8)
    account = pmw.Account.create(tmp_path / "account", limit)
    mechanism = OneShot().calibrate(1.0, 1e-6)
    release = mechanism(PRIVATE, WORKLOAD, rng=1, account=account)
    assert account.rho == release.ledger.rho
    assert account.delta == release.ledger.delta > 0
    with pytest.raises(BudgetError, match="must fit the account"):
        mechanism(PRIVATE, WORKLOAD, rng=1, account=account)
    assert len(account.runs) == 1


def test_a_run_that_released_nothing_is_repeated_under_its_reservation(tmp_path, monkeypatch):
    account = pmw.Account.create(tmp_path / "account", pmw.Budget.zcdp(0.01))
    mechanism = OneShot(strategy=strategies.equal()).calibrate(rho=0.01)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privmw.extensions.unbiased.one_shot.measure_shot", interrupted)
        with pytest.raises(KeyboardInterrupt) as ended:
            mechanism(PRIVATE, WORKLOAD, account=account, run="a" * 32)
    assert ended.value.ledger.rho == 0
    assert [run.finished for run in account.runs] == [False]
    mechanism(PRIVATE, WORKLOAD, account=account, run="a" * 32)
    assert [run.finished for run in account.runs] == [True]


def test_a_run_that_released_is_not_drawn_again_under_its_reservation(tmp_path):
    account = pmw.Account.create(tmp_path / "account", pmw.Budget.zcdp(0.01))
    mechanism = OneShot(strategy=strategies.equal()).calibrate(rho=0.01)
    mechanism(PRIVATE, WORKLOAD, account=account, run="a" * 32)
    with pytest.raises(ValueError, match="must not be one that the account says is finished") as refused:
        mechanism(PRIVATE, WORKLOAD, account=account, run="a" * 32)
    assert refused.value.ledger.rho == 0


def test_answers_are_kept_before_their_run_is_settled(tmp_path):
    account = pmw.Account.create(tmp_path / "account", pmw.Budget.zcdp(0.01))
    mechanism = OneShot(strategy=strategies.equal()).calibrate(rho=0.01)
    kept = []

    def keep(answers):
        assert [run.finished for run in account.runs] == [False]
        kept.append(answers)

    answers = mechanism(PRIVATE, WORKLOAD, account=account, keep=keep)
    assert kept == [answers]
    assert [run.finished for run in account.runs] == [True]


WIDE = pmw.Domain({f"x{i}": 2 for i in range(14)})
ONES = pmw.Domain({"a": 1, "b": 1})


def tables(domain):
    return pmw.Table.from_codes(np.zeros((50, len(domain)), np.int64), domain, private=True)


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"strategy": strategies.hdmm(), "domain": WIDE, "k": 3}, ValueError, r"14 attributes.* at most 13"),
        ({"domain": ONES, "k": 1}, ValueError, "two values or more"),
        ({"strategy": strategies.residual(weights=[1.0])}, ValueError, "weights"),
        ({"rho": 50.0}, ValueError, "must be smaller for residual noise"),
        ({"rho": None, "epsilon": 1.0, "delta": 0}, ValueError, "must be above 0: residual noise"),
        ({"rho": 1e-30}, ValueError, "sigma"),
        ({"rho": 1e-30, "strategy": strategies.equal()}, ValueError, r"scale .* must be at most 2\^40"),
        (
            {"rho": None, "epsilon": 1e5, "delta": 0, "strategy": strategies.hdmm()},
            ValueError,
            r"scale .* must be at least 2\^-9: the budget leaves no noise",
        ),
        ({"rho": 0}, ValueError, "rho"),
        ({"rho": None}, TypeError, "exactly one of epsilon and rho"),
        ({"delta": 1e-9}, TypeError, "delta"),
        ({"strategy": "residual"}, TypeError, "must be one of privmw.strategies"),
        ({"workload": "age"}, TypeError, "must be a Workload"),
        ({"workload": Workload.all(WIDE, k=1)}, ValueError, "on the domain of the private table"),
        ({"workload": Workload(DOMAIN, [])}, ValueError, "at least one marginal"),
        ({"private": "records"}, TypeError, "must be a Table"),
        ({"private": pmw.Table.from_codes(CODES, DOMAIN, private=False)}, ValueError, "private"),
        (
            {"private": pmw.Table.from_codes(CODES[:0], DOMAIN, private=True)},
            ValueError,
            "at least one record",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(changed, error, match, tmp_path):
    domain = changed.get("domain", DOMAIN)
    account = pmw.Account.create(tmp_path / "account", pmw.Budget.zcdp(1000, event_delta=0.5))
    workload = changed.get("workload", Workload.all(domain, k=changed.get("k", 2)))
    budget = {name: changed.get(name) for name in ("epsilon", "delta")} | {"rho": changed.get("rho", 0.01)}
    private = changed.get("private", tables(domain))
    with pytest.raises(error, match=match):
        OneShot(strategy=changed.get("strategy", strategies.residual())).calibrate(**budget)(
            private, workload, account=account
        )
    assert account.runs == ()


def test_negative_or_zero_weights_are_refused():
    for weights in ([-1.0, 1.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights"):
            strategies.residual(weights=weights)


def test_a_closure_beyond_memory_is_refused(monkeypatch):
    many = pmw.Domain({f"x{i}": 2 for i in range(120)})
    with pytest.raises(ValueError, match=r"subsets"):
        OneShot().calibrate(rho=0.01).plan(Workload.sample(many, k=6, size=400_000, seed=0))
    monkeypatch.setattr("privmw.extensions.unbiased.one_shot.available_memory", lambda: 100)
    with pytest.raises(ValueError, match="must fit in memory"):
        OneShot().calibrate(rho=0.01)(PRIVATE, WORKLOAD)


def test_a_configuration_has_no_budget_and_a_strategy_no_other_options():
    with pytest.raises(TypeError, match="calibrate it first"):
        HDMM()(PRIVATE, WORKLOAD)
    for options in ({"threshold": True, "delta": 1e-9}, {"shares": [1, 1]}, {"public_n": 5}):
        with pytest.raises(TypeError, match="strategy must not come with"):
            measure_marginals(PRIVATE, list(WORKLOAD), epsilon=1, strategy=strategies.equal(), **options)
