"""One large fit in a process of its own, for bench_least_squares.py: processor seconds, memory, certificate.

python benches/fit_footprint.py cells large    # 10^7 cells with all one-way marginals and identity: nnls
python benches/fit_footprint.py rows large     # 1,000,000 public rows, 200 three-way marginals: reweight
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from footprint import memory, reset_peak
from shapes import acs67

import privmw as pmw
from privmw.extensions.postprocess import Fit, NoisyMarginal, NoisyMarginals, nnls, reweight
from privmw.release.measurements import Measurement


def cells(large: bool) -> tuple[str, Fit, float]:
    rng, sizes = np.random.default_rng(7), [10] * (7 if large else 4)
    domain = pmw.Domain({f"x{a}": size for a, size in enumerate(sizes)})
    counts = rng.pareto(0.8, sizes).astype(np.float32)
    counts *= rng.random(sizes, np.float32) < 0.05
    found, scale = [], float(len(sizes) + 1)
    for a, name in enumerate(domain.names):
        truth = counts.sum(axis=tuple(b for b in range(len(sizes)) if b != a), dtype=float)
        found.append(NoisyMarginal((name,), truth + rng.laplace(0, scale, truth.shape), "laplace", scale))
    noisy = rng.laplace(0, scale, sizes)
    noisy += counts
    found.append(NoisyMarginal(domain.names, noisy, "laplace", scale))
    measured = NoisyMarginals(found, domain)
    del counts, noisy, found
    reset_peak()
    began = time.process_time()
    fit = nnls(measured)
    fit.certificate  # noqa: B018 - computed when asked for: part of the seconds
    return f"{domain.size:,} cells, one-way marginals and identity", fit, time.process_time() - began


def rows(large: bool) -> tuple[str, Fit, float]:
    size, marginals = (1_000_000, 200) if large else (5_000, 20)
    public = pmw.Support.from_table(acs67(size * 23 // 20)).table
    chosen = np.sort(np.random.default_rng(1).permutation(public.n)[:size])
    support = pmw.Support.from_table(public.take(chosen))
    workload = pmw.Workload.sample(support.domain, k=3, size=marginals, seed=1)
    private = acs67(200_000 if large else 2_000)
    sigma, rng = 20.0, np.random.default_rng(3)
    noisy = np.rint(private.counts(workload) + rng.normal(0, sigma, workload.cells)).astype(np.int64)
    made = Measurement(np.arange(workload.cells), noisy, "discrete-gaussian", sigma, 0)
    measured = NoisyMarginals.of_measurements(workload, [made])
    reset_peak()
    began = time.process_time()
    fit = reweight(measured, support)
    fit.certificate  # noqa: B018
    took = time.process_time() - began
    return f"{support.size:,} public rows, {marginals} three-way marginals, reweight", fit, took


if __name__ == "__main__":
    pmw.kernels.set_threads(1)
    case, fit, seconds = {"cells": cells, "rows": rows}[sys.argv[1]](sys.argv[2] == "large")
    figures = {
        "case": case,
        "seconds": seconds,
        "peak": memory("VmHWM"),
        "kkt": fit.certificate.kkt,
        "certificate": repr(fit.certificate),
    }
    print(json.dumps(figures))
