"""A folder that appears whole or not at all, and never over another one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from privmw.cli.refusal import RefusalError


def check_place(path: str) -> None:
    """Refuse a place where no new folder can be made: found out later, the budget would be spent."""
    with _unfinished(path):
        pass


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[Path]:
    """A folder to fill; at the end it gets its name, and whatever ends this early leaves nothing behind."""
    with _unfinished(path) as unfinished:
        yield unfinished
        with _naming(path):
            # Unlike a file, a folder is never moved over another one unless that is empty.
            os.rename(unfinished, path)


@contextlib.contextmanager
def _unfinished(path: str) -> Iterator[Path]:
    """A folder with another name beside it, gone at the end if it still has that name."""
    final = Path(path)
    if not path:
        raise RefusalError(f"output ({path!r}) must name a folder")
    if os.path.lexists(final):
        raise RefusalError(f"{path} exists", "name another folder: nothing is ever overwritten")
    if not final.parent.is_dir():
        raise RefusalError(f"{final.parent} must be a folder")
    unfinished = final.parent / f".{final.name[:100]}.{secrets.token_hex(8)}.unfinished"
    try:
        with _naming(path):
            unfinished.mkdir()
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the folder that was asked for, not the unfinished one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
