"""Ranges, means, quantiles and distribution functions: against sums over cells, and against the truth."""

import datetime
import math

import numpy as np
import pytest

import privmw as pmw
from privmw.data.conditions import condition_on
from privmw.release.crosstab import crosstab_of
from privmw.release.questions import answer_to, conditions_on

pytest.importorskip("pyarrow")

DOMAIN = pmw.Domain(
    {
        "age": {"edges": [0, 18, 25, 65, 100], "missing": "unknown"},
        "sex": ["F", "M"],
        "rooms": {"labels": [5, 1, 2], "other": "more"},
        "born": {"edges": ["1950-01-01", "1980-01-01", "2000-01-01"]},
    }
)
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)
PROBABILITIES = ([0.2, 0.1, 0.4, 0.2, 0.1], [0.6, 0.4], [0.3, 0.4, 0.2, 0.1], [0.5, 0.5])


def table(n, seed, private):
    draws = np.random.default_rng(seed)
    columns = [draws.choice(len(p), n, p=p) for p in PROBABILITIES]
    columns[1] = (columns[1] + (columns[0] > 2) * (draws.random(n) < 0.5)) % 2
    return pmw.Table.from_codes(np.column_stack(columns), DOMAIN, private=private)


def released(seed, rho=0.02, n=5000):
    private = table(n, [seed, 0], True)
    support = pmw.Support.from_table(table(2000, [seed, 1], False))
    return private, pmw.PEP(select="all").calibrate(rho=rho)(private, support, WORKLOAD, rng=seed)


@pytest.fixture(scope="module")
def release():
    return released(0)[1]


def rows(frame):
    return frame.to_pylist()


def test_a_range_is_the_sum_of_its_cells(release):
    cells = release.answers(pmw.Workload(DOMAIN, [("age", "sex")])).reshape(5, 2)
    (row,) = rows(release.answer(age=(18, 65), sex="F"))
    assert (row["age"], row["sex"]) == ("[18, 65)", "F")
    assert row["answer"] == pytest.approx(cells[1:3, 0].sum(), abs=1e-12)
    (any_of,) = rows(release.answer(age=[20, None]))
    assert any_of["age"] == "[18, 25) or unknown"
    assert any_of["answer"] == pytest.approx(cells[[1, 4]].sum(), abs=1e-12)


def test_everything_is_answered_without_error(release):
    where = {"age": condition_on(DOMAIN["age"], [0, 20, 30, 70, None])}
    assert answer_to(release, where)[:4] == pytest.approx((1.0, 0.0, 1.0, 1.0))


def test_the_error_of_a_range_of_one_bin_is_that_of_its_cell(release):
    counts = crosstab_of(release, ("age",), {}, 0.95)
    among = conditions_on(release, {"age": [0, 20]})
    one = crosstab_of(release, (), among, 0.95)
    assert np.allclose(counts.errors[:, :2].sum(axis=1), one.errors[:, 0], atol=1e-15)
    cell = release.intervals(workload=pmw.Workload(DOMAIN, [("age",)])).standard_errors
    assert np.sqrt(np.square(counts.errors).mean(axis=0)) == pytest.approx(cell, rel=1e-6)


def test_an_interval_of_a_sum_is_no_sum_of_intervals(release):
    cells = release.marginal("rooms", kind="pyarrow")["standard_error"].to_numpy()[1:3]
    (row,) = rows(release.answer(rooms=(1, 2)))
    assert row["standard_error"] < cells.sum()
    both = crosstab_of(release, ("rooms",), {}, 0.95).errors[:, 1:3]
    assert row["standard_error"] == pytest.approx(np.sqrt(np.square(both.sum(axis=1)).mean()))


def test_a_mean_is_that_of_the_values_in_each_group(release):
    cells = release.answers(pmw.Workload(DOMAIN, [("sex", "rooms")])).reshape(2, 4)
    found = rows(release.mean("rooms", by="sex"))
    for group, row in zip(cells, found, strict=True):
        assert row["mean"] == pytest.approx(group[:3] @ [5, 1, 2] / group[:3].sum())
        assert row["low"] < row["mean"] < row["high"]
    (whole,) = rows(release.mean("rooms", values=[1, 1, 1]))
    assert whole["mean"] == pytest.approx(1.0)
    assert whole["standard_error"] == pytest.approx(0.0, abs=1e-12)
    scores = rows(release.mean("sex", values=[0, 1], where={"age": ">=65"}))[0]["mean"]
    old = release.answers(pmw.Workload(DOMAIN, [("age", "sex")])).reshape(5, 2)[3]
    assert scores == pytest.approx(old[1] / old.sum())


def test_the_mean_of_bins_lies_between_their_ends(release):
    (row,) = rows(release.mean("age"))
    shares = release.answers(pmw.Workload(DOMAIN, [("age",)]))[:4]
    shares /= shares.sum()
    assert row["at_least"] == pytest.approx(shares @ [0, 18, 25, 65])
    assert row["at_most"] == pytest.approx(shares @ [18, 25, 65, 100])
    assert row["mean"] == pytest.approx((row["at_least"] + row["at_most"]) / 2)


def test_quantiles_invert_the_distribution_function(release):
    ages, q = rows(release.cdf("age", by="sex")), [0.1, 0.5, 0.9]
    assert [row["below"] for row in ages] == [18, 25, 65, 100] * 2
    quantiles = rows(release.quantile("age", q, by="sex"))
    assert [(row["sex"], row["q"]) for row in quantiles] == [(sex, one) for sex in "FM" for one in q]
    for row in quantiles:
        line = [0.0] + [entry["share"] for entry in ages if entry["sex"] == row["sex"]]
        assert np.interp(row["quantile"], [0, 18, 25, 65, 100], line) == pytest.approx(row["q"])
        assert row["low"] <= row["quantile"] <= row["high"]
    rooms = {row["up_to"]: row["share"] for row in rows(release.cdf("rooms"))}
    assert list(rooms) == [1, 2, 5]
    (median,) = rows(release.quantile("rooms", 0.5))
    assert median["quantile"] == min(value for value, share in rooms.items() if share >= 0.5)


def test_quantiles_of_dates_are_dates(release):
    (row,) = rows(release.quantile("born", 0.5))
    assert datetime.date(1970, 1, 1) < row["low"] <= row["quantile"] <= row["high"]
    assert rows(release.cdf("born"))[0]["below"] == datetime.date(1980, 1, 1)


def test_figures_without_a_level_are_the_same(release):
    for with_errors, without in (
        (release.mean("rooms", by="sex"), release.mean("rooms", by="sex", level=None)),
        (release.cdf("age"), release.cdf("age", level=None)),
        (release.quantile("age", 0.5), release.quantile("age", 0.5, level=None)),
    ):
        assert "low" not in without.column_names
        assert without.equals(with_errors.select(without.column_names))


def test_what_was_not_measured_together_has_no_interval(release):
    (row,) = rows(release.answer(age=">=18", sex="F", rooms=[1, 2]))
    assert 0 < row["answer"] < 1
    assert all(math.isnan(row[name]) for name in ("standard_error", "low", "high"))
    reason = answer_to(release, conditions_on(release, {"age": ">=18", "sex": "F", "rooms": [1, 2]})).reason
    assert "no measured marginal has all of its attributes" in reason


def test_a_group_below_one_record_has_no_figures():
    public = np.column_stack([table(2000, 1, False).column(name) for name in DOMAIN.names])
    public = pmw.Table.from_codes(public[public[:, 2] == 0], DOMAIN, private=False)  # rooms are 5
    private, support = table(5000, 0, True), pmw.Support.from_table(public)
    release = pmw.PEP(select="all").calibrate(rho=0.02)(private, support, WORKLOAD, rng=0)
    empty = rows(release.mean("age", by="rooms"))[1]
    assert all(math.isnan(empty[name]) for name in ("mean", "standard_error", "low", "high", "at_most"))
    (small,) = rows(release.answer(rooms=(1, 2)))
    assert small["answer"] == 0
    assert math.isnan(small["standard_error"])
    assert small["low"] == 0
    assert small["high"] > 0.5  # 60 % of the private records


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda r: r.mean("sex"), "has no numbers"),
        (lambda r: r.mean("born"), "has no numbers"),
        (lambda r: r.mean("rooms", values=[1, 2]), "3 finite numbers"),
        (lambda r: r.mean("rooms", by="rooms"), "must not repeat"),
        (lambda r: r.mean("rooms", by=["sex", "sex"]), "must not repeat"),
        (lambda r: r.mean("rooms", by=[3]), "name of an attribute"),
        (lambda r: r.mean("rooms", where="age>3"), "a mapping"),
        (lambda r: r.mean("room"), "did you mean 'rooms'"),
        (lambda r: r.mean("rooms", level=2), "level"),
        (lambda r: r.cdf("sex"), "has no order"),
        (lambda r: r.quantile("sex", 0.5), "has no order"),
        (lambda r: r.quantile("rooms", 1.5), "above 0 and below 1"),
        (lambda r: r.quantile("rooms", []), "above 0 and below 1"),
        (lambda r: r.quantile("rooms", "half"), "a number"),
        (lambda r: r.answer(age=(65, 18)), "low <= high"),
        (lambda r: r.answer(sex=("F", "M")), "has no order"),
        (lambda r: r.answer(sex=["F", "X"]), "labels"),
    ],
)
def test_a_bad_question_is_refused(ask, said, release):
    with pytest.raises((TypeError, ValueError), match=said):
        ask(release)


@pytest.mark.slow
def test_intervals_of_sums_and_means_hold_the_truth():
    held = []
    for seed in range(30):
        _, release = released(seed, rho=0.01)
        truth = table(5000, [seed, 0], False)
        frames = pmw.Release(
            pmw.Support.from_table(truth),
            WORKLOAD,
            pmw.Support.from_table(truth).start(),
            ledger=release.ledger,
            settings={},
        )
        for where in ({"age": (18, 65)}, {"age": ">=25", "sex": "F"}, {"rooms": [1, 2], "sex": "M"}):
            row = answer_to(release, conditions_on(release, where))
            right = answer_to(frames, conditions_on(frames, where), None).answer
            held.append(row.low <= right <= row.high)
        for ours, right in zip(
            rows(release.mean("rooms", by="sex")),
            rows(frames.mean("rooms", by="sex", level=None)),
            strict=True,
        ):
            held.append(ours["low"] <= right["mean"] <= ours["high"])
    assert 0.9 < np.mean(held) < 0.999, np.mean(held)
