"""MWEM+PUB (2020): MWEM started at the public frequencies, with pure mechanisms and advanced composition.

Exponential mechanism and Laplace noise. The paper composes T rounds of epsilon0, half of it for each of the
two; applying the same theorem to the 2 T looks allows an epsilon0 larger by up to sqrt(2), which is used
here. Under zCDP (`calibrate(rho=...)`) it is MWPub with another default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Select
from privmw.algorithms.mw_pub import MWPub


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEMPub(MWPub):
    """Multiplicative weights from a public start, by advanced composition.

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
    start : {'public', 'uniform'}, default 'public'
        First weights: the public frequencies, or equal ones.

    Examples
    --------
    >>> MWEMPub(rounds=100).calibrate(epsilon=1.0, delta=1e-9).events[1].mechanism
    'discrete-laplace'
    """

    select: Select = "exponential"

    method: ClassVar[str] = "mwem-pub"
    about: ClassVar[str] = (
        "multiplicative weights from a public start (MWEM+PUB): each noisy count makes the public rows"
        " it concerns heavier or lighter"
    )

    advanced: ClassVar[bool] = True
