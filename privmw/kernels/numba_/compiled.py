"""How numba compiles the loops of its backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiles with a cache on disk, without the GIL, and without fastmath: floats are rounded as in C++."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))
