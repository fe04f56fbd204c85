"""What every `release_*` does: take a budget and options apart, configure, calibrate and run."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from fractions import Fraction
from typing import Any

from privmw.accounting import Budget
from privmw.accounting.rounding import Real
from privmw.algorithms.algorithm import Algorithm
from privmw.algorithms.question import check_run, count_records
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.release import Release

OF_A_CALL = ("rng", "threads", "progress", "checkpoint", "every")


def run_budget(n: int, options: dict[str, Any], *, advanced: bool = False) -> tuple[Budget, dict[str, Any]]:
    """Take the budget for n records and what a call takes (rng, ...) out of a shorthand's options."""
    run: dict[str, Any] = {name: options.pop(name) for name in OF_A_CALL if name in options}
    asked = {name: options.pop(name, None) for name in ("epsilon", "delta", "rho")}
    return make_budget(n, **asked, advanced=advanced), run


def make_budget(
    n: int,
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    advanced: bool = False,
) -> Budget:
    """The budget of epsilon and delta, or of rho. Without a delta it is 1 / n^2, as in the papers.

    >>> make_budget(1000, epsilon=1).delta
    1e-06
    """
    if (epsilon is None) == (rho is None):
        raise TypeError("exactly one of epsilon and rho must be given")
    if rho is not None:
        if delta is not None:
            raise TypeError(f"delta ({delta}) must come with epsilon: rho needs none")
        return Budget.zcdp(rho)
    assert epsilon is not None
    if delta is None:
        if n < 2:
            raise ValueError("delta must be given for a private table of one record")
        delta = float(Fraction(1, n**2))
    if delta == 0 and not isinstance(delta, bool):
        return Budget.pure(epsilon)
    return Budget.approximate(epsilon, delta, "advanced" if advanced else "zCDP")


def check_options(options: dict[str, Any], known: Collection[str]) -> None:
    """Refuse what is no option."""
    for name in options:
        if name not in known:
            raise TypeError(f"option ({name!r}) must be one of {', '.join(sorted(known))}")


def release_by(
    kind: type[Algorithm],
    private: Records | None,
    support: Support,
    workload: Workload,
    options: dict[str, Any],
) -> Release:
    """Configure, calibrate and run in one call: what every `release_*` does."""
    check_run(support, workload)
    n = count_records(private, support)
    budget, run = run_budget(n, options, advanced=kind.advanced)
    check_options(options, {field.name for field in dataclasses.fields(kind)})
    return kind(**options).spend(budget)(private, support, workload, **run)
