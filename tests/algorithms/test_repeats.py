"""Algorithms whose rounds never choose the same twice: what is excluded, charged, and refused."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

import privmw as pmw
from algorithms.cases import WORKLOAD, EndedError, private, support
from privmw.algorithms.loop import Released
from privmw.algorithms.schedule import ExpectedRounds
from privmw.algorithms.task import make_task


@dataclass(frozen=True, kw_only=True, repr=False)
class Once(pmw.MWPub):
    """MW-Pub whose rounds choose marginals, none twice."""

    measure: str = "marginal"
    repeats: ClassVar[bool] = False


def run(rounds, per_round=1, **options):
    algorithm = Once(rounds=rounds, per_round=per_round)
    return algorithm.calibrate(rho=0.5)(private(), support(), WORKLOAD, rng=3, **options)


@pytest.mark.parametrize(("rounds", "per_round"), [(10, 1), (5, 2), (2, 5)])
def test_every_marginal_is_chosen_once_where_there_are_as_many_choices(rounds, per_round):
    release = run(rounds, per_round)
    chosen = [choice for entry in release.history for choice in entry.chosen]
    assert sorted(chosen) == list(range(len(WORKLOAD)))
    # Each selection is charged among what was left; its cost does not depend on how many those are.
    candidates = [event.candidates for event in release.ledger.events if event.kind == "permute-and-flip"]
    assert candidates == [10 - per_round * number for number in range(rounds)]
    assert release.ledger.rho == Once(rounds=rounds, per_round=per_round).calibrate(rho=0.5).rho


def test_an_algorithm_that_may_repeat_does():
    release = pmw.MWPub(rounds=30, measure="marginal").calibrate(rho=0.5)(
        private(), support(), WORKLOAD, rng=3
    )
    assert len({entry.chosen for entry in release.history}) < 30


def test_when_everything_was_chosen_everything_may_be_chosen_again():
    release = run(23)
    chosen = [choice for entry in release.history for choice in entry.chosen]
    assert sorted(chosen[:10]) == sorted(chosen[10:20]) == list(range(10))
    assert len(set(chosen[20:])) == 3
    candidates = [event.candidates for event in release.ledger.events if event.kind == "permute-and-flip"]
    assert candidates == [*range(10, 0, -1), *range(10, 0, -1), 10, 9, 8]


def test_all_that_there_is_may_be_chosen_in_every_round():
    assert all(sorted(entry.chosen) == list(range(10)) for entry in run(3, 10).history)


def test_a_resumed_run_excludes_what_was_chosen_before(tmp_path):
    def end(entry):
        if entry.round == 4:
            raise EndedError

    with pytest.raises(EndedError):
        run(10, checkpoint=tmp_path / "c", progress=end)
    release = run(10, checkpoint=tmp_path / "c")
    assert sorted(choice for entry in release.history for choice in entry.chosen) == list(range(10))


def test_a_stored_round_that_repeats_an_earlier_choice_is_refused(tmp_path):
    mechanism = Once(rounds=3).calibrate(rho=0.5)
    release = mechanism(private(), support(), WORKLOAD, rng=3)
    task = make_task(WORKLOAD, None, "marginal")
    expected = ExpectedRounds(mechanism.algorithm.schedule, mechanism.budget, task)
    rounds = [
        Released(
            entry.round,
            entry.chosen,
            tuple(m for m in release.measurements if m.round == entry.round),
            entry.rho,
        )
        for entry in release.history
    ]
    events = expected.events(2, rounds[1].chosen)
    expected.check(rounds[1], events, 2, rounds[:1])
    with pytest.raises(ValueError, match="must not be what an earlier round chose"):
        expected.check(rounds[1], events, 2, [rounds[1]])
