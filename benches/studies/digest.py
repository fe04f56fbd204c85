"""The bits of every algorithm: a SHA-256 of each release's file, for the backend in use.

    python benches/study.py digest > before.txt       # and after a change: diff
    PRIVMW_BACKEND=numpy python benches/study.py digest

A release's file holds rows, weights, measurements, ledger, history and settings, so that two equal digests
mean two equal releases. Seeds are fixed: nothing here is private.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np

import privmw as pmw
from privmw import postprocess
from privmw.extensions.population import draw_population

MW = {
    "plain": {"replay": "none"},
    "paper": {"replay": "paper", "rounds": 15},
    "paper, marginals": {"replay": "paper", "measure": "marginal", "output": "average"},
    "fresh": {"replay": "fresh", "per_round": 3},
    "fresh, warm-up": {"replay": "fresh", "warm_up": 0.3, "order": 3, "measure": "marginal"},
    "all": {"select": "all", "rounds": None},
    "uniform start": {"start": "uniform", "select": "exponential", "split": 0.3},
}
PEP = {
    "l2": {"prior_weight": 300.0},
    "l2, chosen": {"rounds": 4},
    "l2, cells": {"measure": "cell", "rounds": 12, "prior_weight": 1000.0},
    "l2, all": {"select": "all", "rounds": None},
    "l1, cells": {"slack": "l1", "measure": "cell", "rounds": 8},
    "l1, marginals": {"slack": "l1", "gamma": 0.05, "per_round": 2, "rounds": 4},
}


def digest_of_release(release: pmw.Release) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.release"
        release.save(path)
        digest = hashlib.sha256(path.read_bytes())
    for column in release.sample(500, seed=7).columns:
        digest.update(column.tobytes())
    return digest.hexdigest()[:32]


def main() -> None:
    public = draw_population(800, attributes=5, seed=1)
    private = draw_population(3_000, attributes=5, shift=1.0, seed=2, private=True)
    support, workload = pmw.Support.from_table(public), pmw.Workload.all(public.domain, k=2)
    backend = pmw.kernels.backend()

    def show(name: str, digest: str) -> None:
        print(f"{backend:7} {name:30} {digest}", flush=True)

    for name, options in MW.items():
        for kind, algorithm in (("mw_pub", pmw.MWPub), ("mwem_pub", pmw.MWEMPub)):
            if kind == "mwem_pub" and ("warm_up" in options or options.get("select") == "all"):
                continue
            configured = algorithm(**{"rounds": 6, **options})
            made = configured.release(private, support, workload, epsilon=1.0, delta=1e-6, rng=3)
            show(f"{kind} {name}", digest_of_release(made))
    for delta in (0, 1e-6):
        made = pmw.MWEM(rounds=6).release(private, support, workload, epsilon=1.0, delta=delta, rng=3)
        show(f"mwem delta {delta}", digest_of_release(made))
    for name, options in PEP.items():
        made = pmw.PEP(**{"rounds": 6, **options}).release(private, support, workload, rho=0.02, rng=3)
        show(f"pep {name}", digest_of_release(made))
    for epsilon in (0.1, 1.0):
        made = pmw.release_auto(private, support, workload, epsilon=epsilon, delta=1e-9, rng=3)
        show(f"auto {epsilon}", digest_of_release(made))
    names = public.domain.names[:3]
    table = private.project(names)
    measured, _ = pmw.measure_marginals(table, [(names[0],), (names[1], names[2]), names], epsilon=1.0, rng=3)
    for name in ("ols", "nnls", "max_fit", "sequential"):
        fit = getattr(postprocess, name)(measured)
        show(f"fit {name}", hashlib.sha256(np.ascontiguousarray(fit.weights).tobytes()).hexdigest()[:32])
    fit = postprocess.reweight(measured, pmw.Support.from_table(public.project(names)))
    show("fit reweight", hashlib.sha256(np.ascontiguousarray(fit.weights).tobytes()).hexdigest()[:32])


if __name__ == "__main__":
    main()
