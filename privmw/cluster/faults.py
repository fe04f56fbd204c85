"""How a job of many ranks ends when one of them cannot go on: soon, and with one message.

A rank that raises would leave the others waiting for it, and each of them would say something else. So ranks
speak in turn, and the first who does ends the job for all: the launcher then kills the others at once, and
they tidy up nothing. A rank that is killed itself says nothing; then the launcher does. This room knows that
there are ranks, and not what they do.
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

OWN_ERROR, OTHERS_ERROR = 2.0, 10.0  # seconds before a rank above 0 tells of its own error; any, of another's
TURN, LAST_TURN = 0.25, 5.0  # seconds between a rank's turn and the next, and at most to the last one's
LISTEN = 0.005  # seconds between looks at whether another rank speaks
CARRIED = 0.5  # seconds for a launcher to carry the last words: it may drop what it holds when the job ends


class Job(Protocol):
    """What must be known of a job to end it."""

    rank: int
    size: int
    ended: dict[int, int]

    def farewell(self) -> None:
        """Wait at the end until every rank has ended."""

    def another_speaks(self) -> bool:
        """Whether another rank has begun to tell of an error."""

    def speak(self) -> None:
        """Say that this rank begins to tell of an error."""

    def abort(self, code: int) -> NoReturn:
        """End every rank of the job."""


_job: Job | None = None


def join(job: Job) -> None:
    """From now on an error that nobody catches, or an end that not all ranks come to, ends the job."""
    global _job
    _job = job
    told = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, traceback: TracebackType | None, /) -> None:
        try:
            wait_for_the_first(error)
            sys.stderr.write(f"rank {job.rank} of {job.size}: ")
            told(kind, error, traceback)
        finally:  # whether or not there was somebody to tell
            leave(130 if issubclass(kind, KeyboardInterrupt) else 1)

    def end() -> None:
        # Rank 0 may still be writing: whoever asks others to end must not end that.
        if job.rank > 0 and threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
        try:
            job.farewell()
        except BaseException as error:
            tell(type(error), error, error.__traceback__)

    sys.excepthook = tell
    atexit.register(end)


def wait_for_the_first(error: BaseException) -> None:
    """Wait until it is this rank's turn to tell of an error; a rank alone, or out of any job, need not.

    Often every rank has the same error, which rank 0 tells. One that only heard of another's waits for that.

    >>> wait_for_the_first(RankError("rank 2 could not go on: it says why"))
    """
    if _job is None:
        return
    others = isinstance(error, RankError) and not _job.ended  # who has ended says no more
    seconds = OTHERS_ERROR if others else OWN_ERROR if _job.rank else 0.0
    until = time.monotonic() + seconds + min(TURN, LAST_TURN / _job.size) * _job.rank
    heard = False
    while time.monotonic() < until:
        if not heard and _job.another_speaks():  # and will end the job
            heard, until = True, time.monotonic() + OTHERS_ERROR
        time.sleep(LISTEN)
    _job.speak()


def leave(code: int) -> None:
    """End every rank of the job with an exit code that is not 0; out of any job, do nothing.

    >>> leave(2)
    """
    if _job is None or code == 0:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # closed: then nobody listens
            stream.flush()
    time.sleep(CARRIED)
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MPI would add that it was aborted
    _job.abort(code)
