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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from privmw.accounting import Budget, epsilon_from_rho
from privmw.algorithms.loop import Model
from privmw.algorithms.schedule import Schedule
from privmw.data.support import Support
from privmw.extensions.baselines.bag import PerturbedLeader
from privmw.extensions.baselines.oracle import make_oracle
from privmw.extensions.baselines.responding import MOST_RESPONSES, Responding
from privmw.models.inputs import ModelInputs

# epsilon of a draw = DRAW sqrt(epsilon): twice the authors' .008, whose draws cost four times as much rho.
DRAW = 0.016
LARGEST_NOISE = 1000.0


@dataclass(frozen=True, kw_only=True, repr=False)
class FEM(Responding):
    """Bags of best responses to all cells drawn so far, perturbed.

    Parameters
    ----------
    rounds : int, optional
        1 to 100,000. None takes as many draws of epsilon 0.016 sqrt(epsilon) as spend the budget.
    samples : int, default 50
        Records in a bag, 1 to 1,000,000.
    oracle : {'local', 'support', 'exact'}, default 'local'
        How the record with the largest score is found: by climbing from several records, as the best
        public row, or by an integer program, slowly.
    starts : int, default 5
        Records from which the local oracle climbs, 1 to 10,000.
    noise : float, default 0.2
        A perturbation has the mean noise sqrt(rounds), in queries satisfied; from 0 to below 1,000.

    Examples
    --------
    >>> mechanism = FEM().calibrate(epsilon=1.0, n=48_842)
    >>> mechanism.algorithm, [(event.step, event.count) for event in mechanism.events]
    (FEM(rounds=445), [('draw', 445)])
    """

    samples: int = 50
    starts: int = 5
    noise: float = 0.2

    method: ClassVar[str] = "fem"
    about: ClassVar[str] = (
        "perturbed best responses (FEM): records that most of the cells ask for on which earlier ones "
        "erred most"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        **Responding.meanings,
        "noise": "how strongly the scores of records were perturbed",
    }

    def __post_init__(self) -> None:
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
        spent = each if budget.is_pure else each**2 / 8
        rounds = max(int(float(budget.limit) / spent), 1)
        return dataclasses.replace(self, rounds=min(rounds, MOST_RESPONSES))

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

    def model(self, inputs: ModelInputs) -> Model:
        """Bags of perturbed best responses."""
        support, workload = inputs.support, inputs.workload
        oracle = make_oracle(self.oracle, support, workload, starts=self.starts, threads=inputs.threads)
        return PerturbedLeader(
            support,
            workload,
            oracle,
            samples=self.samples,
            noise=self.noise,
            rounds=self._rounds(),
        )
