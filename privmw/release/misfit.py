"""Sentences that explain why a release disagrees with its noisy counts, and what to do about it.

Two causes need different remedies. Where no row of the support has a value or a combination, no weights can
represent it: rows must be added or grown. Where rows have it, multiplicative weights may need more rounds; a
projection fits all measurements at once, so there the rows allow no better fit. Released values only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privmw.data.domain import cell_name, plain

if TYPE_CHECKING:
    from privmw.release.agreement import Agreement
    from privmw.release.release import Release

NAMED_VALUES = 3  # that the reasons name; the others are counted
STEPPING = ("MWEM", "MWPub", "MWEMPub")  # algorithms of one step per round, which may end before they fit


def explain(agreement: Agreement, release: Release) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reasons and the remedies of an agreement that disagrees, each in one sentence."""
    beyond, cells = agreement.beyond, _cells(len(agreement.cells))
    unreached, reached = beyond[~agreement.reached[beyond]], beyond[agreement.reached[beyond]]
    lost, apart = _lost_values(agreement, release, unreached)
    reasons = [*lost.values()][:NAMED_VALUES]
    if len(lost) > NAMED_VALUES:
        reasons.append(f"{len(lost) - NAMED_VALUES} more values without a row hold more than noise explains")
    if len(apart):
        have = "has" if len(apart) == 1 else "have"
        reasons.append(
            f"{_cells(len(apart))} in which no row lies {have} more records than noise explains; "
            f"the farthest: {_gap(agreement, release, int(apart[0]))}"
        )
    if reasons:
        if len(reached):
            are = "is" if len(reached) == 1 else "are"
            reasons.append(
                f"{_cells(len(reached))} that rows do have {are} beyond chance too, which may follow from it"
            )
        return tuple(reasons), tuple(_add_rows(release, list(lost), bool(len(apart))))
    if len(reached):
        reasons.append(
            f"{len(reached):,} of {cells} are farther off than noise explains; "
            f"the farthest: {_gap(agreement, release, int(reached[0]))}"
        )
    for gap in agreement.values_beyond[: 0 if len(reached) else NAMED_VALUES]:
        reasons.append(
            f"{cell_name(release.support.domain, [gap.attribute], [gap.value])} is farther off than noise "
            f"explains: {gap.noisy:.2%} of the records by the noisy counts, {gap.released:.2%} released "
            f"({abs(gap.z):,.1f} standard deviations apart)"
        )
    for k in agreement.shares_beyond[-1:]:
        reasons.append(
            f"only {agreement.within[k - 1]:.1%} of {cells} lie within {k} standard "
            f"deviation{'s' * (k > 1)} of the noisy count; noise alone would give "
            f"{agreement.expected[k - 1]:.1%}"
        )
    return tuple(reasons), (_fit_better(release),)


def _lost_values(
    agreement: Agreement, release: Release, unreached: np.ndarray
) -> tuple[dict[tuple[str, int], str], np.ndarray]:
    """The values that no row has but records do, with a sentence each; and the other cells without rows."""
    domain = release.support.domain
    occur = [np.unique(column) for column in release.support.table.columns]
    queries = release.measured.queries(agreement.cells[unreached])
    missing = np.zeros(len(queries.attributes), bool)
    for a in np.unique(queries.attributes).tolist():
        of_attribute = queries.attributes == a
        missing[of_attribute] = ~np.isin(queries.values[of_attribute], occur[a])
    cell = np.repeat(np.arange(len(unreached)), np.diff(queries.starts))
    sentences: dict[tuple[str, int], str] = {}
    for gap in agreement.values_beyond:
        if not gap.reached and gap.noisy > 0:
            name = cell_name(domain, [gap.attribute], [gap.value])
            sentences[gap.attribute, gap.value] = (
                f"no row has {name}, which {gap.noisy:.2%} of the records have by the noisy counts "
                f"({abs(gap.z):,.1f} standard deviations above 0)"
            )
    for entry in np.flatnonzero(missing).tolist():  # largest gaps first
        attribute, value = domain.names[int(queries.attributes[entry])], int(queries.values[entry])
        if (attribute, value) not in sentences and len(sentences) < 100 * NAMED_VALUES:
            where = int(unreached[cell[entry]])
            sentences[attribute, value] = (
                f"no row has {cell_name(domain, [attribute], [value])}; {_gap(agreement, release, where)}"
            )
    with_lost = np.zeros(len(unreached), bool)
    with_lost[cell[missing]] = True
    return sentences, unreached[~with_lost]


def _add_rows(release: Release, lost: list[tuple[str, int]], apart: bool) -> list[str]:
    domain = release.support.domain
    full = release.settings.get("algorithm") == "MWEM"
    remedies = []
    if full and (lost or apart):
        return ["check the constraints: every other combination of the domain has a row"]
    grow = "" if release.settings.get("particles") else ", or take --method auto, which grows them"
    for attribute in list(dict.fromkeys(name for name, _ in lost))[:NAMED_VALUES]:
        value = next(value for name, value in lost if name == attribute)
        remedies.append(
            f"compare how {plain(attribute, 40)} is spelt in both files and in the domain, or add public "
            f"rows with {cell_name(domain, [attribute], [value])}{grow}"
        )
    if apart:
        remedies.append(f"add public rows in which these values occur together{grow}")
    return remedies


def _fit_better(release: Release) -> str:
    """The remedy where every cell has rows, but the answers are off."""
    settings = release.settings
    algorithm = settings.get("algorithm")
    if algorithm in STEPPING:
        rounds = len(release.history)
        return (
            f"{algorithm} ended after {rounds} round{'s' * (rounds != 1)} before it fitted its measurements: "
            f"take more rounds, or --method auto, which fits all measurements at once"
        )
    if "steps" in settings:  # of gradients
        return "the relaxed rows did not fit the measurements: take more rows or steps, or --method auto"
    lighter = " or a smaller prior_weight" if settings.get("prior_weight") is not None else ""
    return (
        "these rows, or the pull to their public weights, do not allow all counts to be fitted at once: add "
        f"public rows that are more like the private table, or take a larger epsilon{lighter}"
    )


def _gap(agreement: Agreement, release: Release, place: int) -> str:
    names, values = release.measured.query(int(agreement.cells[place]))
    return (
        f"{cell_name(release.support.domain, names, values)} has {agreement.noisy[place]:.2%} of the records "
        f"by the noisy count, {agreement.fitted[place]:.2%} released "
        f"({abs(agreement.z[place]):,.1f} standard deviations apart)"
    )


def _cells(count: int) -> str:
    return f"{count:,} measured cell{'s' * (count != 1)}"
