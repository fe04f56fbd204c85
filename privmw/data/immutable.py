"""Objects whose attributes are set once, when they are made."""

from __future__ import annotations

from typing import NoReturn


class Immutable:
    """A base class whose attributes are set by `_set` only.

    Not a frozen dataclass: `dataclasses.asdict` would copy the codes of a private table.

    >>> Immutable().name = "age"
    Traceback (most recent call last):
    AttributeError: Immutable is immutable: name must not be set
    """

    __slots__ = ()

    def _set(self, **attributes: object) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} must not be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} must not be deleted")
