"""Heartbeats: which ranks are alive, so that no rank waits for ever for one that was cut off.

A thread of every rank sends the number of its collective calls to all others about once a second. A rank that
computes is heard; one that was stopped or cut off is silent. A rank that waits says for whom, and after
`wait` seconds of silence every rank that waits names the silent ones and aborts. Numbers of calls only.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from privmw.extensions.cluster.faults import abort_job

# Seconds.
WAIT = 300.0  # of silence until a run is aborted
INTERVAL = 1.0  # between two heartbeats of a rank
CHECK_INTERVAL = 0.1  # between two looks at the heartbeats while a rank waits
SILENT = 3.0  # without a heartbeat: the rank is called silent
FIRST_NOTICE = 5.0  # of waiting for a silent rank until that is said; each further notice after twice as many
FIRST_NOTICE_OF_SLOW = 30.0  # of waiting for one that computes
GRACE = 2.0  # for the other ranks to name the silent ones too, and for a launcher to forward what they say
GOODBYE = 10.0  # for the last heartbeats of all ranks
RANKS_PER_INTERVAL = 64  # with more, heartbeats are as much rarer
BEAT = 2  # tag
LEAVING = -1  # the last beat of a rank
LONGEST_ALARM = 10**8  # seconds: some systems refuse more


class Heartbeats:
    """What this rank last heard from the others, and the thread that sends its own heartbeats.

    Without an MPI for threads, beats are sent and received while a rank waits: then one that computes is
    silent, so that there is no limit unless `wait` is set, above the longest computation between two
    collective calls.
    """

    def __init__(self, library: Any) -> None:
        self._world = library.COMM_WORLD.Dup()
        self._status = library.Status()
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self.wait = WAIT
        self.collectives = 0  # calls that this rank began
        self._others = [rank for rank in range(self.size) if rank != self.rank]
        self._hosts: list[tuple[str, int]] = self._world.allgather((socket.gethostname(), os.getpid()))
        self._silence = dict.fromkeys(self._others, 0.0)
        self._heard = dict.fromkeys(self._others, 0)  # collective calls that the others began
        self._left = set[int]()
        self._requests = dict[int, Any]()
        self._interval: float = INTERVAL * max(1.0, self.size / RANKS_PER_INTERVAL)
        self._last = time.monotonic()
        self._noticed = self._next_check = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if library.Query_thread() == library.THREAD_MULTIPLE:
            self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
            self._thread.start()
        else:
            self.wait = math.inf

    @property
    def limit(self) -> float:
        """The seconds of silence until a run is aborted: several beats, as a single one may be late."""
        return max(self.wait, SILENT * self._interval / INTERVAL)

    def check(self, waited: float) -> None:
        """Called by a rank that waits: say for whom from time to time; abort after `wait` of silence."""
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_INTERVAL
        if waited < self._noticed:  # a new wait
            self._noticed = 0.0
        if self._thread is None:
            self._exchange()
        with self._lock:
            silent = {rank: seconds for rank, seconds in self._silence.items() if rank not in self._left}
        missing = [rank for rank, seconds in silent.items() if seconds > self.limit]
        if missing:
            self._abort(missing)
        quiet = [rank for rank, seconds in silent.items() if seconds > SILENT * self._interval / INTERVAL]
        notice = max(FIRST_NOTICE if quiet else FIRST_NOTICE_OF_SLOW, 2 * self._noticed)
        # The first rank that is not silent itself speaks for all that wait.
        if waited > notice and not any(rank < self.rank and rank not in quiet for rank in self._others):
            self._noticed = waited
            self._say(self._notice(waited, quiet))

    def stop(self) -> None:
        """Stop sending; every rank calls this at its end, and all beats are received."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(GRACE)
        with self._lock:
            for rank in self._others:
                self._requests[rank] = self._world.Isend(np.array([LEAVING]), rank, BEAT)
        until = time.monotonic() + GOODBYE
        while len(self._left) < len(self._others) and time.monotonic() < until:
            self._exchange(send=False)
            time.sleep(1e-3)
        if silent := [rank for rank in self._others if rank not in self._left]:
            self._say(
                f"{self._named(silent)} silent at the end of the run, and awaited for {self.limit:.0f} s"
            )
        if hasattr(signal, "alarm"):  # MPI ends together with all ranks, and would wait for ever for some
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(math.ceil(min(self.limit, LONGEST_ALARM)))

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            self._exchange()

    def _exchange(self, *, send: bool = True) -> None:
        """Receive all beats, and send one to every rank that received the last."""
        with self._lock:
            now = time.monotonic()
            # If this rank was stopped itself, the others were not silent for as long.
            passed, self._last = min(now - self._last, 2 * self._interval), now
            for rank in self._others:
                self._silence[rank] += passed
            while self._world.Iprobe(tag=BEAT, status=self._status):
                beat, source = np.empty(1, np.int64), self._status.Get_source()
                self._world.Recv(beat, source, BEAT)
                self._silence[source] = 0.0
                if beat[0] == LEAVING:
                    self._left.add(source)
                else:
                    self._heard[source] = int(beat[0])
            for rank in self._others if send else ():
                if rank not in self._requests or self._requests[rank].Test():
                    self._requests[rank] = self._world.Isend(np.array([self.collectives]), rank, BEAT)

    def _notice(self, waited: float, quiet: list[int]) -> str:
        if quiet:
            ends = "" if self.limit == math.inf else f"; the run ends after {self.limit:.0f} s of silence"
            return (
                f"{self._named(quiet)} silent for {max(self._silence[rank] for rank in quiet):.0f} s: "
                f"{self._reason(quiet)}{ends}"
            )
        behind = [rank for rank in self._others if self._heard[rank] < self.collectives]
        if not behind:
            return f"waiting for {waited:.0f} s; every rank is alive"
        return f"waiting for {waited:.0f} s: {self._named(behind)} alive, and computing"

    def _named(self, ranks: list[int]) -> str:
        listed = [f"rank {rank} ({self._hosts[rank][0]})" for rank in ranks[:5]]
        more = ", ..." if len(ranks) > len(listed) else ""
        return f"{', '.join(listed)}{more} {'is' if len(ranks) == 1 else 'are'}"

    def _reason(self, ranks: list[int]) -> str:
        """Why ranks may be silent, as far as this one can see."""
        own = self._hosts[self.rank][0]
        for rank in ranks:
            host, number = self._hosts[rank]
            with suppress(OSError):
                if host == own and _state(number) == "T":
                    return f"process {number} is stopped (SIGSTOP), and kill -CONT resumes it"
        if self._thread is None:
            return "computing, stopped or cut off, as an MPI without threads does not tell these apart"
        hosts_heard = {self._hosts[rank][0] for rank in range(self.size) if rank not in ranks}
        if all(self._hosts[rank][0] in hosts_heard for rank in ranks):
            return "stopped or hung, as another rank of the host is heard"
        return "stopped, or the host was cut off or is down"

    def _abort(self, missing: list[int]) -> NoReturn:
        seconds = max(self._silence[rank] for rank in missing)
        self._say(
            f"{self._named(missing)} silent for {seconds:.0f} s (the limit is {self.limit:.0f} s): "
            f"{self._reason(missing)}. The run ends; the same command resumes it from its checkpoint"
        )
        time.sleep(GRACE)
        # MPI cannot reach a host that was cut off, and may try for ever.
        forced = threading.Timer(GRACE, os._exit, (1,))
        forced.daemon = True
        forced.start()
        abort_job(1)
        os._exit(1)

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # standard error is closed
            sys.stderr.write(f"rank {self.rank} of {self.size}: {text}\n")
            sys.stderr.flush()


def _state(process: int) -> str:
    """The state of a process of this machine, as Linux says it: T is stopped."""
    with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]
