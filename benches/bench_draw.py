"""Generators, noise and selection beside numpy (and OpenDP where it is installed), in one run on one thread.

`pytest benches/bench_draw.py` prints the table; numpy's lines draw rounded doubles, which are not private.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

native = pytest.importorskip("privmw.kernels._native")
ChaCha20 = pytest.importorskip("privmw.random._chacha20").ChaCha20

MEGABYTES = 64
CANDIDATES = 10**7
SIZE = 10**6


@pytest.mark.benchmark(group="64 MB of random bytes")
@pytest.mark.parametrize("source", ["ChaCha20.fill", "ChaCha20 words", "PCG64 words", "os.urandom"])
def bench_bytes(benchmark, source):
    count = MEGABYTES * 10**6
    generator = {"PCG64 words": np.random.PCG64}.get(source, ChaCha20)()
    buffer = bytearray(count)
    run = {
        "ChaCha20.fill": lambda: generator.fill(buffer) or buffer,
        "os.urandom": lambda: os.urandom(count),
    }.get(source, lambda: generator.random_raw(count // 8))
    found = np.frombuffer(benchmark(run), dtype=np.uint8)
    assert found.size == count
    assert abs(found[: 10**6].mean() - 127.5) < 1
    benchmark.extra_info["GB/s"] = count / benchmark.stats["min"] / 1e9


@pytest.mark.benchmark(group="a million discrete Gaussians of sigma 100")
@pytest.mark.parametrize("source", ["privmw", "privmw on PCG64", "numpy, rounded", "OpenDP, a twentieth"])
def bench_discrete_gaussian(benchmark, source):
    size = SIZE
    if source == "OpenDP, a twentieth":
        size = SIZE // 20
        opendp = pytest.importorskip("opendp.prelude")
        opendp.enable_features("contrib")
        space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
        measure = opendp.m.make_gaussian(*space, scale=100.0)
        zeros = [0] * size
        run = lambda: np.array(measure(zeros))  # noqa: E731
    elif source == "numpy, rounded":
        generator = np.random.default_rng(1)
        run = lambda: np.rint(generator.normal(scale=100, size=size)).astype(np.int64)  # noqa: E731
    else:
        bits = np.random.PCG64(1) if "PCG64" in source else ChaCha20()
        run = lambda: native.discrete_gaussian(bits, 10**4, 1, size)  # noqa: E731
    found = benchmark(run)
    assert found.size == size
    assert abs(found.std() - 100) < 3
    benchmark.extra_info["million/s"] = size / benchmark.stats["min"] / 1e6


@pytest.mark.benchmark(group="a million discrete Gaussians, other scales")
@pytest.mark.parametrize(
    "sigma2", [(1, 10**6), (1, 1), (10**10, 3), (10**18, 1)], ids=lambda q: f"{q[0]}/{q[1]}"
)
def bench_discrete_gaussian_scales(benchmark, sigma2):
    found = benchmark(native.discrete_gaussian, ChaCha20(), *sigma2, SIZE)
    sigma = (sigma2[0] / sigma2[1]) ** 0.5
    assert abs(found.std() - sigma) < 0.01 * sigma + 0.01
    benchmark.extra_info["million/s"] = SIZE / benchmark.stats["min"] / 1e6


@pytest.mark.benchmark(group="a million discrete Laplaces of scale 100")
@pytest.mark.parametrize("source", ["privmw", "numpy, rounded"])
def bench_discrete_laplace(benchmark, source):
    generator = np.random.default_rng(1)
    bits = ChaCha20()
    found = benchmark(
        (lambda: native.discrete_laplace(bits, 100, 1, SIZE))
        if source == "privmw"
        else (lambda: np.rint(generator.laplace(scale=100, size=SIZE)).astype(np.int64))
    )
    assert abs(found.std() - 100 * 2**0.5) < 1
    benchmark.extra_info["million/s"] = SIZE / benchmark.stats["min"] / 1e6


@pytest.fixture(scope="module")
def scores():
    return np.abs(np.random.default_rng(0).normal(0, 1000, CANDIDATES)).astype(np.int64)


@pytest.mark.benchmark(group="one of ten million candidates")
@pytest.mark.parametrize("crowd", ["few near the top", "all near the top"])
@pytest.mark.parametrize("source", ["permute and flip", "exponential", "noisy max", "numpy Gumbel"])
def bench_selection(benchmark, scores, source, crowd):
    denominator = 10 if crowd == "few near the top" else 10**5
    bits, generator = ChaCha20(), np.random.default_rng(1)
    select = {
        "permute and flip": native.select_permute_and_flip,
        "exponential": native.select_exponential,
        "noisy max": native.report_noisy_max,
    }.get(source)
    if select is None:
        run = lambda: [np.argmax(scores / denominator + generator.gumbel(size=scores.size))]  # noqa: E731
    else:
        run = lambda: select(bits, scores, 1, denominator, 1)  # noqa: E731
    chosen = benchmark.pedantic(run, rounds=5, warmup_rounds=1)
    assert 0 <= chosen[0] < CANDIDATES
    if crowd == "few near the top":
        assert scores.max() - scores[chosen[0]] < 60 * denominator


@pytest.mark.benchmark(group="one of 4096 candidates")
@pytest.mark.parametrize("source", ["privmw", "OpenDP"])
def bench_small_selection(benchmark, scores, source):
    few = scores[:4096].copy()
    if source == "OpenDP":
        opendp = pytest.importorskip("opendp.prelude")
        opendp.enable_features("contrib")
        space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.linf_distance(T=int)
        select = opendp.m.make_noisy_max(*space, opendp.max_divergence(), scale=10.0)
        listed = few.tolist()
        chosen = benchmark(lambda: select(listed))
    else:
        bits = ChaCha20()
        chosen = int(benchmark(lambda: native.select_permute_and_flip(bits, few, 1, 10, 1))[0])
    assert few.max() - few[chosen] < 600
