"""A run and the account of its table: the whole cost is reserved before, and what was spent is settled after.

Only costs and names of mechanisms go into an account. Where there are several ranks, rank 0 does all of this.
"""

from __future__ import annotations

import os
import warnings
from typing import TypeAlias

from privmw.accounting import Account, Ledger

AccountPath: TypeAlias = Account | str | os.PathLike[str] | None


def open_account(account: AccountPath) -> Account | None:
    """The account that is meant, if any; a file that is none is refused."""
    return account if account is None or isinstance(account, Account) else Account(account)


def settle(account: Account, run: str, ledger: Ledger) -> None:
    """Settle a run that has released, or warn that its reservation counts: failing would lose the release."""
    try:
        account.settle(run, ledger)
    except (OSError, ValueError) as error:
        warnings.warn(
            f"account ({account.path}) was not settled, and the run counts for what it reserved: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
