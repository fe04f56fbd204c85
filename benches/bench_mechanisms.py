"""The curator's two calls beside numpy on the same counts, in one run: `pytest benches/bench_mechanisms.py`.

numpy's lines do the same work in doubles, unaccounted: not private (rounded noise), only a measure of speed.
Correctness is asserted, times are not; the table shows the ratios. PRIVMW_BENCH=smoke shrinks everything.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from privmw import Budget, Domain, Table, Workload
from privmw.curator import Curator

SMOKE = os.environ.get("PRIVMW_BENCH") == "smoke"
# name: sizes of the attributes, three-way marginals; as many cells as the real ADULT and ACS, about
MIXED = [2, 3, 4, 5, 5, 7, 9]
SHAPES: dict[str, tuple[list[int], int]] = (
    {"small": ([10] * 8, 20)}
    if SMOKE
    else {
        "adult": ([16, 12, 16, 7, 14, 6, 5, 2, 16, 16, 10, 11, 9], 286),
        "acs": ((MIXED * 10)[:67], 47_905),
        "5.5e6 cells": ([10] * 35, 5_500),
    }
)
N = 20_000
EPSILON = 0.1
ROUNDS = 1 if SMOKE else 7


@pytest.fixture(scope="module", params=SHAPES)
def door(request):
    sizes, marginals = SHAPES[request.param]
    rng = np.random.default_rng(0)
    domain = Domain({f"a{i}": size for i, size in enumerate(sizes)})
    # Skewed values, so that some cells are large and the model's errors differ.
    table = Table.from_codes(rng.geometric(0.4, (N, len(sizes))).clip(1, sizes) - 1, domain, private=True)
    workload = Workload.sample(domain, k=3, size=marginals, seed=0)
    counts = table.counts(workload)
    answers = (counts / N * rng.uniform(0.5, 1.5, workload.cells)).clip(0, 1)
    with Curator(table, workload, Budget.zcdp(10**9)) as curator:
        yield request.param, curator, counts, answers


def numpy_errors(counts, answers, starts):
    errors = np.abs(counts - N * answers)
    return errors if starts is None else np.maximum.reduceat(errors, starts)


def numpy_select(generator, errors, law, k):
    noise = generator.gumbel if law == "exponential" else generator.exponential
    noisy = errors * (EPSILON / 2) + noise(size=errors.size)
    if k == 1:
        return (int(np.argmax(noisy)),)
    chosen = []  # peeling: fresh noise for each
    for _ in range(k):
        chosen.append(int(np.argmax(noisy)))
        noisy = errors * (EPSILON / 2) + noise(size=errors.size)
        noisy[chosen] = -np.inf
    return tuple(chosen)


@pytest.mark.parametrize("source", ["privmw", "numpy"])
@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("among", ["cell", "marginal"])
@pytest.mark.parametrize("model", ["poor", "good"])
@pytest.mark.parametrize("law", ["permute-and-flip", "exponential"])
def bench_select(benchmark, door, law, model, among, k, source):
    name, curator, counts, answers = door
    if model == "good":  # as in late rounds: every candidate is near the top
        answers = (counts / N + (answers - counts / N) / 100).clip(0, 1)
    benchmark.group = f"select {k} {among} by {law}, {model} model, {name}"
    starts = None if among == "cell" else curator.workload.offsets[:-1]
    generator = np.random.default_rng(1)
    run = {
        "privmw": lambda: curator.select(answers, mechanism=law, among=among, epsilon=EPSILON, k=k),
        "numpy": lambda: numpy_select(generator, numpy_errors(counts, answers, starts), law, k),
    }[source]
    chosen = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    errors = numpy_errors(counts, answers, starts)
    # Beyond this the chance is below 1e-9, of all candidates together.
    kth = np.partition(errors, errors.size - k)[errors.size - k]
    assert kth - errors[list(chosen)].min() < (np.log(errors.size) + 21 + np.log(k)) * 2 / EPSILON
    assert len(set(chosen)) == k


@pytest.mark.parametrize("source", ["privmw", "numpy"])
@pytest.mark.parametrize("asked", ["a cell", "a marginal", "every marginal"])
def bench_measure(benchmark, door, asked, source):
    name, curator, counts, _ = door
    benchmark.group = f"measure {asked}, {name}"
    marginals = len(curator.workload)
    ask = {
        "a cell": {"queries": [5]},
        "a marginal": {"marginal": 1},
        "every marginal": {"marginals": np.arange(marginals)},
    }[asked]
    second = slice(*curator.workload.offsets[1:3].tolist())
    where = {"a cell": slice(5, 6), "a marginal": second, "every marginal": slice(None)}[asked]
    sigma, generator = 100.0, np.random.default_rng(1)
    moved = {"a cell": 1, "a marginal": 2, "every marginal": 2 * marginals}[asked]
    rho = moved / (2 * sigma**2)
    run = {
        "privmw": lambda: curator.measure(**ask, rho=rho),
        "numpy": lambda: np.rint(counts[where] + generator.normal(0, sigma, counts[where].size)).astype(int),
    }[source]
    noise = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1) - counts[where]
    assert np.abs(noise).max() < 10 * sigma
    assert noise.size == 1 or abs(noise.std() / sigma - 1) < 7 / np.sqrt(2 * noise.size)
