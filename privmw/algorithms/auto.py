"""The recommended release: everything is chosen from public information, by a rule that is measured.

The rule (benches/README.md has the figures it rests on; s is the noise, as a fraction of n, that one shot at
the whole workload would put on each cell):

1. A small support is widened: rows with one value from another record, at most LARGEST_WIDENED rows in all.
   Re-weighting cannot reach a combination that no row has.
2. If s is at most MOST_NOISE: one shot at every marginal of the workload. Nothing is spent on choosing, and
   each cell is estimated from all marginals that overlap it.
3. Otherwise, if all marginals of order 2, or of order 1, are at most half as many and bring the noise down to
   that: one shot at these. They have the larger errors of a public start, and the start supplies the rest.
4. Otherwise rounds: the exponential mechanism over whole marginals, as many rounds as keep the noise of each
   measurement at ROUND_NOISE, from FEWEST to MOST.

The model is PEP with l2 slack; the weight of the public start is chosen from the measurements themselves,
which costs nothing (privmw/models/projection/prior_weight.py). n, the sizes, the budget and the public rows
decide all of this; the papers chose the number of rounds by looking at the true error.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction

from privmw.accounting import Budget
from privmw.accounting.rounding import Real
from privmw.algorithms.accounted import AccountPath
from privmw.algorithms.configuration import make_budget
from privmw.algorithms.loop import Progress
from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.options import lists_options
from privmw.algorithms.pep import PEP
from privmw.algorithms.question import check_inputs
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import MOVED, Workload
from privmw.random import Rng
from privmw.release import Release
from privmw.release.noises import DiscreteGaussianNoise

MOST_NOISE, ROUND_NOISE = 0.02, 0.015
FEWEST, MOST = 10, 50
LARGEST_WIDENED, MOST_TIMES = 40_000, 10


def choose_algorithm(n: int, workload: Workload, budget: Budget, at_most: int = 1) -> PEP:
    """What `release_auto` runs for n records, a workload and a zCDP budget: public numbers alone.

    at_most: how many records of a unit enter.

    >>> from privmw import Domain, Table
    >>> workload = Workload.all(Domain({name: 4 for name in "abcdefgh"}), k=3)
    >>> choose_algorithm(50_000, workload, Budget.zcdp(0.01))
    PEP(select='all')
    >>> choose_algorithm(3_000, workload, Budget.zcdp(0.01))
    PEP(select='all', order=2)
    >>> choose_algorithm(1_000, workload, Budget.zcdp(0.0001))
    PEP(rounds=10)
    """

    def noise(sensitivity: int, share: Fraction = budget.limit) -> float:
        return DiscreteGaussianNoise.scale_for(share, sensitivity, at_most) / n

    if noise(workload.sensitivity(range(len(workload)))) <= MOST_NOISE:
        return PEP(select="all")
    largest = max(workload.order(j) for j in range(len(workload)))
    for order in (2, 1):
        marginals = math.comb(len(workload.domain), order)
        if order < largest and 2 * marginals <= len(workload):
            shot = Workload.all(workload.domain, k=order)
            if noise(shot.sensitivity(range(marginals))) <= MOST_NOISE:
                return PEP(select="all", order=order)
    # Half of the budget measures, one marginal a round: the square of the noise grows with the rounds.
    rounds = int((ROUND_NOISE / noise(MOVED, budget.limit / 2)) ** 2)
    return PEP(rounds=min(max(rounds, FEWEST), MOST))


@lists_options
def release_auto(
    private: Records | None,
    support: Support,
    workload: Workload,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    rng: Rng = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = 10,
    account: AccountPath = None,
) -> Release:
    """Release by the recommended method.

    epsilon and delta, or rho: the budget; without a delta it is 1 / n^2. rng, threads, progress, checkpoint,
    every and account: as for a calibrated `Mechanism`.
    The release's settings say what was chosen. Its support may have more rows than the given one.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain, private=False)
    >>> support = Support.from_table(public)
    >>> release = release_auto(private, support, Workload.all(domain, k=2), epsilon=1.0, delta=1e-6)
    >>> release.settings["algorithm"], release.ledger.epsilon(1e-6) <= 1.0
    ('PEP', True)
    """
    size = check_inputs(private, support, workload)
    mechanism, rows = recommend(
        size.n, support, workload, at_most=size.at_most, epsilon=epsilon, delta=delta, rho=rho
    )
    return mechanism.run_checked(
        size, private, rows, workload, rng, threads, progress, checkpoint, every, account
    )


def recommend(
    n: int,
    support: Support,
    workload: Workload,
    *,
    at_most: int = 1,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
) -> tuple[Mechanism, Support]:
    """What `release_auto` runs for n records, and the support it runs on: public numbers and rows decide.

    at_most: how many records of a unit enter.
    """
    budget = make_budget(epsilon, delta, rho=rho, n=n)
    if budget.notion != "zCDP":
        raise ValueError("delta (0) must be above 0: the recommended methods use Gaussian noise")
    times = min(LARGEST_WIDENED // support.whole_size - 1, MOST_TIMES)
    rows = support.widened(times) if times >= 1 else support
    return Mechanism(choose_algorithm(n, workload, budget, at_most), budget), rows
