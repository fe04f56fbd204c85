"""MWEM (Hardt, Ligett and McSherry, 2012): multiplicative weights over the full domain, uniform at first.

The same loop and the same model as MW-Pub, without public data: every row of the domain has a weight, so the
domain must be small. Under a pure budget (delta 0) it is the original: the exponential mechanism and Laplace
noise, each with half of a round's epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Select
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.task import check_is_workload
from privmw.data.support import Start, Support
from privmw.data.workload import Workload


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEM(MWPub):
    """Multiplicative weights from a uniform start.

    Parameters
    ----------
    rounds : int, optional
        Rounds of choosing, measuring and improving, at least 1; None is 50. Not with select='all'.
    select : {'permute-and-flip', 'exponential', 'all'}, default 'exponential'
        How a round chooses. 'all' measures every marginal once, with the whole budget, without rounds.
    measure : {'cell', 'marginal'}, default 'cell'
        What is chosen and measured: single cells or whole marginals.
    per_round : int, default 1
        How many are chosen in a round, at least 1.
    split : float, default 0.5
        Above 0 and below 1: the larger, the more of a round's budget is spent on choosing.
    warm_up : float, default 0.0
        Share of the budget, from 0 to below 1, for measuring every marginal once before the rounds.
    order : int, optional
        Where every marginal is measured: those of all sets of this many attributes, instead of the
        workload's (None). With select='all' or a warm_up above 0.
    replay : {'paper', 'fresh', 'none'}, default 'paper'
        Whether a round repeats the steps of earlier measurements: on the answers from before it
        ('paper'), on current ones ('fresh'), or not ('none').
    output : {'last', 'average'}, default 'last'
        The last weights, or the average over all rounds: the paper's text, which lags behind far from
        the start (benches/README.md).
    start : {'public', 'uniform'}, default 'uniform'
        First weights: the public frequencies, or equal ones.

    Examples
    --------
    >>> MWEM(rounds=10).calibrate(epsilon=1.0, delta=0).epsilon(0)
    1.0
    """

    select: Select = "exponential"
    start: Start = "uniform"

    method: ClassVar[str] = "mwem"
    about: ClassVar[str] = (
        "multiplicative weights over every possible row (MWEM): each noisy count makes the rows it "
        "concerns heavier or lighter"
    )
    takes_no_public: ClassVar[str] = "it uses the whole domain"

    def public_rows(self, support: Support | None, workload: Workload) -> Support:
        """Return the support of a run: the full domain for None."""
        if support is not None:
            return support
        check_is_workload(workload)
        return Support.full(workload.domain)
