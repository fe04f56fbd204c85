"""Release files: writes, reads and checks a release.

domain.json and ledger.json are written by Domain.to_json and Ledger.to_json; release.json holds settings,
history and the noise of each measurement; everything long is an array. A file must pass every check of a new
release, even if its digests match. Nothing here is private.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.accounting import Ledger
from privmw.data.domain import Domain
from privmw.data.strict_json import parse_json
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.release.archive import explained, read_archive, read_array, write_archive, write_array
from privmw.release.consistency import check_release
from privmw.release.history import read_round, write_round
from privmw.release.measurements import Measurement
from privmw.release.release import Release
from privmw.secrecy import expect

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
