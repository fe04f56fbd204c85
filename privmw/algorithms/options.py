"""The options of a run: how an unknown one is refused, the object they travel as, and the account.

The whole cost is reserved in the account before, and what was spent is settled after; only costs and names of
mechanisms go into it. Where there are several ranks, rank 0 does all of this.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeAlias, TypeVar

from privmw.accounting import Account, Event, Ledger
from privmw.algorithms.loop import Progress
from privmw.random import Rng
from privmw.ranks import ALONE, Communicator, on_every_rank, on_root
from privmw.secrecy import shown

P = ParamSpec("P")
T = TypeVar("T")


def lists_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: an unknown keyword raises a TypeError that suggests an option and lists all.

    >>> @lists_options
    ... def release(private, *, epsilon=None, rounds=5): ...
    >>> release(None, epslion=1)
    Traceback (most recent call last):
    TypeError: option ('epslion') must be one of epsilon, rounds; did you mean epsilon?
    """
    parameters = inspect.signature(function).parameters.values()
    options = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    known = {p.name for p in parameters}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        check_options([name for name in kwargs if name not in known], options)
        return function(*args, **kwargs)

    return checked


def check_options(given: Iterable[str], options: Sequence[str]) -> None:
    """Refuse names that are not among the options; the message suggests one and lists all.

    >>> check_options(["round"], ["rounds", "select"])
    Traceback (most recent call last):
    TypeError: option ('round') must be one of rounds, select; did you mean rounds?
    """
    for name in given:
        if name not in options:
            near = difflib.get_close_matches(name, options, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"option ({shown(name)}) must be one of {', '.join(options)}{hint}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """Options of one run, as documented by `Configuration.release`; some are None on ranks above 0."""

    rng: Rng = None
    threads: int | None = None
    progress: Progress | None = None
    checkpoint: str | os.PathLike[str] | None = None
    every: int | None = 10
    account: AccountPath = None
    public_is_public: bool = False


AccountPath: TypeAlias = Account | str | os.PathLike[str] | None


class AccountedRun:
    """The entry of one run in the account of its table; without an account, calls do nothing.

    run: the identifier of the entry, by default a new one. Every rank makes the same calls; rank 0 writes.
    """

    def __init__(self, account: AccountPath, run: str | None = None, comm: Communicator = ALONE) -> None:
        self.run = run or secrets.token_hex(16)
        self._comm = comm
        self._account = on_every_rank(comm, lambda: _opened(account) if comm.rank == 0 else None)

    def reserve(
        self,
        events: Iterable[Event],
        what: str,
        terms: Ledger,
        *,
        for_release: bool | None = None,
        only_unfinished: str | None = None,
    ) -> None:
        """Reserve a run's cost before it looks at its table; raises BudgetError if the limit is exceeded.

        terms: a ledger with the run's neighbours and unit, and for_release unless that is given.
        only_unfinished: the error message for a run that the account has settled.
        """

        def reserve() -> None:
            account = self._account
            if account is None:
                return
            if only_unfinished and any(entry.run == self.run and entry.finished for entry in account.runs):
                raise ValueError(only_unfinished)
            account.reserve(
                self.run,
                events,
                what,
                neighbors=terms.neighbors,
                unit=terms.unit,
                for_release=terms.for_release if for_release is None else for_release,
            )

        on_root(self._comm, reserve)

    def settle(self, ledger: Ledger) -> None:
        """Settle a finished run; a failure is only a warning, since an error would lose the release."""
        account, run = self._account, self.run
        on_root(self._comm, lambda: None if account is None else _settle(account, run, ledger))


def _opened(account: AccountPath) -> Account | None:
    return account if account is None or isinstance(account, Account) else Account(account)


def _settle(account: Account, run: str, ledger: Ledger) -> None:
    try:
        account.settle(run, ledger)
    except (OSError, ValueError) as error:
        warnings.warn(
            f"account ({account.path}) was not settled, and the run counts for what it reserved: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
