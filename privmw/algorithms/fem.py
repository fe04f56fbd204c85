"""FEM (Vietri et al., "New oracle-efficient algorithms for private synthetic data release", 2020).

Follow the perturbed leader, and choose by the exponential mechanism: a round compares a bag of records with
the private table, draws the signed cell on which it errs most, and makes the next bag, of best responses to
all cells drawn so far, each with its own perturbation of the scores. All draws have the same epsilon. What is
drawn last is used too, and the draws together cost the budget and no round more (the authors' code checks the
budget after it has drawn).
"""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass

from privmw.accounting import Budget, epsilon_from_rho
from privmw.accounting.rounding import Real
from privmw.algorithms.accounted import AccountPath
from privmw.algorithms.loop import Model, Progress
from privmw.algorithms.options import lists_options
from privmw.algorithms.question import Question, check_inputs
from privmw.algorithms.responding import MOST_ROUNDS, Responding
from privmw.algorithms.schedule import Schedule
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.models.bag import PerturbedLeader
from privmw.models.oracle import Kind, make_oracle
from privmw.random import Rng
from privmw.release import Release

# epsilon of a draw = DRAW sqrt(epsilon): twice the authors' .008, whose draws cost four times as much rho.
DRAW = 0.016
LARGEST_NOISE = 1000.0


@dataclass(frozen=True, kw_only=True, repr=False)
class FEM(Responding):
    """Bags of best responses to all cells drawn so far, perturbed.

    samples: how many records a bag has. rounds: by default as many draws of epsilon .016 sqrt(epsilon) as
    spend the budget. noise: a perturbation has the mean noise sqrt(rounds), in queries satisfied.

    >>> mechanism = FEM().calibrate(epsilon=1.0, n=48_842)
    >>> mechanism.algorithm, [(event.step, event.count) for event in mechanism.events]
    (FEM(rounds=445), [('draw', 445)])
    """

    samples: int = 50
    starts: int = 5
    noise: float = 0.2

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        super().__post_init__()
        if self._number("noise") != 0:
            self._between("noise", 0, LARGEST_NOISE)

    def for_budget(self, budget: Budget, n: int | None, at_most: int = 1) -> FEM:
        """The rounds of the authors' rule; a budget of rho alone has the epsilon at delta = 1 / n^2."""
        if self.rounds is not None:
            return self
        epsilon = budget.epsilon
        if epsilon is None:
            if n is None:
                return self
            epsilon = epsilon_from_rho(float(budget.limit), float(n) ** -2) if n > 1 else 1.0
        each = DRAW * math.sqrt(float(epsilon))
        spent = each if budget.notion == "pure" else each**2 / 8
        rounds = max(int(float(budget.limit) / spent), 1)
        return dataclasses.replace(self, rounds=min(rounds, MOST_ROUNDS))

    @property
    def schedule(self) -> Schedule:
        """One draw a round."""
        return Schedule(self._rounds(), 1, None, 0, 0, draws="even")

    @property
    def responses(self) -> int:
        """How many records a round makes."""
        return self.samples

    def added_rows(self, support: Support) -> int:
        """At most how many rows the model makes beside the support."""
        return 0 if self.oracle == "support" else self.samples * (self._rounds() + 1)

    def model(self, support: Support, question: Question, n: int, threads: int | None) -> Model:
        """Bags of perturbed best responses."""
        oracle = make_oracle(self.oracle, support, question.workload, starts=self.starts, threads=threads)
        return PerturbedLeader(
            support,
            question.workload,
            oracle,
            samples=self.samples,
            noise=self.noise,
            rounds=self._rounds(),
        )


@lists_options
def release_fem(
    private: Records | None,
    support: Support | None,
    workload: Workload,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    rounds: int | None = None,
    samples: int = 50,
    oracle: Kind = "local",
    starts: int = 5,
    noise: float = 0.2,
    rng: Rng = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = 10,
    account: AccountPath = None,
    public_is_public: bool = False,
) -> Release:
    """Release by FEM; the options of the algorithm are those of `FEM`.

    A support of None is no public table; public rows are where climbs start, or what oracle="support" answers
    with.

    epsilon and delta, or rho: the budget; without a delta it is 1 / n^2. rng, threads, progress, checkpoint,
    every, account and public_is_public: as for a calibrated `Mechanism`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> release = release_fem(private, None, Workload.all(domain, k=2), epsilon=1.0, rounds=4)
    >>> len(release.measurements), len(release.history)
    (0, 4)
    """
    algorithm = FEM(rounds=rounds, samples=samples, oracle=oracle, starts=starts, noise=noise)
    rows = algorithm.public_rows(support, workload)
    size = check_inputs(private, rows, workload, completes=algorithm.completes)
    mechanism = algorithm.calibrate(epsilon, delta, rho=rho, n=size.n, at_most=size.at_most)
    return mechanism.run_checked(
        size, private, rows, workload, rng, threads, progress, checkpoint, every, account, public_is_public
    )
