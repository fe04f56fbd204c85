"""The explorer of a release: its rows, weights, intervals and promise, put together for one page.

It receives a release and nothing else: public rows, weights, noisy counts and the ledger. All weighted rows
travel where they fit, and the page then answers exactly as `Release.answer` does; otherwise as many synthetic
records as fit, with public records beside them, and the page says so.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.data.domain import Attribute, Domain
from privmw.data.workload import Workload
from privmw.extensions.explorer import pack
from privmw.io.whole_file import whole_file
from privmw.kernels.arrays import Float64s, Int64s
from privmw.kernels.checks import check_integer
from privmw.random import sampling_stream
from privmw.release import FittedIntervals, Release
from privmw.release.apportion import randomised
from privmw.release.errors import MeasuredIntervals, measured_intervals_of, quantile_of
from privmw.report.page import check_installed, make_page
from privmw.report.release.words import promise
from privmw.secrecy import expect

MOST_BYTES = 6_000_000  # of the page, unless it says otherwise
PAGE_BYTES = 200_000  # for everything but the rows, about
MOST_INTERVALS = 300_000  # cells with an interval
MOST_VALUES_LISTED = 2_000  # of an attribute that are listed whether a row has them or not
MOST_ORDER = 3  # of marginals with intervals
EXPLORER_LEVEL = 0.95
SEED = 0  # of the sample, where there is one: a page is the same each time


def write_explorer(
    path: str | os.PathLike[str],
    release: Release,
    *,
    title: str | None = None,
    folder: str = "out",
    intervals: FittedIntervals | None = None,
    rows: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write the explorer of a release to one HTML file, whole or not at all; see `render_explorer`.

    >>> import tempfile
    >>> from privmw import PEP, Domain, Support, Table, Workload
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support, workload = Support.full(domain), Workload.all(domain, k=2)
    >>> release = PEP(select="all").release(private, support, workload, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_explorer(os.path.join(folder, "explore.html"), release)
    ...     os.listdir(folder)
    ['explore.html']
    """
    page = render_explorer(release, title=title, folder=folder, intervals=intervals, rows=rows).encode()
    with whole_file(path, overwrite=overwrite) as file:
        file.write(page)


def render_explorer(
    release: Release,
    *,
    title: str | None = None,
    folder: str = "out",
    intervals: FittedIntervals | None = None,
    rows: int | None = None,
) -> str:
    """Return the explorer of a release as HTML text.

    folder: where the release lies, for the commands that the page shows. rows: the most rows that the page
    carries; by default as many as fit in 6 MB. intervals: what `release.intervals` returned for
    `marginals_with_intervals(domain)` or another small workload; by default what the noisy counts alone say
    of those.
    """
    expect("release", release, Release, "a Release")
    if intervals is not None:
        expect("intervals", intervals, FittedIntervals, "FittedIntervals")
        if intervals.workload.domain != release.support.domain:
            raise ValueError("intervals must be on the domain of the release")
    most = None if rows is None else check_integer("rows", rows, 1)
    check_installed()
    bounds: MeasuredIntervals | FittedIntervals
    if intervals is None or intervals.reason:
        asked = marginals_with_intervals(release.support.domain)
        bounds = measured_intervals_of(release, EXPLORER_LEVEL, asked)
    else:
        bounds = intervals
    support = release.support
    start = support.start() if support.records else None
    traveller = _Rows(np.arange(support.size), release.weights, start, None)
    if most is not None and len(traveller.released) > most:
        traveller = _sampled(release, most)
    facts, packed = _packed(release, traveller, bounds)
    while most is None and len(traveller.released) > 1 and _size(packed) > MOST_BYTES:
        # A sample has two parts, and less than full columns; a tenth less for what compresses worse.
        fewer = int(0.9 * len(traveller.released) * (MOST_BYTES - PAGE_BYTES) / _size(packed))
        traveller = _sampled(release, max(fewer, 1))
        facts, packed = _packed(release, traveller, bounds)
    facts["folder"] = folder
    script = _resource("explore.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return make_page(
        "extensions/explorer/explore.html.j2",
        name=title or "A private release",
        release=release,
        promise=promise(release.ledger),
        statement=release.statement().splitlines(),
        rows=len(traveller.released),
        sample=traveller.sample,
        own_style=_resource("explore.css"),
        script=script,
        script_hash=digest,
        facts=_for_script(facts),
        packed=base64.b64encode(packed).decode(),
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that travel: which of the support's, and their two weights. sample: how many were drawn."""

    rows: Int64s
    released: Float64s
    public: Float64s | None
    sample: int | None


def _sampled(release: Release, most: int) -> _Rows:
    """Synthetic records, and public records beside them: half of `most` rows for each, all if none is public.

    Rows that were drawn several times travel once, so that there are fewer.
    """
    support, stream = release.support, sampling_stream(SEED)
    weights = [release.weights] + ([support.start()] if support.records else [])
    drawn = []
    for each in weights:
        part = each.copy()
        kernels.rescale(part)
        masses, total = kernels.to_masses(part)
        size = max(most // len(weights), 1)
        drawn.append(randomised(masses, total, size, stream) / size)
    rows = np.flatnonzero(np.sum(drawn, axis=0))
    released, *public = (np.ascontiguousarray(shares[rows]) for shares in drawn)
    return _Rows(rows, released, public[0] if public else None, max(most // len(weights), 1))


def marginals_with_intervals(domain: Domain) -> Workload:
    """All marginals of one attribute, of two and of three, as far as their cells are few enough for a page.

    >>> len(marginals_with_intervals(Domain({"age": 3, "sex": 2, "zip": 60_000})))
    3
    """
    small = [a for a, size in enumerate(domain.sizes) if size <= MOST_VALUES_LISTED]
    sizes = np.array(domain.sizes, np.float64)
    chosen: list[tuple[str, ...]] = []
    cells = 0.0
    for order in range(1, min(MOST_ORDER, len(small)) + 1):
        marginals = list(combinations(small, order))
        cells += float(np.prod(sizes[np.array(marginals)], axis=1).sum())
        if cells > MOST_INTERVALS:
            break
        chosen += [tuple(domain.names[a] for a in marginal) for marginal in marginals]
    return Workload(domain, chosen)


def _packed(
    release: Release, traveller: _Rows, bounds: MeasuredIntervals | FittedIntervals
) -> tuple[dict[str, Any], bytes]:
    """The facts that the page reads, and everything else in one stream, in the order that they say."""
    support = release.support
    parts = [pack.pack_masses(traveller.released)]
    if traveller.public is not None:
        parts.append(pack.pack_masses(traveller.public))
    columns = []
    for attribute, column in zip(support.domain.attributes, support.table.columns, strict=True):
        codes: npt.NDArray[Any] = column[traveller.rows]
        listed: list[int] | None = None
        if attribute.size > MOST_VALUES_LISTED:
            values, codes = np.unique(codes, return_inverse=True)
            listed = values.tolist()
        size = attribute.size if listed is None else len(listed)
        parts.append(pack.pack_codes(codes, size))
        columns.append(
            {
                "name": attribute.name,
                "labels": _labels(attribute, listed),
                "codes": listed,
                "size": attribute.size,
                "bits": pack.width_of(size),
            }
        )
    offered = np.empty(0, np.int64)
    if len(bounds.workload):
        offered = np.flatnonzero(np.logical_or.reduceat(bounds.offered, bounds.workload.offsets[:-1]))
    marginals = bounds.workload.select(offered)
    if len(marginals):
        cells = bounds.workload.cells_of(offered)
        if isinstance(
            bounds, MeasuredIntervals
        ):  # noisy shares and reaches: sums of cells have intervals too
            reaches = quantile_of(release, bounds.level) * bounds.deviations[cells]
            parts.append(pack.pack_pairs(bounds.noisy[cells], reaches))
        else:
            parts.append(pack.pack_pairs(bounds.low[cells], bounds.high[cells]))
    facts = {
        "rows": len(traveller.released),
        "sample": traveller.sample,
        "records": release.n,
        "public": traveller.public is not None,
        "columns": columns,
        "level": bounds.level,
        "intervals": "fitted" if isinstance(bounds, FittedIntervals) else "measured",
        "marginals": marginals.attributes.tolist(),
        "starts": marginals.starts.tolist(),
        "measured": bool(release.measurements),
    }
    return facts, pack.compress(parts)


def _labels(attribute: Attribute, codes: list[int] | None) -> list[str]:
    """The values as `privmw answer` reads them; those that a person could not read are the page's to mend."""
    return [str(attribute.label(code)) for code in (range(attribute.size) if codes is None else codes)]


def _size(packed: bytes) -> int:
    return len(packed) * 4 // 3 + PAGE_BYTES


def _for_script(facts: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _resource(name: str) -> str:
    return (files("privmw.extensions.explorer") / name).read_text("utf-8")
