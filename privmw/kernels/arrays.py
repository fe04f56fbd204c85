"""Arrays that nobody can write to: what tables, supports and workloads hand out and the kernels may trust."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)


def freeze(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A view that stays read-only: numpy lets a view be written to only if its owner can be.

    >>> freeze(np.zeros(2)).flags.writeable
    False
    """
    array.flags.writeable = False
    view: npt.NDArray[Scalar] = array.view()
    return view


def is_frozen(array: npt.NDArray[Any]) -> bool:
    """Whether nobody can write to an array: neither through it, nor through what it is a view of.

    >>> is_frozen(freeze(np.zeros(2))), is_frozen(np.zeros(2))
    (True, False)
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    if owner is None:
        return True
    try:
        return memoryview(owner).readonly
    except TypeError:  # an owner of memory that cannot say
        return False
