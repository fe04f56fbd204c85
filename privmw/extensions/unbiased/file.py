"""Files of unbiased answers: writes, reads and checks them.

answers.json holds the settings and the kind of shot; looks, workloads and noisy values are arrays. The events
of the ledger must be those of exactly these looks, even in a file with matching digests. Nothing here is
private.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from privmw.accounting import Event, Ledger, ResidualGaussian
from privmw.accounting.noise import MEASURED, PAID_IN, NoiseFamily
from privmw.accounting.statement import unit_size
from privmw.data.domain import Domain
from privmw.data.strict_json import parse_json
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL, Workload
from privmw.extensions.unbiased.answers import UnbiasedAnswers, sizes_of_looks
from privmw.extensions.unbiased.strategies.closure import Closure
from privmw.extensions.unbiased.strategies.shot import Shot, TableLook, noise_variance
from privmw.extensions.unbiased.strategies.strategy import precision_of_marginals, shot_at_residuals
from privmw.kernels.checks import check_integer
from privmw.release.file import (
    explained,
    read_archive,
    read_array,
    read_workload,
    write_archive,
    write_array,
    write_workload,
)
from privmw.secrecy import shown

FORM = "privmw unbiased answers"
VERSION = 1
KEYS = {"settings", "kind", "noise", "at_most", "measured"}


def save_unbiased_answers(
    answers: UnbiasedAnswers, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write answers to one file, atomically; see `UnbiasedAnswers.save`."""
    _check(answers)
    write_archive(path, _members(answers), form=FORM, version=VERSION, overwrite=overwrite)


def load_unbiased_answers(path: str | os.PathLike[str]) -> UnbiasedAnswers:
    """Read the answers that `UnbiasedAnswers.save` wrote; ValueError for a damaged or edited file.

    >>> load_unbiased_answers(__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: '...' must be a whole, unchanged unbiased answers file: File is not a zip file
    """
    members = read_archive(path, form=FORM, version=VERSION)
    with explained(path, FORM):
        answers = _read(members)
        if members:
            raise ValueError(f"member ({next(iter(members))}) must be one that this version knows")
        _check(answers)
        return answers


def _check(answers: UnbiasedAnswers) -> None:
    """Refuse answers whose ledger is not that of their looks."""
    shot, ledger = answers.shot, answers.ledger
    if ledger.events != shot.events:
        raise ValueError("events of the ledger must be those of the looks")
    if unit_size(ledger.unit) != shot.at_most:
        raise ValueError(f"at_most ({shot.at_most}) must be that of the ledger's unit, {ledger.unit}")


def _members(answers: UnbiasedAnswers) -> Iterator[tuple[str, bytes]]:
    shot = answers.shot
    same = shot.measured == shot.workload
    described = {
        "settings": answers.settings,
        "kind": shot.kind,
        "noise": shot.noise,
        "at_most": shot.at_most,
        "measured": "workload" if same else "another workload",
    }
    yield "answers.json", json.dumps(described, indent=1, allow_nan=False).encode()
    yield "domain.json", shot.domain.to_json().encode()
    yield "ledger.json", answers.ledger.to_json().encode()
    for name, workload in (("workload", shot.workload), ("measured", shot.measured))[: 2 - same]:
        yield from write_workload(name, workload)
    yield "looks/scales.npy", write_array(np.array([look.scale for look in shot.looks], np.float64))
    yield "looks/noisy.npy", write_array(np.concatenate([np.empty(0, np.int64), *answers.noisy]))


def _read(members: dict[str, bytes]) -> UnbiasedAnswers:
    """Make the answers of checked members; removes them from the dictionary."""
    described = parse_json(members.pop("answers.json").decode())
    if not isinstance(described, dict) or set(described) != KEYS:
        raise ValueError(f"answers.json must be an object with the keys {', '.join(sorted(KEYS))}")
    if described["measured"] not in ("workload", "another workload"):
        raise ValueError("measured must be 'workload' or 'another workload'")
    domain = Domain.from_json(members.pop("domain.json").decode())
    ledger = Ledger.from_json(members.pop("ledger.json").decode())
    workload = read_workload(domain, "workload", members)
    same = described["measured"] == "workload"
    measured = workload if same else read_workload(domain, "measured", members)
    scales = read_array(members.pop("looks/scales.npy"), np.float64).tolist()
    at_most = check_integer("at_most", described["at_most"], 1)
    shot = shot_from_file(workload, measured, described["kind"], described["noise"], scales, at_most)
    values = read_array(members.pop("looks/noisy.npy"), np.int64)
    return UnbiasedAnswers(
        shot, _parts(values, sizes_of_looks(shot)), ledger=ledger, settings=described["settings"]
    )


def _parts(values: Any, sizes: Sequence[int]) -> list[Any]:
    ends = [0, *itertools.accumulate(sizes)]
    if ends[-1] != len(values):
        raise ValueError(f"noisy values ({len(values)}) must be {ends[-1]}, as the looks say")
    return [values[start:end] for start, end in itertools.pairwise(ends)]


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
    return shot_at_residuals(closure, event, family)
