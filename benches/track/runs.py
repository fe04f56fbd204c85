"""The fixed runs whose work is counted and whose time is compared: every algorithm and every fit, seeded.

Data are made up (`privmw.extensions.population`), so that every clone has them. A new algorithm is one more
entry of RUNS. Each makes its data first, anew, and returns what is to be measured; that returns what it
computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import privmw as pmw
from privmw import postprocess
from privmw.extensions.population import draw_population, population_domain

Run = Callable[[], Any]
ATTRIBUTES = 8
BUDGET = {"epsilon": 1.0, "delta": 1e-9, "rng": 3}


def private_table(attributes: int = ATTRIBUTES) -> pmw.Table:
    return draw_population(6_000, attributes=attributes, seed=2, private=True)


def public_rows(attributes: int = ATTRIBUTES, shift: float = 0.0) -> pmw.Support:
    return pmw.Support.from_table(draw_population(1_500, attributes=attributes, shift=shift, seed=1))


def release(
    kind: str,
    *,
    shift: float | None = 0.0,
    attributes: int = ATTRIBUTES,
    k: int = 2,
    full: bool = False,
    **options: Any,
) -> Callable[[], Run]:
    """A release from a public table of people shifted so far, from none (None), or from the full domain."""

    def make() -> Run:
        private = private_table(attributes)
        domain = population_domain(attributes)
        workload = pmw.Workload.all(domain, k=k)
        if full:
            support = pmw.Support.full(domain)
        else:
            support = None if shift is None else public_rows(attributes, shift)
        if kind == "auto":
            return lambda: pmw.release_auto(private, support, workload, **BUDGET)
        # Not .release, which older commits do not have.
        budget = BUDGET | {name: options.pop(name) for name in ("delta",) if name in options}
        rng = budget.pop("rng")
        mechanism = getattr(pmw, kind)(**options).calibrate(**budget, n=private.n)
        return lambda: mechanism(private, support, workload, rng=rng)

    return make


def fit(method: str) -> Callable[[], Run]:
    def make() -> Run:
        names = population_domain(ATTRIBUTES).names[:3]
        measured, _ = pmw.measure_marginals(
            private_table().project(names), [*((name,) for name in names), names], epsilon=1.0, rng=3
        )
        solve = getattr(postprocess, method)
        if method == "reweight":
            rows = pmw.Support.from_table(draw_population(1_500, attributes=3, shift=1.0, seed=1))
            return lambda: solve(measured, rows)
        return lambda: solve(measured)

    return make


def answers() -> Run:
    """From a table to the answers of many marginals: what every run does first."""
    people = draw_population(4_000, attributes=40, seed=1)
    workload = pmw.Workload.sample(people.domain, k=3, size=1_000, seed=0)
    return lambda: pmw.Support.from_table(people).answers(workload)


RUNS: dict[str, Callable[[], Run]] = {
    "answers": answers,
    "mwem, full domain": release("MWEM", attributes=4, k=2, full=True, rounds=10, delta=0),
    "mwem_pub": release("MWEMPub", rounds=10),
    "mw_pub": release("MWPub", rounds=10),
    "mw_pub, no replay": release("MWPub", rounds=10, replay="none"),
    "mw_pub, marginals": release("MWPub", rounds=10, measure="marginal"),
    "pep, cells": release("PEP", rounds=6, measure="cell", slack="l1"),
    "pep, marginals": release("PEP", rounds=4),
    "rap": release("RAP", shift=None, rounds=2, rows=50, steps=40, draws=2_000),
    "gem": release("GEM", shift=None, rounds=2, rows=50, widths=(32,), steps=20, epochs=20, draws=2_000),
    "auto, good public": release("auto"),
    "auto, poor public": release("auto", shift=1.0),
    "auto, no public": release("auto", shift=None),
    "fit nnls": fit("nnls"),
    "fit max_fit": fit("max_fit"),
    "fit sequential": fit("sequential"),
    "fit reweight": fit("reweight"),
}
