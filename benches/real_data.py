"""Reads the real records under PRIVMW_DATA as tables of codes; says why where there are none.

What is read: `acs_pums/`, `acs_nist_excerpts/`, `adult/` and `loans/` with their `domain.json`. Which records
play private and which public is for `pairs.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import privmw as pmw
from privmw.extensions import experiments


class NoDataError(Exception):
    """Why there are no real records here: for a bench to skip with."""


def folder(family: str) -> Path:
    root = os.environ.get("PRIVMW_DATA")
    if not root:
        raise NoDataError("PRIVMW_DATA is not set")
    path = Path(root) / family
    if not (path / "domain.json").exists():
        raise NoDataError(f"PRIVMW_DATA has no {family}")
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise NoDataError("pyarrow is not installed") from None
    return path


def _read(path: Path, columns: Sequence[str]) -> dict[str, np.ndarray]:
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=list(columns))
    return {name: table[name].to_numpy() for name in columns}


def acs_files() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder("acs_pums").glob("*.parquet")))


def acs(profile: str, files: Sequence[str]) -> pmw.Table:
    """The person records of some of the survey's files, one after the other."""
    path = folder("acs_pums")
    read = experiments.survey(*(path / f"{file}.parquet" for file in files), private=False, profile=profile)
    return _codes_of(read)


def _codes_of(table: pmw.Table) -> pmw.Table:
    """The same without labels: the studies hand columns of codes to other libraries."""
    sizes = dict(zip(table.domain.names, table.domain.sizes, strict=True))
    return pmw.Table(zip(sizes, table.columns, strict=True), pmw.Domain(sizes), private=False)


def nist(year: int) -> pmw.Table:
    """The national excerpt of a year, 2018 or 2019, on 18 attributes."""
    path = folder("acs_nist_excerpts")
    described = json.loads((path / "domain.json").read_text())
    sources = {"AGEP10": "AGEP", "POVPIP6": "POVPIP"}
    sizes = described["profile18"]
    raw = _read(path / f"national{year}.parquet", [sources.get(name, name) for name in sizes])
    columns = {}
    for name in sizes:
        values = raw[sources.get(name, name)]
        if name == "AGEP10":
            columns[name] = np.minimum(values.astype(np.int64) // 10, 9)
        elif name == "POVPIP6":
            columns[name] = np.array([0 if v == "N" else 1 + min(int(v) // 100, 5) for v in values])
        else:
            places = {value: code for code, value in enumerate(described["attributes"][name]["observed"])}
            columns[name] = np.array([places[value] for value in values])
    return pmw.Table(columns, pmw.Domain(sizes), private=False)


def loans() -> pmw.Table:
    """The LOANS set on its 48 attributes."""
    return experiments.loans(folder("loans") / "loans.parquet", private=False)


@lru_cache(maxsize=1)
def adult() -> pmw.Table:
    """All records of ADULT on the paper's 13 attributes, in the order that the authors' splits count in.

    Their file has the records grouped by the weight `fnlwgt`, in percent of the largest, in order of first
    appearance; ours has them in the order of UCI's files. What one of these says twice is dropped.
    """
    path = folder("adult") / "adult_raw.parquet"
    described = json.loads(path.with_name("domain.json").read_text())["adult_raw"]["attributes"]
    raw = _read(path, [*described, "split"])
    kept = _first_of_equals(list(raw.values()))
    weight = raw["fnlwgt"][kept]
    percent = np.rint(weight / weight.max() * 100).astype(np.int64)
    _, first, group = np.unique(percent, return_index=True, return_inverse=True)
    order = np.argsort(first[group], kind="stable")
    return _codes_of(experiments.adult(path, private=False).take(kept[order]))


# The ADULT of the papers on FEM and RAP: 14 attributes, 588 values together.
SIZES_588 = {
    "age": 85,
    "workclass": 9,
    "fnlwgt": 100,
    "education-num": 16,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "capital-gain": 100,
    "capital-loss": 100,
    "hours-per-week": 99,
    "native-country": 42,
    "income": 2,
}


@lru_cache(maxsize=1)
def adult588() -> pmw.Table:
    """All 48,842 records of ADULT with 588 values: whole years and hours, other numbers in 100 equal bins."""
    path = folder("adult")
    described = json.loads((path / "domain.json").read_text())["adult_raw"]["attributes"]
    raw, columns = _read(path / "adult_raw.parquet", list(SIZES_588)), {}
    for name, size in SIZES_588.items():
        about, values = described[name], raw[name]
        if about["type"] == "categorical":
            places = {value: code for code, value in enumerate(about["values"])}
            columns[name] = np.array([places[value] for value in values])
        elif size == 100:
            columns[name] = values.astype(np.int64) * 100 // (about["max"] + 1)
        else:
            columns[name] = values.astype(np.int64) - about["min"]
    return pmw.Table(columns, pmw.Domain(SIZES_588), private=False)


@lru_cache(maxsize=1)
def adult15() -> pmw.Table:
    """All 48,842 records of ADULT with its 15 attributes, numbers in 32 equal bins: 2.6 million cells."""
    path = folder("adult")
    described = json.loads((path / "domain.json").read_text())["adult_raw"]["attributes"]
    raw, columns, sizes = _read(path / "adult_raw.parquet", list(described)), {}, {}
    for name, about in described.items():
        if about["type"] == "categorical":
            places = {value: code for code, value in enumerate(about["values"])}
            columns[name], sizes[name] = np.array([places[value] for value in raw[name]]), len(places)
        else:
            values = about["max"] - about["min"] + 1
            sizes[name] = min(32, values)
            columns[name] = (raw[name].astype(np.int64) - about["min"]) * sizes[name] // values
    return pmw.Table(columns, pmw.Domain(sizes), private=False)


def _first_of_equals(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Where each distinct record appears first, ascending."""
    coded: list[Any] = [np.unique(column, return_inverse=True)[1] for column in columns]
    first = np.unique(np.stack(coded, axis=1), axis=0, return_index=True)[1]
    return np.sort(first)
