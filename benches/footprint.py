"""Builds a long support in a process of its own and prints its memory as JSON; bench_memory.py runs it."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path

import numpy as np
from shapes import millions

import privmw as pm


def memory(key: str) -> int:
    """VmRSS: resident now; VmHWM: the highest since start or the last reset."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{key}:")[1].split()[0])


def settle() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return memory("VmRSS")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main(rows: int) -> None:
    pm.kernels.set_threads(1)
    empty = settle()
    table = millions(rows)
    domain = table.domain
    with_table = settle()
    reset_peak()
    support = pm.Support.from_table(table)
    peak_of_support = memory("VmHWM")
    del table
    weights = support.start()
    pm.kernels.rescale(weights)
    masses, _ = pm.kernels.to_masses(weights)
    figures = {"rows": support.size, "empty": empty, "table": with_table, "peak_of_support": peak_of_support}
    figures["steady_of_support"] = settle()
    for marginals in (1000, 2000):
        workload = pm.Workload.sample(domain, k=3, size=marginals, seed=0)
        reset_peak()
        sums = support.marginals(workload).sums(masses)
        figures[f"peak_{marginals}"] = memory("VmHWM")
        figures[f"steady_{marginals}"] = settle()
        figures[f"nbytes_{marginals}"] = support.nbytes
        figures[f"plan_{marginals}"] = support.marginals(workload).nbytes
        figures[f"exact_{marginals}"] = bool(
            (np.add.reduceat(sums, workload.offsets[:-1]) == masses.sum()).all()
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]))
