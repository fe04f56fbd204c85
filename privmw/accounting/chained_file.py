"""An append-only file of JSON lines that survives a kill at any point. It knows no budgets and no runs.

Each line ends in a SHA-256 of the line before it and of its own content, so edits and missing lines in the
middle are detected and refused. The digests are no signature, and missing lines at the end are not detected.
A line is written and synced under an exclusive lock before `append` returns. A last line that a kill cut
short was never acknowledged: readers ignore it, and the next writer removes it. A last line that lacks only
its newline counts; a complete line that was damaged later is refused. Reading needs no lock.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from typing import Any, TypeAlias

from .record import parse

Entry: TypeAlias = dict[str, Any]
Append: TypeAlias = Callable[[Mapping[str, Any]], None]

# A complete line matches one of these or both, even after any single bit is flipped: 66 bytes after the name
# of its digest, or a digest and the end. A line that was cut short matches neither: quotes within a text are
# escaped, and long digits elsewhere belong to fractions.
_FINISHED = re.compile(rb'"digest": ".{66}|(?<![/0-9a-f])[0-9a-f]{64,65}"}', re.DOTALL)


def create_file(path: str, first: Mapping[str, Any]) -> None:
    """Create a file with one line, readable by its owner only: atomically, and never over another file.

    >>> create_file(__file__, {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    FileExistsError: path (...) must not exist: nothing is written over
    """
    _locks()  # raises where files cannot be locked: nothing is created then
    folder, name = os.path.split(os.path.abspath(path))
    unfinished = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.unfinished")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(_line(first, ""))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, path)  # unlike os.rename, it fails if the file exists
        except OSError:
            if os.path.lexists(path):
                raise FileExistsError(f"path ({path}) must not exist: nothing is written over") from None
            os.rename(unfinished, path)  # a file system without links
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # so that the name survives a crash
    finally:
        os.close(descriptor)


def read_file(path: str) -> list[Entry]:
    """Return the entries of all complete lines, in order.

    >>> read_file(__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: '...' must be a whole, unchanged account: line 1: ...
    """
    with open(path, "rb") as file:
        return _entries(file.read(), path)[0]


@contextlib.contextmanager
def locked_file(path: str) -> Iterator[tuple[list[Entry], Append]]:
    """Hold the lock of the file; yields its current entries, and the function that adds a line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     create_file(f"{folder}/lines", {"first": 1})
    ...     with locked_file(f"{folder}/lines") as (entries, append):
    ...         append({"second": 2})
    ...     print(entries, read_file(f"{folder}/lines"))
    [{'first': 1}] [{'first': 1}, {'second': 2}]
    """
    locks = _locks()
    with open(path, "r+b", buffering=0) as file:
        locks.flock(file, locks.LOCK_EX)  # until the file is closed
        if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            raise ValueError(f"'{path}' must not be replaced while it is used")
        content = file.read()
        entries, digest, length = _entries(content, path)
        file.truncate(length)
        if length and content[length - 1 : length] != b"\n":
            _write(file, b"\n", length)
            length += 1

        def append(entry: Mapping[str, Any]) -> None:
            nonlocal digest, length
            line = _line(entry, digest)
            _write(file, line, length)
            digest, length = json.loads(line)["digest"], length + len(line)

        yield entries, append


@contextlib.contextmanager
def explained(path: str, number: int) -> Iterator[None]:
    """Turn the exceptions raised by unexpected content of a line into one ValueError that names the line.

    >>> with explained("account.jsonl", 3):
    ...     raise KeyError("run")
    Traceback (most recent call last):
    ValueError: 'account.jsonl' must be a whole, unchanged account: line 3: 'run'
    """
    try:
        yield
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"'{path}' must be a whole, unchanged account: line {number}: {error}") from error


def _entries(content: bytes, path: str) -> tuple[list[Entry], str, int]:
    """The entries of complete lines, the last digest, and their bytes without the last newline."""
    lines, tail = (content.split(b"\n")[:-1], content.split(b"\n")[-1]) if content else ([], b"")
    entries: list[Entry] = []
    digest, length = "", 0
    for number, line in enumerate(lines, 1):
        with explained(path, number):
            entry, digest = _entry(line, digest)
        entries.append(entry)
        length += len(line) + 1
    try:
        entry, digest = _entry(tail, digest)
    except (ValueError, TypeError, RecursionError):
        if _FINISHED.search(tail):
            with explained(path, len(lines) + 1):
                raise ValueError("it is finished but damaged, perhaps only in its newline") from None
        return entries, digest, length
    return [*entries, entry], digest, length + len(tail)


def _entry(line: bytes, before: str) -> tuple[Entry, str]:
    """The entry of a line, and its digest; before: the digest of the previous line."""
    entry = parse(line.decode("ascii"))
    if not isinstance(entry, dict) or "digest" not in entry:
        raise ValueError("it must be an object with a digest")
    digest = entry.pop("digest")
    if _line(entry, before) != line + b"\n":
        raise ValueError("its digest differs: it was edited, or a line before it is missing")
    return entry, digest


def _line(entry: Mapping[str, Any], before: str) -> bytes:
    text = json.dumps(entry, allow_nan=False)
    digest = hashlib.sha256(f"{before}{text}".encode()).hexdigest()
    return json.dumps({**entry, "digest": digest}).encode() + b"\n"


def _write(file: FileIO, line: bytes, place: int) -> None:
    """Write a line at a place and sync it; a failed write is undone."""
    file.seek(place)
    try:
        while line:
            line = line[file.write(line) or 0 :]
        os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            file.truncate(place)
        raise


def _locks() -> Any:
    try:
        import fcntl  # here: not every system has it
    except ImportError:
        raise RuntimeError("an account must be used on a system with file locks (fcntl)") from None
    return fcntl
