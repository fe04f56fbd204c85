import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privmw as pmw
import privmw.release.history
import privmw.release.release
from privmw.release import Release, Round
from privmw.release.measurements import Measurement
from release.cases import DOMAIN, SUPPORT, WEIGHTS, WORKLOAD, ledger, release


def test_a_release_shows_what_it_holds():
    found = release()
    assert found.support is SUPPORT
    assert found.workload is found.measured is WORKLOAD
    assert found.weights.tolist() == WEIGHTS.tolist()
    assert [len(measurement) for measurement in found.measurements] == [2, 1]
    assert found.settings == {"algorithm": "MWPub", "rounds": 1, "split": [0.5, 0.5], "replay": None}
    assert found.history[-1].chosen == (17,)
    assert found.n == 1000
    assert repr(found) == "Release(MWPub, 4 rows, rho 0.09375, n 1000)"
    assert found.statement() == found.ledger.statement()


def test_a_release_cannot_be_changed_from_outside():
    weights, paid, settings_ = WEIGHTS.copy(), ledger(), {"deep": {"list": [1]}}
    found = release(weights=weights, ledger=paid, settings=settings_)
    before = copy.deepcopy(found)
    weights[:] = 0
    paid.charge(pmw.accounting.DiscreteGaussian(sigma=4, l2_sensitivity_squared=2))
    settings_["deep"]["list"].append(2)
    found.settings["deep"]["list"].append(3)
    assert found == before
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1
    with pytest.raises(AttributeError):
        found.weights = WEIGHTS


def test_a_seeded_release_says_that_it_is_not_for_release():
    found = release(ledger=ledger(seeded=True))
    assert "not for release" in found.statement()
    assert repr(found).endswith(", seeded: not for release)")


def test_answers_are_those_of_the_weighted_support():
    found = release()
    other = pmw.Workload(DOMAIN, [("sex",), ("zip",)])
    assert np.array_equal(found.answers(), SUPPORT.answers(WORKLOAD, WEIGHTS))
    assert np.array_equal(found.answers(other), SUPPORT.answers(other, WEIGHTS))
    assert found.answers()[9] == WEIGHTS[3]
    assert found.answer(["zip", "sex"], [8, 0]) == 0.5
    assert found.answer([], []) == 1
    assert found.answer(["age"], [7]) == 0
    with pytest.raises(ValueError, match="domain"):
        found.answers(pmw.Workload(pmw.Domain({"age": 10}), [("age",)]))


def test_a_release_equals_its_copies_and_nothing_else():
    found = release()
    assert found == release() == pickle.loads(pickle.dumps(found)) == copy.copy(found)
    assert not pickle.loads(pickle.dumps(found)).weights.flags.writeable
    same_but = {
        "workload": WORKLOAD.select([1, 0]),
        "measured": WORKLOAD.select([1, 0]),
        "weights": WEIGHTS[::-1],
        "measurements": (),
        "ledger": ledger(n=999),
        "settings": {},
        "history": [],
        "support": pmw.Support(SUPPORT.table, SUPPORT.counts + 1),
    }
    for name, value in same_but.items():
        assert found != release(**{name: value}), name
    assert found != 1
    with pytest.raises(TypeError):
        hash(found)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"support": SUPPORT.table}, TypeError, "support .* must be a Support"),
        ({"workload": [("age",)]}, TypeError, "workload .* must be a Workload"),
        ({"workload": pmw.Workload(pmw.Domain({"age": 10}), [("age",)])}, ValueError, "on the domain"),
        (
            {"measured": pmw.Workload(pmw.Domain({"age": 10}), [("age",)])},
            ValueError,
            "measured .* on the domain",
        ),
        ({"measured": 3}, TypeError, "measured .* must be a Workload"),
        ({"weights": WEIGHTS.astype(np.float32)}, TypeError, r"must be an array of float64"),
        ({"weights": np.ma.masked_array(WEIGHTS, WEIGHTS == 0)}, TypeError, r"must be an array of float64"),
        ({"weights": WEIGHTS[:3]}, ValueError, r"weights \(shape \(3,\)\) must be one for each of the 4"),
        ({"weights": WEIGHTS * 2}, ValueError, r"weights \(sum 2.0\) must sum to 1"),
        ({"weights": np.array([1.5, -0.5, 0, 0])}, ValueError, "finite and not negative"),
        ({"weights": np.array([1, np.nan, 0, 0])}, ValueError, "finite and not negative"),
        ({"weights": np.array([1, np.inf, 0, 0])}, ValueError, "finite and not negative"),
        ({"weights": np.array([1e308] * 4)}, ValueError, "must sum to 1"),
        ({"measurements": [3]}, TypeError, "must be a Measurement"),
        (
            {"measurements": [Measurement([30], [1], "discrete-gaussian", 1, 0)]},
            ValueError,
            "must be from 0 to 29",
        ),
        ({"ledger": None}, TypeError, "ledger .* must be a Ledger"),
        ({"settings": []}, TypeError, "settings .* must be a mapping"),
        ({"settings": {"a": {1: 2}}}, TypeError, r"settings\['a'\]: key \(int\) must be a string"),
        ({"settings": {"a": [math.nan]}}, ValueError, r"settings\['a'\]\[0\] must be finite"),
        ({"settings": {"a": {1, 2}}}, TypeError, r"settings\['a'\] .* must be a number"),
        ({"history": [1]}, TypeError, r"history\[0\] \(int\) must be a Round"),
    ],
)
def test_what_does_not_belong_together_is_refused(changed, error, message):
    with pytest.raises(error, match=message):
        release(**changed)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"round": -1}, ValueError),
        ({"round": 1.0}, TypeError),
        ({"chosen": "12"}, TypeError),
        ({"chosen": [1.5]}, TypeError),
        ({"discrepancy": "1"}, TypeError),
        ({"details": [1]}, TypeError),
        ({"details": {"gap": None}}, TypeError),
        ({"details": {1: 1.0}}, TypeError),
    ],
)
def test_a_round_holds_plain_numbers_only(changed, error):
    given = {"round": 1, "chosen": (3,), "discrepancy": 0.5, "after": 0.25, "rho": 0.1, "details": {}}
    kept = Round(**{**given, "chosen": [np.int64(3)], "after": np.float32(0.25)})
    assert kept == Round(**given)
    assert hash(kept) == hash(Round(**given))
    assert type(kept.after) is float
    with pytest.raises(error):
        Round(**{**given, **changed})


def weighted(weights):
    domain = pmw.Domain({"row": len(weights)})
    kept = np.array(weights, float) / np.sum(weights)
    return Release(
        pmw.Support.full(domain), pmw.Workload.all(domain, k=1), kept, ledger=ledger(), settings={}
    )


@settings(max_examples=100)
@given(
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300]), min_size=1, max_size=12).filter(
        lambda weights: sum(weights) > 1e-3
    ),
    st.integers(1, 3000),
    st.sampled_from(["proportional", "randomised"]),
)
def test_a_sample_has_each_row_as_often_as_its_weight_says(weights, n, method):
    found = weighted(weights)
    sample = found.sample(n, seed=1, method=method)
    assert sample.n == n
    assert not sample.private
    counts = np.bincount(sample.column("row"), minlength=len(weights))
    exact = n * found.weights
    # Weights are doubles and masses are not: a share next to an integer may fall on either side of it.
    assert (counts >= np.floor(exact - 1e-9)).all()
    assert (counts <= np.ceil(exact + 1e-9)).all()
    assert not counts[(found.weights == 0)].any()


def test_a_sample_defaults_to_the_private_tables_size_and_follows_its_seed():
    found = release()
    assert found.sample().n == 1000
    for method in ("proportional", "randomised"):
        one = found.sample(500, seed=3, method=method)
        assert one == found.sample(500, 3, method)
        assert one != found.sample(500, seed=4, method=method)
        assert one.domain is DOMAIN
    assert found.sample(1, seed=0).n == 1
    assert weighted([3.0]).sample(10**6).n == 10**6


def test_proportional_samples_differ_in_order_only():
    found = weighted([0.2, 0.3, 0.5])
    one, two = (found.sample(77, seed, "proportional").column("row") for seed in (1, 2))
    assert not np.array_equal(one, two)
    assert np.array_equal(np.sort(one), np.sort(two))


def test_randomised_samples_differ_in_counts_too():
    found = weighted([0.137, 0.263, 0.6])
    counts = {tuple(sorted(found.sample(10, seed, "randomised").column("row"))) for seed in range(50)}
    assert len(counts) > 1


@pytest.mark.parametrize("n", [0, -1, 2**40 + 1, 1.5, "3", True])
def test_a_sample_must_have_a_possible_size(n):
    with pytest.raises((TypeError, ValueError), match=r"n \(.*\) must"):
        release().sample(n)


def test_a_sample_must_have_a_known_method():
    with pytest.raises(ValueError, match=r"method \('random'\) must be 'randomised' or 'proportional'"):
        release().sample(3, method="random")
    with pytest.raises(ValueError, match="seed"):
        release().sample(3, seed=-1)
