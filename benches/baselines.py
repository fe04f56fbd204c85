"""What the kernels are measured against: the same questions asked of plain numpy, and of a plain numba loop.

Nothing here uses privmw's kernels, so that these lines also say what is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numba
import numpy as np

import privmw as pmw

Columns = Sequence[np.ndarray]


def subset(workload: pmw.Workload, size: int, seed: int = 1) -> np.ndarray:
    """Random marginals for lines that would take a minute over all of them."""
    if size >= len(workload):
        return np.arange(len(workload))
    return np.sort(np.random.default_rng(seed).choice(len(workload), size, replace=False))


def marginal(workload: pmw.Workload, j: int) -> tuple[list[int], tuple[int, ...]]:
    return workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist(), workload.shape(j)


def cells_of(workload: pmw.Workload, chosen: Iterable[int], sums: np.ndarray) -> list[np.ndarray]:
    return [sums[workload.offsets[j] : workload.offsets[j + 1]] for j in chosen]


def numpy_sums(
    columns: Columns, workload: pmw.Workload, chosen: Iterable[int], weights: np.ndarray
) -> list[np.ndarray]:
    sums = []
    for j in chosen:
        places, shape = marginal(workload, j)
        index = np.ravel_multi_index([columns[a] for a in places], shape)
        sums.append(np.bincount(index, weights, minlength=int(np.prod(shape))))
    return sums


def numpy_indices(
    columns: Columns, workload: pmw.Workload, chosen: Iterable[int]
) -> list[tuple[np.ndarray, int]]:
    """Prebuilt: eight bytes for every row and marginal."""
    made = []
    for j in chosen:
        places, shape = marginal(workload, j)
        made.append((np.ravel_multi_index([columns[a] for a in places], shape), int(np.prod(shape))))
    return made


def numpy_prebuilt_sums(indices: list[tuple[np.ndarray, int]], weights: np.ndarray) -> list[np.ndarray]:
    return [np.bincount(index, weights, minlength=cells) for index, cells in indices]


@numba.njit
def _scatter(a, b, c, size_b, size_c, masses, sums):  # type: ignore[no-untyped-def]
    for r in range(len(masses)):
        sums[(np.int64(a[r]) * size_b + b[r]) * size_c + c[r]] += masses[r]


def numba_sums(
    columns: Columns, workload: pmw.Workload, chosen: Iterable[int], masses: np.ndarray
) -> list[np.ndarray]:
    """Three-way marginals only; int64, so exact."""
    sums = []
    for j in chosen:
        (a, b, c), shape = marginal(workload, j)
        sums.append(np.zeros(int(np.prod(shape)), masses.dtype))
        _scatter(columns[a], columns[b], columns[c], shape[1], shape[2], masses, sums[-1])
    return sums


def numpy_changes(
    columns: Columns, workload: pmw.Workload, chosen: Iterable[int], rows: np.ndarray, changes: np.ndarray
) -> list[np.ndarray]:
    """What the cells gain when only some rows change; the rows' codes are taken once."""
    return numpy_sums([column[rows] for column in columns], workload, chosen, changes)


def numpy_distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    return rows, counts


def numpy_matching(columns: Columns, places: Sequence[int], values: Sequence[int]) -> np.ndarray:
    mask = columns[places[0]] == values[0]
    for a, value in zip(places[1:], values[1:], strict=True):
        mask &= columns[a] == value
    return mask


def numpy_update(
    weights: np.ndarray, columns: Columns, places: Sequence[int], values: Sequence[int], factor: float
) -> None:
    mask = numpy_matching(columns, places, values)
    weights[mask] *= factor
    weights /= weights.sum()
