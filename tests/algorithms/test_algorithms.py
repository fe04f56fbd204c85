"""The algorithms from outside: bad input is refused unspent, and every backend makes the same release."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import pickle
import re
import subprocess
import sys
import typing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import privmw.accounting.noise
import privmw.algorithms.auto
import privmw.algorithms.configuration
import privmw.algorithms.loop
import privmw.algorithms.mw_pub
import privmw.algorithms.mwem
import privmw.algorithms.mwem_pub
import privmw.algorithms.plan
from algorithms.cases import DOMAIN, WORKLOAD, N, private, support, table
from kernels.cases import BACKENDS, load
from privmw import (
    MWEM,
    PEP,
    Domain,
    MWEMPub,
    MWPub,
    Support,
    Table,
    Workload,
    load_release,
)
from privmw.algorithms.configuration import ALGORITHMS
from privmw.models.targets import Targets
from privmw.models.weighted_rows import WeightedRows
from privmw.release.measurements import Measurement
from privmw.report.release.words import algorithm, settings_in_words

ALL = {"MWPub": MWPub, "MWEMPub": MWEMPub, "PEP": PEP}
OTHER = Domain({"a": 3, "b": 2, "c": 5, "d": 1, "e": 2})
OTHER_TABLE = Table.from_codes([[0, 0, 4, 0, 0]] * 2, OTHER, private=False)
OTHER_PRIVATE = Table.from_codes([[0, 0, 4, 0, 0]] * 2, OTHER, private=True)


@pytest.fixture
def no_door(monkeypatch):
    """Nothing may be looked at, let alone spent."""

    def opened(*args, **options):
        raise AssertionError("the private table was handed to the curator")

    monkeypatch.setattr(privmw.curator.on_ranks, "Curator", opened)


def run(kind=MWPub, **options):
    """A release of two rounds; options of the algorithm and of the run."""
    given = {"private": private(), "support": support(), "workload": WORKLOAD}
    configured = {"rounds": 2}
    for name, value in options.items():
        (given if name in inspect.signature(kind.release).parameters else configured)[name] = value
    if "rho" not in given:
        given.setdefault("epsilon", 1.0)
    return kind(**configured).release(**given)


NAN, INF = math.nan, math.inf
BAD_OPTIONS = [
    *[({"rounds": bad}, ValueError, r"rounds \(.*\) must be positive") for bad in (0, -1)],
    *[({"rounds": bad}, TypeError, r"rounds \(.*\) must be an integer") for bad in (True, 1.0, "1", [1])],
    *[({"per_round": bad}, ValueError, r"per_round \(.*\) must be positive") for bad in (0, -3)],
    *[({"per_round": bad}, TypeError, r"per_round \(.*\) must be an integer") for bad in (True, 2.0, None)],
    (
        {"per_round": WORKLOAD.cells + 1},
        ValueError,
        r"per_round \(56\) must be at most the number of cells, 55",
    ),
    ({"per_round": 11, "measure": "marginal"}, ValueError, "must be at most the number of marginals, 10"),
    *[
        ({"split": bad}, ValueError, r"split \(.*\) must be above 0 and below 1")
        for bad in (0, 1, -0.5, NAN, INF)
    ],
    *[({"split": bad}, TypeError, r"split \(.*\) must be a number") for bad in (True, "0.5", None)],
    *[({"warm_up": bad}, ValueError, r"warm_up \(.*\) must be above 0 and") for bad in (1, -0.1, NAN, INF)],
    *[({"warm_up": bad}, TypeError, r"warm_up \(.*\) must be a number") for bad in (True, False, "0", None)],
    *[
        ({"select": bad}, ValueError, r"select \(.*\) must be one of")
        for bad in ("best", None, 1, np.arange(2))
    ],
    *[({"measure": bad}, ValueError, r"measure \(.*\) must be one of") for bad in ("row", ["cell"])],
    ({"select": "all"}, ValueError, r"rounds \(2\) must not be given with select='all'"),
    ({"select": "all", "rounds": None, "warm_up": 0.5}, ValueError, r"warm_up \(0.5\) must be 0"),
    ({"order": 1}, ValueError, r"order \(1\) must come with"),
    ({"order": 0, "warm_up": 0.5}, ValueError, r"order \(0\) must be positive"),
    ({"order": True, "warm_up": 0.5}, TypeError, r"order \(True\) must be an integer"),
    ({"order": 6, "warm_up": 0.5}, ValueError, r"order \(6\) must be at most the number of attributes, 5"),
    ({"round": 3}, TypeError, r"option \('round'\) must be one of .*rounds"),
    ({"epsilon": None}, TypeError, "exactly one of epsilon and rho"),
    ({"rho": 1, "epsilon": 1}, TypeError, "exactly one of epsilon and rho"),
    ({"rho": 1, "delta": 1e-9}, TypeError, r"delta \(1e-09\) must come with epsilon"),
    *[({"epsilon": bad}, ValueError, r"epsilon \(.*\) must be positive") for bad in (0, -1, NAN, INF)],
    *[({"epsilon": bad}, TypeError, r"epsilon \(.*\) must be a number") for bad in (True, "1", [1])],
    *[({"rho": bad}, ValueError, r"rho \(.*\) must be positive") for bad in (0, -1, NAN, INF)],
    *[({"delta": bad}, ValueError, r"delta \(.*\) must be above 0") for bad in (1, -1e-9, NAN, INF)],
    *[({"delta": bad}, TypeError, r"delta \(.*\) must be a number") for bad in (True, False, "0")],
    *[({"threads": bad}, (TypeError, ValueError), r"threads \(.*\) must be") for bad in (0, 1.5, "2", True)],
    ({"progress": 3}, TypeError, r"progress \(3\) must be callable"),
    ({"private": "rows"}, TypeError, r"private \(str\) must be a Table"),
    ({"support": private()}, TypeError, r"support \(Table\) must be a Support"),
    ({"workload": [("a",)]}, TypeError, r"workload \(list\) must be a Workload"),
    ({"workload": Workload.all(OTHER, k=2)}, ValueError, "workload .* must be on the domain of the support"),
    ({"support": Support.from_table(OTHER_TABLE)}, ValueError, "must be on the domain of the support"),
    ({"private": table()}, ValueError, r"private \(a public table\) must be a private table"),
    ({"private": OTHER_PRIVATE}, ValueError, "private must be on the domain of the support"),
    ({"workload": Workload(DOMAIN, [])}, ValueError, "must have at least one cell"),
]


@pytest.mark.parametrize("message", {message: None for *_, message in BAD_OPTIONS})
def test_bad_input_is_refused_before_anything_is_spent(message, no_door):
    for options, error, rule in BAD_OPTIONS:
        if rule == message:
            with pytest.raises(error, match=message):
                run(**options)


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        (
            MWPub,
            {"replay": "twice"},
            ValueError,
            r"replay \('twice'\) must be one of 'none', 'paper', 'fresh'",
        ),
        (MWPub, {"output": None}, ValueError, r"output \(None\) must be one of"),
        (MWEM, {"start": "private"}, ValueError, r"start \('private'\) must be one of"),
        (PEP, {"slack": "l3"}, ValueError, r"slack \('l3'\) must be one of"),
        (PEP, {"gamma": 0.1}, ValueError, r"gamma \(0.1\) must come with slack='l1'"),
        *[
            (PEP, {"slack": "l1", "gamma": bad}, ValueError, r"gamma \(.*\) must be above 0 and below 1")
            for bad in (-0.1, 1, NAN)
        ],
        (PEP, {"slack": "l1", "gamma": True}, TypeError, r"gamma \(True\) must be a number"),
        *[
            (PEP, {"prior_weight": bad}, ValueError, r"prior_weight \(.*\) must be")
            for bad in (0, -1, NAN, INF)
        ],
        (PEP, {"prior_weight": True}, TypeError, r"prior_weight \(True\) must be a number"),
        (MWPub, {"gamma": 0.1}, TypeError, "gamma"),
    ],
)
def test_options_of_one_algorithm_are_checked_too(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(**options)


def test_a_rng_that_is_none_is_refused_before_anything_is_spent():
    for bad in ("3", 1.5, -1, True):
        with pytest.raises((TypeError, ValueError)) as caught:
            run(rng=bad)
        assert not getattr(caught.value, "ledger", None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MWPub(rounds=5).calibrate(rho=1e-30),
        lambda: MWPub(rounds=10**30).calibrate(rho=1),
        lambda: MWPub(rounds=5, warm_up=1e-30).calibrate(rho=1),
        lambda: MWEM(rounds=5).calibrate(1e-13, 0),
        lambda: MWEMPub(rounds=5).calibrate(1e-13, 1e-9),
        lambda: PEP(select="all").calibrate(rho=1e-30),
    ],
)
def test_a_budget_too_small_for_one_round_is_refused_before_any_data(make):
    with pytest.raises(ValueError, match="budget must be enough for one round"):
        make()


def test_a_budget_too_small_for_so_many_marginals_is_refused_before_any_look(no_door):
    just = 4.0 / (2 * privmw.accounting.noise.LARGEST_DRAWN_SCALE**2)  # two marginals at once
    alone = Workload(DOMAIN, [("a", "b")])
    mechanism = PEP(select="all").calibrate(rho=just)
    with pytest.raises(ValueError, match="budget must be enough"):
        mechanism(private(), support(), WORKLOAD)
    with pytest.raises(AssertionError, match="handed to the curator"):
        mechanism(private(), support(), alone)


def test_a_budget_beyond_any_float_is_refused():
    with pytest.raises(ValueError, match="beyond any float"):
        MWEM(rounds=3).calibrate(1e200, 0)


def test_errors_are_the_same_whatever_the_private_table():
    said = []
    for hidden in (private(), private(skew=0.2, seed=8)):
        said.append([])
        for options, *_ in BAD_OPTIONS:
            if "private" in options:
                continue
            with pytest.raises((TypeError, ValueError)) as caught:
                run(private=hidden, **options)
            said[-1].append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ALL)
def test_public_rows_equal_to_none_of_the_private_ones_are_re_weighted(name):
    rows = np.array([[2, 1, 3, 0, 1], [2, 1, 2, 0, 1], [1, 1, 3, 0, 1]])
    hidden = private().codes()
    hidden = hidden[~(hidden[:, np.newaxis] == rows).all(axis=2).any(axis=1)]
    release = run(
        ALL[name],
        private=Table.from_codes(hidden, DOMAIN, private=True),
        support=Support.from_table(Table.from_codes(rows, DOMAIN, private=False)),
        rounds=10,
        rng=1,
    )
    assert release.support.size == 3
    assert abs(release.weights.sum() - 1) < 1e-9


@pytest.mark.parametrize("name", ALL)
def test_a_private_table_of_one_record_and_a_support_of_one_row_work(name):
    one = Table.from_codes([[0, 1, 2, 0, 1]], DOMAIN, private=True)
    release = run(ALL[name], private=one, delta=1e-6, rng=1)
    assert release.n == 1
    single = run(ALL[name], support=Support.from_table(table(1, 1.0, 0)), rng=1)
    assert single.weights.tolist() == [1.0]
    with pytest.raises(ValueError, match="delta must be given for a private table of one record"):
        run(ALL[name], private=one)


def test_attributes_of_one_value_everywhere_work():
    domain = Domain({"a": 1, "b": 1})
    hidden = Table.from_codes([[0, 0]] * 5, domain, private=True)
    public = Support.full(domain)
    for kind in (MWPub, PEP):
        for options in ({"select": "all", "order": 2}, {"rounds": 2, "warm_up": 0.5, "order": 2}):
            release = kind(**options).release(hidden, public, Workload.all(domain, k=1), epsilon=1.0, rng=1)
            assert release.weights.tolist() == [1.0]


def test_a_delta_above_one_over_n_is_warned_of_in_the_statement():
    assert "WARNING: delta is above 1/n" in run(delta=2 / N, rng=1).statement()
    assert "WARNING" not in run(delta=0.5 / N, rng=1).statement()
    assert "WARNING" not in run(rng=1).statement()


def test_without_a_delta_it_is_one_over_n_squared():
    release = run(rng=1)
    assert release.ledger.budget.delta == float(Fraction(1, N**2))
    assert release.ledger.epsilon(1 / N**2) <= 1.0


def test_shorthands_and_mechanisms_give_the_same_release():
    shorthand = run(rounds=4, epsilon=0.5, delta=1e-7, rng=2, measure="marginal", threads=2)
    mechanism = MWPub(rounds=4, measure="marginal").calibrate(0.5, 1e-7)
    assert mechanism(private(), support(), WORKLOAD, rng=2) == shorthand
    pure = MWEM(rounds=3).release(private(), None, WORKLOAD, epsilon=1, delta=0, rng=2)
    full = Support.full(DOMAIN)
    assert pure == MWEM(rounds=3).release(private(), full, WORKLOAD, epsilon=1, delta=0, rng=2)
    with pytest.raises(TypeError, match=r"workload \('all'\) must be a Workload"):
        MWEM().release(private(), None, "all", epsilon=1)


def test_numbers_of_numpy_are_taken_as_plain_ones():
    plain = MWPub(rounds=200, per_round=2, split=0.25, warm_up=0.5, order=1)
    strange = MWPub(
        rounds=np.uint8(200),
        per_round=np.int32(2),
        split=np.float32(0.25),
        warm_up=np.float64(0.5),
        order=np.int8(1),
    )
    assert plain == strange
    assert plain.calibrate(rho=1).events == strange.calibrate(rho=np.int8(1)).events
    assert json.dumps(strange.calibrate(rho=1).settings()) == json.dumps(plain.calibrate(rho=1).settings())


def test_an_algorithm_is_a_value():
    algorithm = MWPub(rounds=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        algorithm.rounds = 4
    assert algorithm == MWPub(rounds=3) != MWPub(rounds=4)
    assert len({algorithm, MWPub(rounds=3), MWEM(rounds=3)}) == 2
    assert pickle.loads(pickle.dumps(algorithm.calibrate(rho=1))) == algorithm.calibrate(rho=1)


def test_settings_and_history_survive_a_file(tmp_path):
    for release in (run(rng=1, warm_up=0.5, order=1), run(PEP, rng=1)):
        release.save(tmp_path / "x.release", overwrite=True)
        assert load_release(tmp_path / "x.release") == release
        assert release.settings["rounds"] == 2


@pytest.mark.parametrize("unit", ["cell", "marginal"])
def test_a_plan_says_what_a_run_will_need(unit):
    mechanism = MWPub(rounds=8, measure=unit, warm_up=0.5, order=1).calibrate(rho=0.5)
    plan = mechanism.plan(support(), WORKLOAD, n=N)
    shot, rounds = plan.noise
    assert shot.scale == pytest.approx(math.sqrt((2 * 4 + 1) / (2 * 0.25)))  # one attribute has one value
    each = math.sqrt(8 / 0.25)  # 1 / epsilon0
    assert rounds.scale == pytest.approx(each * (math.sqrt(2) if unit == "marginal" else 1))
    assert rounds.fraction == pytest.approx(rounds.scale / N)
    assert (plan.rounds, plan.rows, plan.marginals) == (8, support().size, 15)
    assert plan.bytes > 8 * plan.cells
    assert plan.seconds >= plan.evaluation > 0
    assert "8 rounds" in str(plan)
    release = mechanism(private(), support(), WORKLOAD, rng=1)
    assert release.measurements[0].scale == shot.scale
    assert max(m.scale for m in release.measurements[1:]) <= rounds.scale * (1 + 1e-12)
    assert mechanism.plan(support(), WORKLOAD).noise[0].fraction is None
    with pytest.raises(ValueError, match=r"n \(0\) must be positive"):
        mechanism.plan(support(), WORKLOAD, n=0)


RELEASES = {"of an algorithm": MWPub().release, "auto": privmw.release_auto}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_refuses_an_option_that_it_does_not_have(name):
    with pytest.raises(
        TypeError, match=r"option \('epslion'\) must be one of .*delta.*; did you mean epsilon"
    ):
        RELEASES[name](private(), support(), WORKLOAD, epslion=1)


@pytest.mark.parametrize(
    "algorithm", [MWPub, MWEM, MWEMPub, PEP, privmw.RAP, privmw.GEM, privmw.DualQuery, privmw.FEM]
)
def test_every_option_is_documented_with_its_default(algorithm):
    documented = dict(re.findall(r"^    (\w+) : (.*)$", algorithm.__doc__, re.M))
    assert documented.keys() == {field.name for field in dataclasses.fields(algorithm)}
    for field in dataclasses.fields(algorithm):
        default = "optional" if field.default is None else f"default {field.default!r}"
        assert documented[field.name].endswith(f", {default}"), field.name


def test_a_new_algorithm_is_known_by_its_class_alone():
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Mine(MWPub):
        twist: int = 3

        method: ClassVar[str] = "mine"
        about: ClassVar[str] = "a way of my own"
        meanings: ClassVar[dict[str, str]] = {"twist": "how often it turns"}

    try:
        release = Mine(rounds=2).release(private(), support(), WORKLOAD, rho=0.5, rng=0)
        assert algorithm(release.settings) == "a way of my own"
        assert ("twist", "3", "how often it turns") in settings_in_words(release.settings)
    finally:
        assert ALGORITHMS.pop("Mine").method == "mine"
    assert algorithm(release.settings) == "an algorithm named Mine"


def test_particles_reach_the_algorithm():
    release = PEP(rounds=1, particles=100).release(private(), support(), WORKLOAD, rho=1.0, rng=1)
    assert release.settings["particles"] == 100
    assert release.history[-1].details["grown_rows"] > 0


def test_a_configuration_without_a_budget_says_what_is_missing():
    with pytest.raises(TypeError, match=r"MWPub has no budget: calibrate it first"):
        MWPub(rounds=5)(private(), support(), WORKLOAD)
    with pytest.raises(TypeError, match=r"delta \(None\) must be given, or n"):
        MWPub(rounds=5).calibrate(1.0)
    with pytest.raises(TypeError, match="exactly one of epsilon and rho"):
        MWPub(rounds=5).calibrate(1.0, 1e-6, rho=1)
    assert MWPub().calibrate(1.0, n=1000) == MWPub().calibrate(1.0, 1e-6)
    for n in (1, 10**200):  # 1 / n^2 is 1, or 0 as a float
        with pytest.raises(ValueError, match="delta must be given"):
            MWPub().calibrate(1.0, n=n)
    with pytest.raises(TypeError, match=r"n .* must be an integer"):
        MWPub().calibrate(rho=1, n="many")


@pytest.mark.parametrize("name", RELEASES)
def test_the_annotations_of_a_release_can_be_resolved(name):
    assert typing.get_type_hints(RELEASES[name])["return"] is privmw.Release


TRIED = [
    "plain",
    "three a round",
    "paper",
    "paper, warm-up",
    "fresh",
    "two marginals a round",
    "all, order 1",
]
PROGRAM = """
import json, sys
sys.path[:0] = {path!r}
from algorithms.cases import FULL, MW_OPTIONS, WORKLOAD, private, support
from privmw import MWEM, PEP, MWPub, kernels
found = {{"backend": kernels.backend()}}
for name in {names!r}:
    for threads in (1, 5):
        release = MWPub(**{{"rounds": FULL["rounds"], **MW_OPTIONS[name]}}).release(
            private(), support(), WORKLOAD, rho=0.5, threads=threads, rng=FULL["rng"]
        )
        chosen = [entry.chosen for entry in release.history]
        found[f"{{name}}, {{threads}}"] = [release.weights.tobytes().hex(), chosen]
pure = MWEM(rounds=5).release(private(), None, WORKLOAD, epsilon=1.0, delta=0, rng=1)
found["pure"] = [pure.weights.tobytes().hex(), [e.chosen for e in pure.history]]
for slack, measure in (("l2", "marginal"), ("l2", "cell"), ("l1", "cell")):
    for threads in (1, 5):
        release = PEP(rounds=5, slack=slack, measure=measure, prior_weight=300.0).release(
            private(), support(), WORKLOAD, rho=0.5, rng=1, threads=threads
        )
        found[f"PEP, {{slack}}, {{measure}}, {{threads}}"] = [
            release.answers().tolist(), [e.chosen for e in release.history]
        ]
print(json.dumps(found))
"""


def on(backend, directory):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM.format(path=[str(Path(__file__).parents[1])], names=TRIED),
        ],
        env={**os.environ, "PRIVMW_BACKEND": backend},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("backend") == backend
    return found


def test_the_same_seed_gives_the_same_release_on_every_backend_and_number_of_threads(tmp_path):
    tried = [backend for backend in BACKENDS if load(backend) is not None]
    if len(tried) < 2:
        pytest.skip("numpy alone is installed: there is nothing to compare it with")
    found = {backend: on(backend, tmp_path) for backend in tried}
    first = found[tried[0]]
    for other in found.values():
        for name, (result, chosen) in other.items():
            expected, expected_choices = first[name[:-1] + "1" if name[-1] in "15" else name]
            assert chosen == expected_choices, name
            if name.startswith("PEP"):
                np.testing.assert_allclose(result, expected, atol=1e-9)
            else:
                assert result == expected, name


# What is run, and the share of the start's largest error that its release must stay below.
IMPROVING = {
    "MWPub": (MWPub, {"rounds": 30, "output": "last"}, 0.45),
    "MWPub, fresh": (MWPub, {"rounds": 30, "output": "last", "replay": "fresh"}, 0.25),
    "MWPub, marginals": (MWPub, {"rounds": 15, "output": "last", "measure": "marginal"}, 0.45),
    "MWEMPub": (MWEMPub, {"rounds": 15, "measure": "marginal", "replay": "paper"}, 0.45),
    "PEP": (PEP, {"rounds": 10, "prior_weight": 100.0}, 0.15),
    "PEP, all": (PEP, {"select": "all", "prior_weight": 100.0}, 0.15),
    "PEP, l1": (PEP, {"rounds": 20, "measure": "cell", "slack": "l1"}, 0.2),
}


def improves(name):
    kind, options, share = IMPROVING[name]
    release = kind(**options).release(private(), support(), WORKLOAD, epsilon=3.0, rng=7)
    true = private().counts(WORKLOAD) / N
    before, after = (np.abs(found - true).max() for found in (support().answers(WORKLOAD), release.answers()))
    return after <= share * before


@pytest.mark.parametrize("name", IMPROVING)
def test_a_release_is_far_nearer_than_its_start(name):
    assert improves(name)


def wrong_sign(monkeypatch):
    step, replace = WeightedRows.multiply, WeightedRows.replace

    def replaced(self, weights):
        before = getattr(self, "before", self.support.start())
        replace(self, before**2 / np.maximum(weights / weights.sum(), 1e-30))
        self.before = self.distribution()

    monkeypatch.setattr(WeightedRows, "multiply", lambda self, rows, factor: step(self, rows, 1 / factor))
    monkeypatch.setattr(WeightedRows, "replace", replaced)
    monkeypatch.setattr(WeightedRows, "move", replaced)


def answers_of_other_cells(monkeypatch):
    answers = Targets.answers
    monkeypatch.setattr(Targets, "answers", lambda self, cells: answers(self, cells)[::-1] * 0.5)


def counts_taken_for_fractions(monkeypatch):
    add = Targets.add

    def added(self, given):
        many = Measurement(given.cells, given.noisy_counts * self.n, given.noise, given.scale, given.round)
        return add(self, many)

    monkeypatch.setattr(Targets, "add", added)


def noise_a_hundred_times_as_large(monkeypatch):
    add = Targets.add

    def added(self, given):
        noise = np.random.default_rng(len(self.cells)).normal(0, 100 * given.scale, len(given))
        noisy = given.noisy_counts + np.rint(noise).astype(np.int64)
        return add(self, Measurement(given.cells, noisy, given.noise, given.scale, given.round))

    monkeypatch.setattr(Targets, "add", added)


@pytest.mark.parametrize("name", IMPROVING)
@pytest.mark.parametrize(
    "bug", [wrong_sign, answers_of_other_cells, counts_taken_for_fractions, noise_a_hundred_times_as_large]
)
def test_the_same_check_finds_planted_bugs(name, bug, monkeypatch):
    bug(monkeypatch)
    assert not improves(name)


@pytest.mark.parametrize("slack", ["l1", "l2"])
def test_a_measured_cell_without_a_row_does_not_end_a_run_that_measures_a_marginal_of_one_cell(slack):
    domain = privmw.Domain({"a": 1, "b": 3})
    support = privmw.Support.from_table(privmw.Table.from_codes([[0, 0], [0, 1]], domain, private=False))
    private = privmw.Table.from_codes([[0, 0], [0, 1], [0, 2]] * 20, domain, private=True)
    workload = privmw.Workload.all(domain, k=1)
    for seed in range(20):
        mechanism = privmw.PEP(rounds=6, measure="cell", slack=slack).calibrate(rho=1e-3)
        release = mechanism(private, support, workload, rng=seed)
        assert len(release.history) == 6
