"""Keep private values out of freed memory, tracebacks and messages.

Freed memory reappears in np.empty: `erasing` overwrites arrays first. Tools print the variables of every
frame of a traceback (pytest --showlocals, rich): `sealed` functions raise without their inner frames.
Messages about wrong arguments quote them with `shown`, and `expect` checks their kind: neither prints
possibly private data. Imports no other module of privmw.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from reprlib import repr as _short
from types import UnionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

Array = TypeVar("Array", bound=npt.NDArray[Any])
P = ParamSpec("P")
R = TypeVar("R")


# Not np.generic: np.void, an element of a structured array, may be a record.
_SCALARS = (
    str,
    numbers.Number,
    np.bool_,
    np.datetime64,
    np.timedelta64,
    datetime.date,
    datetime.time,
    type(None),
)


def shown(value: object) -> str:
    """How a message shows a wrong argument: scalars as they are, anything else by its kind.

    An array, a list or a frame passed by mistake may be private. Objects whose class sets `_public_repr` are
    shown by their repr, which never contains values of records or counts.

    >>> shown("sex"), shown(3.5), shown([[3, 1]]), shown(np.zeros((2, 3)))
    ("'sex'", '3.5', 'list', '2-D array of float64')
    """
    if isinstance(value, _SCALARS):
        return _short(value)
    if getattr(type(value), "_public_repr", False):
        return repr(value)
    return _kind(value)


def expect(
    name: str, value: object, kind: type | UnionType | bool, requirement: str, *, quote: bool = True
) -> None:
    """Raise TypeError unless an argument is of the right kind.

    kind: the type of the value, or a bool: whether it is right. quote: False if a scalar may be private too:
    a count, or an element of a list or a mapping, which would be a cell if records were passed by mistake.

    >>> expect("names", ["age", "sex"], list | tuple, "a list of names")
    >>> expect("rounds", [[31, "F"]], int, "an integer")
    Traceback (most recent call last):
    TypeError: rounds (list) must be an integer
    """
    if not (kind if isinstance(kind, bool) else isinstance(value, kind)):
        received = shown(value) if quote else _kind(value)
        raise TypeError(f"{name} ({received}) must be {requirement}")


def expect_array(name: str, value: object, dtype: type[np.generic]) -> None:
    """Raise TypeError unless an argument, which may be private, is a numpy array of this dtype.

    >>> expect_array("counts", [3, 1], np.int64)
    Traceback (most recent call last):
    TypeError: counts (list) must be a numpy array of int64
    """
    right = isinstance(value, np.ndarray) and value.dtype == dtype
    expect(name, value, right, f"a numpy array of {dtype.__name__.rstrip('_')}", quote=False)


@contextmanager
def erasing() -> Iterator[Callable[[Array], Array]]:
    """Overwrite arrays with zeros at the end, also after an error.

    >>> import numpy as np
    >>> with erasing() as erased:
    ...     counts = erased(np.array([3, 4]))
    >>> counts
    array([0, 0])
    """
    arrays: list[npt.NDArray[Any]] = []

    def keep(array: Array) -> Array:
        arrays.append(array)
        return array

    try:
        yield keep
    finally:
        for array in arrays:
            array.fill(0)


@contextmanager
def erased_on_failure(array: npt.NDArray[Any]) -> Iterator[None]:
    """Overwrite an array with zeros if an error ends the block.

    >>> import numpy as np
    >>> counts = np.array([3, 4])
    >>> with erased_on_failure(counts):
    ...     int(counts.sum())
    7
    """
    try:
        yield
    except BaseException:
        array.fill(0)
        raise


def sealed(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function, or a generator, so that its errors do not show the variables of inner frames.

    Errors lose the inner part of their traceback and the errors that caused them, unless the data are known
    to be public: by private=False, or because every table argument is public.

    >>> @sealed
    ... def count(codes, *, private):
    ...     raise ValueError("codes must be checked")
    >>> try:
    ...     count([3, 1], private=True)
    ... except ValueError as error:
    ...     frame = error.__traceback__.tb_next
    >>> frame.tb_next, sorted(frame.tb_frame.f_locals)
    (None, ['function', 'public'])
    """
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def items(*args: P.args, **kwargs: P.kwargs) -> Any:
            public = False
            try:
                public = _is_public(args, kwargs)
                return (yield from function(*args, **kwargs))
            except BaseException as error:
                if public:
                    raise
                cut = _cut(error)
            del args, kwargs  # else this frame would show them
            try:
                raise cut
            finally:
                del cut

        return cast(Callable[P, R], items)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        public = False
        try:
            public = _is_public(args, kwargs)
            return function(*args, **kwargs)
        except BaseException as error:
            if public:
                raise
            cut = _cut(error)
        del args, kwargs
        try:
            raise cut
        finally:
            del cut

    return call


def raised_in(error: BaseException) -> str:
    """The module whose code raised an error, also after `sealed` cut its traceback.

    >>> raised_in(ValueError())
    ''
    """
    recorded = getattr(error, "_raised_in", None)
    if isinstance(recorded, str):
        return recorded
    name, trace = "", error.__traceback__
    while trace is not None:
        name, trace = str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_next
    return name


def _kind(value: object) -> str:
    if type(value) is np.ndarray:
        return f"{value.ndim}-D array of {value.dtype.type.__name__}"
    return type(value).__name__


def _is_public(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if "private" in kwargs:
        return kwargs["private"] is False
    flags = [getattr(argument, "private", None) for argument in args]
    return any(flag is False for flag in flags) and not any(flag is True for flag in flags)


def _cut(error: BaseException) -> BaseException:
    # An attribute, since the error must stay itself for `except` clauses, built-in errors take no weak
    # reference, and a traceback that still names the module would hold frames with private variables.
    error._raised_in = raised_in(error)  # type: ignore[attr-defined]
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
