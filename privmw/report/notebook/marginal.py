"""The picture of a marginal: public rows, release and interval of each cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privmw.data.domain import plain
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.release import Release
from privmw.release.errors import measured_intervals_of
from privmw.report.charts import dot_plot
from privmw.report.formats import percent, plural, value_name
from privmw.report.svg import Picture, Words

CELLS_SHOWN = 24


def plot_marginal(release: Release, names: Sequence[str], level: float) -> Picture:
    """Plot the cells of a marginal: see `Release.plot_marginal`."""
    support = release.support
    workload = Workload(support.domain, [tuple(names)])
    released, low, high, which = _with_intervals(release, workload, level)
    public = support.answers(workload) if support.records else None
    cells = _shown(workload, names, released, public)
    labels = [_label(workload, names, cell) for cell in cells.tolist()]
    title = " × ".join(plain(name, 30) for name in names)
    largest = int(released[cells].argmax())
    cell = cells[largest]
    share = f"{percent(released[cell])} released"
    if math.isfinite(high[cell]):
        share += f", interval {percent(low[cell])} to {percent(high[cell])}"
    if public is not None:
        share += f"; {percent(public[cell])} of the public rows"
    rest = workload.cells - len(cells)
    left = f"The largest of {plural(workload.cells, 'cell')}; the {rest:,} others have " if rest else ""
    left += f"{percent(max(1 - float(released[cells].sum()), 0.0))} of the records. " if rest else ""
    words = Words(
        "marginal-" + "-".join(str(support.domain.index(name)) for name in names),
        title=title,
        alt=f"A dot plot of {title}. The largest share is at {labels[largest]}: {share}.",
        caption=f"{left}{which}",
    )
    return dot_plot(
        words,
        labels,
        None if public is None else public[cells],
        released[cells],
        low[cells],
        high[cells],
        start="public rows",
    )


def _with_intervals(
    release: Release, workload: Workload, level: float
) -> tuple[Float64s, Float64s, Float64s, str]:
    """The answers, the ends of their intervals, and their kind: fitted, or else from measurements alone."""
    fitted = release.intervals(level, workload=workload)
    if fitted.offered.any():
        which = f"Intervals of {100 * level:g} % for the answers, computed from released values."
        return fitted.answers, fitted.low, fitted.high, which
    measured = measured_intervals_of(release, level, workload)
    which = "No intervals: these attributes were not measured together."
    if measured.offered.any():
        which = f"Intervals of {100 * level:g} % for the truth, by what was measured alone."
    return fitted.answers, measured.low, measured.high, which


def _shown(workload: Workload, names: Sequence[str], released: Float64s, public: Float64s | None) -> Int64s:
    """The cells to show, the first-named attribute varying slowest; of many, the largest ones."""
    axes = [workload.marginal(0).index(name) for name in names]
    order: Int64s = np.arange(workload.cells).reshape(workload.shape(0)).transpose(axes).ravel()
    if len(order) <= CELLS_SHOWN:
        return order
    largest = released if public is None else np.maximum(released, public)
    return order[np.sort(np.argsort(-largest[order], kind="stable")[:CELLS_SHOWN])]


def _label(workload: Workload, names: Sequence[str], cell: int) -> str:
    attributes, codes = workload.query(cell)
    code = dict(zip(attributes, codes, strict=True))
    return ", ".join(value_name(workload.domain[name], code[name], 30) for name in names)
