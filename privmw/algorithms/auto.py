"""The recommended release: everything is chosen from public information, by a rule that is measured.

The rule (benches/README.md has the figures it rests on; s is the noise, as a fraction of n, that one shot at
the whole workload would put on each cell):

1. A small support is widened: rows with one value from another record, at most LARGEST_WIDENED rows in all.
   Re-weighting cannot reach a combination that no row has.
2. s at most MOST_NOISE: one shot at every marginal of the workload. Nothing is spent on choosing, and all
   cells share what is known of each.
3. Otherwise, if all marginals of order 2, or of order 1, are at most half as many and bring the noise down to
   that: one shot at these. They hold the larger errors of a public start, and the start supplies the rest.
4. Otherwise rounds: the exponential mechanism over whole marginals, as many rounds as keep the noise of what
   they measure at ROUND_NOISE, from FEWEST to MOST.

The model is PEP with l2 slack; how much the public start is worth is chosen by the measurements themselves,
which costs nothing (privmw/models/projection/prior_weight.py). n, the sizes, the budget and the public rows
decide all of this; the papers chose the number of rounds by looking at the true error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from privmw.accounting import Budget, sigma_for_rho
from privmw.algorithms.algorithm import Mechanism
from privmw.algorithms.pep import PEP
from privmw.algorithms.question import check_run, count_records
from privmw.algorithms.shorthand import check_options, run_budget
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.release import Release

MOST_NOISE, ROUND_NOISE = 0.02, 0.015
FEWEST, MOST = 10, 50
LARGEST_WIDENED, MOST_TIMES = 40_000, 10


def choose_algorithm(n: int, workload: Workload, budget: Budget) -> PEP:
    """What `release_auto` would run for n records, a workload and a zCDP budget: public numbers alone.

    >>> from privmw import Domain, Table
    >>> workload = Workload.all(Domain({name: 4 for name in "abcdefgh"}), k=3)
    >>> choose_algorithm(50_000, workload, Budget.zcdp(0.01))
    PEP(select='all')
    >>> choose_algorithm(3_000, workload, Budget.zcdp(0.01))
    PEP(select='all', order=2)
    >>> choose_algorithm(1_000, workload, Budget.zcdp(0.0001))
    PEP(rounds=10)
    """

    def noise(marginals: int, share: Fraction = budget.limit) -> float:
        return sigma_for_rho(share, 2 * marginals) / n

    if noise(len(workload)) <= MOST_NOISE:
        return PEP(select="all")
    largest = max(workload.order(j) for j in range(len(workload)))
    for order in (2, 1):
        shot = math.comb(len(workload.domain), order)
        if order < largest and 2 * shot <= len(workload) and noise(shot) <= MOST_NOISE:
            return PEP(select="all", order=order)
    # Half of the budget measures, one marginal a round: the square of the noise grows with the rounds.
    rounds = int((ROUND_NOISE / noise(1, budget.limit / 2)) ** 2)
    return PEP(rounds=min(max(rounds, FEWEST), MOST))


def release_auto(private: Records | None, support: Support, workload: Workload, **options: Any) -> Release:
    """Release by the recommended method. Takes epsilon and delta (or rho), rng, threads and progress.

    The release's settings say what was chosen. Its support may have more rows than the one given.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support = Support.from_table(Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain))
    >>> release = release_auto(private, support, Workload.all(domain, k=2), epsilon=1.0, delta=1e-6)
    >>> release.settings["algorithm"], release.ledger.epsilon(1e-6) <= 1.0
    ('PEP', True)
    """
    check_run(support, workload)
    n = count_records(private, support)
    budget, run = run_budget(n, options)
    check_options(options, ())
    mechanism, wide = recommend(n, support, workload, budget)
    return mechanism(private, wide, workload, **run)


def recommend(n: int, support: Support, workload: Workload, budget: Budget) -> tuple[Mechanism, Support]:
    """What `release_auto` runs, and the support it runs on: public numbers and rows decide."""
    check_run(support, workload)
    if budget.notion != "zCDP":
        raise ValueError("delta (0) must be above 0: the recommended methods use Gaussian noise")
    times = min(LARGEST_WIDENED // support.whole_size - 1, MOST_TIMES)
    wide = support.widened(times) if times >= 1 else support
    return choose_algorithm(n, workload, budget).spend(budget), wide
