# The compiled module as csrc/bind offers it. privmw.kernels checks values; here only kinds are.
from collections.abc import Sequence
from typing import Any, TypeAlias, type_check_only

import numpy as np
import numpy.typing as npt

_Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
_Int64s: TypeAlias = npt.NDArray[np.int64]
_Rows: TypeAlias = npt.NDArray[np.uint32]

@type_check_only
class _BoundType(type): ...  # pybind11's metaclass, which has no public name

class Columns(metaclass=_BoundType):
    def __init__(self, columns: Sequence[_Codes], sizes: Sequence[int], threads: int) -> None: ...
    def nbytes(self) -> int: ...

class Marginals(metaclass=_BoundType):
    def __init__(
        self, columns: Columns, attributes: npt.NDArray[np.int32], starts: _Int64s, threads: int
    ) -> None: ...
    def sums(self, masses: _Int64s, out: _Int64s, threads: int) -> None: ...
    def add_changes(self, rows: _Rows, changes: _Int64s, sums: _Int64s, threads: int) -> None: ...
    def potentials(
        self, values: _Int64s, exponent: int, out: npt.NDArray[np.float64], threads: int
    ) -> None: ...
    def ways(self) -> dict[str, int]: ...
    def nbytes(self) -> int: ...

class Incidence(metaclass=_BoundType):
    def __init__(self, starts: _Int64s, queries: npt.NDArray[np.uint32], count: int) -> None: ...
    def potentials(
        self, values: npt.NDArray[np.float64], out: npt.NDArray[np.float64], threads: int
    ) -> None: ...
    def sums(self, weights: npt.NDArray[np.float64], out: npt.NDArray[np.float64]) -> None: ...
    def gram(self, weights: npt.NDArray[np.float64], threads: int) -> npt.NDArray[np.float64]: ...
    def nbytes(self) -> int: ...

class Tallies(metaclass=_BoundType):
    def __init__(
        self,
        sizes: Sequence[int],
        attributes: npt.NDArray[np.int32],
        starts: _Int64s,
        columns: Columns | None,
        groups: npt.NDArray[np.int32],
        marked: npt.NDArray[np.uint8],
        threads: int,
    ) -> None: ...
    def sums(self, weights: npt.NDArray[np.float64], out: npt.NDArray[np.float64]) -> None: ...
    def potentials(self, values: npt.NDArray[np.float64], out: npt.NDArray[np.float64]) -> None: ...
    def newton(
        self,
        centre: npt.NDArray[np.float64],
        variance: npt.NDArray[np.float64],
        lower: npt.NDArray[np.float64],
        upper: npt.NDArray[np.float64],
        answers: npt.NDArray[np.float64],
        spread: npt.NDArray[np.float64],
        least: npt.NDArray[np.float64],
        most: npt.NDArray[np.float64],
        start: npt.NDArray[np.float64],
        tolerance: float,
        steps: int,
        limit: float,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float, float, int]: ...
    def descend(
        self,
        order: _Rows,
        precisions: npt.NDArray[np.float64],
        bends: npt.NDArray[np.float64],
        weights: npt.NDArray[np.float64],
        pulls: npt.NDArray[np.float64],
    ) -> float: ...
    def nbytes(self) -> int: ...

def distinct_rows(columns: Sequence[_Codes], sizes: Sequence[int], threads: int) -> tuple[_Rows, _Int64s]: ...
def matching_rows(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> _Rows: ...
def matching_bitmap(
    columns: Columns, attributes: Sequence[int], values: Sequence[int]
) -> npt.NDArray[np.uint64]: ...
def groups_alike(
    columns: Columns, attributes: npt.NDArray[np.int32], values: npt.NDArray[np.uint32], starts: _Int64s
) -> tuple[npt.NDArray[np.uint32], int]: ...
def incidence_of_groups(
    columns: Columns,
    rows: _Rows,
    attributes: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint32],
    starts: _Int64s,
    threads: int,
) -> tuple[_Int64s, npt.NDArray[np.uint32]]: ...
def solve_positive(
    matrix: npt.NDArray[np.float64], right: npt.NDArray[np.float64], out: npt.NDArray[np.float64]
) -> None: ...
def most_potential(
    base: npt.NDArray[np.float64], potentials: npt.NDArray[np.float64], threads: int
) -> float: ...
def tilt(
    base: npt.NDArray[np.float64],
    potentials: npt.NDArray[np.float64],
    most: float,
    out: npt.NDArray[np.float64],
    threads: int,
) -> float: ...
def normalise(weights: npt.NDArray[np.float64], exponent: int, factor: float, threads: int) -> None: ...
def heaviest(weights: npt.NDArray[np.float64], threads: int) -> float: ...
def total_mass(weights: npt.NDArray[np.float64], exponent: int, threads: int) -> int: ...
def shift(weights: npt.NDArray[np.float64], exponent: int, threads: int) -> None: ...
def to_masses(weights: npt.NDArray[np.float64], threads: int) -> tuple[_Int64s, int]: ...
def multiply(
    weights: npt.NDArray[np.float64], rows: _Rows, factor: float, threads: int
) -> tuple[_Int64s, int, int]: ...

# csrc/bind/errors.cpp
class Errors(metaclass=_BoundType):
    def __init__(
        self, counts: _Int64s, answers: npt.NDArray[np.float64], whole: float, bits: int
    ) -> None: ...
    def __len__(self) -> int: ...
    def scores(self) -> _Int64s: ...
    def largest(self, starts: _Int64s) -> _Int64s: ...

# csrc/bind/draw.cpp
def coin_exp(bit_generator: Any, numerator: int, denominator: int, size: int) -> npt.NDArray[np.bool_]: ...
def bernoulli(bit_generator: Any, numerator: int, denominator: int, size: int) -> npt.NDArray[np.bool_]: ...
def uniform_below(bit_generator: Any, bound: int, size: int) -> npt.NDArray[np.int64]: ...
def discrete_laplace(
    bit_generator: Any, scale_numerator: int, scale_denominator: int, size: int
) -> npt.NDArray[np.int64]: ...
def discrete_gaussian(
    bit_generator: Any, sigma2_numerator: int, sigma2_denominator: int, size: int
) -> npt.NDArray[np.int64]: ...
def select_permute_and_flip(
    bit_generator: Any,
    scores: _Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: _Int64s | None = None,
) -> _Int64s: ...
def select_exponential(
    bit_generator: Any,
    scores: _Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: _Int64s | None = None,
) -> _Int64s: ...
def report_noisy_max(
    bit_generator: Any, scores: npt.NDArray[np.int64], gamma_numerator: int, gamma_denominator: int, k: int
) -> npt.NDArray[np.int64]: ...
