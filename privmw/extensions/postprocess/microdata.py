"""Microdata: records whose marginals are those of a fit, each within one where that is possible.

Two chains of nested marginals can be kept at once (rounding.py), and the total with them.
Declared invariants come first, then the measured marginals, the smaller before the larger. All of it is
post-processing: it uses the sampling stream, and no private value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from privmw.data.domain import positions_of
from privmw.data.table import Table
from privmw.extensions.postprocess.fit import Fit
from privmw.extensions.postprocess.rounding import round_flow
from privmw.kernels.arrays import Float64s, Int64s
from privmw.random import sampling_stream
from privmw.secrecy import expect, shown

Places = tuple[int, ...]

MOST_SYNTHETIC_RECORDS = 2**31


def to_microdata(
    fit: Fit,
    method: Literal["controlled", "randomised"] = "controlled",
    *,
    exact: Iterable[Sequence[str]] = (),
    seed: int | None = None,
) -> Table:
    """Records: each row's weight rounded down or up, so that the total is within one, and marginals too.

    "controlled" draws nothing; with "randomised" every count has the weight as its expectation. exact:
    marginals, of two chains of nested ones, that are whole in the fit and must stay so; () is the total.
    Of the others that were measured, those that fit into the chains stay within one of the fit.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, nnls
    >>> histogram = NoisyMarginal(("sex",), [3.4, 1.3], noise="laplace", scale=2.0)
    >>> fit = nnls(NoisyMarginals([histogram], Domain({"sex": 2})), total=5)
    >>> to_microdata(fit, exact=[()]).column("sex").tolist()
    [0, 0, 0, 0, 1]
    """
    expect("fit", fit, Fit, "a Fit")
    if method not in ("controlled", "randomised"):
        raise ValueError(f"method ({shown(method)}) must be 'controlled' or 'randomised'")
    if fit.weights.min() < 0:
        raise ValueError("fit (with weights below 0) must not be negative: ols makes no microdata")
    total = float(fit.weights.sum())
    if not 0.5 <= total < MOST_SYNTHETIC_RECORDS:
        raise ValueError(f"fit (of total {total:.6g}) must have at least half a record and below 2^31")
    rng = sampling_stream(seed) if method == "randomised" else None
    whole = 1e-6 + 1e-9 * total
    rows = np.flatnonzero(fit.weights)
    chains = _chains(fit, exact, whole)
    counts = _counts(fit, rows, chains, rng, whole)
    return _records(fit, rows, counts)


def _counts(
    fit: Fit, rows: Int64s, chains: list[list[Places]], rng: np.random.Generator | None, whole: float
) -> Int64s:
    """How many records each row gets: first for groups of rows in the same cells of all chains' marginals."""
    weights = fit.weights[rows]
    parts = [[_cells(fit, rows, places) for places in chain] for chain in chains]
    alone = np.zeros(len(rows), np.int64)
    finest = [chain[-1] if chain else alone for chain in parts]
    _, first, group = np.unique(np.stack(finest), axis=1, return_index=True, return_inverse=True)
    group = group.ravel()
    sums = np.asarray(np.bincount(group, weights), np.float64)
    nested = [[partition[first] for partition in chain] for chain in parts]
    wanted = round_flow(sums, nested[0], nested[1], rng, whole)
    return _share(weights, group, sums, wanted, rng)


def _share(
    weights: Float64s,
    group: Int64s,
    sums: Float64s,
    wanted: Int64s,
    rng: np.random.Generator | None,
) -> Int64s:
    """Systematic sampling within each group, which gets `wanted` records.

    The weights are laid end to end, and points one apart on them; a row gets as many records as there are
    points on its weight. Their offset is drawn among those that give `wanted` points, or is the middle one.
    """
    order = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(group))])
    ends = np.cumsum(weights[order])
    ends -= np.repeat(np.concatenate([[0.0], ends])[starts[:-1]], np.diff(starts))
    part = sums - np.floor(sums)
    up = wanted > np.floor(sums)
    low, high = np.where(up, 1 - part, 0.0), np.where(up, 1.0, 1 - part)
    offset = low + (high - low) * (0.5 if rng is None else rng.random(len(sums)))
    points = np.floor(ends + np.repeat(offset, np.diff(starts))).astype(np.int64)
    points = np.minimum(points, np.repeat(wanted, np.diff(starts)))
    points[starts[1:] - 1] = wanted  # despite rounding
    before = np.concatenate([[0], points[:-1]])
    before[starts[:-1]] = 0
    counts = np.empty(len(weights), np.int64)
    counts[order] = points - before
    return counts


def _chains(fit: Fit, exact: Iterable[Sequence[str]], whole: float) -> list[list[Places]]:
    """Two chains of nested marginals: all that must be exact, and measured ones that fit in."""
    expect("exact", exact, isinstance(exact, Iterable) and not isinstance(exact, str), "a list of marginals")
    declared: set[Places] = set()
    for names in exact:
        expect("exact", names, tuple | list, "marginals, tuples of names", quote=False)
        places = tuple(sorted(positions_of(fit.domain, names, "exact")))
        sums = fit.marginal(names)
        if np.abs(sums - np.rint(sums)).max() > whole:
            raise ValueError(f"exact {tuple(names)} must be whole numbers in the fit")
        declared.add(places)
    chains = _arranged(sorted(declared - {()}, key=len), [[], []])
    if chains is None:
        raise ValueError("exact must be of two chains of nested marginals: no more can be kept at once")
    everything = tuple(range(len(fit.domain)))
    for places in sorted(set(fit.measured.places) - declared - {(), everything}, key=lambda p: (len(p), p)):
        for chain in chains:
            if all(set(each) <= set(places) or set(places) <= set(each) for each in chain):
                chain.append(places)
                chain.sort(key=len)
                break
    return chains


def _arranged(marginals: list[Places], chains: list[list[Places]]) -> list[list[Places]] | None:
    """Ascending marginals on two chains, by trial; None if that is impossible."""
    if not marginals:
        return chains
    first, rest = marginals[0], marginals[1:]
    for here, there in ((0, 1), (1, 0)):
        if not chains[here] or set(chains[here][-1]) <= set(first):
            tried = [list(chain) for chain in chains]
            tried[here].append(first)
            arranged = _arranged(rest, tried)
            if arranged is not None:
                return arranged
        if not chains[there] and not chains[here]:
            break  # the other way round is the same
    return None


def _cells(fit: Fit, rows: Int64s, places: Places) -> Int64s:
    """The cell of a marginal that each row lies in."""
    sizes = [fit.domain.sizes[place] for place in places]
    if fit.support is not None:
        codes: Sequence[npt.NDArray[Any]] = [column[rows] for column in fit.support.table.columns]
    else:
        codes = np.unravel_index(rows, fit.domain.sizes)
    return np.ravel_multi_index([codes[place] for place in places], sizes)


def _records(fit: Fit, rows: Int64s, counts: Int64s) -> Table:
    if fit.support is not None:
        return fit.support.table.take(np.repeat(rows, counts))
    codes = np.unravel_index(np.repeat(rows, counts), fit.domain.sizes)
    return Table(zip(fit.domain.names, codes, strict=True), fit.domain, private=False)
