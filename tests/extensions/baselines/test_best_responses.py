"""DualQuery and FEM: what they cost, how many rounds, releases without a measurement, refusals."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import DOMAIN, WORKLOAD, EndedError, N, private, support
from extensions.cluster.thread_ranks import run_ranks
from kernels.cases import door_of, installed
from privmw import FEM, Budget, DualQuery, Support, Table, Workload
from privmw.accounting import Composition, ExponentialMechanism, rho_from_epsilon
from privmw.extensions.baselines.fem import DRAW
from privmw.extensions.cluster import ShardedSupport
from privmw.report import write_report

KINDS = {
    "DualQuery": DualQuery(rounds=8, samples=6),
    "DualQuery, public rows": DualQuery(rounds=8, samples=6, oracle="support"),
    "DualQuery, exact": DualQuery(rounds=4, samples=6, oracle="exact"),
    "FEM": FEM(rounds=8, samples=5),
    "FEM, public rows": FEM(rounds=8, samples=5, oracle="support"),
}


def release_of(name, table=None, rows=None, rng=5, **options):
    mechanism = KINDS[name].calibrate(rho=0.5)
    return mechanism(table or private(), rows or support(), WORKLOAD, rng=rng, **options)


@pytest.mark.parametrize("budget", [Budget.zcdp(0.013), Budget.pure(2), Budget.approximate(1, 1e-7, "zCDP")])
@pytest.mark.parametrize("algorithm", [DualQuery(rounds=9, samples=4), FEM(rounds=9)], ids=repr)
def test_all_draws_fit_the_budget_and_waste_nothing(algorithm, budget):
    total = Composition.of(algorithm.looks(budget))
    assert budget.allows(total)
    spent = total.epsilon if budget.notion == "pure" else total.rho
    assert float(spent / budget.limit) == pytest.approx(1, rel=1e-12)


def test_draws_of_round_t_have_t_times_the_epsilon_of_the_first():
    release = DualQuery(rounds=7, samples=3).calibrate(rho=0.2)(private(), None, WORKLOAD, rng=1)
    events = release.ledger.events
    first = Fraction(events[0].epsilon_of_one)
    assert [Fraction(event.epsilon_of_one) for event in events] == [t * first for t in range(1, 8)]
    assert all(isinstance(e, ExponentialMechanism) and e.count == 3 for e in events)
    assert {event.candidates for event in events} == {2 * WORKLOAD.cells}
    # (2 eta t / n)^2 / 8 each, eta = n epsilon_1 / 2: the whole is rho.
    eta = N * float(first) / 2
    cost = sum(3 * (2 * eta * t / N) ** 2 / 8 for t in range(1, 8))
    assert cost == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize(("samples", "eta"), [(25, 2.0), (50, 1.0), (10, 5.0)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_rounds_follow_from_eta_by_the_rule(samples, eta, epsilon):
    n = 43_944
    mechanism = DualQuery(samples=samples, eta=eta).calibrate(epsilon, n=n)
    rho = float(rho_from_epsilon(epsilon, n**-2))
    records = (6 * n**2 * rho / (samples * eta**2)) ** (1 / 3)
    assert mechanism.algorithm.rounds + 1 == round(records)
    first = float(mechanism.events[0].cost_of_one.epsilon)
    assert n * first / 2 == pytest.approx(eta, rel=3 / records)  # the rate that spends the budget
    assert mechanism.epsilon(n**-2) <= epsilon
    # The records of a unit move scores so many times as far: fewer rounds at the same rate.
    unit = DualQuery(samples=samples, eta=eta).calibrate(epsilon, n=n, at_most=4)
    assert unit.algorithm.rounds + 1 == max(round(records / 4 ** (2 / 3)), 2)


def test_rounds_of_fem_follow_from_epsilon_by_the_rule():
    n = 48_842
    mechanism = FEM().calibrate(1.0, n=n)
    assert mechanism.algorithm.rounds == int(8 * float(rho_from_epsilon(1.0, n**-2)) / DRAW**2)
    (event,) = mechanism.events
    assert float(event.cost_of_one.epsilon) == pytest.approx(DRAW, rel=1e-2)
    by_rho = FEM().calibrate(rho=mechanism.rho, n=n)
    assert abs(by_rho.algorithm.rounds - mechanism.algorithm.rounds) <= 1
    assert FEM().calibrate(1.0, 0).algorithm.rounds == int(1 / DRAW)


def test_a_mechanism_says_its_growing_cost_in_few_lines():
    statement = DualQuery(rounds=50, samples=7).calibrate(1.0, 1e-7).statement()
    assert len(statement.splitlines()) == 2
    assert "draw: exponential-mechanism, 7 times, each rho = " in statement
    assert "growing over 50 rounds to rho = " in statement
    plan = DualQuery(rounds=50, samples=7).calibrate(1.0, 1e-7).plan(None, WORKLOAD, n=N)
    assert "50 rounds" in str(plan)
    assert "nothing is measured" in str(plan)
    assert plan.noise == ()
    assert plan.seconds > 0


@pytest.mark.parametrize("name", KINDS)
def test_a_release_without_a_measurement_works_everywhere(name, tmp_path):
    release = release_of(name)
    assert release.measurements == ()
    assert len(release.history) == KINDS[name].rounds
    assert all(math.isnan(entry.discrepancy) for entry in release.history)
    assert release.agreement().agrees
    assert len(release.agreement().cells) == 0
    release.save(tmp_path / "x.release")
    assert pmw.load_release(tmp_path / "x.release") == release
    errors = pmw.evaluate(release, private())
    counts = private().counts(WORKLOAD) / N
    assert errors.max_error == pytest.approx(np.abs(release.answers() - counts).max())
    assert release.sample(100, seed=1).n == 100
    assert release.growth().rows == release.support.size


def test_the_report_of_a_release_without_a_measurement_says_so(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    release = release_of("DualQuery")
    write_report(tmp_path / "report.html", release, evaluation=pmw.evaluate(release, private()))
    page = (tmp_path / "report.html").read_text()
    assert "each round drew cells" in page
    assert "do not rest on the private table" not in page
    assert "no noisy count tells how far the answers are off" in page


def test_a_file_whose_draws_are_no_signed_cells_is_refused(tmp_path):
    release = release_of("DualQuery")
    for chosen in ((), (0,) * 5 + (2 * WORKLOAD.cells,)):
        history = [*release.history[:-1], dataclasses.replace(release.history[-1], chosen=chosen)]
        edited = pmw.Release(
            release.support,
            WORKLOAD,
            release.weights,
            ledger=release.ledger,
            settings=release.settings,
            history=history,
        )
        with pytest.raises(ValueError, match="must"):
            edited.save(tmp_path / "x.release")


@pytest.mark.parametrize("name", [name for name in KINDS if "public" in name])
def test_public_rows_as_the_oracles_domain_are_all_that_is_released(name):
    release = release_of(name)
    assert release.support == support()
    assert release.growth().grown_rows == 0


def test_a_bag_of_records_is_released_by_their_counts():
    release = release_of("DualQuery", rows=Support.without_public(DOMAIN))
    assert np.isclose(release.weights * 9, np.rint(release.weights * 9)).all()
    assert release.support.records == 0


@pytest.mark.parametrize("name", ["DualQuery", "FEM"])
def test_more_budget_brings_the_records_nearer(name):
    start = np.abs(release_of(name).answers() - private().counts(WORKLOAD) / N).max()
    kind = type(KINDS[name])
    mechanism = kind(rounds=60, samples=20).calibrate(rho=20)
    errors = [
        pmw.evaluate(mechanism(private(), None, WORKLOAD, rng=seed), private()).max_error for seed in (1, 2)
    ]
    assert max(errors) < 0.06
    # Draws that do not look at the table bring nothing.
    blind = kind(rounds=60, samples=20).calibrate(rho=1e-12)
    assert pmw.evaluate(blind(private(), None, WORKLOAD, rng=1), private()).max_error > 2 * max(errors)
    assert start > 0


@pytest.mark.parametrize("name", ["DualQuery", "DualQuery, public rows", "FEM"])
def test_a_run_that_ended_goes_on_with_the_same_bits_and_draws_nothing_twice(name, tmp_path):
    whole = release_of(name, checkpoint=tmp_path / "whole", every=3)
    assert release_of(name, checkpoint=tmp_path / "whole", every=3) == whole
    (tmp_path / "whole" / "weights.json").unlink()
    assert release_of(name, checkpoint=tmp_path / "whole", every=3) == whole

    def end(entry):
        if entry.round == 5:
            raise EndedError

    with pytest.raises(EndedError) as ended:
        release_of(name, checkpoint=tmp_path / "ended", every=3, progress=end)
    resumed = release_of(name, checkpoint=tmp_path / "ended", every=3)
    assert resumed.history[:5] == whole.history[:5]
    assert resumed.ledger == whole.ledger
    assert resumed.ledger.events[:5] == ended.value.ledger.events


def test_a_stored_round_that_its_schedule_does_not_allow_is_refused():
    from privmw.algorithms.loop import Released
    from privmw.algorithms.schedule import ExpectedRounds

    algorithm, budget = DualQuery(rounds=4, samples=2), Budget.zcdp(1)
    expected = ExpectedRounds(algorithm.schedule, budget, algorithm.task(WORKLOAD))
    events = [expected.events(number, ()) for number in (1, 2)]
    expected.check(Released(2, (5, 5), (), 0.1), events[1], 2)  # with replacement
    expected.check(Released(2, (0, 2 * WORKLOAD.cells - 1), (), 0.1), events[1], 2)
    with pytest.raises(ValueError, match="must be 2 signed cells below"):
        expected.check(Released(2, (5, 2 * WORKLOAD.cells), (), 0.1), events[1], 2)
    with pytest.raises(ValueError, match="must be 2 signed cells below"):
        expected.check(Released(2, (5,), (), 0.1), events[1], 2)
    with pytest.raises(ValueError, match="events of round 2 must be those of its schedule"):
        expected.check(Released(2, (5, 5), (), 0.1), events[0], 2)  # charged as in the first round


@pytest.mark.parametrize("name", ["DualQuery", "FEM"])
def test_the_same_seed_gives_the_same_release_on_every_backend_and_number_of_threads(name):
    found = set()
    for backend in installed():
        with door_of(backend):
            for threads in (1, 5):
                release = release_of(name, rows=Support.without_public(DOMAIN), threads=threads)
                found.add((release.support.rows.tobytes(), release.weights.tobytes()))
    assert len(found) == 1
    assert release_of(name, rows=Support.without_public(DOMAIN), rng=6) != release


def test_a_unit_of_several_records_is_paid_for():
    table = private().capped(np.arange(N) // 3, unit="household", at_most=3)
    release = pmw.DualQuery(samples=5).release(table, None, WORKLOAD, rho=0.01, rng=1)
    alone = pmw.DualQuery(samples=5).release(private(), None, WORKLOAD, rho=0.01, rng=1)
    assert release.settings["rounds"] < alone.settings["rounds"]
    assert release.ledger.rho == pytest.approx(0.01, rel=1e-9)


def test_one_value_one_record_and_one_row_work():
    domain = pmw.Domain({"one": 1, "sex": 2})
    table = Table.from_codes([[0, 1]], domain, private=True)
    row = Support.from_table(Table.from_codes([[0, 0]], domain, private=False))
    for kind in (DualQuery, FEM):
        for rows, oracle in ((None, "local"), (row, "support"), (None, "exact")):
            algorithm = kind(rounds=2, samples=3, oracle=oracle)
            release = algorithm.release(table, rows, Workload.all(domain, k=1), rho=1.0)
            assert release.answers()[0] == 1


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        (DualQuery, {"samples": 0}, ValueError, r"samples \(0\) must be positive"),
        (DualQuery, {"samples": 2.5}, TypeError, r"samples \(2.5\) must be an integer"),
        (DualQuery, {"samples": 10**7}, ValueError, r"samples \(10000000\) must be at most 1,000,000"),
        (DualQuery, {"eta": 0}, ValueError, r"eta \(0\) must be above 0 and below 1000"),
        (DualQuery, {"eta": -1.0}, ValueError, r"eta \(-1.0\) must be above 0"),
        (DualQuery, {"eta": math.nan}, ValueError, r"eta \(nan\) must be above 0"),
        (DualQuery, {"eta": "2"}, TypeError, "eta .* must be a number"),
        (DualQuery, {"eta": 2.0, "rounds": 5}, ValueError, r"eta \(2.0\) must not be given with rounds"),
        (DualQuery, {"oracle": "best"}, ValueError, r"oracle \('best'\) must be one of 'local', 'support'"),
        (DualQuery, {"rounds": 0}, ValueError, r"rounds \(0\) must be positive"),
        (DualQuery, {"starts": 0}, ValueError, r"starts \(0\) must be positive"),
        (FEM, {"samples": 0}, ValueError, r"samples \(0\) must be positive"),
        (FEM, {"noise": -0.1}, ValueError, r"noise \(-0.1\) must be above 0"),
        (FEM, {"rounds": 10**6}, ValueError, r"rounds \(1000000\) must be at most 100,000"),
    ],
)
def test_options_that_mean_nothing_are_refused(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(**options)


def test_what_cannot_be_run_is_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(Table, "counts", lambda *_: pytest.fail("the private table was looked at"))
    table = Table.from_codes([[0, 0, 0, 0, 0]], DOMAIN, private=True)
    with pytest.raises(ValueError, match=r"support \(None\) must be a Support: oracle='support'"):
        pmw.DualQuery(rounds=2, oracle="support").release(table, None, WORKLOAD, rho=1)
    few = Table.from_codes([[0, 1]], pmw.Domain({"a": 3, "b": 2}), private=False)
    with pytest.raises(ValueError, match="must have every attribute"):
        pmw.FEM(rounds=2, oracle="support").release(
            table, Support.from_table(few, domain=DOMAIN), WORKLOAD, rho=1
        )
    with pytest.raises(TypeError, match="rounds must be given, or n"):
        DualQuery().calibrate(rho=1)
    with pytest.raises(ValueError, match=r"eta \(1e-06\) must be larger: it takes .* rounds"):
        DualQuery(eta=1e-6).calibrate(rho=1, n=10**6)
    for eta in (1e-200, 5e-324):  # whose squares are no floats
        for budget in ({"rho": 1e300}, {"epsilon": 1.0, "delta": 0}):
            with pytest.raises(ValueError, match="must be larger: it takes"):
                DualQuery(eta=eta).calibrate(**budget, n=10**6)
    with pytest.raises(ValueError, match="must be zCDP or pure"):
        DualQuery(rounds=3).schedule.looks(Budget.approximate(1, 1e-7, "advanced"))
    with pytest.raises(TypeError, match="must be a Support"):
        pmw.DualQuery(rounds=2).release(table, 7, WORKLOAD, rho=1)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="must come with scipy"):
        pmw.FEM(rounds=2, oracle="exact").release(table, None, WORKLOAD, rho=1)


def test_rows_on_several_ranks_are_refused_on_all_of_them():
    def program(comm):
        rows = ShardedSupport.of(support(), comm)
        with pytest.raises(ValueError, match=r"support \(on 2 ranks\) must lie on one rank"):
            KINDS["FEM, public rows"].calibrate(rho=1)(private() if comm.rank == 0 else None, rows, WORKLOAD)
        return True

    assert all(run_ranks(2, program))
