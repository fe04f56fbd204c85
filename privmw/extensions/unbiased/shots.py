"""Taking a shot: the looks that a strategy stated beforehand, one after the other, through the curator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privmw.accounting import ResidualGaussian
from privmw.curator.on_ranks import AnyCurator
from privmw.extensions.unbiased.strategies import Shot


def measure_shot(curator: AnyCurator, shot: Shot) -> tuple[npt.NDArray[np.int64], ...]:
    """The noisy values of every look of a shot, as `Shot.residuals` takes them.

    The curator must have been made with the workload `shot.measured`, and charges the shot's events.

    >>> from privmw import Budget, Domain, Table, Workload, strategies

    >>> from privmw.curator import Curator
    >>> table = Table.from_codes([[2, 0], [0, 1], [2, 0]], Domain({"age": 3, "sex": 2}), private=True)
    >>> budget = Budget.approximate(1.0, 1e-6, event_delta=1e-12)
    >>> shot = strategies.residual().calibrate(Workload.all(table.domain, k=2), budget)
    >>> with Curator(table, shot.measured, budget) as curator:
    ...     noisy = measure_shot(curator, shot)
    >>> shot.reconstruct(shot.residuals(noisy), table.n, ["age", "sex"]).shape
    (6,)
    """
    if shot.kind == "residuals":
        (event,) = shot.events
        assert isinstance(event, ResidualGaussian)
        return curator.measure_residuals(event)
    return tuple(
        curator.measure(marginals=[j], **shot.family.argument(look.share))
        for j, look in enumerate(shot.looks)
    )
