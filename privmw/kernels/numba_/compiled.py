"""How numba compiles the loops of its backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Kept for later runs, without the GIL, and without fastmath: roundings are those of the source."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))
