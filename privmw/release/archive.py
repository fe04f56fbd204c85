"""Archive files: a zip of named members, read completely or refused.

Members are not compressed, so none can be larger than the file itself. Arrays are .npy members without pickle
(numpy.load opens them too); manifest.json holds the SHA-256 of every other member. The digests detect damage
and careless edits; they are not a signature.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.data.strict_json import parse_json
from privmw.io.whole_file import whole_file
from privmw.secrecy import expect, shown

MANIFEST = "manifest.json"
# what zipfile, numpy and json raise on damaged files
_BROKEN = (
    struct.error, ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, NotImplementedError,
    RuntimeError, RecursionError, SyntaxError,
)  # fmt: skip


def write_archive(
    path: str | os.PathLike[str],
    members: Iterable[tuple[str, bytes]],
    *,
    form: str,
    version: int,
    overwrite: bool,
    mode: int = 0o666,
) -> None:
    """Write a file that `read_archive` reads, atomically.

    Equal members give equal bytes. An existing file is refused unless `overwrite`. mode: see `whole_file`.
    """
    import zipfile  # here: it would take a tenth of the time to import privmw

    with (
        whole_file(path, overwrite=overwrite, mode=mode) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        manifest: dict[str, Any] = {"format": form, "version": version, "sha256": {}}
        for member, content in members:  # a generator: all members at once may not fit in memory
            manifest["sha256"][member] = hashlib.sha256(content).hexdigest()
            archive.writestr(zipfile.ZipInfo(member), content)  # no date: the same bytes every time
        archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest, indent=2))


def read_archive(path: str | os.PathLike[str], *, form: str, version: int) -> dict[str, bytes]:
    """Read the members of a file and check their digests; ValueError if it is damaged."""
    import zipfile

    expect("path", path, str | os.PathLike, "the path of a file")
    with open(path, "rb") as file, explained(path, form):
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                names = [entry.filename for entry in entries]
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                    raise ValueError("members must not be compressed")
                if len(set(names)) < len(names) or sum(entry.file_size for entry in entries) > size:
                    raise ValueError("members must not overlap or repeat a name")
                members = {name: archive.read(name) for name in names}
        except zipfile.BadZipFile as error:
            raise ValueError(str(error)) from None
        except OSError as error:  # an offset outside the file
            raise ValueError(f"members must lie in the file: {error}") from None
        manifest = parse_json(members.pop(MANIFEST, b"null").decode())
        if not isinstance(manifest, dict) or manifest.get("format") != form:
            raise ValueError(f"{MANIFEST} must say format {shown(form)}")
        if type(manifest.get("version")) is not int or manifest["version"] != version:
            raise ValueError(f"version ({shown(manifest.get('version'))}) must be {version}")
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        if manifest != {"format": form, "version": version, "sha256": digests}:
            raise ValueError("members must be the ones written: a SHA-256 differs")
        return members


@contextlib.contextmanager
def explained(path: str | os.PathLike[str], form: str) -> Iterator[None]:
    """Turn the exceptions of a damaged file into one ValueError that names it."""
    kind = form.removeprefix("privmw ")
    try:
        yield
    except _BROKEN as error:
        raise ValueError(f"'{os.fspath(path)}' must be a whole, unchanged {kind} file: {error}") from error


def write_array(array: npt.NDArray[Any]) -> bytes:
    """An array as the bytes of a .npy file, little-endian.

    >>> read_array(write_array(np.array([3, 1])), np.int64)
    array([3, 1])
    """
    buffer = io.BytesIO()
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def read_array(content: bytes, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The read-only 1-D array of a .npy file of this dtype, neither copied nor unpickled."""
    expected = np.dtype(dtype)
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array must be of .npy version 1.0")
    shape, _, actual = np.lib.format.read_array_header_1_0(file)
    if actual != expected.newbyteorder("<") or len(shape) != 1:
        raise ValueError(f"an array ({len(shape)}-D, {actual}) must be 1-D and {expected}")
    if len(content) - file.tell() != shape[0] * expected.itemsize:
        raise ValueError(f"an array of {shape[0]} entries must be as long as it says")
    return np.frombuffer(content, actual, offset=file.tell()).astype(expected, copy=False)
