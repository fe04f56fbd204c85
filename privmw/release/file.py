"""Release files: writes, reads and checks a release.

domain.json and ledger.json are written by Domain.to_json and Ledger.to_json; release.json holds settings,
history and the noise of each measurement; everything long is an array. A file must pass every check of a new
release, even if its digests match: measurements, history and ledger must agree. Nothing here is private.

A file is an archive: a zip of named members, read completely or refused. Members are not compressed, so none
can be larger than the file itself. Arrays are .npy members without pickle (numpy.load opens them too);
manifest.json holds the SHA-256 of every other member. The digests detect damage and careless edits; they are
not a signature. Checkpoints are archives too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.accounting import Composition, Event, Ledger
from privmw.accounting.noise import MEASURED, NoiseEvent, family_of_event, noise_of_event
from privmw.accounting.rounding import float_up
from privmw.accounting.statement import unit_size
from privmw.data.domain import Domain
from privmw.data.strict_json import parse_json
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.io.whole_file import whole_file
from privmw.release.history import Round, read_round, write_round
from privmw.release.measurements import Measurement
from privmw.release.release import WEIGHT_SUM_TOLERANCE, Release
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


FORM = "privmw release"
VERSION = 1


def save_release(release: Release, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a release to one file, atomically; see `Release.save`."""
    expect("release", release, Release, "a Release")
    check_release(release)
    _check_rows(release.support.table)
    write_archive(path, _members(release), form=FORM, version=VERSION, overwrite=overwrite)


def load_release(path: str | os.PathLike[str]) -> Release:
    """Read the release that `Release.save` wrote; ValueError for a damaged, edited or foreign file.

    >>> load_release(__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: '...' must be a whole, unchanged release file: File is not a zip file
    """
    members = read_archive(path, form=FORM, version=VERSION)
    with explained(path, FORM):
        release = _read(members)
        if members:
            raise ValueError(f"member ({next(iter(members))}) must be one that this version knows")
        check_release(release)
        return release


def _check_rows(table: Table) -> None:
    """Refuse rows that are not in strictly ascending lexicographic order."""
    agree = np.ones(table.n - 1, bool)
    for column in table.columns:
        if (agree & (column[1:] < column[:-1])).any():
            raise ValueError("rows of the support must ascend")
        agree &= column[1:] == column[:-1]
    if agree.any():
        raise ValueError("rows of the support must be distinct")


def _members(release: Release) -> Iterator[tuple[str, bytes]]:
    same = release.measured is release.workload
    described = {
        "settings": release.settings,
        "history": [write_round(entry) for entry in release.history],
        "measurements": describe_measurements(release.measurements),
        "measured": "workload" if same else "another workload",
    }
    yield "release.json", json.dumps(described, indent=1, allow_nan=False).encode()
    yield "domain.json", release.support.domain.to_json().encode()
    yield "ledger.json", release.ledger.to_json().encode()
    for name, workload in (("workload", release.workload), ("measured", release.measured))[: 2 - same]:
        yield from write_workload(name, workload)
    yield from write_measurements(release.measurements)
    yield "weights.npy", write_array(release.weights)
    yield "support/counts.npy", write_array(release.support.counts)
    if release.support.blocks is not None and release.support.block_weights is not None:
        yield "support/block_weights.npy", write_array(release.support.block_weights)
        for block, counts in enumerate(release.support.blocks.T):
            yield f"support/blocks/{block}.npy", write_array(np.ascontiguousarray(counts))
    for place, column in enumerate(release.support.table.columns):
        yield f"support/{place}.npy", write_array(column)


def _read(members: dict[str, bytes]) -> Release:
    """Make the release of checked members; removes them from the dictionary."""
    described = parse_json(members.pop("release.json").decode())
    names = {"settings", "history", "measurements", "measured"}
    if not isinstance(described, dict) or set(described) != names:
        raise ValueError(f"release.json must be an object with the keys {', '.join(sorted(names))}")
    if described["measured"] not in ("workload", "another workload"):
        raise ValueError("measured must be 'workload' or 'another workload'")
    domain = Domain.from_json(members.pop("domain.json").decode())
    workload = read_workload(domain, "workload", members)
    same = described["measured"] == "workload"
    return Release(
        _support(domain, members),
        workload,
        read_array(members.pop("weights.npy"), np.float64),
        measured=workload if same else read_workload(domain, "measured", members),
        measurements=read_measurements(described["measurements"], members),
        ledger=Ledger.from_json(members.pop("ledger.json").decode()),
        settings=described["settings"],
        history=[read_round(entry) for entry in described["history"]],
    )


def _support(domain: Domain, members: dict[str, bytes]) -> Support:
    columns: dict[str, npt.NDArray[Any]] = {}
    for place, attribute in enumerate(domain.attributes):
        dtype = np.min_scalar_type(attribute.size - 1)  # as in a Table
        columns[attribute.name] = read_array(members.pop(f"support/{place}.npy"), dtype)
    table = Table(columns, domain, private=False)
    _check_rows(table)
    counts = read_array(members.pop("support/counts.npy"), np.int64)
    if "support/block_weights.npy" not in members:
        return Support(table, counts)
    weights = read_array(members.pop("support/block_weights.npy"), np.float64)
    blocks = [
        read_array(members.pop(f"support/blocks/{block}.npy"), np.int64) for block in range(len(weights))
    ]
    if any(len(block) != len(counts) for block in blocks):
        raise ValueError(f"blocks must be as long as counts ({len(counts)})")
    return Support(table, counts, blocks=np.stack(blocks, axis=1), block_weights=weights)


def write_workload(name: str, workload: Workload) -> Iterator[tuple[str, bytes]]:
    """Yield the marginals of a workload as members of an archive."""
    yield f"{name}/attributes.npy", write_array(workload.attributes)
    yield f"{name}/starts.npy", write_array(workload.starts)


def read_workload(domain: Domain, name: str, members: dict[str, bytes]) -> Workload:
    """Read the workload that `write_workload` wrote; removes its members from the dictionary."""
    attributes = read_array(members.pop(f"{name}/attributes.npy"), np.int32)
    starts = read_array(members.pop(f"{name}/starts.npy"), np.int64)
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != len(attributes) or (np.diff(starts) < 0).any():
        raise ValueError(f"starts of the {name} must ascend from 0 to the number of attributes")
    if len(attributes) and not (attributes.min() >= 0 and attributes.max() < len(domain)):
        raise ValueError(f"attributes of the {name} must be from 0 to {len(domain) - 1}")
    names = [domain.names[position] for position in attributes.tolist()]
    workload = Workload(
        domain, [tuple(names[start:end]) for start, end in itertools.pairwise(starts.tolist())]
    )
    if not np.array_equal(workload.attributes, attributes):
        raise ValueError(f"attributes of the {name} must ascend within each marginal")
    return workload


def describe_measurements(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return the noise and size of each measurement, as JSON values."""
    return [{"size": len(m), "noise": m.noise, "scale": m.scale, "round": m.round} for m in measurements]


def write_measurements(measurements: Sequence[Measurement]) -> Iterator[tuple[str, bytes]]:
    """Yield the cells and counts of measurements as members of an archive."""
    none = np.empty(0, np.int64)
    cells = [measurement.cells for measurement in measurements]
    counts = [measurement.noisy_counts for measurement in measurements]
    yield "measurements/cells.npy", write_array(np.concatenate([none, *cells]))
    yield "measurements/noisy_counts.npy", write_array(np.concatenate([none, *counts]))


def read_measurements(described: Any, members: dict[str, bytes]) -> Iterator[Measurement]:
    """Read what `describe_measurements` and `write_measurements` wrote; removes its members."""
    cells = read_array(members.pop("measurements/cells.npy"), np.int64)
    counts = read_array(members.pop("measurements/noisy_counts.npy"), np.int64)
    start = 0
    for entry in described:
        if not isinstance(entry, dict) or set(entry) != {"size", "noise", "scale", "round"}:
            raise ValueError("measurements must be objects with the keys size, noise, scale and round")
        size = entry.pop("size")
        if type(size) is not int or not 0 <= size <= len(cells) - start:
            raise ValueError("sizes of the measurements must be those of their cells")
        part = slice(start, start + size)
        start += size
        yield Measurement(cells[part], counts[part], **entry)
    if start != len(cells) or start != len(counts):
        raise ValueError("sizes of the measurements must be those of their cells")


def check_release(release: Release) -> None:
    """Refuse a release that contradicts itself.

    Every measurement must match a measuring event of the ledger, in order. A history must account for every
    event and every measurement, round by round. A release without measurements must have rounds that drew
    signed cells.
    """
    measuring = [event for event in release.ledger.events if isinstance(event, NoiseEvent)]
    count = sum(event.count for event in measuring)
    if len(release.measurements) != count:
        raise ValueError(
            f"measurements ({len(release.measurements)}) must be as many as the ledger says, {count}"
        )
    events = (event for event in measuring for _ in range(event.count))
    for place, (measurement, event) in enumerate(zip(release.measurements, events, strict=True)):
        if measurement.distribution != noise_of_event(event) or len(measurement) != event.size:
            raise ValueError(
                f"measurement {place}, {shown(measurement)}, must have noise and size of {shown(event)}"
            )
        _check_unit(event, unit_size(release.ledger.unit))
    if release.history:
        _check_history(release)
    elif isinstance(release.settings.get("algorithm"), str):
        raise ValueError("history (none) must have the rounds of the algorithm")


def _check_unit(event: NoiseEvent, size: int) -> None:
    """Refuse noise for a smaller unit than the ledger's: sensitivities are multiples of its size."""
    if event.sensitivity % family_of_event(event).sensitivity(1, size):
        raise ValueError(f"{shown(event)} must be noise for a unit of {size} records")


def _check_history(release: Release) -> None:
    history, rounds = release.history, [measurement.round for measurement in release.measurements]
    if any(entry.round >= after.round for entry, after in itertools.pairwise(history)):
        raise ValueError("rounds of the history must ascend")
    measures = bool(release.measurements)
    if not measures and "measure" in release.settings:
        raise ValueError("measurements (none) must be those of the rounds: the algorithm measures")
    if measures and (rounds != sorted(rounds) or set(rounds) != {entry.round for entry in history}):
        raise ValueError("rounds of the measurements must be those of the history, in order")
    last = release.settings.get("rounds")
    if type(last) is int and last != history[-1].round:
        raise ValueError(f"last round ({history[-1].round}) must be {last}, as the settings say")
    events, total = iter(release.ledger.events), Composition()
    by_round = {entry.round: [m for m in release.measurements if m.round == entry.round] for entry in history}
    for entry in history:
        measurements = by_round[entry.round]
        total = total.plus(*_events_of(entry, measurements, events))
        if float_up(total.rho) != entry.rho:
            raise ValueError(f"rho of round {entry.round} must be {float_up(total.rho)}, by the ledger")
        if not measures:
            _check_drawn(release, entry)
        elif entry.chosen:
            _check_cells(release, entry, measurements)
    if next(events, None) is not None:
        raise ValueError("the ledger must have no event after the last round")
    _check_grown(release)


def _check_grown(release: Release) -> None:
    """Refuse grown rows whose number or mass is not that of the last round."""
    details, support = release.history[-1].details, release.support
    if "grown_rows" in details and details["grown_rows"] != support.grown:
        raise ValueError(f"grown rows ({support.grown}) must be {details['grown_rows']}, by the history")
    mass = float(release.weights[support.counts == 0].sum())
    if "grown_mass" in details and not abs(details["grown_mass"] - mass) <= WEIGHT_SUM_TOLERANCE:
        raise ValueError(f"mass of grown rows ({mass}) must be {details['grown_mass']}, by the history")


def _events_of(entry: Round, measurements: list[Measurement], events: Iterator[Event]) -> Iterator[Event]:
    """Yield a round's events of the ledger: one selection per chosen candidate, then the measurements."""
    for what, needed in (("choose", len(entry.chosen)), ("measure", len(measurements))):
        while needed > 0:
            event = next(events, None)
            if event is None or (event.kind in MEASURED) != (what == "measure"):
                raise ValueError(f"round {entry.round} must {what} by events of the ledger, in order")
            needed -= event.count
            yield event


def _check_drawn(release: Release, entry: Round) -> None:
    """Refuse rounds that drew nothing, or anything but signed cells."""
    if not entry.chosen or max(entry.chosen) >= 2 * release.measured.cells:
        raise ValueError(
            f"round {entry.round} must measure, or draw signed cells below {2 * release.measured.cells}"
        )


def _check_cells(release: Release, entry: Round, measurements: list[Measurement]) -> None:
    """Refuse measurements of cells or marginals that the round did not choose."""
    measured = release.measured
    expected = []
    for choice in entry.chosen:
        marginal = measured.cells_of([choice]) if choice < len(measured) else np.empty(0, np.int64)
        expected.append((np.array([choice]), marginal))
    if len(measurements) != len(expected) or not all(
        any(np.array_equal(measurement.cells, cells) for cells in either)
        for measurement, either in zip(measurements, expected, strict=False)
    ):
        raise ValueError(f"measurements of round {entry.round} must be of what was chosen")
