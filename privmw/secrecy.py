"""What keeps private values out of freed memory, out of tracebacks and out of messages.

Freed memory comes back in someone's np.empty: `erasing` overwrites arrays first. Tools print the variables of
every frame of a traceback (pytest --showlocals, rich): `sealed` functions raise without the frames inside.
`shown` quotes no argument that may be private data in the wrong place.
Every room may use this one; it knows none of them.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from reprlib import repr as _short
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

import numpy.typing as npt

Array = TypeVar("Array", bound=npt.NDArray[Any])
P = ParamSpec("P")
R = TypeVar("R")


def shown(value: object) -> str:
    """A wrong argument in a message: a scalar, or the kind of anything else.

    An array, a list or a frame in the wrong place may be the private one.

    >>> shown("sex"), shown(3.5), shown([[3, 1]])
    ("'sex'", '3.5', 'list')
    """
    return _short(value) if isinstance(value, str | numbers.Number | None) else type(value).__name__


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
