# The compiled module as csrc/bind offers it. privmw.kernels checks values; here only kinds are.
from collections.abc import Sequence
from typing import Any, type_check_only

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import Array, Bools, Codes, Float64s, Int32s, Int64s, UInt32s, UInt64s

@type_check_only
class _BoundType(type): ...  # pybind11's metaclass, which has no public name

# csrc/bind/capi.cpp
__pyx_capi__: dict[str, Any]

# csrc/bind/columns.cpp
class Columns(metaclass=_BoundType):
    def __init__(self, columns: Sequence[Codes], sizes: Sequence[int], threads: int) -> None: ...
    def nbytes(self) -> int: ...

# csrc/bind/rows.cpp
def distinct_rows(columns: Sequence[Codes], sizes: Sequence[int], threads: int) -> tuple[UInt32s, Int64s]: ...
def matching_rows(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> UInt32s: ...
def matching_bitmap(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> UInt64s: ...
def groups_alike(
    columns: Columns, attributes: Int32s, values: UInt32s, starts: Int64s
) -> tuple[UInt32s, int]: ...
def incidence_of_groups(
    columns: Columns,
    rows: UInt32s,
    attributes: Int32s,
    values: UInt32s,
    starts: Int64s,
    threads: int,
) -> tuple[Int64s, UInt32s]: ...

# csrc/bind/marginals.cpp
class Marginals(metaclass=_BoundType):
    def __init__(self, columns: Columns, attributes: Int32s, starts: Int64s, threads: int) -> None: ...
    def sums(self, masses: Int64s, out: Int64s, threads: int) -> None: ...
    def add_changes(self, rows: UInt32s, changes: Int64s, sums: Int64s, threads: int) -> None: ...
    def potentials(self, values: Int64s, exponent: int, out: Float64s, threads: int) -> None: ...
    def ways(self) -> dict[str, int]: ...
    def nbytes(self) -> int: ...

class MarginalCells(metaclass=_BoundType):
    def __init__(self, marginals: Marginals, places: Int64s, most_bytes: int) -> None: ...
    def keep(self, kept: Int64s) -> None: ...
    def sums(self, rows: UInt32s, masses: Int64s, out: Int64s, threads: int) -> None: ...
    def potentials(
        self, rows: UInt32s, values: Int64s, exponent: int, out: Float64s, threads: int
    ) -> None: ...
    def nbytes(self) -> int: ...

class GramProduct(metaclass=_BoundType):
    def __init__(self, cells: MarginalCells, prices: Float64s) -> None: ...
    def spread(
        self, rows: UInt32s, masses: Int64s, unit: int, exponent: int, out: Float64s, threads: int
    ) -> None: ...

# csrc/bind/weights.cpp
def heaviest(weights: Float64s, threads: int) -> float: ...
def total_mass(weights: Float64s, exponent: int, threads: int) -> int: ...
def shift(weights: Float64s, exponent: int, threads: int) -> None: ...
def to_masses(weights: Float64s, threads: int) -> tuple[Int64s, int]: ...
def signed_masses(weights: Float64s, values: Float64s, exponent: int, threads: int) -> Int64s: ...
def total_magnitude(masses: Int64s, threads: int) -> int: ...
def multiply(weights: Float64s, rows: UInt32s, factor: float, threads: int) -> tuple[Int64s, int, int]: ...

# csrc/bind/projection.cpp
class Incidence(metaclass=_BoundType):
    def __init__(self, starts: Int64s, queries: UInt32s, count: int) -> None: ...
    def potentials(self, values: Float64s, out: Float64s, threads: int) -> None: ...
    def sums(self, weights: Float64s, out: Float64s) -> None: ...
    def gram(self, weights: Float64s, threads: int) -> Float64s: ...
    def nbytes(self) -> int: ...

def split_lists(
    starts: Int64s,
    queries: UInt32s,
    first: int,
    matched: Int64s,
    matched_starts: Int64s,
    cut: Int64s,
    cut_starts: Int64s,
) -> tuple[Int64s, UInt32s]: ...
def solve_positive(matrix: Float64s, right: Float64s, out: Float64s) -> None: ...
def most_potential(base: Float64s, potentials: Float64s, threads: int) -> float: ...
def tilt(
    base: Float64s,
    potentials: Float64s,
    most: float,
    out: Float64s,
    threads: int,
) -> float: ...
def normalise(weights: Float64s, exponent: int, factor: float, threads: int) -> None: ...

# csrc/bind/moves.cpp
class Moves(metaclass=_BoundType):
    def __init__(self, sizes: Sequence[int], attributes: Int32s, starts: Int64s) -> None: ...
    def set_values(self, values: Int64s, exponent: int) -> None: ...
    def redraw(
        self,
        codes: UInt32s,
        attributes: Sequence[int],
        kept: UInt32s,
        keep: float,
        base: Sequence[Float64s],
        words: Sequence[UInt64s],
        threads: int,
    ) -> None: ...
    def potentials(self, codes: UInt32s, out: Float64s, threads: int) -> None: ...
    def nbytes(self) -> int: ...

# csrc/bind/products.cpp
class Products(metaclass=_BoundType):
    def __init__(self, sizes: Sequence[int], attributes: Int32s, starts: Int64s) -> None: ...
    def answers(self, tables: Array, weights: Array, out: Array, threads: int) -> None: ...
    def gradient(
        self,
        tables: Array,
        weights: Array,
        by_cell: Array,
        by_tables: Array,
        by_weights: Array,
        threads: int,
    ) -> None: ...

# csrc/bind/least_squares.cpp
class Tallies(metaclass=_BoundType):
    def __init__(
        self,
        sizes: Sequence[int],
        attributes: Int32s,
        starts: Int64s,
        columns: Columns | None,
        groups: Int32s,
        marked: npt.NDArray[np.uint8],
        threads: int,
    ) -> None: ...
    def sums(self, weights: Float64s, out: Float64s) -> None: ...
    def potentials(self, values: Float64s, out: Float64s) -> None: ...
    def newton(
        self,
        centre: Float64s,
        variance: Float64s,
        lower: Float64s,
        upper: Float64s,
        answers: Float64s,
        spread: Float64s,
        least: Float64s,
        most: Float64s,
        start: Float64s,
        tolerance: float,
        steps: int,
        limit: float,
    ) -> tuple[Float64s, Float64s, float, float, int]: ...
    def descend(
        self,
        order: UInt32s,
        precisions: Float64s,
        bends: Float64s,
        weights: Float64s,
        pulls: Float64s,
    ) -> float: ...
    def nbytes(self) -> int: ...

# csrc/bind/responses.cpp
def climb(
    codes: UInt32s,
    sizes: Sequence[int],
    attributes: Int32s,
    values: UInt32s,
    starts: Int64s,
    weights: Int64s,
    terms: Int64s,
    groups: int,
    scores: Int64s,
    threads: int,
) -> None: ...

# csrc/bind/draws.cpp
class Errors(metaclass=_BoundType):
    def __init__(self, counts: Int64s, answers: Float64s, whole: float, bits: int) -> None: ...
    def __len__(self) -> int: ...
    def scores(self) -> Int64s: ...
    def largest(self, starts: Int64s) -> Int64s: ...

def coin_exp(bit_generator: Any, numerator: int, denominator: int, size: int) -> Bools: ...
def bernoulli(bit_generator: Any, numerator: int, denominator: int, size: int) -> Bools: ...
def uniform_below(bit_generator: Any, bound: int, size: int) -> Int64s: ...
def discrete_laplace(
    bit_generator: Any, scale_numerator: int, scale_denominator: int, size: int
) -> Int64s: ...
def discrete_gaussian(
    bit_generator: Any, sigma2_numerator: int, sigma2_denominator: int, size: int
) -> Int64s: ...
def select_permute_and_flip(
    bit_generator: Any,
    scores: Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Int64s | None = None,
) -> Int64s: ...
def select_exponential(
    bit_generator: Any,
    scores: Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Int64s | None = None,
) -> Int64s: ...
def draw_exponential(
    bit_generator: Any, scores: Int64s, gamma_numerator: int, gamma_denominator: int, k: int
) -> Int64s: ...
def report_noisy_max(
    bit_generator: Any, scores: Int64s, gamma_numerator: int, gamma_denominator: int, k: int
) -> Int64s: ...
