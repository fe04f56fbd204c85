"""A model of the time of a round of MW-Pub over MPI ranks: measured here, fitted, and extrapolated.

    python benches/study.py cluster_model   # measures, prints how well the model fits and what it says

A round takes (c marginals + d) rows / cores + e cells + collectives latency + bytes / bandwidth: evaluating
and passing over rows, which all cores share; what every rank does for each cell; adding up. What it says of
clusters is an extrapolation: their network is assumed, and so is that cores share rows without loss. The
parts run in processes of their own: `mpiexec -n R python benches/study.py cluster_model rounds ROWS | sums`.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shapes import acs67

import privmw as pmw
from privmw.extensions.cluster import Mpi, ShardedSupport, mpi
from privmw.ranks import allgather

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
MARGINALS, ROUNDS, REPEATS = 1000, 6, 3
FEW = 1_000  # rows: only cells count
FITTED = (500_000, 1_000_000, 2_000_000, 3_000_000)  # rows on one rank, too many for a cache
CHECKED = ((1, 200_000), (2, 500_000), (2, 1_000_000), (2, 2_000_000), (4, 2_000_000))  # ranks, rows
BYTES = [8**power for power in range(1, 9)] + [2**26]
NODES, CORES, ROWS = (1, 4, 16, 64), 32, (10**7, 10**8, 10**9)
STEP, LINK = 10e-6, 25e9 / 8  # assumed: seconds a step of a tree, bytes a second into and out of a node


class Timed:
    """Ranks that note, whenever all cells are added up, what they have done outside of collective calls.

    Processor time: who waits for another uses its processor as well, and a machine may have other work.
    """

    def __init__(self, comm: Mpi, cells: int) -> None:
        self.rank, self.size, self._comm, self._cells = comm.rank, comm.size, comm, cells
        self._waited, self.marks = 0.0, list[tuple[float, int, int]]()

    def allreduce(self, array: np.ndarray) -> None:
        if array.size > self._cells:
            own = time.process_time() - self._waited
            self.marks.append((own, self._comm.bytes_reduced, self._comm.collectives))
        self._call(self._comm.allreduce, array)

    def broadcast(self, value: Any) -> Any:
        return self._call(self._comm.broadcast, value)

    def gather(self, array: np.ndarray) -> Any:
        return self._call(self._comm.gather, array)

    def alltoallv(self, array: np.ndarray, counts: Sequence[int]) -> Any:
        return self._call(self._comm.alltoallv, array, counts)

    def _call(self, how: Callable[..., Any], *given: Any) -> Any:
        began = time.process_time()
        try:
            return how(*given)
        finally:
            self._waited += time.process_time() - began


def rounds(rows: int) -> dict[str, float]:
    """An evaluation and a round: seconds of the slowest rank, the fastest of some; bytes; collectives."""
    pmw.kernels.set_threads(1)
    table = acs67(rows)
    workload = pmw.Workload.sample(table.domain, k=3, size=MARGINALS, seed=0)
    comm = Timed(mpi(), workload.cells)
    support = ShardedSupport.of(pmw.Support.from_table(table), comm)
    masses, marginals = np.ones(support.size, np.int64), support.marginals(workload)
    columns = {name: table.column(name) for name in table.domain.names}
    private = pmw.Table(columns, table.domain, private=True) if comm.rank == 0 else None
    mechanism = pmw.MWPub(rounds=ROUNDS).calibrate(rho=0.1)
    evaluations, steps = [], []
    for _ in range(REPEATS):
        began = time.process_time()
        marginals.sums(masses)
        evaluations.append(time.process_time() - began)
        comm.marks.clear()
        mechanism(private, support, workload, rng=1, public_is_public=True)
        steps.append(np.diff(comm.marks[1:], axis=0))  # before the first round, the private counts
    own, summed, collectives = np.min(steps, axis=0).mean(axis=0).tolist()  # the same rounds each time
    evaluation, own = allgather(comm, [min(evaluations), own]).max(axis=0).tolist()
    return {
        "rows": support.whole_size, "cells": workload.cells, "evaluation": evaluation, "round": own,
        "summed": summed, "collectives": collectives, "bytes": mechanism.plan(support, workload).bytes,
    }  # fmt: skip


def sums() -> list[float]:
    """Seconds on the wall to add up so many bytes, the fastest of some."""
    comm, found = mpi(), []
    for size in BYTES:
        array, fastest = np.ones(size // 8, np.int64), math.inf
        for _ in range(max(10, min(500, 2**25 // size))):
            comm.allreduce(np.zeros(1, np.int64))  # all begin together
            began = time.perf_counter()
            comm.allreduce(array)
            fastest = min(fastest, time.perf_counter() - began)
        found.append(float(allgather(comm, fastest).max()))
    return found


def measure(ranks: int, *arguments: object) -> Any:
    if MPIEXEC is None:
        sys.exit("mpiexec must be installed: pip install mpich mpi4py")
    command = [
        MPIEXEC,
        "-n",
        str(ranks),
        sys.executable,
        str(Path(__file__).parents[1] / "study.py"),
        "cluster_model",
        *map(str, arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fit(lines: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Least squares of relative errors."""
    scaled = np.array(lines, float) / np.array(values)[:, None]
    found: list[float] = np.linalg.lstsq(scaled, np.ones(len(values)), rcond=None)[0].tolist()
    return found


def table(*heads: str) -> None:
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))


def main() -> None:
    few, fitted = measure(1, "rounds", FEW), [measure(1, "rounds", rows) for rows in FITTED]
    cells, e = few["cells"], few["round"] / few["cells"]
    lines = [(each["rows"] * MARGINALS, part * each["rows"]) for part in (0, 1) for each in fitted]
    c, d = fit(lines, [each[key] - e * cells for key in ("evaluation", "round") for each in fitted])
    held, fixed = fit([(each["rows"], 1) for each in fitted], [each["bytes"] for each in fitted])
    print(f"MW-Pub on acs67, {MARGINALS:,} three-way marginals, {cells:,} cells. Fitted to one rank:")
    print(f"c = {c * 1e9:.3f} ns a row and marginal, d = {d * 1e9:.0f} ns a row, e = {e * 1e9:.1f} ns a cell")
    for ranks in (2, 4):
        found = measure(ranks, "sums")
        latency, a_byte = fit([(1, size) for size in BYTES], found)
        ratios = [took / (latency + size * a_byte) for size, took in zip(BYTES, found, strict=True)]
        speed = f"{latency * 1e6:.1f} us a collective call, {1e-9 / a_byte:.2f} GB/s"
        print(f"{ranks} ranks on {os.cpu_count()} cores: {speed}; sums of 8 bytes to 64 MB took")
        print(f"    {min(ratios):.2f} to {max(ratios):.2f} of what that says")
    table("ranks x threads", "rows", "measured, s a round", "modelled, s", "measured / modelled")
    checked = [(ranks, measure(ranks, "rounds", rows)) for ranks, rows in CHECKED]
    for ranks, each in [(1, each) for each in fitted] + checked:
        said = (c * MARGINALS + d) * each["rows"] / ranks + e * cells
        ratio = each["round"] / said
        print(f"| {ranks} x 1 | {each['rows']:,} | {each['round']:.3f} | {said:.3f} | {ratio:.2f} |")
    collectives, summed = (max(each[key] for _, each in checked) for key in ("collectives", "summed"))
    print(
        f"\nEXTRAPOLATED, not measured: nodes of {CORES} cores, one rank each, {MARGINALS:,} marginals. A "
        f"round makes {collectives:.0f} collective calls and adds up {summed / 1e6:.2f} MB. "
        f"Assumed, not measured: {STEP * 1e6:.0f} us for each of log2(nodes) steps, {LINK * 8e-9:.0f} Gbit/s "
        "both ways."
    )
    table("rows", "nodes", "rows' part, s", "cells' part, s", "adding up, s", "a round, s", "GB a node")
    for rows in ROWS:
        for nodes in NODES:
            shared = (c * MARGINALS + d) * rows / (nodes * CORES)
            added = collectives * STEP * math.log2(nodes) + 2 * (1 - 1 / nodes) * summed / LINK
            parts = f"{shared:.4f} | {e * cells:.4f} | {added:.4f} | {shared + e * cells + added:.4f}"
            memory = (held * rows / nodes + fixed) / 1e9
            print(f"| 10^{math.log10(rows):.0f} | {nodes} | {parts} | {memory:.2f} |")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        result = rounds(int(sys.argv[2])) if sys.argv[1] == "rounds" else sums()
        if mpi().rank == 0:
            print(json.dumps(result))
