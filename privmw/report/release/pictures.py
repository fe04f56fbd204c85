"""Pictures of a release: its rounds, budget, the rows' weights, grown rows, each attribute, true errors.

Markers, dashes and hatches differ as well as colours, so that the pictures can be read in grey print. Each
has an alternative text with its main figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privmw.data.domain import Domain, plain
from privmw.kernels.arrays import Float64s
from privmw.release import Growth, Release
from privmw.release.errors.true_errors import Cell, Evaluation
from privmw.report.charts import dot_plot, heat_maps, meter, wrapped
from privmw.report.formats import percent, plural, quantity, value_name
from privmw.report.release.facts import ChangedPair, Distribution, NoisyIntervals, RowWeights, Spending
from privmw.report.release.words import Promise
from privmw.report.svg import (
    BLUE,
    GREY,
    INK,
    LIGHT_ORANGE,
    ORANGE,
    Picture,
    Words,
    draw,
    legend,
    square_root_axes,
)

MOST_VALUES_SHOWN = 12  # of an attribute
MOST_GROWN_ATTRIBUTES = 15  # of grown rows
MOST_HEAT_MAP_VALUES = 10  # values of an attribute in a heat map
MOST_ATTRIBUTES_OF_ALL_PAIRS = 20  # more attributes: not every pair is shown
MOST_GROUPS = 20  # of records, in a picture of their scores
MOST_MARKERS = 120  # more markers on a line, or steps of an area, would hide it
LARGEST_CHANGE_SHOWN = 8  # powers of two: weights that changed more are counted at this one


def guess(promise: Promise) -> Picture:
    """Draw the probability that the best guess about one unit is right, from 50 to 100 percent."""
    words = Words(
        "guess",
        title="How often an attacker's best guess is right",
        alt=(
            f"A bar from 50 in 100, tossing a coin, to 100 in 100, certainty. The best guess after reading "
            f"this release is right at most {promise.guess} times in 100."
        ),
        caption=(
            f"An attacker who knows every other {promise.unit} and everything released is right at most "
            f"{promise.guess} times in 100 about one {promise.unit}: {promise.strength}."
        ),
    )
    return meter(words, float(promise.guess), f"at most {promise.guess}")


def rounds(release: Release) -> Picture | None:
    """Plot the gap between noisy and model answers before and after each round; None for one shot."""
    rounds = [entry for entry in release.history if math.isfinite(entry.discrepancy + entry.after)]
    if len(rounds) < 2:
        return None
    numbers = [entry.round for entry in rounds]
    before = np.array([entry.discrepancy for entry in rounds])
    after = np.array([entry.after for entry in rounds])

    def paint(figure: Any, axes: Any) -> None:
        circle, square = ("o", "s") if len(rounds) <= MOST_MARKERS else ("", "")
        learnt = {"color": ORANGE, "marker": circle, "mfc": "white", "ls": "--", "lw": 1.2}
        axes.plot(numbers, 100 * before, **learnt, markersize=4.5, label="before the round learnt")
        axes.plot(numbers, 100 * after, color=BLUE, marker=square, markersize=4.5, lw=1.4, label="after")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("round")
        axes.set_ylabel("largest gap, % of records")
        axes.xaxis.get_major_locator().set_params(integer=True)
        legend(figure, axes)

    words = Words(
        "rounds",
        title="Gap between noisy and model answers, round by round",
        alt=(
            f"A line chart of {plural(len(rounds), 'round')}. Before learning, the largest gap is "
            f"{percent(before[0])} of the records in the first round and {percent(before[-1])} in the last, "
            f"at most {percent(before.max())}. After learning it is {percent(after[0])} in the first and "
            f"{percent(after[-1])} in the last."
        ),
        caption=(
            "The largest difference between what a round measured, noise included, and the model's answer, "
            "before the round learnt from it and after. It falls as the model needs less correction, and "
            "levels off where noise is all that is left."
        ),
    )
    return draw(words, paint, height=2.9)


def budget(spent: Spending) -> Picture | None:
    """Plot the budget spent on choosing and on measuring after each look; None for a single look."""
    count = len(next(iter(spent.running.values()), ()))
    if count < 2:
        return None
    styles = {"measuring": (BLUE, ""), "choosing": (LIGHT_ORANGE, "////"), "other": (GREY, "...")}
    names = [name for name in styles if name in spent.running]
    steps = np.arange(count + 1)
    heights = [100 * np.append(0, spent.running[name]) / spent.limit for name in names]

    def paint(figure: Any, axes: Any) -> None:
        base = np.zeros(count + 1)
        for name, height in zip(names, heights, strict=True):
            colour, hatch = styles[name]
            area = {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "lw": 0.4, "label": name}
            axes.fill_between(
                steps, base, base + height, step="pre" if count <= MOST_MARKERS else None, **area
            )
            base = base + height
        axes.axhline(100, color=INK, lw=1, ls="--")
        axes.set_xlim(0, count)
        axes.set_ylim(0, 108)
        axes.set_xlabel("looks at the private table, in order")
        axes.set_ylabel("% of the budget spent")
        axes.xaxis.get_major_locator().set_params(integer=True)
        legend(figure, axes)

    shares = ", ".join(
        f"{percent(float(height[-1]) / 100)} for {name}" for name, height in zip(names, heights, strict=True)
    )
    words = Words(
        "budget",
        title="The privacy budget, look by look",
        alt=(
            f"Stacked areas over {plural(count, 'look')} at the private table. At the end, of the whole "
            f"budget: {shares}."
        ),
        caption=(
            f"How much of the budget was spent after each look, counted in {spent.unit}; the dashed line is "
            "the whole. What is spent on choosing decides what to measure; what is spent on measuring buys "
            "less noise."
        ),
    )
    return draw(words, paint, height=2.9)


def weights(change: RowWeights) -> Picture:
    """Plot the changes of the weights of public rows, on a logarithmic scale."""
    at_start = change.before > 0
    weighted, rows = at_start & (change.after > 0), int(np.count_nonzero(at_start))
    ratios = np.log2(change.after[weighted] / change.before[weighted])
    edges = np.arange(-LARGEST_CHANGE_SHOWN - 0.25, LARGEST_CHANGE_SHOWN + 0.5, 0.5)
    heights = np.histogram(np.clip(ratios, -LARGEST_CHANGE_SHOWN, LARGEST_CHANGE_SHOWN), edges)[0] / rows
    middle, grown = 2 ** float(np.median(ratios)) if len(ratios) else 0.0, len(change.after) - rows

    def paint(figure: Any, axes: Any) -> None:
        ticks = {-8.0: "≤ 1/256", -4.0: "1/16", 0.0: "1", 4.0: "16", 8.0: "≥ 256"}
        axes.bar((edges[1:] + edges[:-1]) / 2, 100 * heights, width=0.44, color=BLUE)
        if change.empty:
            share = 100 * change.empty / rows
            axes.bar([-10], [share], width=0.44, color=LIGHT_ORANGE, hatch="////", edgecolor=INK, lw=0.4)
            ticks = {-10.0: "zero", **{place: ticks[place] for place in (-4.0, 0.0, 4.0, 8.0)}}
        axes.axvline(0, color=INK, lw=0.8, ls="--")
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xlabel("weight after, as a multiple of the weight before")
        axes.set_ylabel("% of rows" if grown == 0 else "% of public rows")
        axes.grid(axis="x", visible=False)

    words = Words(
        "weights",
        title="Weights of the rows, after against before",
        alt=(
            f"A histogram of {plural(rows, 'row')}. The middle row of those that keep weight has "
            f"{middle:.3g} times its weight at the start; {plural(change.empty, 'row')} got no weight at "
            f"all. The weights are as concentrated as on {quantity(change.effective_before)} equal rows "
            f"before and {quantity(change.effective_after)} after."
        ),
        caption=(
            f"Rows right of the dashed line became more common than at the start, rows left of it rarer. "
            f"{percent(change.moved)} of the weight moved to other rows. Effective number of rows: "
            f"{quantity(change.effective_before)} before, {quantity(change.effective_after)} after; "
            f"{plural(change.empty, 'row')} without weight."
            + (f" Not shown: {plural(grown, 'grown row')}, without weight before." if grown else "")
        ),
    )
    return draw(words, paint, height=2.7)


def growth(grown: Growth) -> Picture | None:
    """Plot, by attribute, the records with a value or a pair that no public row has; None if there are none.

    Without public rows everything is new, and there is nothing to compare: None.
    """
    news = sorted(grown.attributes, key=lambda attribute: -attribute.new_pair_mass)
    news = [attribute for attribute in news if attribute.new_pair_mass + attribute.new_value_mass > 0]
    if not grown.public_rows or not news:
        return None
    shown = news[:MOST_GROWN_ATTRIBUTES]
    names = [plain(attribute.name, 40) for attribute in shown]
    pairs = np.array([attribute.new_pair_mass for attribute in shown])
    values = np.array([attribute.new_value_mass for attribute in shown])

    def paint(figure: Any, axes: Any) -> None:
        rows = np.arange(len(shown))
        hatched = {"color": LIGHT_ORANGE, "hatch": "////", "edgecolor": INK, "lw": 0.4}
        axes.barh(rows, 100 * pairs, height=0.62, **hatched, label="a new pair with another attribute")
        axes.barh(rows, 100 * values, height=0.3, color=BLUE, label="a new value")
        axes.axvline(100 * grown.mass, color=INK, lw=1, ls="--", label="all grown rows")
        axes.set_yticks(rows, names)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.set_xlabel("% of records")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        legend(figure, axes)

    most = int(np.argmax(values))
    value = f" Most new values are of {names[most]}: {percent(values[most])}." if values[most] else ""
    left_out = f" {len(shown)} of {len(news)} attributes are shown." if len(news) > len(shown) else ""
    words = Words(
        "growth",
        title="What no public row has, by attribute",
        alt=(
            f"A bar chart of {plural(len(shown), 'attribute')}. Grown rows carry {percent(grown.mass)} of "
            f"the records. Most new pairs involve {names[0]}: {percent(pairs[0])} of the records.{value}"
        ),
        caption=(
            "The released records in which an attribute has a value that no public row has, or a value that "
            "no public row has together with that of some other attribute. The dashed line is all that grown "
            f"rows carry: a record may also be new by its other attributes.{left_out}"
        ),
    )
    return draw(words, paint, height=1.15 + 0.24 * len(shown))


def attribute(distribution: Distribution, domain: Domain, place: int, start: str) -> Picture:
    """Plot one attribute's distribution before and after; of many values, those that moved most."""
    values = np.arange(len(distribution.codes))
    many = len(values) > MOST_VALUES_SHOWN
    if many:
        moved = np.argsort(-np.abs(distribution.after - distribution.before), kind="stable")
        values = np.sort(moved[: MOST_VALUES_SHOWN - 1])
    labels = [value_name(domain[distribution.name], int(distribution.codes[value])) for value in values]
    before, after = distribution.before[values], distribution.after[values]
    low, high = distribution.low[values], distribution.high[values]
    if many:
        labels.append("all others")
        before, after = (np.append(part, max(1 - part.sum(), 0)) for part in (before, after))
        low, high = np.append(low, math.nan), np.append(high, math.nan)
    name = plain(distribution.name, 40)
    most = int(np.argmax(np.abs(after - before)))
    values_shown = plural(distribution.size, "value") + (f", {len(labels) - 1} shown" if many else "")
    interval = ""
    if math.isfinite(high[most]):
        interval = f", and by what was measured from {percent(low[most])} to {percent(high[most])} in truth"
    words = Words(
        f"attribute-{place}",
        title=name,
        alt=(
            f"A dot plot of {name} ({values_shown}). {percent(distribution.moved)} of the records would have "
            f"to change their value to get from one to the other. The largest change is at {labels[most]}: "
            f"{percent(before[most])} before, {percent(after[most])} released{interval}."
        ),
        caption=f"{values_shown}; {percent(distribution.moved)} of the records moved",
    )
    return dot_plot(words, labels, before, after, low, high, start=start)


def changed_pair(pair: ChangedPair, domain: Domain, place: int, start: str) -> Picture:
    """Two heat maps of a pair of attributes, before and after; of many values, the commonest."""
    labels, matrices = [], [pair.before, pair.after, pair.low, pair.high]
    for axis, name in enumerate(pair.names):
        attribute = domain[name]
        values, rest = np.arange(attribute.size), False
        if attribute.size > MOST_HEAT_MAP_VALUES:
            commonest = np.argsort(-pair.after.sum(axis=1 - axis), kind="stable")[: MOST_HEAT_MAP_VALUES - 1]
            values, rest = np.sort(commonest), True
        names = [value_name(attribute, int(value)) for value in values]
        others = np.setdiff1d(np.arange(attribute.size), values)
        for k, matrix in enumerate(matrices):
            kept = matrix.take(values, axis)
            if rest:
                # No interval is stated for sums of many cells.
                left_over = matrix.take(others, axis).sum(axis=axis, keepdims=True) * (
                    math.nan if k > 1 else 1
                )
                kept = np.concatenate([kept, left_over], axis)
            matrices[k] = kept
        labels.append([*names, "all others"] if rest else names)
    # Columns are narrow: the attribute with shorter names goes there.
    if max(map(len, labels[1])) > max(map(len, labels[0])):
        labels, matrices = labels[::-1], [matrix.T for matrix in matrices]
        pair = replace(pair, names=pair.names[::-1])
    before, after, low, high = matrices
    largest = max(float(before.max()), float(after.max()), 1e-9)
    sure = (before < low) | (before > high)
    i, j = np.unravel_index(np.abs(after - before).argmax(), after.shape)
    down, across = (plain(name, 40) for name in pair.names)
    measured = bool(np.isfinite(high).any())
    interval = (
        f", by what was measured from {percent(low[i, j])} to {percent(high[i, j])} in truth"
        if math.isfinite(high[i, j])
        else ""
    )
    most = (
        f"The largest change is at {labels[0][i]}, {labels[1][j]}: {percent(before[i, j])} before, "
        f"{percent(after[i, j])} released{interval}."
    )
    dots = (
        " A dot: what was measured rules the public share out, 95 times in 100."
        if measured
        else " No measured marginal has both: no interval is stated."
    )
    words = Words(
        f"pair-{place}",
        title=f"{down} by {across}",
        alt=(
            f"Two heat maps of {down} and {across}, {start} and released. {percent(pair.moved)} of the "
            f"records would have to move to get from one to the other. {most}"
        ),
        caption=(
            f"{percent(pair.moved)} of the records moved. {most} The strongest colour is {percent(largest)}."
            f"{dots}"
        ),
    )
    return heat_maps(
        words,
        labels[0],
        labels[1],
        [(start, before), ("released", after)],
        tints=[np.sqrt(before / largest), np.sqrt(after / largest)],
        marked=sure if measured else None,
    )


def precision(release: Release, noisy_intervals: NoisyIntervals) -> Picture | None:
    """A heat map of the precision of each pair of attributes; None if there are too many."""
    domain = release.support.domain
    count = len(domain)
    if not noisy_intervals.deviations or not 2 <= count <= MOST_ATTRIBUTES_OF_ALL_PAIRS:
        return None
    reach = np.full((count, count), math.nan)
    for (a, b), deviation in noisy_intervals.deviations.items():
        reach[b, a] = noisy_intervals.quantile * deviation
    names = [plain(name, 40) for name in domain.names]
    best, worst = (percent(float(end), up=True) for end in (np.nanmin(reach), np.nanmax(reach)))
    pairs, empty = (
        plural(len(noisy_intervals.deviations), "pair"),
        math.comb(count, 2) - len(noisy_intervals.deviations),
    )
    some = f" {plural(empty, 'pair')} left empty: no measured marginal has both." if empty else ""
    words = Words(
        "precision",
        title="How precisely each pair is known",
        alt=(
            f"A triangle of {pairs} of attributes. What was measured fixes the share of a cell to within "
            f"{best} of the records for the most precise pair, and to within {worst} for the least."
        ),
        caption=(
            f"The stronger the colour, the less is known: from ± {best} to ± {worst} of the records for a "
            f"cell, 95 times in 100.{some}"
        ),
    )
    return heat_maps(
        words,
        names[1:],
        names[:-1],
        [("", reach[1:, :-1])],
        tints=[0.1 + 0.9 * (reach[1:, :-1] - np.nanmin(reach)) / max(np.ptp(reach[~np.isnan(reach)]), 1e-9)],
        hue=ORANGE,
    )


def against_true(evaluation: Evaluation) -> Picture:
    """Plot released answers against true ones, for the worst cells and for typical ones. NOT PRIVATE."""

    def points(cells: Sequence[Cell]) -> tuple[Float64s, Float64s]:
        return np.array([cell.true for cell in cells]), np.array([cell.released for cell in cells])

    typical, worst = points(evaluation.typical), points(evaluation.largest)

    def paint(figure: Any, axes: Any) -> None:
        line = square_root_axes(axes, *(100 * np.concatenate([typical, worst], axis=1)))
        ring = {"marker": "o", "ls": "", "mfc": "none", "mec": BLUE, "mew": 0.8, "markersize": 3.6}
        diamond = {"marker": "D", "ls": "", "mfc": ORANGE, "mec": INK, "mew": 0.5, "markersize": 4.8}
        axes.plot(line, line, color=INK, lw=0.8)
        axes.plot(100 * typical[0], 100 * typical[1], **ring, label="typical cells", clip_on=False)
        axes.plot(100 * worst[0], 100 * worst[1], **diamond, label="largest errors", clip_on=False)
        axes.set_xlabel("true answer, % of records")
        axes.set_ylabel("released answer, % of records")
        legend(figure, axes)

    words = Words(
        "truth",
        title="Released answers against true ones",
        alt=(
            f"NOT PRIVATE. A scatter plot of the {plural(len(evaluation.largest), 'cell')} with the largest "
            f"errors and {plural(len(evaluation.typical), 'typical cell')}. The largest error is "
            f"{percent(evaluation.max_error, up=True)} of the records: {percent(evaluation.worst.true)} in "
            f"truth, {percent(evaluation.worst.released)} released. The mean error is "
            f"{percent(evaluation.mean_error, up=True)}."
        ),
        caption=(
            "Contains true answers of the private table. On the line a released answer is exactly right. "
            "Typical cells are taken at even steps through all errors above zero. Square-root scale."
        ),
    )
    return draw(words, paint, height=4.0, true=True)


def record_scores(evaluation: Evaluation) -> Picture:
    """Plot the k-marginal score of all synthetic records and of each group. NOT PRIVATE."""
    groups = evaluation.records[:MOST_GROUPS]
    scores = np.array([group.k_marginal for group in groups])
    places = np.arange(len(groups))[::-1]

    def paint(figure: Any, axes: Any) -> None:
        axes.barh(places, 1000 - scores, color=BLUE, height=0.6)
        axes.set_yticks(places, [wrapped(group.group)[0] for group in groups])
        axes.set_xlabel("1000 less the k-marginal score: 0 is equal to the private records")

    worst = groups[int(scores.argmin())]
    words = Words(
        "groups",
        title="Synthetic records against private ones",
        alt=(
            f"NOT PRIVATE. A bar plot of the k-marginal scores of {plural(len(groups), 'group')} of "
            f"synthetic records. The score is {groups[0].k_marginal:.0f} for all records, and smallest, "
            f"{worst.k_marginal:.0f}, for {worst.group}."
        ),
        caption="Contains true figures of the private table. Small groups have large sampling errors.",
    )
    return draw(words, paint, height=1.0 + 0.3 * len(groups), true=True)
