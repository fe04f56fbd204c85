"""The guarantee of a ledger or an account in plain words, for readers who are not experts.

Every number shown is rounded up in its sixth digit, so that the text never claims more than was proved. A
float is shown as its shortest decimal: a delta of 1e-9 as 1e-9.
"""

import math
import re
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from .budget import Budget
from .composition import delta_left
from .conversion import epsilon_from_rho
from .events import Neighbors
from .rounding import float_up

if TYPE_CHECKING:
    from .account import Account
    from .ledger import Ledger

_NOTIONS = {
    "zCDP": "zero-concentrated differential privacy (zCDP)",
    "pure": "pure differential privacy",
    "advanced": "differential privacy by advanced composition",
}


class Protected(NamedTuple):
    """The unit of privacy, as a ledger names it.

    name: such as "household". change: how neighbouring tables differ in one unit. counted: what n counts; if
    a unit has several records, n counts records.

    >>> Protected("person", "replacing one person", "persons").counted
    'persons'
    """

    name: str
    change: str
    counted: str


def protected(ledger: "Ledger") -> Protected:
    """Return what a ledger protects, from its unit: "record", or "household of at most 4 records".

    >>> from privmw.accounting import Budget, Ledger
    >>> unit = "household of at most 4 records"
    >>> protected(Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9, unit=unit))
    Protected(name='household', change='replacing the records of one household', counted='records')
    """
    doing = "replacing" if ledger.neighbors is Neighbors.REPLACE_ONE else "adding or removing"
    name = unit_name(ledger.unit)
    if name == ledger.unit:
        return Protected(ledger.unit, f"{doing} one {ledger.unit}", f"{ledger.unit}s")
    return Protected(name, f"{doing} the records of one {name}", "records")


def unit_name(unit: str) -> str:
    """Return the name of a unit, without how many records it has.

    >>> unit_name("household of at most 4 records"), unit_name("record")
    ('household', 'record')
    """
    several = re.fullmatch("(.+) of at most [0-9,]+ records?", unit)
    return unit if several is None else several.group(1)


def unit_size(unit: str) -> int:
    """Return how many records a unit has, at most.

    >>> unit_size("household of at most 4 records"), unit_size("record")
    (4, 1)
    """
    several = re.fullmatch("(.+) of at most ([0-9,]+) records?", unit)
    return 1 if several is None else int(several.group(2).replace(",", ""))


def usual_delta(ledger: "Ledger") -> float:
    """Return the budget's own delta; otherwise 0 for pure DP, or the papers' 1/n^2, at most 1e-6.

    >>> from privmw.accounting import Budget, Ledger
    >>> usual_delta(Ledger(Budget.zcdp(0.1), Neighbors.REPLACE_ONE, n=100_000))
    1e-10
    """
    if ledger.budget.is_pure:
        return 0.0
    return ledger.budget.delta or min(max(float(Fraction(1, ledger.n**2)), 1e-300), 1e-6)


def state(ledger: "Ledger", delta: float) -> str:
    """Return the statement of ledger, with its epsilon at delta.

    >>> from privmw.accounting import Budget, Ledger
    >>> print(state(Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9), 0).splitlines()[0])
    Protected: one record of 9 (a public number); neighbouring tables differ by replacing one record.
    """
    name, change, counted = protected(ledger)
    n = f"{ledger.n:,}" if name == ledger.unit else f"{ledger.n:,} {counted}"
    if ledger.neighbors is Neighbors.REPLACE_ONE:
        size = f"{n} (a public number)"
    else:
        size = f"about {n} (a public figure)"
    among = " of" if name == ledger.unit else ", among"
    lines = [
        f"Protected: one {ledger.unit}{among} {size}; neighbouring tables differ by {change}.",
        _spending(ledger),
        *_meaning(ledger, delta, change),
        *_if_adaptive(ledger, delta),
        f"Numerics: {ledger.numerics}.",
        f"Randomness: {ledger.generator}.",
    ]
    # If n counts units, publishing one unit at random is (0, 1/n)-DP; there may be fewer units than records.
    if delta * ledger.n > 1:
        lines.append(
            f"WARNING: delta is above 1/n = {show(float_up(Fraction(1, ledger.n)))}. Simply publishing one "
            f"{name} picked at random could keep such a promise; ask for a delta far below 1/n."
        )
    if not ledger.for_release:
        lines.append(
            f"NOT FOR RELEASE: the randomness was seeded ({ledger.seeded}). Anyone who knows or guesses "
            "the seed can remove the noise; nothing above protects against them."
        )
    return "\n".join(lines)


def state_account(account: "Account", delta: float | None) -> str:
    """Return the guarantee of all runs of an account together; delta is the limit's own unless given.

    >>> import tempfile
    >>> from privmw.accounting import Account, Budget
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(state_account(Account.create(f"{folder}/account", Budget.pure(2)), None).splitlines()[1])
    Spent by 0 runs: pure differential privacy with epsilon = 0 of a limit of epsilon = 2.
    """
    limit, total, runs = account.limit, account.total, account.runs
    if delta is None:
        delta = 0.0 if limit.is_pure else limit.delta
    verb = "replacing" if account.neighbors is Neighbors.REPLACE_ONE else "adding or removing"
    change = f"{verb} one {account.unit}"
    spent, whole = float_up(limit.spent(total) or Fraction(0)), float_up(limit.limit)
    lines = [
        f"Protected: one {account.unit}; neighbouring tables differ by {change}.",
        f"Spent by {len(runs):,} run{'' if len(runs) == 1 else 's'}: {_notion(limit, total.delta)} with "
        f"{limit.unit} = {show(spent)}{_delta(limit, total.delta)} of a limit of {limit.unit} = {show(whole)}"
        f"{_delta(limit, Fraction(limit.event_delta))}{_goal(limit)}.",
    ]
    if delta is not None and runs:
        lines += _meaning(account, delta, change)
    if not limit.is_pure and 0 < spent < whole:
        lines.append(
            "These figures hold where the runs were fixed beforehand. Where results of one decided about "
            "another, the guarantee is that of the limit."
        )
    unfinished = sum(not run.finished for run in runs)
    if unfinished:
        lines.append(f"Unfinished: {unfinished:,} of the runs; what they reserved counts in full.")
    if not all(run.for_release for run in runs):
        lines.append(
            "NOT FOR RELEASE: the randomness of some runs was seeded; nothing above holds for these."
        )
    return "\n".join(lines)


def _notion(budget: Budget, delta: Fraction) -> str:
    """The notion of a budget in words; zCDP with a delta of its own is called approximate."""
    return f"{'approximate ' if _delta(budget, delta) else ''}{_NOTIONS[budget.notion]}"


def _delta(budget: Budget, delta: Fraction) -> str:
    """The deltas of events, if they are not part of the notion's own delta."""
    return f" and delta = {show(float_up(delta))}" if delta and budget.unit == "rho" else ""


def _goal(budget: Budget) -> str:
    """The (epsilon, delta) from which a zCDP budget was computed, if any."""
    if budget.unit != "rho" or budget.epsilon is None or budget.delta is None:
        return ""
    return f" (epsilon = {show(float_up(Fraction(budget.epsilon)))} at delta = {show(budget.delta)})"


def _spending(ledger: "Ledger") -> str:
    budget, events = ledger.budget, len(ledger.events)
    spent, limit = float_up(budget.spent(ledger.total) or Fraction(0)), float_up(budget.limit)
    runs = sum(event.count for event in ledger.events)
    at = f" at delta = {show(budget.delta)}" if not budget.adds_up and budget.delta else ""
    delta = ledger.total.delta
    return (
        f"Guarantee: {_notion(budget, delta)} with {budget.unit} = {show(spent)}{_delta(budget, delta)}{at}, "
        f"spent of a budget of {budget.unit} = {show(limit)}{_delta(budget, Fraction(budget.event_delta))}; "
        f"{events:,} accounted "
        f"event{'' if events == 1 else 's'}, {runs:,} run{'' if runs == 1 else 's'}."
    )


def _if_adaptive(ledger: "Ledger", delta: float) -> list[str]:
    """The guarantee if results decided how much was spent: that of the budget, not of the total."""
    budget, aside = ledger.budget, Fraction(ledger.budget.event_delta)
    spent = budget.spent(ledger.total) or Fraction(0)
    used_up = spent == budget.limit and ledger.total.delta == aside
    # Pure costs add up per outcome, even if later ones were chosen by earlier outcomes.
    if budget.is_pure or spent == 0 or used_up:
        return []
    whole = f"{budget.unit} = {show(float_up(budget.limit))}{_delta(budget, aside)}"
    left = delta_left(delta, aside)
    if budget.unit == "rho" and left:
        whole += (
            f" (epsilon = {show(epsilon_from_rho(float_up(budget.limit), left))} at delta = {show(delta)})"
        )
    return [
        "These figures hold where the events were fixed beforehand, as a release's are. Where their number "
        f"or size depended on earlier results, the guarantee is that of the whole budget: {whole}."
    ]


def _meaning(spent: "Ledger | Account", delta: float, change: str) -> list[str]:
    epsilon = spent.epsilon(delta)
    if math.isinf(epsilon):
        return [f"This gives no bound on epsilon at delta = {show(delta)}."]
    shown = show(epsilon)
    # The library's exp errs by less than 1e-12.
    factor = show(math.exp(epsilon) * (1 + 1e-12)) if epsilon < 700 else f"e^{shown}"
    tail = f", plus {show(delta)}" if delta else ""
    outcome = "set of outcomes" if delta else "outcome"
    return [
        f"This implies (epsilon, delta)-differential privacy with epsilon = {shown} and "
        f"delta = {show(delta)}.",
        f"In plain words: {change} makes no {outcome} more likely than {factor} times what it was{tail}.",
    ]


def show(value: float, rounding: str = ROUND_CEILING) -> str:
    """Return value as text of at most six digits, rounded up unless told otherwise.

    >>> show(0.99999991), show(1e-9)
    ('1', '1e-09')
    """
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(repr(value))):.6g}"
