"""MWEM+PUB (2020): MWEM started at the public frequencies, with pure mechanisms and advanced composition.

Exponential mechanism and Laplace noise. The paper composes T rounds of epsilon0, half of it for each of the
two; the same theorem over the 2 T looks themselves allows an epsilon0 larger by up to sqrt(2), which is used
here. Under zCDP (`calibrate(rho=...)`) it is MWPub with another default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from privmw.accounting.rounding import Real
from privmw.algorithms.accounted import AccountPath
from privmw.algorithms.configuration import Select
from privmw.algorithms.loop import Progress
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.options import lists_options
from privmw.algorithms.question import Unit, check_inputs
from privmw.data.records import Records
from privmw.data.support import Start, Support
from privmw.data.workload import Workload
from privmw.models.multiplicative import Output, Replay
from privmw.random import Rng
from privmw.release import Release


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEMPub(MWPub):
    """Multiplicative weights from a public start, by advanced composition; options as for MWPub.

    >>> MWEMPub(rounds=100).calibrate(epsilon=1.0, delta=1e-9).events[1].mechanism
    'discrete-laplace'
    """

    select: Select = "exponential"

    advanced: ClassVar[bool] = True


@lists_options
def release_mwem_pub(
    private: Records | None,
    support: Support,
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
    start: Start = "public",
    rng: Rng = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = 10,
    account: AccountPath = None,
    public_is_public: bool = False,
) -> Release:
    """Release by MWEM+PUB; the options of the algorithm are those of `MWPub`.

    epsilon and delta, or rho: the budget; without a delta it is 1 / n^2. rng, threads, progress, checkpoint,
    every, account and public_is_public: as for a calibrated `Mechanism`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain, private=False)
    >>> support = Support.from_table(public)
    >>> release_mwem_pub(private, support, Workload.all(domain, k=2), epsilon=1.0, rounds=5).ledger.rho < 1
    True
    """
    algorithm = MWEMPub(
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
    support = algorithm.public_rows(support, workload)
    size = check_inputs(private, support, workload)
    mechanism = algorithm.calibrate(epsilon, delta, rho=rho, n=size.n)
    return mechanism.run_checked(
        size, private, support, workload, rng, threads, progress, checkpoint, every, account, public_is_public
    )
