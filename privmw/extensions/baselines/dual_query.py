"""DualQuery (Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query", 2014): weigh the queries, not the rows.

Multiplicative weights over all signed cells of the workload; a round draws some of them, and adds the record
that satisfies most to a bag, which is the release. After t records the weights are exp(+-eta (t q(D) - sum of
q over the bag)), so a draw is an exponential mechanism whose epsilon grows with t: (2 eta t / n)^2 / 8 of
rho. The first record, from uniform draws, is free. Nothing is measured, and no row needs to be public.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from privmw.accounting import Budget
from privmw.accounting.noise import of_unit
from privmw.algorithms.loop import Model
from privmw.algorithms.schedule import Schedule
from privmw.data.support import Support
from privmw.extensions.baselines.bag import BestResponses
from privmw.extensions.baselines.oracle import make_oracle
from privmw.extensions.baselines.responding import MOST_RESPONSES, Responding
from privmw.models.inputs import ModelInputs
from privmw.secrecy import shown

USUAL_ETA = 2.0
LARGEST_ETA = 1000.0
SMALLEST_ETA = 1e-100  # its square is a float


@dataclass(frozen=True, kw_only=True, repr=False)
class DualQuery(Responding):
    """A bag of best responses to drawn cells.

    Parameters
    ----------
    rounds : int, optional
        Rounds that are paid for, 1 to 100,000: the bag has one record more. None follows from eta.
    samples : int, default 25
        Signed cells that a round draws, 1 to 1,000,000.
    oracle : {'local', 'support', 'exact'}, default 'local'
        How the record with the largest score is found: by climbing from several records, as the best
        public row, or by an integer program, slowly.
    starts : int, default 20
        Records from which the local oracle climbs, 1 to 10,000.
    eta : float, optional
        Rate of multiplicative weights, above 0 and below 1,000; None is 2. A bag of
        T = (6 n^2 rho / (samples eta^2))^(1/3) records spends rho. Not with rounds: then eta is the rate
        that spends the budget.

    Examples
    --------
    >>> mechanism = DualQuery(samples=25, eta=2.0).calibrate(epsilon=1.0, n=43_944)
    >>> mechanism.algorithm
    DualQuery(rounds=118)
    >>> [event.count for event in mechanism.events[:2]], mechanism.epsilon(1 / 43_944**2) <= 1.0
    ([25, 25], True)
    """

    samples: int = 25
    eta: float | None = None

    method: ClassVar[str] = "dual-query"
    about: ClassVar[str] = (
        "best responses (DualQuery): each record is the one that most of the cells ask for on which "
        "the records before it erred, drawn at random"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        **Responding.meanings,
        "eta": "the rate of the weights of the cells; none: the one that spends the budget in these rounds",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None:
            self._between("eta", 0, LARGEST_ETA)
            if self.rounds is not None:
                raise ValueError(
                    f"eta ({shown(self.eta)}) must not be given with rounds, from which it follows"
                )

    def for_budget(self, budget: Budget, n: int | None, at_most: int = 1) -> DualQuery:
        """The rounds of eta: those whose draws would spend the budget at this rate, rounded.

        At the end the rate is what spends the budget exactly; it differs from eta by the rounding alone.
        """
        if self.rounds is not None or n is None:
            return self
        eta = USUAL_ETA if self.eta is None else self.eta
        exponent = max(of_unit(2 * eta, at_most) / n, SMALLEST_ETA)
        if budget.is_pure:  # samples sum of t exponent = epsilon
            records = math.sqrt(2 * float(budget.limit) / (self.samples * exponent)) + 0.5
        else:  # samples sum of (t exponent)^2 / 8 = rho
            records = (24 * float(budget.limit) / (self.samples * exponent**2)) ** (1 / 3)
        rounds = max(round(min(records, 1e18)) - 1, 1)
        if rounds > MOST_RESPONSES:
            raise ValueError(
                f"eta ({eta}) must be larger: it takes {rounds:,} rounds to spend the budget, and at most "
                f"{MOST_RESPONSES:,} are run"
            )
        return dataclasses.replace(self, rounds=rounds, eta=None)

    @property
    def schedule(self) -> Schedule:
        """Draws of growing epsilon."""
        return Schedule(self._rounds(), self.samples, None, 0, 0, draws="growing")

    @property
    def responses(self) -> int:
        """How many records a round makes."""
        return 1

    def added_rows(self, support: Support) -> int:
        """At most how many rows the model makes beside the support."""
        return 0 if self.oracle == "support" else self._rounds() + 1

    def model(self, inputs: ModelInputs) -> Model:
        """A bag that grows by one record a round."""
        support, workload = inputs.support, inputs.workload
        oracle = make_oracle(self.oracle, support, workload, starts=self.starts, threads=inputs.threads)
        return BestResponses(support, workload, oracle, samples=self.samples)
