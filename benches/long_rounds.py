"""Releases from a long support in a process of its own and prints time and memory as JSON.

`bench_long_rounds.py` runs it. The peak is that of the whole process, with the public table it starts from.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import round_shapes
from baselines import cells_of, numpy_sums, subset
from footprint import memory

import privmw as pmw

ROUNDS = 20


def main(rows: int, replay: str, threads: int) -> None:
    pmw.kernels.set_threads(threads)
    begin = time.perf_counter()
    shape = round_shapes.long(rows)
    ends = [time.perf_counter()]
    algorithm = pmw.MWPub(rounds=ROUNDS, replay=replay)  # type: ignore[arg-type]
    mechanism = algorithm.calibrate(epsilon=1.0, delta=1 / shape.private.n**2)
    release = mechanism(
        shape.private,
        shape.support,
        shape.workload,
        rng=0,
        threads=threads,
        progress=lambda _: ends.append(time.perf_counter()),
    )
    figures = {
        "rows": shape.support.size,
        "cells": shape.workload.cells,
        "made": ends[0] - begin,
        "first": ends[1] - ends[0],
        "rounds": np.diff(ends[1:]).tolist(),
        "whole": time.perf_counter() - ends[0],
        "peak": memory("VmHWM"),
    }
    few = subset(shape.workload, 5)
    asked = cells_of(shape.workload, few, release.answers())
    right = numpy_sums(shape.support.table.columns, shape.workload, few, release.weights)
    for ours, theirs in zip(asked, right, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert len(release.history) == ROUNDS
    assert release.ledger.rho <= mechanism.rho
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
