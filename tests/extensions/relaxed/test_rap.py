"""RAP on the loop: its releases, their cost, runs that are resumed, and what is refused beforehand."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import DOMAIN, WORKLOAD, EndedError, N, private, support
from privmw.curator.curator import Curator

TRUTH = private().counts(WORKLOAD) / N
SMALL = {"rows": 20, "steps": 40, "draws": 2000}
CASES = {
    "all": {"select": "all"},
    "all, order 1": {"select": "all", "order": 1},
    "rounds": {"rounds": 6},
    "three a round": {"rounds": 3, "per_round": 3},
    "permute and flip": {"rounds": 4, "select": "permute-and-flip", "split": 0.3},
    "cells": {"rounds": 6, "measure": "cell", "per_round": 2},
    "warm-up": {"rounds": 3, "warm_up": 0.5, "order": 1},
    "clipped": {"rounds": 3, "softmax": False, "rate": 0.02},
    "the papers' loss": {"select": "all", "prior_weight": 0.0},
}


def rap(name="all", **changes):
    return pmw.RAP(**{**SMALL, **CASES[name], **changes})


@cache
def released(name, rho=0.3, seed=1):
    return rap(name).calibrate(rho=rho)(private(), None, WORKLOAD, rng=seed, threads=1)


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_weighted_rows_without_a_public_table(name):
    release = released(name)
    assert release.support.records == 0
    assert release.support.grown == release.support.size
    assert release.weights.sum() == pytest.approx(1.0)
    assert release.settings["algorithm"] == "RAP"
    assert release.sample(100).n == 100
    last = release.history[-1].details
    assert last["rows"] == release.support.size
    assert {"loss", "steps", "from_products", "gap"} <= set(last)


def test_everything_at_once_is_near_the_truth():
    """The noise of a count is .1 % of the records; evenly drawn rows err by a quarter of them."""
    release = pmw.RAP(select="all").release(private(), None, WORKLOAD, rho=1.0, rng=1)
    assert np.abs(release.answers() - TRUTH).max() < 0.01
    assert np.abs(pmw.Support.full(DOMAIN).answers(WORKLOAD) - TRUTH).max() > 0.25


@pytest.mark.parametrize("name", CASES)
def test_a_ledger_is_the_stated_cost_whatever_the_data(name):
    algorithm = rap(name)
    for mechanism in (
        algorithm.calibrate(rho=0.3),
        algorithm.calibrate(1.5, 1e-7),
        algorithm.calibrate(1.5, 0),
    ):
        for table in (private(), private(n=N, skew=0.3, seed=9)):
            ledger = mechanism(table, None, WORKLOAD, rng=5, threads=1).ledger
            assert ledger.rho <= mechanism.rho
            assert ledger.rho == pytest.approx(mechanism.rho, rel=1e-12)
            assert mechanism.budget.allows(ledger.total)
            assert sum(e.count for e in ledger.events) == sum(e.count for e in mechanism.events)


@pytest.mark.parametrize("name", ["all", "rounds", "clipped"])
def test_a_seeded_run_has_the_same_bits_and_threads_do_not_matter(name):
    again = rap(name).calibrate(rho=0.3)(private(), None, WORKLOAD, rng=1, threads=2)
    assert again == released(name)


def test_answers_of_the_products_are_within_the_error_of_the_draw():
    """2,000 records drawn evenly: four standard errors of independent ones, at most .5 / sqrt(2,000)."""
    for name in ("all", "rounds"):
        assert released(name).history[-1].details["from_products"] < 4 * 0.5 / np.sqrt(2000)


@pytest.mark.parametrize("every", [None, 1, 2])
@pytest.mark.parametrize("ended", [1, 4, 6])
def test_a_run_that_ended_is_resumed_with_the_same_bits(every, ended, tmp_path):
    mechanism = rap("rounds").calibrate(rho=0.3)
    given = {"rng": 1, "threads": 1, "checkpoint": tmp_path / "run", "every": every}

    def end(entry):
        if entry.round == ended:
            raise EndedError

    with pytest.raises(EndedError):
        mechanism(private(), None, WORKLOAD, progress=end, **given)
    release = mechanism(private(), None, WORKLOAD, **given)
    whole = mechanism(private(), None, WORKLOAD, rng=1, threads=1, checkpoint=tmp_path / "whole", every=every)
    assert release.ledger.rho == whole.ledger.rho
    assert len(release.history) == 6
    # A resumed run draws other noise after the round where it ended; what came before it is the same.
    for one, other in zip(release.history[:ended], whole.history[:ended], strict=True):
        assert one == other


def test_a_finished_run_is_found_again_with_the_same_bits(tmp_path):
    mechanism = rap("rounds").calibrate(rho=0.3)
    given = {"rng": 1, "threads": 1, "checkpoint": tmp_path / "run", "every": 2}
    assert mechanism(private(), None, WORKLOAD, **given) == mechanism(private(), None, WORKLOAD, **given)


def test_constraints_come_with_a_support_without_public_rows():
    rules = pmw.Constraints({"invalid": [{"a": [0], "b": [1]}]}, DOMAIN)
    none = pmw.Support.without_public(DOMAIN, rules)
    release = rap().calibrate(rho=0.3)(private(), none, WORKLOAD, rng=1)
    assert rules.allows(release.support.rows.astype(np.uint32)).all()
    assert not rules.allows(released("all").support.rows.astype(np.uint32)).all()


def test_constraints_that_allow_no_drawn_row_take_even_ones_and_such_that_allow_none_are_refused():
    wide = pmw.Domain({f"x{i}": 12 for i in range(5)})
    records = pmw.Table.from_codes([[0] * 5] * 500, wide, private=True)
    workload, algorithm = pmw.Workload.all(wide, k=1), pmw.RAP(select="all", rows=5, steps=50, draws=9)
    high = {f"x{i}": [*range(1, 12)] for i in range(5)}

    def run(rules):
        none = pmw.Support.without_public(wide, pmw.Constraints({"invalid": rules}, wide))
        return algorithm.calibrate(rho=10)(records, none, workload, rng=1)

    # The fit says that every x is 0, and no record may have two such values.
    pairs = [{f"x{i}": [0], f"x{j}": [0]} for i in range(5) for j in range(i)]
    release = run(pairs)
    assert 0 < release.support.size <= 9
    assert ((release.support.rows == 0).sum(axis=1) < 2).all()
    with pytest.raises(ValueError, match="constraints must allow a row") as refused:
        run([{name: values} for name, values in high.items()] + pairs)
    assert not hasattr(refused.value, "ledger")


def test_a_plan_and_the_bytes_of_a_file_are_known_beforehand():
    mechanism = rap("rounds").calibrate(rho=0.3)
    plan = mechanism.plan(None, WORKLOAD, n=N)
    assert plan.rounds == 6
    assert plan.seconds > 0
    assert mechanism.bytes_of_release(None, WORKLOAD) > 0


def test_a_release_is_saved_and_loaded(tmp_path):
    released("rounds").save(tmp_path / "x.release")
    assert pmw.load_release(tmp_path / "x.release") == released("rounds")


def test_the_papers_sizes():
    for relaxed, rate in ((True, 0.1), (False, 5e-3)):
        algorithm = pmw.RAP.as_published(softmax=relaxed, rounds=3, per_round=2)
        assert (algorithm.rows, algorithm.steps, algorithm.measure, algorithm.rate) == (
            1000,
            5000,
            "cell",
            rate,
        )
        assert not algorithm.prior_weight
    assert dataclasses.asdict(pmw.RAP())["rows"] == 300


@pytest.fixture
def nothing_is_asked(monkeypatch):
    def asked(self, *_, **__):
        raise AssertionError("the private table was asked")

    for name in ("measure", "select"):
        monkeypatch.setattr(Curator, name, asked)


REFUSED = {
    r"rows \(0\) must be from 1 to 100000": {"rows": 0},
    r"rows \(2.5\) must be an integer": {"rows": 2.5},
    r"steps \(0\) must be from 1": {"steps": 0},
    r"draws \(0\) must be from 1": {"draws": 0},
    r"draws \(-3\) must be from 1": {"draws": -3},
    r"rate \(0\) must be above 0 and below 10": {"rate": 0},
    r"rate \(nan\) must be above 0": {"rate": float("nan")},
    r"rate \(10.0\) must be above 0 and below 10": {"rate": 10.0},
    r"softmax \(1\) must be True or False": {"softmax": 1},
    r"prior_weight \(5.0\) must come with softmax=True": {"prior_weight": 5.0, "softmax": False},
    r"prior_weight \(-1.0\) must be above 0": {"prior_weight": -1},
    r"seed \(-1\) must be from 0": {"seed": -1},
    r"rounds \(0\) must be positive": {"rounds": 0},
    r"per_round \(0\) must be positive": {"per_round": 0},
    r"rounds \(3\) must not be given with select='all'": {"rounds": 3, "select": "all"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_options_are_refused(message):
    with pytest.raises((TypeError, ValueError), match="^" + message):
        pmw.RAP(**REFUSED[message])


def test_public_rows_are_refused_before_anything_is_spent(nothing_is_asked):
    mechanism = rap().calibrate(rho=0.3)
    for call in (
        lambda: mechanism(private(), support(), WORKLOAD),
        lambda: mechanism.plan(support(), WORKLOAD),
        lambda: pmw.RAP().release(private(), support(), WORKLOAD, rho=0.3),
    ):
        with pytest.raises(ValueError, match=r"^support \(.*\) must be None: RAP makes its rows itself"):
            call()
    with pytest.raises(TypeError, match=r"^support \('public'\) must be a Support"):
        mechanism(private(), "public", WORKLOAD)
    with pytest.raises(ValueError, match=r"^per_round \(99\) must be at most the number of marginals, 10"):
        rap("rounds", per_round=99).calibrate(rho=0.3)(private(), None, WORKLOAD)


def test_attributes_of_one_value_only_are_released_too():
    domain = pmw.Domain({"a": 1, "b": 1})
    table = pmw.Table.from_codes(np.zeros((30, 2), np.uint8), domain, private=True)
    algorithm = pmw.RAP(select="all", **SMALL)
    release = algorithm.release(table, None, pmw.Workload.all(domain, k=2), rho=0.1, rng=1)
    assert release.answers().tolist() == [1.0]
