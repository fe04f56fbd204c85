"""A run and the account of its table: the whole cost is reserved before, and what was spent is settled after.

Only costs and names of mechanisms go into an account. Where there are several ranks, rank 0 does all of this.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterable
from typing import TypeAlias

from privmw.accounting import Account, Event, Ledger
from privmw.ranks import ALONE, Communicator, on_every_rank, on_root

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
        """Reserve the cost of a run before it looks at its table; raises BudgetError if the limit is
        exceeded.

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
