"""A shot made again from what a file keeps of it: the scales of its looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmw.accounting import Event, ResidualGaussian
from privmw.accounting.noise import MEASURED, PAID_IN, NoiseFamily
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL, Workload
from privmw.extensions.unbiased.strategies.closure import Closure
from privmw.extensions.unbiased.strategies.shot import Shot, TableLook, noise_variance
from privmw.extensions.unbiased.strategies.strategy import precision_of_marginals
from privmw.secrecy import shown


def shot_from_file(
    workload: Workload,
    measured: Workload,
    kind: object,
    noise: object,
    scales: Sequence[float],
    at_most: int,
) -> Shot:
    """The shot of these looks, with the events that they cost.

    kind, noise: as of a Shot. scales: of the marginals measured, or of the residuals of the workload's
    closure, in order.

    >>> from privmw import Budget, Domain, strategies
    >>> workload = Workload.all(Domain({"a": 2, "b": 3}), k=2)
    >>> shot = strategies.equal().calibrate(workload, Budget.zcdp(0.01))
    >>> shot_from_file(workload, workload, "marginals", shot.noise, [10.0], at_most=1).events == shot.events
    True
    """
    if kind not in ("marginals", "residuals"):
        raise ValueError(f"kind ({shown(kind)}) must be 'marginals' or 'residuals'")
    family = MEASURED.get(noise) if isinstance(noise, str) else None
    if family is None:
        raise ValueError(f"noise ({shown(noise)}) must be one of {', '.join(MEASURED)}")
    if kind == "residuals":
        return _of_residuals(workload, family, scales, at_most)
    if len(scales) != len(measured):
        raise ValueError(f"scales ({len(scales)}) must be one for each of {len(measured)} marginals")
    closure, events = Closure.of(workload), list[Event]()
    for scale, cells in zip(scales, np.diff(measured.offsets).tolist(), strict=True):
        events.append(
            family.event(scale, family.sensitivity(min(CELLS_CHANGED_PER_MARGINAL, cells), at_most), cells)
        )
    precisions = np.array([1 / noise_variance(family, scale) for scale in scales])
    precision = precision_of_marginals(closure, measured, precisions)
    looks = tuple(TableLook(names, scale, None) for names, scale in zip(measured, scales, strict=True))
    return Shot(workload, "marginals", family, at_most, measured, looks, tuple(events), closure, precision)


def _of_residuals(workload: Workload, family: NoiseFamily, scales: Sequence[float], at_most: int) -> Shot:
    if family.unit != "rho":
        raise ValueError(f"noise ({family.name}) of residuals must be {PAID_IN['rho'].name}")
    closure = Closure.of(workload)
    sets = closure.looks()
    if len(scales) != len(sets):
        raise ValueError(f"scales ({len(scales)}) must be one for each of {len(sets)} residuals")
    event = ResidualGaussian(workload.domain.sizes, sets, tuple(scales), at_most)
    names = workload.domain.names
    looks = tuple(
        TableLook(tuple(names[a] for a in inside), scale, None)
        for inside, scale in zip(sets, scales, strict=True)
    )
    precision = 1 / np.array(scales, np.float64) ** 2
    return Shot(workload, "residuals", family, at_most, workload, looks, (event,), closure, precision)
