"""The curator's two calls beside numpy on the same counts, in one run: `pytest benches/bench_mechanisms.py`.

numpy's lines do the same work in doubles, unaccounted: not private (rounded noise), only a measure of speed.
Correctness is asserted, times are not; the table shows the ratios. PRIVMW_BENCH=smoke shrinks everything.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from privmw import Budget, Curator, Domain, Table, Workload

SMOKE = os.environ.get("PRIVMW_BENCH") == "smoke"
# name: attributes of ten values, three-way marginals of 1,000 cells each
SHAPES = {"small": (8, 20)} if SMOKE else {"1e6 cells": (20, 1_000), "5.5e6 cells": (35, 5_500)}
N = 20_000
EPSILON = 0.1
ROUNDS = 1 if SMOKE else 7


@pytest.fixture(scope="module", params=SHAPES)
def door(request):
    attributes, marginals = SHAPES[request.param]
    rng = np.random.default_rng(0)
    domain = Domain({f"a{i}": 10 for i in range(attributes)})
    # Skewed values, so that some cells are large and the model's errors differ.
    table = Table.from_codes(domain, rng.geometric(0.4, (N, attributes)).clip(1, 10) - 1)
    workload = Workload.sample(domain, k=3, size=marginals, seed=0)
    counts = table.counts(workload)
    answers = (counts / N * rng.uniform(0.5, 1.5, workload.cells)).clip(0, 1)
    with Curator(table, workload, Budget.zcdp(10**9)) as curator:
        yield request.param, curator, counts, answers


def numpy_select(generator, counts, answers, law, per_marginal):
    scores = np.abs(counts - N * answers)
    if per_marginal:
        scores = scores.reshape(-1, 1_000).max(axis=1)
    noise = generator.gumbel if law == "exponential" else generator.exponential
    return (int(np.argmax(scores * (EPSILON / 2) + noise(size=scores.size))),)


@pytest.mark.parametrize("source", ["privmw", "numpy"])
@pytest.mark.parametrize("among", ["cell", "marginal"])
@pytest.mark.parametrize("law", ["permute-and-flip", "exponential"])
def bench_select(benchmark, door, law, among, source):
    name, curator, counts, answers = door
    benchmark.group = f"select one {among} by {law}, {name}"
    generator = np.random.default_rng(1)
    run = {
        "privmw": lambda: curator.select(answers, mechanism=law, among=among, epsilon=EPSILON),
        "numpy": lambda: numpy_select(generator, counts, answers, law, among == "marginal"),
    }[source]
    (chosen,) = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    errors = np.abs(counts - N * answers)
    if among == "marginal":
        errors = errors.reshape(-1, 1_000).max(axis=1)
    # Beyond this the chance is below 1e-9, of all candidates together.
    assert errors.max() - errors[chosen] < (np.log(errors.size) + 21) * 2 / EPSILON


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
    where = {"a cell": slice(5, 6), "a marginal": slice(1_000, 2_000), "every marginal": slice(None)}[asked]
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
