"""The recommended release: all settings are chosen from public information, by a rule based on benchmarks.

The rule (its figures are in benches/journal; s is the noise on each cell, as a fraction of n, if one shot
measured the whole workload):

1. If s is at most MOST_NOISE: one shot measures every marginal of the workload. Nothing is spent on choosing,
   and each cell is estimated from all marginals that overlap it.
2. Otherwise, if there are at most half as many marginals of order 2 and their noise is at most MOST_NOISE:
   one shot measures these. They hold the larger errors of a public start, and the start supplies the rest.
   This rule does not apply if public rows lack attributes.
3. Otherwise, if s is at most MOST_WITHOUT_CHOICE: one shot measures the workload.
4. Otherwise rounds: WARM_UP of the budget measures every attribute alone, then the exponential mechanism
   chooses among whole marginals, in as many rounds as keep the noise of each measurement at ROUND_NOISE, from
   FEWEST_ROUNDS to MOST_ROUNDS_OF_AUTO.

The model is PEP with l2 slack, whose rows grow at the end (privmw/models/grown.py): combinations that the
public table lacks get rows, and there may be no public table at all. A support with every row of the domain
does not grow. n, the sizes, the budget and the public rows decide all of this, and released values decide how
far rows grow; the papers chose the number of rounds by the true error.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction

from privmw.accounting import Budget
from privmw.accounting.rounding import Real
from privmw.algorithms.configuration import make_budget
from privmw.algorithms.loop import Progress
from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.options import AccountPath, RunOptions, lists_options
from privmw.algorithms.pep import PEP
from privmw.algorithms.task import check_inputs
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL, Workload
from privmw.random import Rng
from privmw.release import Release

MOST_NOISE, MOST_WITHOUT_CHOICE, ROUND_NOISE = 0.02, 0.1, 0.015
FEWEST_ROUNDS, MOST_ROUNDS_OF_AUTO, WARM_UP = 16, 50, 0.2
PARTICLES = 8000


def choose_algorithm(n: int, support: Support, workload: Workload, budget: Budget, at_most: int = 1) -> PEP:
    """Choose what `release_auto` runs, given n records, a support, a workload and a zCDP budget: all public.

    at_most: how many records of a unit enter.

    >>> from privmw import Domain, Table
    >>> domain = Domain({name: 4 for name in "abcdefgh"})
    >>> public = Table.from_codes([[1, 0, 2, 0, 0, 0, 3, 0]], domain, private=False)
    >>> support, workload = Support.from_table(public), Workload.all(domain, k=3)
    >>> choose_algorithm(50_000, support, workload, Budget.zcdp(0.01))
    PEP(select='all', particles=8000)
    >>> choose_algorithm(3_000, support, workload, Budget.zcdp(0.01))
    PEP(select='all', order=2, particles=8000)
    >>> choose_algorithm(1_000, support, workload, Budget.zcdp(0.0001))
    PEP(rounds=16, warm_up=0.2, order=1, particles=8000)
    """

    def noise(sensitivity: int, share: Fraction = budget.limit) -> float:
        return budget.noise.scale(share, budget.noise.sensitivity(sensitivity, at_most)) / n

    everything = support.whole_size == support.domain.size and not support.missing
    particles = None if everything else PARTICLES
    whole = noise(workload.sensitivity(range(len(workload))))
    if whole <= MOST_NOISE:
        return PEP(select="all", particles=particles)
    pairs = math.comb(len(workload.domain), 2)
    largest = max(workload.order(j) for j in range(len(workload)))
    if largest > 2 and 2 * pairs <= len(workload) and not support.missing:
        shot = Workload.all(workload.domain, k=2)
        if noise(shot.sensitivity(range(pairs))) <= MOST_NOISE:
            return PEP(select="all", order=2, particles=particles)
    if whole <= MOST_WITHOUT_CHOICE:
        return PEP(select="all", particles=particles)
    # Half of the budget after the warm-up is for measuring, one marginal per round, so the squared noise is
    # proportional to the number of rounds.
    rounds = int(
        (ROUND_NOISE / noise(CELLS_CHANGED_PER_MARGINAL, (1 - Fraction(WARM_UP)) * budget.limit / 2)) ** 2
    )
    rounds = min(max(rounds, FEWEST_ROUNDS), MOST_ROUNDS_OF_AUTO)
    return PEP(rounds=rounds, warm_up=WARM_UP, order=1, particles=particles)


@lists_options
def release_auto(
    private: Records | None,
    support: Support | None,
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
    public_is_public: bool = False,
) -> Release:
    """Release by the recommended method; the parameters are those of `Configuration.release`.

    The support is None if there is no public table, and its rows may lack attributes (`Support.from_table`
    with a domain). The settings of the release name the chosen method. The release may have more rows than
    the given support. delta must not be 0: the noise is Gaussian.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain, private=False)
    >>> support = Support.from_table(public)
    >>> release = release_auto(private, support, Workload.all(domain, k=2), epsilon=1.0, delta=1e-6)
    >>> release.settings["algorithm"], release.ledger.epsilon(1e-6) <= 1.0
    ('PEP', True)
    """
    rows = PEP(particles=PARTICLES).public_rows(support, workload)
    size = check_inputs(private, rows, workload, fills_missing_columns=True)
    mechanism = recommend(size.n, rows, workload, at_most=size.at_most, epsilon=epsilon, delta=delta, rho=rho)
    options = RunOptions(
        rng=rng,
        threads=threads,
        progress=progress,
        checkpoint=checkpoint,
        every=every,
        account=account,
        public_is_public=public_is_public,
    )
    return mechanism.run_checked(size, private, rows, workload, options)


def recommend(
    n: int,
    support: Support | None,
    workload: Workload,
    *,
    at_most: int = 1,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
) -> Mechanism:
    """Return the mechanism that `release_auto` runs for n records, decided by public numbers and rows.

    at_most: how many records of a unit enter.
    """
    budget = make_budget(epsilon, delta, rho=rho, n=n)
    if budget.is_pure:
        raise ValueError("delta (0) must be above 0: the recommended methods use Gaussian noise")
    rows = PEP(particles=PARTICLES).public_rows(support, workload)
    return Mechanism(choose_algorithm(n, rows, workload, budget, at_most), budget)
