"""Writing a file completely or not at all, and over an existing one only with `overwrite`."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from privmw.secrecy import shown


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, overwrite: bool = False, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Open a new file for writing; it appears under its name when it is complete, or not at all.

    An existing file is refused unless `overwrite`. mode: the permissions, less those that the umask denies.

    >>> with whole_file(__file__) as file:  # doctest: +ELLIPSIS
    ...     file.write(b"never")
    Traceback (most recent call last):
    FileExistsError: path (...) must not exist: say overwrite=True to replace it
    """
    path = os.fspath(path)
    if not isinstance(path, str):
        raise TypeError(f"path ({shown(path)}) must be a string or a path")
    if not overwrite and os.path.lexists(path):
        raise _taken(path)
    folder, name = os.path.split(os.path.abspath(path))
    unfinished = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.unfinished")
    try:
        try:
            file = open(unfinished, "xb", opener=partial(os.open, mode=mode))  # noqa: SIM115
        except OSError as error:  # it would name the temporary file
            raise type(error)(error.errno, error.strerror, path) from None
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _appear(unfinished, path, overwrite)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    _sync(folder)


def _appear(unfinished: str, path: str, overwrite: bool) -> None:
    if not overwrite:
        try:
            os.link(unfinished, path)  # unlike os.replace, it fails if the file exists by now
            return
        except FileExistsError:
            raise _taken(path) from None
        except OSError:  # a file system without links
            if os.path.lexists(path):
                raise _taken(path) from None
    os.replace(unfinished, path)


def _sync(folder: str) -> None:
    """Sync the folder too, where that is possible, so that the new name survives a crash."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(f"path ({path}) must not exist: say overwrite=True to replace it")
