"""What the public rows do not cover, and what a release does about it: lines for people, facts for JSON."""

from __future__ import annotations

from typing import Any

from privmw.data.coverage import Coverage, Missing
from privmw.data.domain import Domain
from privmw.data.names import cell_name, plain

NAMED, LISTED = 3, 100  # marginals in a line, and in the facts


def coverage_lines(coverage: Coverage, public: Coverage, domain: Domain) -> list[str]:
    """Lines about the rows that a release weighs; public: about the public ones, before any widening."""
    lines = []
    if public.lacking:
        names = ", ".join(plain(name, 30) for name in public.lacking)
        plural, them = ("", "it") if len(public.lacking) == 1 else ("s", "them")
        lines.append(
            f"the public file lacks the column{plural} {names}: only what is measured tells of {them}"
        )
    if coverage.values:
        lines.append(
            f"{coverage.missing_values:,} of {coverage.possible_values:,} values of the domain have no "
            f"public row ({_some(coverage.values, domain)}); {_consequence(coverage.missing_values)}"
        )
    if public.pairs:
        missing = coverage.missing_pairs
        reached = public.missing_pairs - missing
        if reached:
            fate = f"rows with a value of another record reach {'' if missing else 'all '}{reached:,} of them"
            fate += f"; the other {missing:,} {_gets(missing)}" if missing else ""
        else:
            fate = _consequence(missing)
        lines.append(
            f"{public.missing_pairs:,} of {public.possible_pairs:,} pairs of values that occur have no "
            f"public row ({_some(coverage.pairs or public.pairs, domain)}); {fate}"
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


def _consequence(count: int) -> str:
    """What a release does about what no row has: the one place that says so."""
    them, they = ("it", "it") if count == 1 else ("them", "they")
    return f"no row of the release will have {them}: {they} {_gets(count)}"


def _gets(count: int) -> str:
    return f"{'gets' if count == 1 else 'get'} 0 at any epsilon"


def _some(missing: tuple[Missing, ...], domain: Domain) -> str:
    """The first combination of each of the first attributes, and how many more attributes there are."""
    shown = []
    for found in missing[:NAMED]:
        others = f" and {found.count - 1:,} more" if found.count > 1 else ""
        shown.append(cell_name(domain, found.attributes, found.first[0], most=30) + others)
    if len(missing) > NAMED:
        noun = "attributes" if len(missing[0].attributes) == 1 else "pairs of attributes"
        shown.append(f"and of {len(missing) - NAMED:,} more {noun}")
    return "; ".join(shown)
