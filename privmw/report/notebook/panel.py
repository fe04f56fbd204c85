"""Panels: the notebook display of a domain, support, workload, mechanism, plan, ledger or release.

They are small and use the report's figures and pictures, so they show public and released values only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

import numpy as np

from privmw.accounting import Ledger
from privmw.accounting.rounding import float_up
from privmw.accounting.statement import show
from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.plan import Plan
from privmw.data.attribute import Attribute
from privmw.data.domain import Domain, plain
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.release import Release
from privmw.report.formats import mechanism, percent, plural, quantity
from privmw.report.page import check_installed, make_page
from privmw.report.release import facts, pictures, words
from privmw.report.svg import Picture

LINES_SHOWN = 12
MOST_LABELS = 5
MOST_PICTURES = 3


@dataclass(frozen=True)
class Panel:
    """The content of a panel. rows: a table with its heads; numbers: the columns that hold numbers."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    lines: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Sequence[int] = ()
    more: str = ""
    alarm: str = ""
    pictures: Sequence[Picture] = field(default=())
    name: str = ""


def panel(shown: object) -> str | None:
    """The panel of an object as HTML; None if packages that it needs are not installed.

    >>> html = panel(Domain({"age": 10, "sex": ["F", "M"]}))
    >>> "Domain: 2 attributes" in html, "F, M" in html
    (True, True)
    """
    try:
        check_installed()
    except ModuleNotFoundError:
        return None
    found = panel_of(shown)
    content = repr((found.title, found.facts, found.lines, found.rows, [p.svg for p in found.pictures]))
    # Ids must be unique among all panels of a notebook.
    name = f"privmw-{hashlib.sha256(content.encode()).hexdigest()[:10]}"
    renamed = [_renamed(picture, f"{name}-{picture.name}") for picture in found.pictures]
    return make_page("report/notebook/panel.html.j2", found=replace(found, name=name, pictures=renamed))


def _renamed(picture: Picture, name: str) -> Picture:
    """The picture with ids that begin with another name."""
    old = re.escape(picture.name)
    svg = re.sub(rf'(id="|url\(#|href="#|labelledby="|title ){old}-', rf"\g<1>{name}-", picture.svg)
    return replace(picture, name=name, svg=svg)


@singledispatch
def panel_of(shown: object) -> Panel:
    """The content of the panel of an object."""
    raise TypeError(f"shown ({type(shown).__name__}) must be an object that has a panel")


@panel_of.register
def _(domain: Domain) -> Panel:
    rows = [(plain(a.name, 40), f"{a.size:,}", _values(a)) for a in domain.attributes[:LINES_SHOWN]]
    size = f"{domain.size:,}" if domain.size < 10**9 else f"about 10^{len(str(domain.size)) - 1}"
    return Panel(
        f"Domain: {plural(len(domain), 'attribute')}",
        [("possible records", size)],
        heads=("attribute", "values", "which"),
        rows=rows,
        numbers=(1,),
        more=_more(len(domain) - len(rows), "attribute"),
    )


def _values(attribute: Attribute) -> str:
    if attribute.labels is None and attribute.edges is None:
        return f"the codes 0 to {attribute.size - 1}"
    extras = [label for label in (attribute.other, attribute.missing) if label is not None]
    own = attribute.size - len(extras)
    first = [plain(attribute.label(code), 24) for code in range(min(own, MOST_LABELS))]
    last = [plain(attribute.label(own - 1), 24)] if own > MOST_LABELS else []
    between = ["…"] if own > MOST_LABELS + 1 else []
    named = [
        f"{key}: {plain(value, 24)}"
        for key, value in (("other", attribute.other), ("missing", attribute.missing))
        if value is not None
    ]
    return ", ".join([*first, *between, *last]) + (f" ({', '.join(named)})" if named else "")


@panel_of.register
def _(support: Support) -> Panel:
    known = [("public records", f"{support.records:,}"), ("attributes", f"{len(support.domain):,}")]
    if support.blocks is not None:
        known.append(("public tables", f"{support.blocks.shape[1]}"))
    if support.grown and support.records:
        known.append(("rows of no public record", f"{support.grown:,}"))
    if support.missing:
        known.append(("columns that the public rows lack", ", ".join(plain(n, 30) for n in support.missing)))
    if support.comm.size > 1:
        known.append(("ranks", f"{support.comm.size}"))
    title = f"Support: {plural(support.whole_size, 'distinct row')}"
    if not support.records or support.comm.size > 1:
        return Panel(title if support.records else "Support: no public row", known)
    names = [name for name in support.domain.names if name not in support.missing]
    rows = []
    for name in names[:LINES_SHOWN]:
        shares = np.bincount(support.table.column(name), support.start(), support.domain[name].size)
        common = int(shares.argmax())
        present = f"{np.count_nonzero(shares)} of {support.domain[name].size:,}"
        value = plain(support.domain[name].label(common), 24)
        rows.append((plain(name, 40), present, value, percent(float(shares[common]))))
    heads = ("attribute", "values that occur", "commonest", "of the records")
    more = _more(len(names) - len(rows), "attribute")
    return Panel(title, known, heads=heads, rows=rows, numbers=(1, 3), more=more)


@panel_of.register
def _(workload: Workload) -> Panel:
    orders, sizes = np.diff(workload.starts), np.diff(workload.offsets)
    rows = []
    for order in np.unique(orders).tolist():
        those = np.flatnonzero(orders == order)
        largest = int(those[sizes[those].argmax()])
        names = " × ".join(plain(name, 30) for name in workload.marginal(largest))
        rows.append(
            (f"{order}", f"{len(those):,}", f"{sizes[those].sum():,}", f"{names}: {sizes[largest]:,}")
        )
    known = [("cells", f"{workload.cells:,}"), ("attributes of the domain", f"{len(workload.domain):,}")]
    heads = ("attributes", "marginals", "cells", "largest")
    return Panel(
        f"Workload: {plural(len(workload), 'marginal')}", known, heads=heads, rows=rows, numbers=(0, 1, 2)
    )


@panel_of.register
def _(calibrated: Mechanism) -> Panel:
    first, *_ = calibrated.statement().splitlines()
    rows = [
        (event.step, mechanism(event.mechanism), f"{event.count:,}", show(float_up(event.cost_of_one.rho)))
        for event in calibrated.events[:LINES_SHOWN]
    ]
    options = [
        (name, f"{value}")
        for name, value in calibrated.settings().items()
        if name != "algorithm" and value != getattr(type(calibrated.algorithm), name, None)
    ]
    return Panel(
        f"{type(calibrated.algorithm).__name__}, calibrated",
        options,
        lines=[first.partition(": ")[2].capitalize()],
        heads=("step", "by", "times", "rho of each, at most"),
        rows=rows,
        numbers=(2, 3),
        more=_more(len(calibrated.events) - len(rows), "step"),
    )


@panel_of.register
def _(plan: Plan) -> Panel:
    known = [
        ("rounds", f"{plan.rounds:,}" if plan.rounds else "none: one shot"),
        ("rows", f"{plan.rows:,}"),
        ("marginals", f"{plan.marginals:,}"),
        ("cells", f"{plan.cells:,}"),
        ("memory", f"about {plan.bytes / 1e6:,.0f} MB"),
        ("time", f"about {plan.seconds:.2g} s"),
    ]
    rows = [
        (
            level.step,
            f"{level.count:,} {level.granularity}{'s' * (level.count != 1)}",
            f"{quantity(level.deviation)} records",
            "" if level.fraction is None else percent(level.fraction, up=True),
        )
        for level in plan.noise
    ]
    heads = ("step", "measures", "noise of each count", "of the records")
    return Panel("Plan of a run", known, heads=heads, rows=rows, numbers=(2, 3))


@panel_of.register
def _(ledger: Ledger) -> Panel:
    spent = facts.spending(ledger)
    rows = [
        (look.purpose, mechanism(look.kind), f"{look.times:,}", show(look.total), percent(look.share))
        for look in spent.looks[:LINES_SHOWN]
    ]
    picture = pictures.budget(spent)
    return Panel(
        "Ledger: what was spent on the private table",
        _promised(ledger),
        heads=("for", "by", "times", f"{spent.unit}, at most", "of all"),
        rows=rows,
        numbers=(2, 3, 4),
        more=_more(len(spent.looks) - len(rows), "kind of look"),
        alarm=_alarm(ledger),
        pictures=[] if picture is None else [picture],
    )


@panel_of.register
def _(release: Release) -> Panel:
    support = release.support
    grown = f" ({support.grown:,} grown)" if support.grown else ""
    known = [
        *_promised(release.ledger),
        ("rows", f"{support.whole_size:,}{grown}"),
        ("answers", f"{release.workload.cells:,} cells of {plural(len(release.workload), 'marginal')}"),
    ]
    distributions = facts.distributions(release) if support.comm.size == 1 else []
    full = support.size == support.domain.size and bool((support.counts == 1).all())
    start = "every row alike" if full else "public rows"
    shown = [
        pictures.attribute(distribution, support.domain, place, start)
        for place, distribution in enumerate(distributions[:MOST_PICTURES])
    ]
    left = len(distributions) - len(shown)
    return Panel(
        f"Release by {plain(release.settings.get('algorithm', 'an algorithm without a name'), 40)}",
        known,
        more=f"The {len(shown)} attributes that moved most, of {len(distributions)}:" if left > 0 else "",
        alarm=_alarm(release.ledger),
        pictures=shown,
    )


@panel_of.register
def _(picture: Picture) -> Panel:
    return Panel("", pictures=[picture])


def _promised(ledger: Ledger) -> list[tuple[str, str]]:
    promised = words.promise(ledger)
    return [
        ("epsilon", f"{promised.epsilon} at delta {promised.delta}"),
        ("rho", show(ledger.rho)),
        (promised.counted, promised.n),
        ("protected", f"one {promised.protected}"),
    ]


def _alarm(ledger: Ledger) -> str:
    return "" if ledger.for_release else "Seeded: not for release. Who knows the seed can remove the noise."


def _more(count: int, noun: str) -> str:
    return f"and {plural(count, f'more {noun}')}" if count > 0 else ""
