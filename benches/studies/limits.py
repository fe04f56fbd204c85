"""How near the hot kernels are to what the machine allows, and how their cost grows in every direction.

    python benches/study.py limits bounds    # time and bytes of an item of each kernel, beside a plain copy
    python benches/study.py limits growth    # exponents of time and bytes: rows, attributes, cells, marginals
    python benches/study.py limits growth --quick    # a tenth of the sizes

Processor time of one thread, the least of several runs. An item is what a kernel's inner loop does once: for
a row and marginal, a row, a group and a pair of codes. `bytes` are those that an item must move at least,
codes and masses read once, sums read and written; `of copy` is its time over that of a copy of as many bytes,
from memory or, where the data stay there, within L2. An exponent is the slope of log time over log size; R^2
is that of this line.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
from shapes import acs67

import privmw as pmw
from privmw import kernels


def seconds(run: Callable[[], object], least: float = 0.3) -> float:
    """The least processor time of a call: at least three, and for so long."""
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < least:
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def copy_speed(size: int) -> float:
    """Bytes read and written in a second by a copy of so many bytes."""
    source, target, times = np.ones(size // 8), np.empty(size // 8), max(1, 2**24 // size)

    def run() -> None:
        for _ in range(times):
            np.copyto(target, source)

    return 2 * size * times / seconds(run)


def uniform(rows: int, sizes: list[int], seed: int = 0) -> kernels.Columns:
    rng = np.random.default_rng(seed)
    dtype = np.uint8 if max(sizes) <= 256 else np.uint32
    return kernels.Columns([rng.integers(0, size, rows).astype(dtype) for size in sizes], sizes)


def triples(attributes: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random three-way marginals, distinct, as the kernels take them."""
    rng = np.random.default_rng(seed)
    chosen: dict[tuple[int, ...], None] = {}
    while len(chosen) < count:
        chosen[tuple(sorted(rng.choice(attributes, 3, replace=False).tolist()))] = None
    return np.array(list(chosen), np.int32).ravel(), np.arange(0, 3 * count + 1, 3)


def masses_of(rows: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 2**30, rows)


def bounds() -> None:
    memory, near = copy_speed(2**28), copy_speed(2**18)
    print(f"copy: {memory / 1e9:.1f} GB/s from memory (256 MB), {near / 1e9:.1f} GB/s within L2 (256 KB)\n")
    print(f"{'kernel':44} {'items':>12} {'ns each':>8} {'bytes':>6} {'of copy':>8}")
    for name, items, size, speed, run in hot_kernels(memory, near):
        each = seconds(run) / items
        print(f"{name:44} {items:12,} {each * 1e9:8.3f} {size:6.1f} {each / (size / speed):7.1f}x")


def hot_kernels(memory: float, near: float) -> Iterator[tuple[str, int, float, float, Callable[[], object]]]:
    """Name, items of a call, bytes of an item, the copy that bounds it, and the call."""
    rows, marginals = 200_000, 200
    columns = uniform(rows, [8] * 30)
    plan = kernels.Marginals(columns, *triples(30, marginals))
    masses, sums = masses_of(rows), np.zeros(plan.cells, np.int64)
    values = np.random.default_rng(2).standard_normal(plan.cells)
    # Three codes and a mass in, within L2 from marginal to marginal; the sums are in L1.
    yield "sums by tiles, 512 cells", rows * marginals, 3 + 8, near, lambda: plan.sums(masses, sums)
    yield "potentials, 512 cells", rows * marginals, 3 + 8, near, lambda: plan.potentials(values)
    support = pmw.Support.from_table(acs67(150_000))
    workload = pmw.Workload.all(support.domain, k=3)
    sparse = support.marginals(workload)
    masses_sparse, sums_sparse = masses_of(support.size), np.zeros(sparse.cells, np.int64)
    pairs = support.size * len(workload)
    # Of rows and marginals 2.5 % have only uncommon values: a mass read, a sum read and written.
    yield (
        "sums by lists, acs67, all 47,905",
        pairs,
        0.025 * 24,
        near,
        lambda: sparse.sums(masses_sparse, sums_sparse),
    )
    some = np.flatnonzero(np.random.default_rng(3).random(support.size) < 0.1).astype(np.uint32)
    changes = masses_sparse[some]
    yield (
        "changes of a tenth of the rows, acs67",
        len(some) * len(workload),
        0.025 * 24 + 16 * sparse.cells / (len(some) * len(workload)),
        near,
        lambda: sparse.add_changes(some, changes, sums_sparse),
    )
    people = pmw.Support.from_table(acs67(30_000))
    asked = pmw.Workload.sample(people.domain, k=3, size=1000, seed=0)
    cells = people.marginals(asked).among(np.arange(asked.cells))
    gram_product, signed = cells.gram_product(np.ones(asked.cells)), masses_of(people.size) - 2**29
    # A row lists .11 effects a marginal: two bytes twice, a value read, a sum read and written.
    yield (
        "products by effects, acs67, 1,000",
        people.size * len(asked),
        0.11 * (4 + 8 + 16),
        near,
        lambda: gram_product.spread(signed, -40),
    )
    table = acs67(500_000)
    yield (
        "distinct rows, acs67",
        table.n,
        67,
        memory,
        lambda: kernels.distinct_rows(table.columns, table.domain.sizes),
    )
    base, potentials = np.full(1_000_000, 1e-6), np.random.default_rng(4).standard_normal(1_000_000)
    out = np.empty(len(base))
    yield "tilt: exp, total, normalise", len(base), 48, memory, lambda: kernels.tilt(base, potentials, out)
    groups, queries = 150_000, 96
    held = np.random.default_rng(5).random((groups, queries)) < 0.25
    starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    incidence = kernels.Incidence(starts, np.nonzero(held)[1].astype(np.uint32), queries)
    weights = np.random.default_rng(6).random(groups)
    blocks = queries // 6
    # Two codes and a weight in, from L2 for three tables together; the table is in L1.
    yield (
        "gram of 96 queries, a pair of codes",
        groups * blocks * (blocks + 1) // 2,
        1 + 9 / 3,
        near,
        lambda: incidence.gram(weights),
    )
    tallies = kernels.Tallies(
        columns.sizes, *triples(30, marginals), columns=columns
    )  # pulls and precisions are in L2
    ones, pulls = np.ones(tallies.count), np.zeros(tallies.count)
    bends, order = np.full(rows, float(marginals)), np.random.default_rng(7).permutation(rows)[:20_000]
    order = order.astype(np.uint32)
    yield (
        "descent, a visit by a marginal",
        len(order) * marginals,
        3 + 24,
        near,
        lambda: tallies.descend(order, ones, bends, np.ones(rows), np.ones_like(pulls)),
    )


def growth(quick: bool) -> None:
    less = 10 if quick else 1
    print(f"{'direction':42} {'from':>10} {'to':>12} {'time ~':>7} {'R^2':>6} {'bytes ~':>8} {'R^2':>6}")
    whole = acs67(10_000_000 // less)

    def rows_of(n: int) -> kernels.Columns:
        return kernels.Columns([codes[:n] for codes in whole.columns], whole.domain.sizes)

    def made(columns: kernels.Columns, workload: tuple[np.ndarray, np.ndarray]) -> tuple[float, int]:
        plan = kernels.Marginals(columns, *workload)
        masses, sums = masses_of(columns.rows), np.zeros(plan.cells, np.int64)
        return seconds(lambda: plan.sums(masses, sums)), plan.nbytes + columns.nbytes

    sizes = [n // less for n in (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)]
    line("rows, acs67, 200 marginals: sums", sizes, [made(rows_of(n), triples(67, 200)) for n in sizes])
    many = [10, 30, 100, 200, 500]
    line(
        "attributes, 8 values each, 100 marginals",
        many,
        [made(uniform(200_000 // less, [8] * a), triples(a, 100)) for a in many],
    )
    one = (np.array([0, 1, 2], np.int32), np.array([0, 3]))
    sides = [2, 5, 10, 22, 46, 100]
    line(
        "cells of a marginal, a million rows",
        [side**3 for side in sides],
        [made(uniform(1_000_000 // less, [side] * 3), one) for side in sides],
    )
    counts = [10, 100, 1_000, 10_000, 100_000][: 4 if quick else 5]
    wide = uniform(20_000 // less, [4] * 100)
    line(
        "marginals of 100 attributes, 4 values", counts, [made(wide, triples(100, count)) for count in counts]
    )


def line(name: str, sizes: list[int], figures: list[tuple[float, int]]) -> None:
    slopes = []
    for y in zip(*figures, strict=True):
        x, logs = np.log(sizes), np.log(np.maximum(y, 1e-9))
        slope, start = np.polyfit(x, logs, 1)
        left = np.var(logs - slope * x - start)
        slopes += [slope, 1 - left / max(float(np.var(logs)), 1e-30)]
    fits = f"{slopes[0]:7.2f} {slopes[1]:6.3f} {slopes[2]:8.2f} {slopes[3]:6.3f}"
    print(f"{name:42} {sizes[0]:10,} {sizes[-1]:12,} {fits}")
    steps = (
        f"{b / a:.0f}x: {u[0] / t[0]:.1f}x"
        for (a, b), (t, u) in zip(itertools.pairwise(sizes), itertools.pairwise(figures), strict=True)
    )
    print("    " + ", ".join(steps), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=("bounds", "growth"))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    kernels.set_threads(1)
    if given.what != "growth":
        bounds()
    if given.what != "bounds":
        growth(given.quick)
