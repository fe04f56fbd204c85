"""Builds a long support in a process of its own and prints its memory as JSON; bench_memory.py runs it."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path

import numpy as np
from shapes import millions

import privmw as pmw


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
    pmw.kernels.set_threads(1)
    empty = settle()
    table = millions(rows)
    figures = {"empty": empty, "table": settle()}
    reset_peak()
    support = pmw.Support.from_table(table)
    figures |= {"rows": support.size, "peak_of_support": memory("VmHWM")}
    del table
    figures["steady_of_support"] = settle()
    workloads = {
        str(size): pmw.Workload.sample(support.domain, k=3, size=size, seed=0) for size in (1000, 2000)
    }
    workloads["all"] = pmw.Workload.all(support.domain, k=3)
    masses = np.ones(support.size, np.int64)
    for name, workload in workloads.items():
        reset_peak()
        sums = support.marginals(workload).sums(masses)
        figures[f"peak_{name}"] = memory("VmHWM")
        assert (np.add.reduceat(sums, workload.offsets[:-1]) == support.size).all()
        del sums
        figures[f"steady_{name}"] = settle() - masses.nbytes
        figures[f"nbytes_{name}"] = support.nbytes
        figures[f"plan_{name}"] = support.marginals(workload).nbytes
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]))
