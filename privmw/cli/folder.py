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
    """Refuse a path where no new folder can be made, before a release spends its budget."""
    with new_folder(path, keep=False):
        pass


@contextlib.contextmanager
def new_folder(path: str, *, keep: bool = True) -> Iterator[Path]:
    """Yield a folder to fill, which gets its final name at the end.

    After an error nothing is left behind; with keep=False nothing is left in any case.
    """
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
        if keep:
            with _naming(path):
                # Unlike a file, a folder is never moved over another one unless that is empty.
                os.rename(unfinished, path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Make errors name the final folder, not the unfinished one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
