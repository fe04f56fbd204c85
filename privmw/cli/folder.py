"""Atomic folders: a folder appears complete or not at all, and never replaces another one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from privmw.cli.refusal import RefusalError, Remedy


@contextlib.contextmanager
def new_folder(path: str, *, mode: int = 0o777, paid: str | None = None) -> Iterator[Path]:
    """Yield a temporary folder, which gets its final name at the end, and is removed after an error.

    mode: who may enter the folder, and, but for the right to enter, read its files. paid: the name of an
    output that is never lost: once it is in the folder, an error leaves all of it under the final name.
    """
    final = Path(path)
    if not path:
        raise RefusalError(f"--output ('{path}') must name a folder")
    if os.path.lexists(final):
        raise RefusalError(f"--output ({path}) exists", "name another folder: nothing is ever overwritten")
    if not final.parent.is_dir():
        raise RefusalError(f"--output ({path}) must lie in a folder that exists, not in {final.parent}")
    unfinished = final.parent / f".{final.name[:100]}.{secrets.token_hex(8)}.unfinished"
    try:
        with _naming(path):
            unfinished.mkdir(mode)
        yield unfinished
        with _naming(path):
            for file in unfinished.iterdir() if mode != 0o777 else ():
                file.chmod(mode & 0o666)
            # rename replaces an existing file, but no folder unless it is empty.
            os.rename(unfinished, path)
    except BaseException as error:
        if paid is not None and (unfinished / paid).exists():
            os.rename(unfinished, path)
            remedy = getattr(error, "remedy", Remedy(f"{paid} is written", f"{paid} stays as it is"))
            error.remedy = Remedy(f"in {path}, {remedy.state}", f"in {path}, {remedy.command}")  # type: ignore[attr-defined]
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Make errors name the final folder, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
