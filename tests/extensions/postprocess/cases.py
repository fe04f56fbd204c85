"""Noisy marginals of drawn histograms, for the tests of fits; and their problems as dense matrices."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals


def domain_of(sizes):
    return pmw.Domain({f"x{i}": size for i, size in enumerate(sizes)})


def subsets(domain, *orders):
    return [names for k in orders for names in itertools.combinations(domain.names, k)]


def drawn_histogram(sizes, rng, filled=0.2):
    counts = np.floor(rng.pareto(0.8, sizes) * 5).clip(0, 10_000)
    return counts * (rng.random(sizes) < filled)


def sum_over(counts, domain, names):
    others = tuple(a for a, name in enumerate(domain.names) if name not in names)
    return np.asarray(counts.sum(axis=others))


def measure(domain, counts, marginals, scale, rng, noise="laplace"):
    draw = {"laplace": rng.laplace, "gaussian": rng.normal}[noise]
    found = []
    for names in marginals:
        true = sum_over(counts, domain, names)
        found.append(NoisyMarginal(names, true + draw(0, scale, true.shape), noise, scale))
    return NoisyMarginals(found, domain)


def drawn(sizes, orders, seed, scale=8.0, noise="laplace", filled=0.2):
    rng, domain = np.random.default_rng(seed), domain_of(sizes)
    return measure(domain, drawn_histogram(sizes, rng, filled), subsets(domain, *orders), scale, rng, noise)


def matrix_of(measured, rows=None):
    """Every measured cell x every row, of zeros and ones; rows are codes, or all of the domain."""
    sizes = measured.domain.sizes
    if rows is None:
        rows = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    held = np.zeros((len(measured.noisy_counts), len(rows)))
    for places, first in zip(measured.places, measured.offsets, strict=False):
        for row, codes in enumerate(rows):
            cell = 0
            for place in places:
                cell = cell * sizes[place] + int(codes[place])
            held[first + cell, row] = 1
    return held


def real_histograms():
    """The 31 histograms of the benchmark by name; skips where there is no data."""
    folder = os.environ.get("PRIVMW_DATA")
    if not folder:
        pytest.skip("PRIVMW_DATA must name the folder of real data")
    read = json.loads((Path(folder) / "census_histograms" / "histograms.json").read_text())
    return {each["name"]: np.array(each["counts"], float) for each in read["real"] + read["synthetic"]}
