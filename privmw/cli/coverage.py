"""Messages about values that no public row has, and what a release does about them: text and JSON."""

from __future__ import annotations

from typing import Any

from privmw.data.coverage import Coverage, Missing
from privmw.data.domain import Domain
from privmw.data.names import cell_name, plain
from privmw.release import Growth

NAMED, LISTED = 3, 100  # marginals in a line, and in the facts


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
            f"public row ({_some(coverage.values, domain)}); {_consequence(coverage.missing_values, grows)}"
        )
    if coverage.pairs:
        lines.append(
            f"{coverage.missing_pairs:,} of {coverage.possible_pairs:,} pairs of values that occur have no "
            f"public row ({_some(coverage.pairs, domain)}); {_consequence(coverage.missing_pairs, grows)}"
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


def _some(missing: tuple[Missing, ...], domain: Domain) -> str:
    """The first combination of each of the first attributes, and the number of further attributes."""
    shown = []
    for found in missing[:NAMED]:
        others = f" and {found.count - 1:,} more" if found.count > 1 else ""
        shown.append(cell_name(domain, found.attributes, found.first[0], most=30) + others)
    if len(missing) > NAMED:
        noun = "attributes" if len(missing[0].attributes) == 1 else "pairs of attributes"
        shown.append(f"and of {len(missing) - NAMED:,} more {noun}")
    return "; ".join(shown)
