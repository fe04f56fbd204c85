"""`privmw account`: make the account of a private table, or show it. It sees no private data."""

from __future__ import annotations

import argparse
import math
import os
from decimal import ROUND_FLOOR
from typing import Any

from privmw.accounting import Account, AccountedRun, Budget
from privmw.accounting.rounding import float_up
from privmw.accounting.statement import show
from privmw.cli.console import Console
from privmw.cli.options import add_settings, delta, epsilon, number, settings_of
from privmw.cli.refusal import RefusalError

ACCOUNT_SETTINGS = {"event-delta": number}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=("new", "show"), help="make an account, or print what was spent")
    parser.add_argument("file", metavar="FILE", help="the account; keep it with the private file")
    parser.add_argument(
        "--epsilon", type=epsilon, help="the limit of a new account, for all releases together"
    )
    parser.add_argument(
        "--delta",
        type=delta,
        help="of the limit; 0: pure differential privacy. With show: of the epsilon shown",
    )
    add_settings(
        parser,
        ACCOUNT_SETTINGS,
        "event-delta=NUMBER: the part of delta reserved for events with a delta of their own, such as "
        "residual noise of `privmw measure` (default: 0, which refuses them; 1e-6 of delta is plenty)",
    )
    parser.add_argument("--unit", help="the unit of privacy of a new account (default: record)")


def run(options: argparse.Namespace, console: Console) -> None:
    """Make an account, or read one; print it."""
    if options.action == "new":
        if options.epsilon is None or options.delta is None:
            raise RefusalError(
                "--epsilon and --delta must be given for a new account",
                "such as --epsilon 3 --delta 1e-9; --delta 0 allows pure differential privacy only",
            )
        pure = options.delta == 0
        aside = settings_of(options, ACCOUNT_SETTINGS).get("event-delta", 0.0)
        if pure and aside:
            raise RefusalError(
                "--setting event-delta must come with a --delta above 0, of which it is a part"
            )
        limit = (
            Budget.pure(options.epsilon)
            if pure
            else Budget.approximate(options.epsilon, options.delta, event_delta=aside)
        )
        account = Account.create(options.file, limit, unit=options.unit or "record")
    elif any(given is not None for given in (options.epsilon, options.unit, options.setting)):
        raise RefusalError("--epsilon, --unit and --setting must come with new: the terms of an account stay")
    elif not os.path.exists(options.file):
        raise RefusalError(f"FILE ({options.file}) must exist", "privmw account new makes an account")
    else:
        account = Account(options.file)
    facts = describe(account, options.delta)
    console.result(facts, "\n".join(_lines(account, facts)))


def describe(account: Account, delta: float | None = None) -> dict[str, Any]:
    """An account as JSON values; delta is the limit's own unless given."""
    limit = account.limit
    delta = (limit.delta or 0.0) if delta is None else delta
    return {
        "account": account.path,
        "statement": account.statement(delta),
        "neighbors": account.neighbors.value,
        "unit": account.unit,
        "limit": {"notion": limit.notion, limit.unit: float_up(limit.limit)},
        "spent": {"rho": account.rho, "epsilon": _finite(account.epsilon(delta)), "delta": delta},
        "left": {limit.unit: account.remaining, "epsilon": account.epsilon_left(delta)},
        "runs": [_run(entry, delta) for entry in account.runs],
    }


def _run(entry: AccountedRun, delta: float) -> dict[str, Any]:
    epsilon = entry.total.epsilon_at(delta)
    return {
        "run": entry.run,
        "when": entry.when,
        "what": entry.what,
        "finished": entry.finished,
        "for_release": entry.for_release,
        "rho": float_up(entry.total.rho),
        "epsilon": None if epsilon is None else float_up(epsilon),
    }


def _lines(account: Account, facts: dict[str, Any]) -> list[str]:
    limit, spent = account.limit, facts["spent"]
    left = f"Left: {limit.unit} = {show(account.remaining, ROUND_FLOOR)}"
    if limit.unit == "rho" and spent["delta"]:
        left += f", enough for one more release with epsilon = {facts['left']['epsilon']:.4g}"
        left += f" at delta = {show(spent['delta'])}"
    lines = [facts["statement"], f"{left}."]
    for entry in facts["runs"]:
        cost = f"rho = {show(entry['rho'])}"
        if entry["epsilon"] is not None:
            cost += f", epsilon = {show(entry['epsilon'])}"
        marks = "" if entry["finished"] else " (reserved, not finished: counts in full)"
        marks += "" if entry["for_release"] else " (seeded: not for release)"
        lines.append(f"{entry['when']}  {cost}  {entry['what']}{marks}")
    return lines


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None
