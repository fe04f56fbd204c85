"""Type aliases of arrays, and the read-only arrays that tables, supports and workloads return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Bools: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]  # of one attribute: uint8, uint16 or uint32
Float64s: TypeAlias = npt.NDArray[np.float64]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
UInt32s: TypeAlias = npt.NDArray[np.uint32]  # numbers of rows, for example
UInt64s: TypeAlias = npt.NDArray[np.uint64]  # random words, for example

Scalar = TypeVar("Scalar", bound=np.generic)


class CheckedColumns(tuple[Codes, ...]):
    """Frozen columns of equal length whose codes are below `sizes`, so that kernels need not check them.

    Create only after checking every code, as `privmw.data.table` does: kernels index memory by codes.
    """

    sizes: tuple[int, ...]

    @classmethod
    def of(cls, columns: Iterable[Codes], sizes: Sequence[int]) -> CheckedColumns:
        """Mark columns as checked."""
        checked = cls(columns)
        checked.sizes = tuple(sizes)
        return checked


def freeze(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """A read-only view that cannot be made writable again, since its owner is read-only too.

    >>> freeze(np.zeros(2)).flags.writeable
    False
    """
    array.flags.writeable = False
    view: npt.NDArray[Scalar] = array.view()
    return view


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The array itself if it is immutable, else a read-only copy.

    >>> array = np.zeros(2)
    >>> np.shares_memory(frozen(array), array)
    False
    """
    return array if is_frozen(array) else freeze(array.copy())


def is_frozen(array: npt.NDArray[Any]) -> bool:
    """Whether an array is read-only, and all arrays that it is a view of.

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
    except TypeError:  # not a buffer
        return False
