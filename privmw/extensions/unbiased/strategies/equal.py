"""Every marginal of the workload with the same noise: what one shot has always been."""

from __future__ import annotations

from dataclasses import dataclass

from privmw.accounting import Budget
from privmw.data.workload import Workload
from privmw.extensions.unbiased.strategies.shot import Shot
from privmw.extensions.unbiased.strategies.strategy import Strategy, check_terms, shot_at_marginals


@dataclass(frozen=True, slots=True)
class Equal(Strategy):
    """Equal shares for every marginal of the workload. Made by `equal`."""

    def calibrate(self, workload: Workload, budget: Budget, at_most: int = 1) -> Shot:
        """The shot that spends a budget on a workload."""
        at_most = check_terms(workload, budget, at_most)
        shares = [budget.limit / len(workload)] * len(workload)
        return shot_at_marginals(workload, workload, shares, budget, at_most)


def equal() -> Equal:
    """The strategy that measures every marginal of the workload with the same noise.

    Its answers are the least-squares combination of all looks, so they agree with each other and have less
    variance than the look at their own marginal.

    >>> equal()
    Equal()
    """
    return Equal()
