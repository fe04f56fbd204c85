"""Why a release disagrees with its noisy counts, and what to do about it, in a line or two each.

Two causes need different remedies. Where no row of the support has a value or a combination, no weights reach
it, at any epsilon and after any number of rounds. Where rows have it, multiplicative weights may need more
rounds; a projection fits all measurements at once, so there the rows do not allow more. Released values and
public rows only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privmw.data.names import cell_name, plain

if TYPE_CHECKING:
    from privmw.release.agreement import Agreement
    from privmw.release.release import Release

MOST = 3  # values named
STEPPING = ("MWEM", "MWPub", "MWEMPub")  # algorithms that take a step a round, and may end before they fit


def explain(agreement: Agreement, release: Release) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reasons and the remedies of an agreement that disagrees, each in one sentence."""
    beyond = agreement.beyond
    unreached = beyond[~agreement.reached[beyond]]
    lost, apart = _lost_values(agreement, release, unreached)
    reasons = [*lost.values()][:MOST]
    if len(lost) > MOST:
        reasons.append(f"{len(lost) - MOST} more values that no row has hold more records than noise explains")
    if len(apart):
        reasons.append(
            f"{_cells(len(apart))} in which no row lies {_have(len(apart))} more records than noise explains; "
            f"the farthest: {_farthest(agreement, release, int(apart[0]))}"
        )
    remedy = _remedies(release, list(lost), bool(len(apart)))
    reached = beyond[agreement.reached[beyond]]
    if not reasons:
        if len(reached):
            reasons.append(
                f"{len(reached):,} of {_cells(len(agreement.cells))} {_are(len(reached))} farther off than noise "
                f"explains; the farthest: {_farthest(agreement, release, int(reached[0]))}"
            )
        for gap in agreement.values_beyond[: 0 if len(reached) else MOST]:
            name = cell_name(release.support.domain, [gap.attribute], [gap.value])
            reasons.append(
                f"{name} is farther off than noise explains: {_share(gap.noisy)} of the records by the noisy "
                f"counts, {_share(gap.released)} released ({abs(gap.z):,.1f} standard deviations)"
            )
        for k in agreement.shares_beyond[-1:]:
            reasons.append(
                f"only {agreement.within[k - 1]:.1%} of {_cells(len(agreement.cells))} lie within "
                f"{k} standard deviation{'s' * (k > 1)} of the noisy count; noise alone would give "
                f"{agreement.expected[k - 1]:.1%}"
            )
        remedy = [_remedy_of_fit(release)]
    elif len(reached):
        reasons.append(
            f"{_cells(len(reached))} that rows do have {_are(len(reached))} beyond chance too, which may "
            f"follow from it"
        )
    return tuple(reasons), tuple(remedy)


def _lost_values(
    agreement: Agreement, release: Release, unreached: np.ndarray
) -> tuple[dict[tuple[str, int], str], np.ndarray]:
    """The values that no row has but records do, with a sentence each; and the other unreached cells."""
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
        if not gap.reached:
            name = cell_name(domain, [gap.attribute], [gap.value])
            sentences[gap.attribute, gap.value] = (
                f"no row has {name}, which {_share(gap.noisy)} of the records have by the noisy counts "
                f"({abs(gap.z):,.1f} standard deviations above 0)"
            )
    for entry in np.flatnonzero(missing).tolist():  # the farthest cells first
        attribute, value = domain.names[int(queries.attributes[entry])], int(queries.values[entry])
        if (attribute, value) not in sentences and len(sentences) < 100 * MOST:
            where = int(unreached[cell[entry]])
            sentences[attribute, value] = (
                f"no row has {cell_name(domain, [attribute], [value])}; "
                f"{_farthest(agreement, release, where)}"
            )
    with_lost = np.zeros(len(unreached), bool)
    with_lost[cell[missing]] = True
    return sentences, unreached[~with_lost]


def _remedies(release: Release, lost: list[tuple[str, int]], apart: bool) -> list[str]:
    domain = release.support.domain
    full = release.settings.get("algorithm") == "MWEM"
    remedies = []
    if full and (lost or apart):
        return ["check the constraints: every other combination of the domain has a row"]
    for attribute in list(dict.fromkeys(name for name, _ in lost))[:MOST]:
        value = next(value for name, value in lost if name == attribute)
        remedies.append(
            f"compare how {plain(attribute, 40)} is spelt in both files and in the domain, or add public rows "
            f"with {cell_name(domain, [attribute], [value])}"
        )
    if apart:
        remedies.append(
            "add public rows in which these values occur together: without them the answer is 0 at any epsilon "
            "(--method auto adds some to a small public file, by single values of other records)"
        )
    return remedies


def _remedy_of_fit(release: Release) -> str:
    """What to do where rows reach every cell, but the answers are off all the same."""
    settings = release.settings
    algorithm = settings.get("algorithm")
    if algorithm in STEPPING:
        rounds = len(release.history)
        return (
            f"{algorithm} ended after {rounds} round{'s' * (rounds != 1)} before it fitted what it measured: take "
            f"more rounds, or --method auto, which fits all measurements at once"
        )
    lighter = " or a smaller prior_weight" if settings.get("prior_weight") is not None else ""
    return (
        "these rows cannot be weighed to fit all counts at once: add public rows that are nearer to the "
        f"private table{lighter}"
    )


def _farthest(agreement: Agreement, release: Release, place: int) -> str:
    names, values = release.measured.query(int(agreement.cells[place]))
    return (
        f"{cell_name(release.support.domain, names, values)} has {_share(agreement.noisy[place])} of the records "
        f"by the noisy count, {_share(agreement.fitted[place])} released "
        f"({abs(agreement.z[place]):,.1f} standard deviations apart)"
    )


def _share(fraction: float) -> str:
    return f"{fraction:.2%}"


def _cells(count: int) -> str:
    return f"{count:,} measured cell{'s' * (count != 1)}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"
