"""Failures of commands: a message of one line and an exit code, which never show a private value.

Exit codes: 0 success; 1 a bug in privmw; 2 something to correct (an option, a file, the disk, a missing
extra); 3 a release was written, but disagrees with its noisy counts; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from privmw.accounting.statement import show
from privmw.secrecy import raised_in

EXIT_FAULT, EXIT_REFUSED, EXIT_DISAGREES, EXIT_INTERRUPTED = 1, 2, 3, 130


class RefusalError(Exception):
    """An error that the user can correct, with a hint."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Remedy(NamedTuple):
    """The state that a failed command left, and the command that resumes it; an error's `remedy`."""

    state: str
    command: str


class Ending(NamedTuple):
    """The exit code of a command that failed, and its message."""

    code: int
    message: str
    hint: str | None = None


def explain(error: BaseException, *, interrupted: bool = False) -> Ending:
    """Make the message of an error, with what the run spent if the error carries its ledger.

    interrupted: a signal ended the run, whatever error a library raised because of it.

    >>> explain(RefusalError("epsilon (0) must be positive", "try --epsilon 1"))
    Ending(code=2, message='epsilon (0) must be positive', hint='try --epsilon 1')
    >>> explain(ValueError("age 37")).message
    'unexpected ValueError; its message is withheld, as it may tell of the data'
    """
    ending = _ending(KeyboardInterrupt() if interrupted else error)
    ledger = getattr(error, "ledger", None)
    if ledger is not None and ledger.rho:
        ending = ending._replace(
            message=f"{ending.message}; rho {show(ledger.rho)} was spent and stays spent"
        )
    remedy: Remedy | None = getattr(error, "remedy", None)
    if remedy is None:
        nothing = ", nothing was written" if ending.code == EXIT_INTERRUPTED else ""
        return ending._replace(message=ending.message.replace("interrupted", f"interrupted{nothing}", 1))
    hint = remedy.command
    if ending.hint is not None:  # without "another folder", which would spend the budget again
        hint = f"{ending.hint.removesuffix(' or name another folder')}; then {remedy.command}"
    return ending._replace(message=f"{ending.message}; {remedy.state}", hint=hint)


def _ending(error: BaseException) -> Ending:
    if isinstance(error, KeyboardInterrupt):
        return Ending(EXIT_INTERRUPTED, "interrupted")
    if isinstance(error, RefusalError):
        return Ending(EXIT_REFUSED, str(error), error.hint)
    if isinstance(error, MemoryError):
        return Ending(
            EXIT_REFUSED, "not enough memory", "ask for fewer marginals or smaller ones, or --sample them"
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        extra = "cluster" if error.name == "mpi4py" else "app"
        return Ending(EXIT_REFUSED, f"{error.name} must be installed", f"pip install 'privmw[{extra}]'")
    if isinstance(error, OSError) and error.errno is not None:
        return Ending(EXIT_REFUSED, _of_system(error), _HINTS.get(error.errno))
    # Only messages of privmw itself are known to carry no private value.
    if isinstance(error, ValueError | TypeError | OSError | ImportError) and _ours(error):
        return Ending(EXIT_REFUSED, str(error))
    name = type(error).__name__
    return Ending(EXIT_FAULT, f"unexpected {name}; its message is withheld, as it may tell of the data")


_HINTS = {
    errno.ENOSPC: "free some space or name another folder",
    errno.EDQUOT: "free some space or name another folder",
    errno.EEXIST: "name another folder: nothing is ever overwritten",
    errno.ENOTEMPTY: "name another folder: nothing is ever overwritten",
}


def _of_system(error: OSError) -> str:
    where = error.filename2 or error.filename
    named = f"{os.fsdecode(where)}: " if isinstance(where, str | bytes | os.PathLike) else ""
    return f"{named}{error.strerror or type(error).__name__}"


def _ours(error: BaseException) -> bool:
    """True if privmw raised the error, not a library that it called."""
    return raised_in(error).partition(".")[0] == "privmw"
