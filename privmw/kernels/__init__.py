"""The kernels: arrays in, arrays out. They release the GIL; the only global state is the number of threads.

Each noun (columns, rows, marginals, weights, projection, moves, products, least_squares, responses, draws)
has one module here, which checks arguments. The backends `native` (C++), `numba_` and `numpy_` have the same
kernels, in files of the same names, and trust their arguments; `python_` has the plain Python ones.
PRIVMW_BACKEND=native|numba|numpy forces a backend; the default is the compiled one or, where the extension
was not built, the best of the others, with one warning. Sums over rows are integers (csrc/core/weights.hpp):
every backend, number of threads and split of the rows over ranks gives the same bits. The float sums of
Incidence and Products do not depend on the number of threads; backends may round them differently.

A new kernel takes csrc/core/NOUN.hpp and .cpp, csrc/bind/NOUN.cpp, `_native.pyi`, numpy_/NOUN.py (which numba
uses until it has its own) and NOUN.py here; a new noun also a line in csrc/bind/module.cpp and one below. A
new backend is a package of such modules, and its name in choice.BACKENDS.

The capsules of privmw/kernels.pxd are `__pyx_capi__`, where Cython's cimport looks for them: the functions of
csrc/capi/privmw.h, in the compiled module whatever the backend.
"""

from typing import Any

from privmw.kernels.c_interface import get_cmake_dir, get_include, get_pkgconfig_dir
from privmw.kernels.cells import MASS_BITS
from privmw.kernels.choice import BACKENDS, backend, set_threads, threads
from privmw.kernels.columns import Columns
from privmw.kernels.least_squares import FitTargets, Solution, Tallies
from privmw.kernels.marginals import GramProduct, MarginalCells, Marginals
from privmw.kernels.moves import Moves
from privmw.kernels.products import Products
from privmw.kernels.projection import Incidence, solve_positive, split_lists, tilt
from privmw.kernels.responses import climb
from privmw.kernels.rows import (
    distinct_rows,
    groups_alike,
    incidence_of_groups,
    matching_bitmap,
    matching_rows,
)
from privmw.kernels.weights import (
    LARGEST_FACTOR,
    Gains,
    multiply,
    rescale,
    signed_masses,
    to_masses,
    total_after,
)
from privmw.secrecy import shown

__all__ = [
    "BACKENDS",
    "LARGEST_FACTOR",
    "MASS_BITS",
    "Columns",
    "FitTargets",
    "Gains",
    "GramProduct",
    "Incidence",
    "MarginalCells",
    "Marginals",
    "Moves",
    "Products",
    "Solution",
    "Tallies",
    "backend",
    "climb",
    "distinct_rows",
    "get_cmake_dir",
    "get_include",
    "get_pkgconfig_dir",
    "groups_alike",
    "incidence_of_groups",
    "matching_bitmap",
    "matching_rows",
    "multiply",
    "rescale",
    "set_threads",
    "signed_masses",
    "solve_positive",
    "split_lists",
    "threads",
    "tilt",
    "to_masses",
    "total_after",
]


def __getattr__(name: str) -> Any:
    if name == "__pyx_capi__":
        from privmw.kernels import _native  # only other extension modules need it

        return _native.__pyx_capi__
    raise AttributeError(f"module {shown(__name__)} has no attribute {shown(name)}")
