"""Releases that grow: no public table, fewer columns, runs that are resumed, and what is refused."""

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import EndedError
from marks.slow import slow, slow_among
from models.grown_cases import (
    ALGORITHMS,
    CODES,
    DOMAIN,
    PRIVATE,
    RULES,
    SUPPORTS,
    WORKLOAD,
    drawn,
    lacking,
    released,
    table,
)
from privmw.algorithms import mechanism as mechanisms
from privmw.algorithms import plan
from privmw.algorithms.checkpoint import Checkpoint
from privmw.curator.curator import Curator
from privmw.models.growth import start

TRUTH = pmw.Support.from_table(table(CODES)).answers(WORKLOAD)
NONE = pmw.Support.without_public(DOMAIN)


@pytest.fixture
def nothing_is_asked(monkeypatch):
    """Fails where a curator is asked for anything: nothing may be spent."""

    def asked(self, *_, **__):
        raise AssertionError("the private table was asked")

    for name in ("measure", "select"):
        monkeypatch.setattr(Curator, name, asked)


# No public table.


def test_the_recommended_release_needs_no_public_table():
    release = pmw.release_auto(PRIVATE, None, WORKLOAD, epsilon=2, delta=1e-9, rng=1, threads=1)
    assert np.abs(release.answers() - TRUTH).max() < 0.03
    assert release.support.records == 0
    assert release.support.grown == release.support.size
    assert release.settings["particles"] > 0
    assert release.sample(1000).n == 1000
    assert "0 public records" in repr(release.support)


def test_a_projection_with_particles_needs_no_public_table():
    release = pmw.PEP(select="all", particles=150).release(PRIVATE, None, WORKLOAD, rho=0.3, rng=4)
    assert release == released(None)
    assert release == released(NONE)
    assert np.abs(release.answers() - TRUTH).max() < 0.05


def test_mwem_without_a_public_table_has_the_full_domain():
    release = pmw.MWEM(rounds=2).release(PRIVATE, None, WORKLOAD, rho=0.3, rng=1)
    assert release == pmw.MWEM(rounds=2).release(PRIVATE, pmw.Support.full(DOMAIN), WORKLOAD, rho=0.3, rng=1)
    called = pmw.MWEM(rounds=2).calibrate(rho=0.3)
    assert called(PRIVATE, None, WORKLOAD, rng=1) == release
    assert called.plan(None, WORKLOAD).rows == DOMAIN.size
    assert called.bytes_of_release(None, WORKLOAD) > 0


@pytest.mark.parametrize("algorithm", [pmw.MWPub(), pmw.MWEMPub(), pmw.PEP()])
def test_other_algorithms_say_that_they_need_public_rows(algorithm, nothing_is_asked):
    with pytest.raises(ValueError, match=r"support \(None\) must be a Support: \w+ re-weights public rows"):
        algorithm.release(PRIVATE, None, WORKLOAD, rho=0.3)


@pytest.mark.parametrize("algorithm", [pmw.MWPub(rounds=1), pmw.MWEMPub(rounds=1), pmw.MWEM(rounds=1)])
@pytest.mark.parametrize("name", ["fewer columns", "no public table"])
def test_other_algorithms_need_every_column(algorithm, name, nothing_is_asked):
    support = SUPPORTS[name]() or NONE
    mechanism = algorithm.calibrate(rho=0.3)
    for call in (
        lambda: mechanism(PRIVATE, support, WORKLOAD),
        lambda: mechanism.plan(support, WORKLOAD),
        lambda: mechanism.bytes_of_release(support, WORKLOAD),
    ):
        with pytest.raises(ValueError, match="must have every attribute of the domain"):
            call()


@pytest.mark.parametrize("name", ["fewer columns", *slow("fewer columns that keep rules")])
def test_fewer_columns_are_completed(name):
    rows = {tuple(row) for row in SUPPORTS[name]().rows[:, [0, 1]].tolist()}
    release = released(name)
    assert np.abs(release.answers() - TRUTH).max() < (0.05 if "rules" not in name else 0.3)
    assert release.support.missing == ()
    assert rows <= {tuple(row) for row in release.support.rows[:, [0, 1]].tolist()}


@pytest.mark.parametrize("name", SUPPORTS)
def test_a_plan_and_the_bytes_of_a_file_are_known_beforehand(name, nothing_is_asked):
    mechanism = ALGORITHMS["rounds"].calibrate(rho=0.3)
    found = mechanism.plan(SUPPORTS[name](), WORKLOAD, n=100)
    assert found.rows > 0
    assert found.seconds > 0
    assert mechanism.bytes_of_release(SUPPORTS[name](), WORKLOAD) > 0


def test_the_bytes_of_missing_columns_are_those_of_their_codes():
    wide = pmw.Domain({"zip": 70_000, "sex": 2})
    workload = pmw.Workload.all(wide, k=1)
    mechanism = pmw.PEP(select="all", particles=10_000).calibrate(rho=0.3)
    narrow = pmw.Domain({"zip": 200, "sex": 2})
    few = mechanism.bytes_of_release(pmw.Support.without_public(narrow), pmw.Workload.all(narrow, k=1))
    more = mechanism.bytes_of_release(pmw.Support.without_public(wide), workload)
    rows = mechanism.algorithm.most_rows(pmw.Support.without_public(wide))
    assert more - few >= 3 * rows  # codes of four bytes, not of one


# Units.


@pytest.mark.parametrize("name", ["rows that lack ages", *slow("no public table")])
def test_a_unit_of_several_records_is_protected_by_more_noise(name):
    capped = PRIVATE.capped(np.arange(PRIVATE.n) // 3, unit="household", at_most=3)
    one, three = released(name), released(name, private=capped)
    assert three.ledger.unit == "household of at most 3 records"
    assert three.measurements[0].scale == pytest.approx(3 * one.measurements[0].scale)
    assert three.support.grown > 0
    auto = pmw.release_auto(capped, SUPPORTS[name](), WORKLOAD, epsilon=1, delta=1e-9, rng=1, threads=1)
    assert auto.ledger.unit == three.ledger.unit


# Runs that ended early.


class Watched(Checkpoint):
    """Ends the run after so many events: a round is kept, or the model has learnt from it."""

    until: int | None = None
    seen = 0

    def _count(self):
        Watched.seen += 1
        if Watched.seen == Watched.until:
            raise EndedError

    def store_round(self, released, ledger):
        super().store_round(released, ledger)
        self._count()

    def store_state(self, history, model):
        super().store_state(history, model)
        self._count()


def ended(folder, until, name, algorithm, monkeypatch, **options):
    with monkeypatch.context() as patched:
        patched.setattr(mechanisms, "Checkpoint", Watched)
        patched.setattr(Watched, "until", until)
        patched.setattr(Watched, "seen", 0)
        with pytest.raises(EndedError):
            released(name, algorithm, checkpoint=folder, **options)


RESUMED = [
    pytest.param("rows that lack ages", "a shot and rounds", True, marks=pytest.mark.slow),
    ("rows that lack ages", "a shot and rounds", False),
    ("no public table", "rounds", True),
    pytest.param("fewer columns that keep rules", "cells", True, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("every", [1, *slow(2, None)])
@pytest.mark.parametrize(("name", "algorithm", "widened"), RESUMED)
def test_the_rounds_of_a_finished_run_make_the_same_release_wherever_it_ended(
    name, algorithm, widened, every, tmp_path, monkeypatch
):
    """Every stored state, up to the one that is never stored, leads to the same bits."""
    if not widened:
        monkeypatch.setattr(start, "LARGEST_WIDENED", 0)  # only then states are stored
    whole = released(name, algorithm, checkpoint=tmp_path / "whole", every=every)
    assert released(name, algorithm, checkpoint=tmp_path / "whole", every=every) == whole
    stored = (tmp_path / "whole" / "weights.json").exists()
    assert stored == (every is not None and not widened)
    steps = 2 * len(whole.history)
    # Killed after the last round was kept, before the model has learnt from it: nothing is left to draw.
    ended(tmp_path / "kept", steps - 1, name, algorithm, monkeypatch, every=every)
    assert released(name, algorithm, checkpoint=tmp_path / "kept", every=every) == whole
    ended(tmp_path / "learnt", steps, name, algorithm, monkeypatch, every=every)
    assert released(name, algorithm, checkpoint=tmp_path / "learnt", every=every) == whole


@pytest.mark.parametrize("until", [2, 3, *slow(1, 4, 5)])
@pytest.mark.parametrize("widened", [False, *slow(True)])
def test_a_run_that_is_resumed_at_any_round_goes_on_as_from_its_rounds_alone(
    until, widened, tmp_path, monkeypatch
):
    """Stored weights change nothing: without them all is learnt anew, and the rest is drawn from one seed."""
    if not widened:
        monkeypatch.setattr(start, "LARGEST_WIDENED", 0)
    found = []
    for every in (1, None):
        folder = tmp_path / str(every)
        ended(folder, until, "rows that lack ages", "a shot and rounds", monkeypatch, every=every)
        found.append(released("rows that lack ages", "a shot and rounds", checkpoint=folder, every=every))
    assert found[0] == found[1]
    assert found[0].ledger == released("rows that lack ages", "a shot and rounds").ledger


def test_a_checkpoint_of_other_constraints_is_another_run(tmp_path):
    released(NONE, "rounds", checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="must be of this run"):
        released("no public table, but rules", "rounds", checkpoint=tmp_path / "run")


# Refusals, before anything is spent.


def test_constraints_that_no_record_keeps_are_refused_before_anything_is_spent(nothing_is_asked, tmp_path):
    nobody = pmw.Constraints({"invalid": [{"sex": [0, 1]}]}, DOMAIN)
    account = pmw.Account.create(tmp_path / "account.jsonl", pmw.Budget.zcdp(1))
    with pytest.raises(ValueError, match="constraints must allow a row"):
        released(pmw.Support.without_public(DOMAIN, nobody), account=account)
    assert account.runs == ()


def test_a_fit_that_breaks_every_rule_still_ends_in_a_release():
    """Every private record breaks the rules: nothing that is fitted keeps them, and the release does."""
    codes = CODES.copy()
    codes[:, 0], codes[:, 4] = 0, 2
    release = released("no public table, but rules", private=table(codes, private=True), rho=50.0)
    assert release.answer(["age", "own"], [0, 2]) == 0
    assert RULES.allows(release.support.rows).all()


@pytest.mark.parametrize("particles", [0, -1, True, 1.5, "many", np.nan, 10**12, 99, 10_000_001])
def test_particles_are_a_number_of_records(particles):
    with pytest.raises((TypeError, ValueError), match=r"particles \(.*\) must be"):
        pmw.PEP(particles=particles)
    with pytest.raises((TypeError, ValueError), match=r"particles \(.*\) must be"):
        pmw.PEP(particles=particles).release(PRIVATE, None, WORKLOAD, rho=1)


def test_numpy_integers_are_numbers_of_particles():
    assert repr(pmw.PEP(particles=np.int32(100))) == "PEP(particles=100)"


@pytest.mark.parametrize("options", [{"slack": "l1"}, {"start": "uniform"}, {"prior_weight": 100.0}], ids=str)
def test_particles_need_a_chosen_weight_of_a_public_start(options):
    with pytest.raises(ValueError, match=r"particles \(500\) must come with slack='l2', start='public'"):
        pmw.PEP(particles=500, **options)


@pytest.mark.parametrize("name", ["rows that lack ages", "no public table"])
def test_particles_beyond_memory_are_refused(name, nothing_is_asked, monkeypatch):
    monkeypatch.setattr(plan, "available_memory", lambda: 2**28)
    with pytest.raises(ValueError, match=r"particles must fit in memory, and 5,0\d\d,\d\d\d rows need about"):
        released(name, pmw.PEP(rounds=1, particles=5_000_000))


def test_values_beyond_memory_are_refused_even_where_no_marginal_has_them(nothing_is_asked, monkeypatch):
    domain = pmw.Domain({"age": 6, "sex": 2, "number": 10**5})
    rows = [pmw.Table.from_codes([[1, 1, 7]], domain, private=private) for private in (True, False)]
    workload = pmw.Workload(domain, [("age", "sex")])
    monkeypatch.setattr(plan, "available_memory", lambda: 2**28)
    with pytest.raises(ValueError, match=r"100,008 values of attributes 0.8 GB: take fewer"):
        pmw.release_auto(rows[0], None, workload, rho=0.1)
    monkeypatch.setattr(plan, "available_memory", lambda: 2**24)
    with pytest.raises(ValueError, match=r"100,008 values of attributes 0.0 GB: take fewer"):
        pmw.release_auto(rows[0], pmw.Support.from_table(rows[1]), workload, rho=0.1)


@pytest.mark.parametrize("make", [pmw.Support.full, pmw.Support.without_public])
def test_a_support_on_another_domain_is_refused(make, nothing_is_asked):
    other = make(pmw.Domain({"age": 6, "sex": 2}))
    for call in (
        lambda: released(other),
        lambda: pmw.release_auto(PRIVATE, other, WORKLOAD, epsilon=1, delta=1e-9),
    ):
        with pytest.raises(ValueError, match="must be on the domain of the support"):
            call()
    strange = pmw.Table.from_codes([[0, 0]] * 9, other.domain, private=True)
    for call in (
        lambda: released(None, private=strange),
        lambda: pmw.release_auto(strange, None, WORKLOAD, epsilon=1, delta=1e-9),
    ):
        with pytest.raises(ValueError, match="private must be on the domain of the support"):
            call()


def test_rows_without_a_public_record_are_no_public_table(nothing_is_asked):
    """The support of a release without a public table; `as_public` gives one that can be used."""
    grown = pmw.Support.without_public(DOMAIN).with_rows(drawn(50, 1)).support
    for algorithm in (ALGORITHMS["rounds"], pmw.PEP(rounds=1)):
        with pytest.raises(ValueError, match="must have a public record: there are no public frequencies"):
            released(grown, algorithm)


def test_what_is_no_support_and_no_workload_is_refused(nothing_is_asked):
    with pytest.raises(TypeError, match=r"support \(Table\) must be a Support"):
        pmw.release_auto(PRIVATE, table(drawn(9, 1)), WORKLOAD, epsilon=1, delta=1e-9)
    with pytest.raises(TypeError, match=r"workload \(list\) must be a Workload"):
        pmw.release_auto(PRIVATE, None, [("age",)], epsilon=1, delta=1e-9)
    with pytest.raises(TypeError, match=r"private \(NoneType\) must be a Table"):
        pmw.release_auto(None, None, WORKLOAD, epsilon=1, delta=1e-9)


# Small and odd ones.

TINY = {
    "one attribute": {"a": 5},
    "two attributes": {"a": 3, "b": 4},
    "attributes of one value": {"a": 1, "b": 3, "c": 1},
    "one record": {"a": 1, "b": 1},
    "300 values": {"a": 300, "b": 2},
}


def sound(release):
    assert np.isfinite(release.weights).all()
    assert release.weights.min() >= 0
    assert release.weights.sum() == pytest.approx(1)
    assert release.history[-1].details["converged"] == 1


@pytest.mark.parametrize("public", ["no public table", "one row"])
@pytest.mark.parametrize("epsilon", [100.0, *slow(1e-3, 1.0)])
@pytest.mark.parametrize("name", TINY)
def test_small_domains_are_released_at_any_budget(name, epsilon, public):
    domain = pmw.Domain(TINY[name])
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, min(size, 9), 500) for size in domain.sizes], axis=1)
    private = pmw.Table.from_codes(codes, domain, private=True)
    row = pmw.Table.from_codes(codes[:1], domain, private=False)
    support = None if public == "no public table" else pmw.Support.from_table(row)
    workload = pmw.Workload.all(domain, k=min(2, len(domain)))
    sound(pmw.release_auto(private, support, workload, epsilon=epsilon, delta=1e-6, rng=1, threads=1))
    mechanism = pmw.PEP(rounds=2, measure="cell", particles=100).calibrate(epsilon, 1e-6)
    sound(mechanism(private, support, workload, rng=1, threads=1))


@pytest.mark.parametrize("name", ["no public table", *slow("rows that lack ages", "fewer columns")])
def test_one_private_record_is_enough(name):
    one = table(CODES[:1], private=True)
    sound(pmw.release_auto(one, SUPPORTS[name](), WORKLOAD, epsilon=1, delta=1e-6, rng=1, threads=1))


@pytest.mark.parametrize("algorithm", slow_among(ALGORITHMS, ["cells", "rounds", "a shot and rounds"]))
def test_a_workload_of_single_attributes_is_enough(algorithm):
    workload = pmw.Workload.all(DOMAIN, k=1)
    mechanism = ALGORITHMS[algorithm].calibrate(rho=0.3)
    for support in (lacking(), None):
        sound(mechanism(PRIVATE, support, workload, rng=1, threads=1))


def test_pure_privacy_grows_too():
    release = pmw.PEP(rounds=3, particles=150).release(
        PRIVATE, None, WORKLOAD, epsilon=5, delta=0, rng=1, threads=1
    )
    sound(release)
    assert release.measurements[0].noise == "discrete-laplace"


def test_several_public_tables_grow():
    tables = [table(drawn(100, seed, skew)) for seed, skew in ((1, 0.3), (2, 0.6))]
    release = released(pmw.Support.from_tables(tables))
    sound(release)
    assert release.support.blocks.shape[1] == 2
    assert release.support.grown > 0


def test_last_years_release_grows_again():
    first = released("no public table")
    sound(released(first.as_public(), private=table(drawn(3000, 9), private=True)))
