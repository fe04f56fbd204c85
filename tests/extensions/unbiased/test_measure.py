from fractions import Fraction

import numpy as np
import pytest

import privmw as pmw
from privmw import Budget, measure_marginals
from privmw.accounting import Neighbors
from privmw.curator import Curator
from privmw.extensions.postprocess import nnls, to_microdata

DOMAIN = pmw.Domain({"age": 9, "origin": 24})
ADD_REMOVE = {"neighbors": Neighbors.ADD_REMOVE_ONE, "public_n": 300}
FOUR = [(), ("age",), ("origin",), ("age", "origin")]


def table(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, 9, rows), rng.integers(0, 24, rows)], axis=1)
    return pmw.Table.from_codes(codes, DOMAIN, private=True)


def test_the_papers_experiment_is_one_call():
    measured, ledger = measure_marginals(table(), FOUR, epsilon=0.5, **ADD_REMOVE, rng=1)
    assert [noise.name for noise in measured.noises] == ["discrete-laplace"] * 4
    assert [noise.scale for noise in measured.noises] == [8.0] * 4
    assert ledger.epsilon(0) == 0.5
    assert ledger.neighbors is Neighbors.ADD_REMOVE_ONE
    assert len(ledger.events) == 4


def test_gaussian_noise_has_the_papers_variance():
    measured, ledger = measure_marginals(table(), FOUR, rho=0.125, **ADD_REMOVE, rng=1)
    np.testing.assert_allclose(measured.variances, 4 / (2 * 0.125), rtol=1e-9)
    assert ledger.rho == 0.125


def test_replacing_one_record_costs_twice_as_much_and_the_total_is_public():
    measured, ledger = measure_marginals(table(), FOUR[1:], epsilon=0.5, rng=1)
    assert [noise.scale for noise in measured.noises] == [12.0] * 3
    assert ledger.neighbors is Neighbors.REPLACE_ONE
    with pytest.raises(ValueError, match="the total is public"):
        measure_marginals(table(), FOUR, epsilon=0.5)


def test_shares_split_the_budget():
    measured, ledger = measure_marginals(table(), FOUR, epsilon=1, shares=[1, 1, 1, 7], **ADD_REMOVE, rng=1)
    assert [noise.scale for noise in measured.noises] == pytest.approx([10, 10, 10, 10 / 7])
    assert ledger.epsilon(0) == pytest.approx(1)


@pytest.mark.parametrize("more", [{}, {"delta": 1e-9, "threshold": True}])
def test_a_share_that_is_too_small_is_refused_before_another_is_spent(more, tmp_path, monkeypatch):
    account = pmw.Account.create(tmp_path / "account", Budget.approximate(2, 1e-6, event_delta=1e-7))
    monkeypatch.setattr(pmw.Table, "counts", lambda *_: pytest.fail("the private table was looked at"))
    for least, reason in ((1e-14, r"scale .* at most 2\^40"), (5e-324, "scale|delta")):
        with pytest.raises(ValueError, match=reason):
            measure_marginals(table(), FOUR[1:], epsilon=1, shares=[1, 1, least], account=account, **more)
    assert account.runs == ()


def test_a_delta_may_be_a_fraction():
    _, ledger = measure_marginals(table(), FOUR[1:], epsilon=1, delta=Fraction(1, 10**7), threshold=True)
    assert 0 < ledger.delta <= 1e-7


def test_what_is_measured_is_near_the_truth():
    private = table()
    measured, _ = measure_marginals(private, FOUR, epsilon=2000, **ADD_REMOVE, rng=1)
    truth = private.counts(pmw.Workload(DOMAIN, FOUR[1:]))
    assert measured.noisy_counts.tolist() == [300, *truth.tolist()]


def test_the_total_alone_can_be_measured():
    measured, ledger = measure_marginals(table(), [()], epsilon=1000, **ADD_REMOVE, rng=1)
    assert measured.marginals == ((),)
    assert measured.noisy_counts.tolist() == [300]
    assert len(ledger.events) == 1


def test_attributes_may_be_named_in_any_order():
    measured, _ = measure_marginals(table(), [("origin", "age")], epsilon=1, rng=1)
    assert measured.marginals == (("age", "origin"),)


def test_counts_below_the_threshold_vanish_and_their_delta_is_in_the_ledger():
    private = table(3000)
    given = {"epsilon": 3, "delta": 1e-6, "threshold": True}
    measured, ledger = measure_marginals(private, FOUR, **given, **ADD_REMOVE, rng=1)
    total, age, origin, both = ledger.events
    assert (total.kind, total.delta) == ("discrete-laplace", 0)
    assert {event.kind for event in (age, origin, both)} == {"thresholded-laplace"}
    assert ledger.epsilon(1e-6) == 3.0
    assert 0 < ledger.delta <= 1e-6
    assert ledger.epsilon(1e-9) == np.inf
    assert "delta = 1e-06" in ledger.statement()
    counts = measured.noisy_counts
    vanished = counts[34:] == 0
    assert 0 < vanished.sum() < 216
    assert counts[34:][~vanished].min() >= both.threshold
    deviations = np.sqrt(measured.variances[34:])
    assert (deviations[vanished] == both.threshold).all()
    assert (deviations[~vanished] < 2 * both.scale).all()
    fit = nnls(measured)
    assert abs(fit.weights.sum() - 3000) < 30
    assert fit.certificate.kkt < 1e-8


def test_the_deltas_of_a_thresholded_run_are_reserved(tmp_path):
    budget = Budget.approximate(1, 1e-6, composition="advanced", event_delta=1e-6)
    account = pmw.Account.create(tmp_path / "account", budget)
    given = {"epsilon": 0.5, "delta": 6e-7, "threshold": True, "account": account, "rng": 1}
    _, ledger = measure_marginals(table(), FOUR[1:], **given)
    assert account.delta == ledger.delta <= 6e-7
    with pytest.raises(pmw.BudgetError, match="event_delta"):
        measure_marginals(table(), FOUR[1:], **given)


def test_from_private_records_to_private_microdata():
    measured, _ = measure_marginals(table(), FOUR, epsilon=4, **ADD_REMOVE, rng=3)
    fit = nnls(measured)
    assert fit.certificate.kkt < 1e-9
    assert abs(to_microdata(fit).n - fit.weights.sum()) < 1


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"marginals": []}, ValueError, "at least one"),
        ({"marginals": "age"}, TypeError, "must be a list"),
        ({"marginals": ["age"]}, TypeError, "must be a tuple of names"),
        ({"marginals": [("income",)]}, ValueError, "not in the domain"),
        ({"marginals": [("age",), ("age",)]}, ValueError, "only once"),
        ({"marginals": [(), ()], **ADD_REMOVE}, ValueError, "only once"),
        ({"shares": [1, 2]}, ValueError, r"shares \(2\) must be as many as marginals \(1\)"),
        ({"shares": [0]}, ValueError, "share"),
        ({"epsilon": None}, TypeError, "exactly one"),
        ({"rho": 1}, TypeError, "exactly one"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"delta": 1e-9}, TypeError, "delta .* must come with threshold=True"),
        ({"threshold": True}, TypeError, "must come with threshold=True, and the reverse"),
        ({"threshold": True, "delta": 0}, ValueError, "delta"),
        ({"threshold": True, "delta": 1e-9, "epsilon": None, "rho": 1}, TypeError, "epsilon"),
        ({"neighbors": Neighbors.ADD_REMOVE_ONE}, ValueError, "public_n"),
        ({"private": "records"}, TypeError, "must be a Table"),
    ],
)
def test_what_cannot_be_measured_is_refused(changed, error, match):
    given = {"private": table(), "marginals": [("age",)], "epsilon": 1, **changed}
    with pytest.raises(error, match=match):
        measure_marginals(given.pop("private"), given.pop("marginals"), **given)


def curator(rows=300, **changed):
    given = {**ADD_REMOVE, "rng": 1, **changed}
    return Curator(table(rows), pmw.Workload.all(DOMAIN, 1), Budget.pure(10_000), **given)


def test_the_totals_of_neighbours_differ_by_one_and_it_is_charged_so():
    many, few = (curator(rows).measure(total=True, epsilon=2_000) for rows in (300, 299))
    assert (many - few).tolist() == [1]
    door = curator()
    door.measure(total=True, epsilon=0.5)
    (event,) = door.ledger.events
    assert float(event.scale) == 2.0


def test_the_total_is_asked_alone_open_and_where_it_is_private():
    with pytest.raises(TypeError, match="total must be asked alone"):
        curator().measure([0], total=True, epsilon=1)
    with pytest.raises(ValueError, match="number of records is public"):
        curator(neighbors=Neighbors.REPLACE_ONE, public_n=None).measure(total=True, epsilon=1)
    door = curator()
    door.close()
    with pytest.raises(ValueError, match="must be open"):
        door.measure(total=True, epsilon=1)
