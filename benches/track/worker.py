"""What a build's own interpreter runs: fixed runs, timed on demand, once under callgrind, or its versions.

    python -m track.worker versions               # or: runs
    python -m track.worker spanned RUN LIBRARY    # within LIBRARY's span
    python -m track.worker times [SLOWER]         # reads "loops RUN" lines, answers with seconds

SLOWER plants a slowdown: every run is followed by so large a share of its own time of idle arithmetic.
"""

from __future__ import annotations

import ctypes
import json
import platform
import sys
import time

import numpy as np

import privmw as pmw

from .runs import RUNS, Run


def versions() -> None:
    print(json.dumps({"python": platform.python_version(), "numpy": np.__version__}))


def spanned(name: str, library: str) -> None:
    pmw.kernels.set_threads(1)
    run = RUNS[name]()
    run()  # what is imported and remembered at a first run is not counted
    callback = ctypes.CFUNCTYPE(None)(lambda: run() and None)
    ctypes.CDLL(library).span(callback)


def times(slower: float) -> None:
    pmw.kernels.set_threads(1)
    ready: dict[str, Run | None] = {}
    for line in sys.stdin:
        loops, name = line.rstrip("\n").split(" ", 1)
        if name not in ready:
            try:
                ready[name] = RUNS[name]()
            except (AttributeError, TypeError, ValueError):  # a build from before there was such a thing
                ready[name] = None
        run = ready[name]
        answer = None if run is None else timed(run, int(loops), slower)
        print(json.dumps(answer), flush=True)


def timed(run: Run, loops: int, slower: float) -> list[float]:
    """Seconds of so many runs: on the wall, and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(loops):
        run()
    if slower:
        until = time.process_time() + slower * (time.process_time() - processor)
        while time.process_time() < until:
            pass
    return [time.perf_counter() - wall, time.process_time() - processor]


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "versions":
        versions()
    elif what == "runs":
        print(json.dumps(list(RUNS)))
    elif what == "spanned":
        spanned(*arguments)
    else:
        times(float(arguments[0]) if arguments else 0.0)
