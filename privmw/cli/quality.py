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
from privmw.cli.refusal import EXIT_DISAGREES, RefusalError
from privmw.data.coverage import Coverage, Missing, coverage_of
from privmw.data.domain import Domain, cell_name, plain
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.release import Agreement, Growth, Release
from privmw.release.agreement import ALPHA
from privmw.report.release.facts import noise_levels

MUCH_NOISE, TOO_MUCH_NOISE = 0.2, 1.0  # deviations of a count, as shares of the records
NAMED = 3  # marginals in a line
LISTED = 100  # in the facts: marginals, and cells whose gaps noise does not explain


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
    lines, asked = [], _sizes(workload)
    if not levels:
        lines.append(_line_of_drawn(mechanism, workload))
    elif (levels[0].step, levels[0].count, list(levels[0].orders)) != (
        "shot",
        len(workload),
        asked["orders"],
    ):
        lines.append(_line_of_measured(levels, workload, n, public=support.records > 0))
    if most >= MUCH_NOISE:
        refused = ", which a release refuses without --force" if most > TOO_MUCH_NOISE else ""
        lines.append(f"WARNING: the noise of a count is {most:.0%} of the records{refused}; {advice}")
    coverage = coverage_of(support)
    grows = mechanism.algorithm.fills_missing_columns
    lines += coverage_lines(coverage, support.domain, grows=grows, measures=bool(levels))
    facts = {
        "asked": asked,
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
    quality = release.quality()
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
        "asked": _sizes(release.workload),
        "measured": _measured(release, agreement),
        "noise": [dataclasses.asdict(level) for level in noise_levels(release)],
        "agreement": _figures(release, agreement),
        "coverage": coverage,
        "growth": growth_facts(growth, domain),
        "errors": quality.facts,
    }
    lines = (*growth_lines(growth, domain), *_lines(agreement, drawn=len(release.history) > 0))
    lines = (*lines, str(quality))
    return Postflight(lines, facts, 0 if agreement.agrees else EXIT_DISAGREES)


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


def _line_of_measured(levels: tuple[NoiseLevel, ...], workload: Workload, n: int, *, public: bool) -> str:
    asked = _count(len(workload), "marginal", _sizes(workload)["orders"])
    parts = []
    for level in levels:
        what = _count(level.count, level.granularity, list(level.orders))
        chosen = "" if level.step == "shot" else ", chosen one after the other"
        noise = f"with noise of {_records(level.deviation)} records ({level.deviation / n:.2%} of n)"
        parts.append(f"{what}{chosen}, {noise}")
    rest = "the public rows" if public else "these"
    return f"asked: {asked}; measured: {'; '.join(parts)}; the rest follows from {rest}"


def _line_of_drawn(mechanism: Mechanism, workload: Workload) -> str:
    asked = _count(len(workload), "marginal", _sizes(workload)["orders"])
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


def _sizes(workload: Workload) -> dict[str, Any]:
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


def coverage_lines(coverage: Coverage, domain: Domain, *, grows: bool, measures: bool = True) -> list[str]:
    """Lines about missing values; grows, measures: whether the method grows rows, and measures."""
    if len(coverage.lacking) == len(domain):
        learnt = "measured" if measures else "drawn"
        return [f"no public table: rows are grown from what is {learnt} alone"]
    lines = []
    if coverage.lacking:
        names = ", ".join(plain(name, 30) for name in coverage.lacking)
        learnt = "measured" if measures else "drawn"
        plural, them = ("", "it") if len(coverage.lacking) == 1 else ("s", "them")
        lines.append(
            f"the public file lacks the column{plural} {names}: only what is {learnt} tells of {them}"
        )
    if coverage.values:
        lines.append(
            f"{coverage.missing_values:,} of {coverage.possible_values:,} values of the domain have no "
            f"public row ({_listed(coverage.values, domain)}); {_consequence(coverage.missing_values, grows)}"
        )
    if coverage.pairs:
        lines.append(
            f"{coverage.missing_pairs:,} of {coverage.possible_pairs:,} pairs of values that occur have no "
            f"public row ({_listed(coverage.pairs, domain)}); {_consequence(coverage.missing_pairs, grows)}"
        )
    if coverage.skipped:
        names = "; ".join(" x ".join(plain(name, 30) for name in names) for names in coverage.skipped[:NAMED])
        more = ", ..." if len(coverage.skipped) > NAMED else ""
        lines.append(f"not looked at, as there are too many combinations: {names}{more}")
    return lines


def coverage_facts(coverage: Coverage, domain: Domain) -> dict[str, Any]:
    """The same as JSON values; values are shown as labels."""

    def facts(missing: Missing) -> dict[str, Any]:
        return {
            "attributes": list(missing.attributes),
            "missing": missing.count,
            "possible": missing.possible,
            "first": [
                [domain[name].label(code) for name, code in zip(missing.attributes, codes, strict=True)]
                for codes in missing.first
            ],
        }

    return {
        "values": {
            "missing": coverage.missing_values,
            "possible": coverage.possible_values,
            "by_attribute": [facts(missing) for missing in coverage.values[:LISTED]],
        },
        "pairs": {
            "missing": coverage.missing_pairs,
            "possible": coverage.possible_pairs,
            "by_attributes": [facts(missing) for missing in coverage.pairs[:LISTED]],
        },
        "lacking": list(coverage.lacking),
        "skipped": [list(names) for names in coverage.skipped[:LISTED]],
    }


def growth_lines(growth: Growth, domain: Domain) -> list[str]:
    """The line about grown rows, if there are any."""
    if not growth.grown_rows:
        return []
    if not growth.public_rows:
        return [f"{growth.rows:,} rows, all grown: none is a public record."]
    values = [
        (new.mass, cell_name(domain, (attribute.name,), (new.value,), most=30))
        for attribute in growth.attributes
        for new in attribute.new_values
    ]
    shown = [f"{name} {mass:.1%}" for mass, name in sorted(values, key=lambda value: -value[0])[:NAMED]]
    more = [f"and {len(values) - NAMED:,} more"] if len(values) > NAMED else []
    told = f"; values that no public row has: {', '.join(shown + more)}" if values else ""
    return [
        f"{growth.rows:,} rows: {growth.public_rows:,} public, {growth.grown_rows:,} grown, which carry "
        f"{growth.mass:.1%} of the records{told}."
    ]


def growth_facts(growth: Growth, domain: Domain) -> dict[str, Any]:
    """The same as JSON values; values are shown as labels."""
    return {
        "public_rows": growth.public_rows,
        "grown_rows": growth.grown_rows,
        "mass": growth.mass,
        "by_attribute": [
            {
                "attribute": attribute.name,
                "new_value_mass": attribute.new_value_mass,
                "new_pair_mass": attribute.new_pair_mass,
                "new_values": [
                    {"value": domain[attribute.name].label(new.value), "mass": new.mass}
                    for new in attribute.new_values[:LISTED]
                ],
            }
            for attribute in growth.attributes
        ],
    }


def _consequence(count: int, grows: bool) -> str:
    """What a release does about missing values."""
    them, they = ("it", "it") if count == 1 else ("them", "they")
    if grows:
        return f"rows are grown for {them} where what is measured asks for it"
    return (
        f"no row of the release will have {them}: {they} {'gets' if count == 1 else 'get'} 0 at any epsilon"
    )


def _listed(missing: tuple[Missing, ...], domain: Domain) -> str:
    """The first combination of each of the first attributes, and the number of further attributes."""
    shown = []
    for found in missing[:NAMED]:
        others = f" and {found.count - 1:,} more" if found.count > 1 else ""
        shown.append(cell_name(domain, found.attributes, found.first[0], most=30) + others)
    if len(missing) > NAMED:
        noun = "attributes" if len(missing[0].attributes) == 1 else "pairs of attributes"
        shown.append(f"and of {len(missing) - NAMED:,} more {noun}")
    return "; ".join(shown)
