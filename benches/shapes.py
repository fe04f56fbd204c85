"""The named shapes of the benches: tables as a user would bring them, seeded, and what is known about each.

`acs67` has the sizes and the sparsity of the American Community Survey's person records, but none of them;
`acs67_real` is the records themselves. Generators work in chunks of rows and scale to 10^7 of them; the first
rows of a longer table are the rows of a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import real_data

import privmw as pmw

CHUNK = 1 << 14  # rows
STEPS = 1 << 16  # of the uniform noise

# fmt: off
ACS_SIZES = [
    10, 6, 5, 10, 3, 2, 2, 3, 3, 3, 2, 4, 25, 7, 3, 17, 2, 2, 2, 2, 2, 24, 4, 3, 4, 5, 4, 5, 9, 7, 5, 7, 2, 2,
    2, 9, 2, 2, 2, 2, 18, 4, 2, 5, 3, 3, 3, 3, 3, 3, 3, 5, 3, 3, 3, 4, 2, 8, 3, 2, 2, 2, 3, 4, 4, 13, 4,
]
# How many of a thousand distinct rows differ from the commonest value.
ACS_UNCOMMON = [
    845, 225, 109, 618, 68, 28, 54, 202, 118, 92, 155, 427, 799, 541, 214, 218, 72, 305, 196, 242, 37,
    147, 497, 405, 542, 556, 135, 420, 169, 582, 46, 46, 75, 193, 43, 376, 31, 17, 79, 301, 594, 239,
    490, 186, 95, 95, 95, 95, 95, 114, 95, 285, 95, 95, 397, 464, 93, 109, 225, 408, 475, 170, 353, 514,
    500, 470, 743,
]
# fmt: on
ACS_NOISE = 3.3  # the width of an attribute's own noise against its latent part: sets the spread of rows


class Sparsity(NamedTuple):
    """What the sparse kernels live on, over the distinct rows of a table."""

    rows: int
    mean: float  # uncommon values a row
    std: float
    triples: float  # share of (row, three-way marginal) pairs with all three values uncommon

    def __str__(self) -> str:
        return (
            f"{self.rows:,} distinct rows, {self.mean:.1f} uncommon values a row (std {self.std:.1f}), "
            f"all three uncommon in {100 * self.triples:.2f} % of (row, three-way marginal)"
        )


def sparsity(support: pmw.Support) -> Sparsity:
    uncommon = np.zeros(support.size)
    for column in support.table.columns:
        uncommon += column != np.bincount(column).argmax()
    width = len(support.domain)
    triples = uncommon * (uncommon - 1) * (uncommon - 2) / (width * (width - 1) * (width - 2))
    return Sparsity(support.size, uncommon.mean(), uncommon.std(), triples.mean())


class SparseModel:
    """Draws rows whose attributes have their commonest value but for a given share, uncommon values together.

    A row has four latent factors; an attribute is uncommon where its mix of them plus noise of its own passes
    a threshold, and then takes one of the other values, the first the likeliest.
    """

    def __init__(self, sizes: list[int], uncommon: list[float], noise: float, seed: int) -> None:
        self.sizes, self.noise, self.seed = sizes, noise, seed
        rng = np.random.default_rng([seed, 1])
        width = len(sizes)
        # One factor for all, and one of three for each attribute, against it for one attribute in four.
        self.shared = rng.uniform(0.2, 0.6, width).astype(np.float32)
        self.factor = 1 + rng.integers(0, 3, width)
        self.part = (np.where(rng.random(width) < 0.25, -1, 1) * rng.uniform(0.6, 1.0, width)).astype(
            np.float32
        )
        pilot = self.latent(np.random.default_rng([seed, 2]), 16 * CHUNK)
        self.thresholds = [np.quantile(next(pilot), 1 - share).astype(np.float32) for share in uncommon]
        self.values = [
            _value_table(size, share, int(rng.integers(size)))
            for size, share in zip(sizes, uncommon, strict=True)
        ]

    def latent(self, rng: np.random.Generator, rows: int) -> Iterator[np.ndarray]:
        """Attribute after attribute, one score a row."""
        factors = rng.standard_normal((4, rows), np.float32)
        for shared, factor, part in zip(self.shared, self.factor, self.part, strict=True):
            own = np.frombuffer(rng.bytes(2 * rows), np.uint16)
            yield shared * factors[0] + part * factors[factor] + own * np.float32(self.noise / STEPS)

    def columns(self, rows: int) -> list[np.ndarray]:
        columns = [np.empty(rows, np.uint8) for _ in self.sizes]
        for chunk, start in enumerate(range(0, rows, CHUNK)):
            rng = np.random.Generator(np.random.SFC64([self.seed, 3, chunk]))
            end = min(rows, start + CHUNK)
            for a, score in enumerate(self.latent(rng, CHUNK)):
                common, others = self.values[a]
                kinds = np.frombuffer(rng.bytes(2 * CHUNK), np.uint16)
                codes = np.where(score > self.thresholds[a], others[kinds], common)
                columns[a][start:end] = codes[: end - start]
        return columns


def _value_table(size: int, share: float, common: int) -> tuple[np.uint8, np.ndarray]:
    """The commonest value, and the others over 2^16 steps, each half as likely as the last if that may be."""
    for ratio in np.linspace(0.5, 1.0, 26):
        chances = ratio ** np.arange(size - 1)
        chances /= chances.sum()
        if share * chances[0] <= 0.95 * (1 - share):
            break
    others = np.delete(np.arange(size, dtype=np.uint8), common)
    ends = np.round(np.cumsum(chances) * STEPS).astype(np.int64)
    return np.uint8(common), others[np.searchsorted(ends, np.arange(STEPS), "right")]


def make_table(sizes: list[int], columns: list[np.ndarray]) -> pmw.Table:
    names = [f"a{a:03d}" for a in range(len(sizes))]
    for column in columns:
        column.flags.writeable = False  # so that the table adopts it without a copy
    return pmw.Table(
        dict(zip(names, columns, strict=True)),
        pmw.Domain(dict(zip(names, sizes, strict=True))),
        private=False,
    )


@lru_cache(maxsize=1)
def _acs_model() -> SparseModel:
    return SparseModel(ACS_SIZES, [share / 1000 for share in ACS_UNCOMMON], ACS_NOISE, seed=67)


def acs67(rows: int = 150_000) -> pmw.Table:
    return make_table(ACS_SIZES, _acs_model().columns(rows))


def millions(rows: int = 5_000_000) -> pmw.Table:
    """acs67, but long."""
    return acs67(rows)


def wide(rows: int = 50_000, width: int = 500) -> pmw.Table:
    """Many narrow attributes with a common value each."""
    rng = np.random.default_rng(500)
    sizes = rng.integers(2, 9, width).tolist()
    return make_table(
        sizes, SparseModel(sizes, rng.uniform(0.02, 0.3, width).tolist(), 3.0, seed=500).columns(rows)
    )


def dense(rows: int = 1_000_000) -> pmw.Table:
    """No sparsity to use: 30 uniform attributes of 2 to 10 values."""
    rng = np.random.Generator(np.random.SFC64(30))
    sizes = [2 + a % 9 for a in range(30)]
    return make_table(sizes, [rng.integers(0, size, rows, np.uint8) for size in sizes])


def acs67_real() -> pmw.Table | str:
    """The union of the survey's files under PRIVMW_DATA, or why there is none."""
    try:
        return real_data.acs("acs67", real_data.acs_files())
    except real_data.NoDataError as reason:
        return str(reason)


if __name__ == "__main__":
    for name, table in {
        "acs67": acs67(),
        "acs67_real": acs67_real(),
        "wide": wide(),
        "dense": dense(),
    }.items():
        print(f"{name}: {table if isinstance(table, str) else sparsity(pmw.Support.from_table(table))}")
