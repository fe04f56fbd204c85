"""Looks at a private table through a curator, closes it, and writes all memory of the process to stdout.

    LD_PRELOAD=keep.so python look_at_counts.py CODES.npy {built,missing} {nothing,noise,counts}

The codes come from a file, so that this process never knows the counts but by counting. keep.c keeps freed
memory as it is. "missing" stands for an installation without the extension module; the last argument names a
planted bug: who leaves a copy.
"""

import ctypes
import gc
import itertools
import mmap
import os
import sys

import numpy as np

codes_path, extension, bug = sys.argv[1:]
if extension == "missing":
    sys.modules["privmw.kernels._native"] = None

import privmw as pmw  # noqa: E402
from privmw.extensions.cluster.sharded_records import ShardedRecords  # noqa: E402
from privmw.mechanisms import Noise  # noqa: E402
from privmw.ranks import ALONE  # noqa: E402


def look(codes):
    domain = pmw.Domain({f"a{j}": int(size) for j, size in enumerate(codes.max(axis=0) + 1)})
    table = pmw.Table.from_codes(codes, domain, private=True)
    for order, records in ((2, ShardedRecords(table, ALONE)), (3, table)):
        workload = pmw.Workload.all(domain, k=order)
        answers = np.zeros(workload.cells)  # a score is then count * 2^20
        budget = pmw.Budget.zcdp(1000, event_delta=0.1)
        with pmw.curator.Curator(records, workload, budget, rng=1) as curator:
            for mechanism in ("permute-and-flip", "exponential"):
                for among in ("cell", "marginal"):
                    curator.select(answers, epsilon=0.5, mechanism=mechanism, among=among)
            for distance in ("largest", "mean"):
                curator.choose_public([answers, answers], epsilon=0.5, distance=distance)
            # Noise so large that no noisy count looks like a count.
            curator.measure(np.arange(workload.cells), rho=1e-12)
            curator.measure(marginals=np.arange(len(workload)), epsilon=1e-6)
            curator.draw(np.zeros(workload.cells, np.int64), records=1, epsilon=0.5)  # a score is then count
            for j in range(len(workload)):
                curator.measure_thresholded(j, epsilon=1e-6, delta=1e-3)
            looks = tuple(itertools.combinations(range(len(domain)), 2))
            sigmas = (1e6,) * len(looks)
            curator.measure_residuals(pmw.accounting.ResidualGaussian(domain.sizes, looks, sigmas))


def plant(bug):
    if bug == "noise":  # as it was: the temporary of a clamp
        add = Noise.add
        Noise.add = lambda self, counts, stream: add(self, np.maximum(counts, -(2**62)), stream)
    if bug == "counts":
        counts = pmw.Table.counts
        pmw.Table.counts = lambda self, workload: counts(self, workload).copy()


def memory(buffer):
    """All writable memory but the stack, whose frames are gone and overwritten by the next calls."""
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    with open("/proc/self/mem", "rb", buffering=0) as whole:
        for region in regions:
            first, last = (int(end, 16) for end in region[0].split("-"))
            if "w" not in region[1] or (region[-1].startswith("[") and region[-1] != "[heap]"):
                continue
            if first <= where < last:
                continue
            for start in range(first, last, len(buffer)):
                size = min(len(buffer), last - start)
                yield buffer[: os.preadv(whole.fileno(), [buffer[:size]], start)]


pages = mmap.mmap(-1, 2**20)
where = np.frombuffer(pages, np.uint8).ctypes.data
plant(bug)
look(np.zeros((9, 3), np.uint8) + np.eye(3, dtype=np.uint8)[[0, 1, 2] * 3])  # compiles, loads, warms up
ctypes.c_int.in_dll(ctypes.CDLL(None), "keep").value = 1
look(np.load(codes_path))
gc.collect()
for part in memory(memoryview(pages)):
    os.write(sys.stdout.fileno(), part)
