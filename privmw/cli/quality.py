"""Quality of a release, before and after it is made: lines to print, and facts for quality.json.

Preflight: what will be measured of the workload, the noise, and the values without a public row; refuses
noise larger than all counts. Postflight: whether the released answers agree with the noisy counts, and the
grown rows. `inspect`, `release` and `finish` print these. Public and released values only.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.plan import NoiseLevel
from privmw.cli.coverage import coverage_facts, coverage_lines, growth_facts, growth_lines
from privmw.cli.refusal import DISAGREES, RefusalError
from privmw.data.coverage import coverage_of
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.release import Agreement, Release
from privmw.release.agreement import ALPHA
from privmw.report.release.facts import noise_levels

MUCH_NOISE, TOO_MUCH_NOISE = 0.2, 1.0  # deviations of a count, as shares of the records
LISTED = 100  # cells in the facts whose gaps noise does not explain


@dataclass(frozen=True)
class Preflight:
    """What is checked before the budget is spent: lines to print, and facts as JSON values."""

    lines: tuple[str, ...]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Postflight:
    """The last lines to print, the content of quality.json, and the exit code."""

    lines: tuple[str, ...]
    facts: dict[str, Any]
    code: int


def preflight(
    mechanism: Mechanism,
    support: Support,
    workload: Workload,
    n: int,
    at_most: int = 1,
    *,
    force: bool = False,
) -> Preflight:
    """Describe the measurements and the coverage of a release; refuses too much noise unless forced.

    A collective call. n, at_most: the number of private records, and the maximum per unit.
    """
    levels = mechanism.noise(workload, n, at_most)
    most = max((level.deviation / n for level in levels), default=0.0)
    fewer = "" if mechanism.algorithm.rounds is None else ", fewer rounds"
    advice = f"a larger epsilon, fewer or smaller marginals{fewer} lower it"
    if most > TOO_MUCH_NOISE and not force:
        told = f"noise of {most:.0%} of the records is larger than every count"
        raise RefusalError(told, f"{advice}; --force makes the release anyway")
    lines = []
    if not levels:
        lines.append(_asked_and_drawn(mechanism, workload))
    elif not _measures_all(levels, workload):
        lines.append(_asked_and_measured(levels, workload, n, public=support.records > 0))
    if most >= MUCH_NOISE:
        refused = ", which a release refuses without --force" if most > TOO_MUCH_NOISE else ""
        lines.append(f"WARNING: the noise of a count is {most:.0%} of the records{refused}; {advice}")
    coverage = coverage_of(support)
    grows = mechanism.algorithm.completes
    lines += coverage_lines(coverage, support.domain, grows=grows, measures=bool(levels))
    facts = {
        "asked": _asked(workload),
        "measured": [
            {**dataclasses.asdict(level), "orders": list(level.orders), "share": level.deviation / n}
            for level in levels
        ],
        "coverage": coverage_facts(coverage, support.domain),
    }
    return Preflight(tuple(lines), facts)


def postflight(release: Release, preflight_report: Preflight | None = None) -> Postflight:
    """Compare a release with its measurements; its coverage is taken from `preflight_report` if given."""
    agreement, growth, domain = release.agreement(), release.growth(), release.support.domain
    coverage = None  # a release without a public row does not say which columns the public file had
    if preflight_report is not None:
        coverage = preflight_report.facts["coverage"]
    elif growth.public_rows:
        coverage = coverage_facts(coverage_of(release.support), domain)
    facts = {
        "agrees": agreement.agrees,
        "reasons": list(agreement.reasons),
        "remedy": list(agreement.remedy),
        "level": ALPHA,
        "for_release": release.ledger.for_release,
        "n": release.n,
        "asked": _asked(release.workload),
        "measured": _measured(release, agreement),
        "noise": [dataclasses.asdict(level) for level in noise_levels(release)],
        "agreement": _figures(release, agreement),
        "coverage": coverage,
        "growth": growth_facts(growth, domain),
    }
    lines = (*growth_lines(growth, domain), *_lines(agreement, drawn=len(release.history) > 0))
    return Postflight(lines, facts, 0 if agreement.agrees else DISAGREES)


def _lines(agreement: Agreement, *, drawn: bool) -> list[str]:
    if len(agreement.cells) == 0 and drawn:
        return ["Nothing was measured: there are no noisy counts to compare the records with."]
    if len(agreement.cells) == 0:
        return ["Nothing was measured: the release is the unchanged public rows."]
    within, expected = (
        ", ".join(f"{share:.1%}" for share in shares) for shares in (agreement.within, agreement.expected)
    )
    figures = (
        f"of {len(agreement.cells):,} measured cells {within} lie within 1, 2, 3 standard deviations of the "
        f"noisy counts; noise alone would give {expected}"
    )
    if agreement.agrees:
        return [f"Agrees with what was measured: {figures}."]
    return [
        f"DISAGREES with what was measured, beyond chance: {figures}.",
        *(f"  reason: {reason}" for reason in agreement.reasons),
        *(f"  remedy: {remedy}" for remedy in agreement.remedy),
    ]


def _measures_all(levels: tuple[NoiseLevel, ...], workload: Workload) -> bool:
    """True if a first shot measures exactly the workload."""
    orders = np.unique(np.diff(workload.starts)).tolist()
    return levels[0].step == "shot" and (levels[0].count, list(levels[0].orders)) == (len(workload), orders)


def _asked_and_measured(levels: tuple[NoiseLevel, ...], workload: Workload, n: int, *, public: bool) -> str:
    asked = _count(len(workload), "marginal", _asked(workload)["orders"])
    parts = []
    for level in levels:
        what = _count(level.count, level.unit, list(level.orders))
        chosen = "" if level.step == "shot" else ", chosen one after the other"
        noise = f"with noise of {_records(level.deviation)} records ({level.deviation / n:.2%} of n)"
        parts.append(f"{what}{chosen}, {noise}")
    rest = "the public rows" if public else "these"
    return f"asked: {asked}; measured: {'; '.join(parts)}; the rest follows from {rest}"


def _asked_and_drawn(mechanism: Mechanism, workload: Workload) -> str:
    asked = _count(len(workload), "marginal", _asked(workload)["orders"])
    draws = sum(event.count for event in mechanism.events)
    rounds = mechanism.algorithm.schedule.rounds
    return (
        f"asked: {asked}; measured: nothing; {draws:,} cells on which the records err are drawn in "
        f"{rounds:,} round{'s' * (rounds != 1)}, and further records answer them"
    )


def _count(count: int, unit: str, orders: list[int]) -> str:
    of = " and ".join(map(str, orders))
    noun = f"{unit}{'s' * (count != 1)}" if unit == "marginal" else f"single cell{'s' * (count != 1)}"
    return f"{count:,} {noun} of {of} attribute{'s' * (orders != [1])}"


def _records(count: float) -> str:
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}"


def _asked(workload: Workload) -> dict[str, Any]:
    orders = np.unique(np.diff(workload.starts)).tolist()
    return {"marginals": len(workload), "orders": orders, "cells": workload.cells}


def _measured(release: Release, agreement: Agreement) -> dict[str, Any]:
    marginals = np.unique(release.measured.marginal_of(agreement.cells))
    return {
        "marginals": len(marginals),
        "orders": np.unique(np.diff(release.measured.starts)[marginals]).tolist(),
        "cells": len(agreement.cells),
        "noisy_counts": sum(map(len, release.measurements)),
    }


def _figures(release: Release, agreement: Agreement) -> dict[str, Any]:
    """The figures of an agreement; values are shown as labels."""
    domain = release.support.domain
    beyond, values_beyond, cells = agreement.beyond, set(agreement.values_beyond), []
    for place in beyond[:LISTED].tolist():
        names, codes = release.measured.query(int(agreement.cells[place]))
        cells.append(
            {
                "cell": {name: domain[name].label(code) for name, code in zip(names, codes, strict=True)},
                "noisy": float(agreement.noisy[place]),
                "released": float(agreement.fitted[place]),
                "standard_deviations": float(agreement.z[place]),
                "reached": bool(agreement.reached[place]),
            }
        )
    return {
        "cells": len(agreement.cells),
        "within": list(agreement.within),
        "expected": list(agreement.expected),
        "chance_of_shares": list(agreement.chance_of_shares),
        "largest_gap": agreement.largest_gap,
        "cells_beyond_chance": len(beyond),
        "first_cells_beyond_chance": cells,
        "attributes": [
            {
                **dataclasses.asdict(attribute),
                "within": list(attribute.within),
                "expected": list(attribute.expected),
                "values": [
                    {
                        "value": domain[gap.attribute].label(gap.value),
                        "noisy": gap.noisy,
                        "released": gap.released,
                        "standard_deviations": gap.z,
                        "beyond_chance": gap in values_beyond,
                        "reached": gap.reached,
                    }
                    for gap in attribute.values[:3]
                ],
            }
            for attribute in agreement.attributes
        ],
    }
