"""MWEM (Hardt, Ligett and McSherry, 2012): multiplicative weights over the full domain, uniform at first.

The same loop and the same model as MW-Pub, without public data: every row of the domain has a weight, so the
domain must be small. Under a pure budget (delta 0) it is the original: the exponential mechanism and Laplace
noise, half of each round's epsilon each.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from privmw.accounting.rounding import Real
from privmw.algorithms.accounted import AccountPath
from privmw.algorithms.configuration import Select
from privmw.algorithms.loop import Progress
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.options import lists_options
from privmw.algorithms.question import Unit, check_inputs, check_is_workload
from privmw.data.records import Records
from privmw.data.support import Start, Support
from privmw.data.workload import Workload
from privmw.models.multiplicative import Output, Replay
from privmw.random import Rng
from privmw.release import Release


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEM(MWPub):
    """Multiplicative weights from a uniform start; options as for MWPub.

    >>> MWEM(rounds=10).calibrate(epsilon=1.0, delta=0).epsilon(0)
    1.0
    """

    select: Select = "exponential"
    start: Start = "uniform"

    def public_rows(self, support: Support | None, workload: Workload) -> Support:
        """The support of a run: None is the full domain."""
        if support is not None:
            return support
        check_is_workload(workload)
        return Support.full(workload.domain)


@lists_options
def release_mwem(
    private: Records | None,
    support: Support | None,
    workload: Workload,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    rounds: int | None = None,
    select: Select = "exponential",
    measure: Unit = "cell",
    per_round: int = 1,
    split: float = 0.5,
    warm_up: float = 0.0,
    order: int | None = None,
    replay: Replay = "paper",
    output: Output = "last",
    start: Start = "uniform",
    rng: Rng = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = 10,
    account: AccountPath = None,
    public_is_public: bool = False,
) -> Release:
    """Release by MWEM; a support of None is the full domain. The algorithm's options are those of `MWPub`.

    epsilon and delta, or rho: the budget; without a delta it is 1 / n^2. rng, threads, progress, checkpoint,
    every, account and public_is_public: as for a calibrated `Mechanism`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> release_mwem(private, None, Workload.all(domain, k=2), epsilon=1.0, delta=0, rounds=5).support.size
    6
    """
    algorithm = MWEM(
        rounds=rounds,
        select=select,
        measure=measure,
        per_round=per_round,
        split=split,
        warm_up=warm_up,
        order=order,
        replay=replay,
        output=output,
        start=start,
    )
    rows = algorithm.public_rows(support, workload)
    size = check_inputs(private, rows, workload)
    mechanism = algorithm.calibrate(epsilon, delta, rho=rho, n=size.n)
    return mechanism.run_checked(
        size, private, rows, workload, rng, threads, progress, checkpoint, every, account, public_is_public
    )
