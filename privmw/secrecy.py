"""What keeps private values out of freed memory, out of tracebacks and out of messages.

Freed memory comes back in someone's np.empty: `erasing` overwrites arrays first. Tools print the variables of
every frame of a traceback (pytest --showlocals, rich): `sealed` functions raise without the frames inside.
Every message about a wrong argument quotes it by `shown`, and `expect` refuses all of a wrong kind: neither
quotes what may be private data in the wrong place.
Every room may use this one; it knows none of them.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from reprlib import repr as _short
from types import TracebackType, UnionType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

Array = TypeVar("Array", bound=npt.NDArray[Any])
P = ParamSpec("P")
R = TypeVar("R")


# Never np.generic: an element of a structured array, np.void, is a record.
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
    """A wrong argument in a message: a scalar, or the kind of anything else.

    An array, a list or a frame in the wrong place may be the private one. Objects whose class sets
    `_public_repr` are shown as they print: it says that they never print a value of a record or a count.

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
    """Refuse an argument of a wrong kind.

    kind: what the value must be an instance of or, where that does not say it all, whether it is right.
    quote: False where a scalar may be private too: a count, or an element of a list or a mapping, which is a
    cell if records came in its place.

    >>> expect("names", ["age", "sex"], list | tuple, "a list of names")
    >>> expect("rounds", [[31, "F"]], int, "an integer")
    Traceback (most recent call last):
    TypeError: rounds (list) must be an integer
    """
    if not (kind if isinstance(kind, bool) else isinstance(value, kind)):
        came = shown(value) if quote else _kind(value)
        raise TypeError(f"{name} ({came}) must be {requirement}")


@contextmanager
def erasing() -> Iterator[Callable[[Array], Array]]:
    """Overwrite arrays with zeros at the end, come what may.

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
    """Overwrite an array with zeros if an error ends the block: no caller receives it then.

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
    """Make a function, or a generator, whose errors show no variables of the frames inside.

    An error that leaves it has lost the traceback from there on, and the errors it came from. Only where the
    data are known to be public, by private=False or because every table given is public, is it raised as it
    is.

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
    remembered = getattr(error, "_raised_in", None)
    if isinstance(remembered, str):
        return remembered
    name, trace = "", error.__traceback__
    while trace is not None:
        name, trace = _module(trace), trace.tb_next
    return name


def _kind(value: object) -> str:
    if type(value) is np.ndarray:
        return f"{value.ndim}-D array of {value.dtype.type.__name__}"
    return type(value).__name__


def _is_public(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if "private" in kwargs:
        return kwargs["private"] is False
    said = [getattr(given, "private", None) for given in args]
    return any(each is False for each in said) and not any(each is True for each in said)


def _cut(error: BaseException) -> BaseException:
    error._raised_in = raised_in(error)  # type: ignore[attr-defined]
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", ""))
