"""The account of a table: a file that records what all runs ever spent on it, kept with the table.

A run reserves its whole cost before it looks at the table, and records what it actually spent when it has
released. A reservation that is never settled counts in full. Both are lines of an append-only file
(chained_file.py). The file holds costs, names of mechanisms and times, and no private value.
"""

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

from privmw.secrecy import expect, shown

from .budget import Budget, BudgetError
from .chained_file import Append, Entry, create_file, explained, locked_file, read_file
from .composition import Composition, count_costs
from .conversion import epsilon_from_rho, rho_from_epsilon
from .events import Cost, Event, Neighbors
from .ledger import Ledger, check_text
from .record import read_budget, read_costs, read_neighbors, require, write_budget, write_costs
from .rounding import Real, float_down, float_up, probability
from .statement import state_account, unit_name

_FORMAT, _VERSION = "privmw account", 1
_TERMS = {"format", "version", "when", "limit", "neighbors", "unit"}
_RESERVED = {"kind", "run", "what", "when", "for_release", "costs"}
_SETTLED = _RESERVED - {"what"}


@dataclass(frozen=True, slots=True)
class AccountedRun:
    """One run of an account. spent is None until the run is settled.

    >>> AccountedRun("1", "a choice", "now", True, reserved={Cost(Fraction(1, 2), None): 3}).total.rho
    Fraction(3, 2)
    """

    run: str
    what: str
    when: str  # of the reservation, UTC
    for_release: bool  # whether its randomness was unpredictable
    reserved: Mapping[Cost, int]
    spent: Mapping[Cost, int] | None = None

    @property
    def finished(self) -> bool:
        """Whether the run is settled; otherwise its whole reservation counts."""
        return self.spent is not None

    @property
    def costs(self) -> Mapping[Cost, int]:
        """The costs that count: those spent if the run is settled, else those reserved."""
        return self.reserved if self.spent is None else self.spent

    @property
    def total(self) -> Composition:
        """The exact total of these costs."""
        return Composition().plus_costs(self.costs)


@dataclass(frozen=True, slots=True)
class _Contents:
    """The content of the file's lines."""

    limit: Budget
    neighbors: Neighbors
    unit: str
    runs: dict[str, AccountedRun] = field(default_factory=dict)

    @property
    def total(self) -> Composition:
        total = Composition()
        for run in self.runs.values():
            total = total.plus_costs(run.costs)
        return total

    def check_terms(self, neighbors: Neighbors, unit: str) -> None:
        if neighbors is not self.neighbors:
            raise ValueError(f"neighbors ({neighbors.name}) must be the account's {self.neighbors.name}")
        # Runs with different `at_most` protect the same unit, so their costs add up.
        if unit_name(unit) != unit_name(self.unit):
            raise ValueError(f"unit ({shown(unit)}) must be the account's {shown(self.unit)}")


class Account:
    """A record of everything ever spent on one private table, with a limit. Every property reads the file.

    >>> import tempfile
    >>> from privmw.accounting import PermuteAndFlip
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = Account.create(f"{folder}/account.jsonl", Budget.zcdp(1))
    ...     account.reserve("run 1", [PermuteAndFlip(1, candidates=9)], what="a first choice")
    ...     print(account.rho, account.remaining, account.runs[0].finished)
    0.5 0.5 False
    """

    __slots__ = ("_path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(os.fsdecode(path))
        self._read()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        limit: Budget,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        unit: str = "record",
    ) -> "Account":
        """Make a new account, readable by its owner only; an existing file is refused.

        limit: the budget of all runs together, counted in its privacy notion.
        """
        expect("limit", limit, Budget, "a Budget")
        expect("neighbors", neighbors, Neighbors, "a Neighbors")
        check_text("unit", unit)
        terms = {"format": _FORMAT, "version": _VERSION, "when": _now(), "limit": write_budget(limit)}
        create_file(os.fsdecode(path), terms | {"neighbors": neighbors.value, "unit": unit})
        return cls(path)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    @property
    def limit(self) -> Budget:
        """The most that may be spent."""
        return self._read().limit

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation of tables."""
        return self._read().neighbors

    @property
    def unit(self) -> str:
        """The unit of privacy."""
        return self._read().unit

    @property
    def runs(self) -> tuple[AccountedRun, ...]:
        """Every run, in the order of their reservations."""
        return tuple(self._read().runs.values())

    @property
    def total(self) -> Composition:
        """The exact total of all runs; unfinished ones count in full."""
        return self._read().total

    @property
    def rho(self) -> float:
        """The zCDP cost of all runs, rounded up."""
        return float_up(self.total.rho)

    @property
    def delta(self) -> float:
        """The delta that rho comes with, of all runs, rounded up; 0 unless some event has one of its own."""
        return float_up(self.total.delta)

    def epsilon(self, delta: Real) -> float:
        """Return the epsilon at delta of all runs together, rounded up; infinite without a bound."""
        bound = self.total.epsilon_at(probability("delta", delta, zero=True))
        return math.inf if bound is None else float_up(bound)

    @property
    def remaining(self) -> float:
        """The unspent budget in the limit's unit, rounded down (advanced compositions are not sums)."""
        contents = self._read()
        spent = contents.limit.spent(contents.total)
        return 0.0 if spent is None else float_down(max(contents.limit.limit - spent, Fraction(0)))

    def epsilon_left(self, delta: Real) -> float:
        """Return the epsilon, to four digits, that one more run may spend at delta; 0 if nothing is left."""
        delta, left = probability("delta", delta, zero=True), self.remaining
        if self.limit.unit == "epsilon":
            return left
        if left == 0 or delta == 0:
            return 0.0
        bound = repr(epsilon_from_rho(left, delta))
        for rounding in (ROUND_CEILING, ROUND_FLOOR):
            epsilon = float(Context(prec=4, rounding=rounding).create_decimal(bound))
            if epsilon and rho_from_epsilon(epsilon, delta) <= left:
                return epsilon
        return 0.0

    def reserve(
        self,
        run: str,
        events: Iterable[Event],
        what: str,
        *,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        unit: str = "record",
        for_release: bool = True,
    ) -> None:
        """Reserve the cost of a run before it starts, or raise BudgetError if the limit does not cover it.

        run: an identifier that no other run has. A resumed run reserves the same cost again, which adds
        nothing. Concurrent runs wait for each other here, and nowhere else.
        """
        check_text("run", run)
        check_text("what", what)
        costs = count_costs(events)
        with self._locked() as (contents, append):
            contents.check_terms(neighbors, unit)
            if run in contents.runs:
                if contents.runs[run].reserved != costs:
                    raise ValueError(f"run ({run}) must cost what it reserved before")
                return
            _check_limit(contents, costs, what)
            entry = {"kind": "reserve", "run": run, "what": what, "when": _now(), "for_release": for_release}
            append(entry | {"costs": write_costs(costs)})

    def settle(self, run: str, ledger: Ledger) -> None:
        """Record what a run has spent, at most what it reserved."""
        check_text("run", run)
        costs = count_costs(ledger.events)
        with self._locked() as (contents, append):
            contents.check_terms(ledger.neighbors, ledger.unit)
            if run not in contents.runs:
                raise ValueError(f"run ({run}) must have reserved its cost before")
            known = contents.runs[run]
            if known.spent is not None:
                if known.spent != costs:
                    raise ValueError(f"run ({run}) must spend what it settled before")
                return
            spent = replace(known, spent=costs, for_release=ledger.for_release and known.for_release)
            if not _at_most(spent.total, known.total, contents.limit):
                raise ValueError(f"run ({run}) must spend at most what it reserved")
            entry = {"kind": "settle", "run": run, "when": _now(), "for_release": spent.for_release}
            append(entry | {"costs": write_costs(costs)})

    def statement(self, delta: Real | None = None) -> str:
        """Return the guarantee of all runs together, in plain words; delta is the limit's unless given."""
        given = None if delta is None else probability("delta", delta, zero=True)
        return state_account(self, given)

    def __repr__(self) -> str:
        return f"Account({self._path!r}, {self.limit!r})"

    def _read(self) -> _Contents:
        return _contents(read_file(self._path), self._path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[tuple[_Contents, Append]]:
        with locked_file(self._path) as (entries, append):
            yield _contents(entries, self._path), append


def _check_limit(contents: _Contents, costs: Mapping[Cost, int], what: str) -> None:
    limit, before = contents.limit, contents.total
    after = before.plus_costs(costs)
    if limit.allows(after):
        return
    spent = limit.spent(after)
    if spent is None:
        raise BudgetError(
            f"run ({what}) must have a pure cost: the account's {shown(limit)} counts nothing else"
        )
    if spent <= limit.limit:
        raise BudgetError(
            f"run ({what}) must fit the account: the deltas of events would be {float_up(after.delta)} of an "
            f"event_delta of {limit.event_delta}"
        )
    raise BudgetError(
        f"run ({what}) must fit the account: {limit.unit} would be {float_up(spent)} of "
        f"{float_down(limit.limit)}, {float_up(limit.spent(before) or Fraction(0))} spent before"
    )


def _at_most(spent: Composition, reserved: Composition, limit: Budget) -> bool:
    """Whether a cost is at most another one in every notion that the limit counts."""
    pairs = [(spent.rho, reserved.rho), (spent.epsilon, reserved.epsilon), (spent.delta, reserved.delta)]
    pairs.append((limit.spent(spent), limit.spent(reserved)))
    return all(there is None or (here is not None and here <= there) for here, there in pairs)


def _contents(entries: list[Entry], path: str) -> _Contents:
    if not entries:
        raise ValueError(f"'{path}' must be a whole, unchanged account: it has no line")
    with explained(path, 1):
        terms = require(entries[0], "terms", _TERMS)
        if (terms["format"], terms["version"]) != (_FORMAT, _VERSION):
            raise ValueError(f"it must say format {shown(_FORMAT)} and version {_VERSION}")
        check_text("unit", terms["unit"])
        limit, neighbors = read_budget(terms["limit"]), read_neighbors(terms["neighbors"])
    contents = _Contents(limit, neighbors, terms["unit"])
    for number, entry in enumerate(entries[1:], 2):
        with explained(path, number):
            _add(entry, contents.runs)
    return contents


def _add(entry: Entry, runs: dict[str, AccountedRun]) -> None:
    """Add a reservation or a settlement to the runs."""
    if entry.get("kind") == "reserve":
        fields = require(entry, "reservation", _RESERVED)
        if fields["run"] in runs:
            raise ValueError(f"run ({fields['run']}) must not be reserved twice")
        names = ("run", "what", "when", "for_release")
        costs = read_costs(fields["costs"])
        runs[fields["run"]] = AccountedRun(**{name: fields[name] for name in names}, reserved=costs)
    else:
        fields = require(entry, "settlement", _SETTLED)
        known = runs.get(fields["run"])
        if fields["kind"] != "settle" or known is None or known.spent is not None:
            raise ValueError(f"run ({fields['run']}) must be reserved, and settled once")
        runs[known.run] = replace(known, spent=read_costs(fields["costs"]), for_release=fields["for_release"])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
