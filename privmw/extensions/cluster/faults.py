"""How a job of several ranks ends when one of them fails: soon, and with one message.

If a rank raised and exited, the others would wait for it forever or report errors of their own. So ranks take
turns to report, and the first one that reports aborts the job: the launcher then kills the others at once,
without cleanup. If a rank is killed, the launcher reports it.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import NoReturn, Protocol

from privmw.ranks import RankError

# Delays in seconds.
OWN_ERROR_DELAY = 2.0  # before a rank above 0 reports its error
OTHERS_ERROR_DELAY = 10.0  # before any rank reports that another failed
TURN, LAST_TURN = 0.25, 5.0  # between the turns of two ranks, and at most until the last rank's turn
POLL_INTERVAL = 0.005  # between checks for an announced error
FORWARDING = 0.5  # for a launcher to forward output, which it may drop when the job ends


class Job(Protocol):
    """What aborting a job needs."""

    rank: int
    size: int
    ended: dict[int, int]

    def exit_barrier(self) -> None:
        """Wait until every rank exits."""

    def error_announced(self) -> bool:
        """Whether another rank has announced that it reports an error."""

    def announce_error(self) -> None:
        """Announce to the other ranks that this one reports an error."""

    def abort(self, code: int) -> NoReturn:
        """Abort every rank of the job."""


_job: Job | None = None


def abort_on_error(job: Job) -> None:
    """From now on, abort the job on an uncaught error, or if some ranks exit and others do not."""
    global _job
    _job = job
    excepthook = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, traceback: TracebackType | None, /) -> None:
        try:
            wait_to_report(error)
            sys.stderr.write(f"rank {job.rank} of {job.size}: ")
            excepthook(kind, error, traceback)
        finally:  # even if standard error is closed
            abort_job(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def at_exit() -> None:
        # Rank 0 may still be writing: a signal to a rank that has finished must not abort that.
        if job.rank > 0 and threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
        try:
            job.exit_barrier()
        except BaseException as error:
            report(type(error), error, error.__traceback__)

    sys.excepthook = report
    atexit.register(at_exit)


def wait_to_report(error: BaseException) -> None:
    """Wait until it is this rank's turn to report an error; return at once outside of a job.

    Often every rank has the same error, and rank 0 reports it. A rank that has only a RankError waits longer,
    so that the rank which failed reports first.

    >>> wait_to_report(RankError("rank 2 failed: see its own error message"))
    """
    if _job is None:
        return
    others = isinstance(error, RankError) and not _job.ended  # a rank that has exited reports nothing
    seconds = OTHERS_ERROR_DELAY if others else OWN_ERROR_DELAY if _job.rank else 0.0
    until = time.monotonic() + seconds + min(TURN, LAST_TURN / _job.size) * _job.rank
    announced = False
    while time.monotonic() < until:
        if not announced and _job.error_announced():  # that rank will abort the job
            announced, until = True, time.monotonic() + OTHERS_ERROR_DELAY
        time.sleep(POLL_INTERVAL)
    _job.announce_error()


def abort_job(code: int) -> None:
    """Abort every rank of the job with an exit code; do nothing if it is 0, or outside of a job.

    >>> abort_job(2)
    """
    if _job is None or code == 0:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed
            stream.flush()
    time.sleep(FORWARDING)
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hides MPI's own message about the abort
    _job.abort(code)
