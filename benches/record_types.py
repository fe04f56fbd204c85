"""Columns of 14 kinds of types: whether synthetic records have them as the public file has.

Thirteen are tried with every public value drawn: types of frames, and ways of writing in csv. The last is a
whole csv file: its separator, encoding and marks, also where a value comes from no public record.
"""

from __future__ import annotations

import datetime
import decimal
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas

import privmw as pmw

N = 400
RNG = np.random.default_rng(3)
CODES = RNG.integers(0, 5, N)
AMOUNTS = RNG.integers(0, 3_000_000, N)
SOME = CODES == 0
FRAMES = {
    "int8": CODES.astype("int8"),
    "Int64": pandas.array(np.where(SOME, None, CODES * 7), "Int64"),
    "boolean": pandas.array(np.where(SOME, None, CODES > 2), "boolean"),
    "category": pandas.Categorical(np.array(list("abcde"))[CODES], categories=list("edcbax")),
    "ordered category": pandas.Categorical(
        np.array(["low", "mid", "high"])[CODES % 3], categories=["low", "mid", "high"], ordered=True
    ),
    "string": pandas.array(np.array(list("xyzxy"))[CODES], "string"),
    "datetime with its zone": (
        pandas.Timestamp("2020-05-01") + pandas.to_timedelta(AMOUNTS, "s")
    ).tz_localize("Europe/Berlin"),
    "timedelta": pandas.to_timedelta(AMOUNTS, "s"),
    "decimals": [decimal.Decimal(int(cents)) / 100 for cents in AMOUNTS],
    "leading zeros": np.array(["01", "02", "10", "003", "4"])[CODES],
}
TEXTS = {
    "leading zeros": [f"{place:05d}" for place in CODES],
    "thousands marks": [f"{amount // 3000 * 3000:,}" for amount in AMOUNTS],
    "percent marks": [f"{share % 1000 / 10:.1f} %" for share in AMOUNTS],
    "date formats": [
        (datetime.date(1950, 1, 1) + datetime.timedelta(days)).strftime("%d/%m/%Y")
        for days in (AMOUNTS % 20_000).tolist()
    ],
}


def frame_keeps(name: str) -> bool:
    """Whether a column of pandas has the same type in records, and only its values."""
    public = pandas.DataFrame({name: FRAMES[name], "sex": np.array(["F", "M"])[CODES % 2]})
    domain = pmw.Domain.from_public(public, columns=list(public.columns))
    table = pmw.Table.from_frame(public, domain, private=False)
    records = table.to_frame("pandas", bins="draw", public=public, seed=1)
    kinds = [{type(value) for value in frame[name].dropna()} for frame in (records, public)]
    same = records.dtypes.to_dict() == public.dtypes.to_dict() and kinds[0] == kinds[1]
    return same and set(records[name].dropna()) <= set(public[name].dropna())


def text_keeps(name: str) -> bool:
    """Whether a column of csv has only texts of the public file, and reads back as the same table."""
    return _csv_keeps(pandas.DataFrame({name: TEXTS[name], "sex": np.array(["F", "M"])[CODES % 2]}), ",")


def csv_keeps() -> bool:
    """Whether a European csv file comes out with its separator, encoding, marks and dates."""
    columns = {
        "Größe": [f"{share % 1000 / 10:.1f} cm".replace(".", ",") for share in AMOUNTS],
        "wage": [f"{amount // 3000 * 3000:,}".replace(",", ".") for amount in AMOUNTS],
        "born": [text.replace("/", ".") for text in TEXTS["date formats"]],
        "Straße": np.array(["Süd", "Nord", "N/A"])[CODES % 3],
    }
    return _csv_keeps(pandas.DataFrame(columns), ";", "latin-1")


def _csv_keeps(public: pandas.DataFrame, separator: str, encoding: str = "utf-8") -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path, out = (str(Path(folder, name)) for name in ("public.csv", "records.csv"))
        public.to_csv(path, sep=separator, encoding=encoding, index=False)
        domain = pmw.Domain.from_public(path, columns=list(public.columns))
        table = pmw.read_table(path, domain, private=False)
        table.write(out, bins="draw", public=path, seed=1)
        given = {"sep": separator, "encoding": encoding, "dtype": str, "keep_default_na": False}
        records = pandas.read_csv(out, **given)
        same = all(set(records[name]) <= set(public[name]) for name in public)
        # Half of the values have no public record: they are written in the same form.
        public[: N // 50].to_csv(path, sep=separator, encoding=encoding, index=False)
        table.write(out, bins="draw", public=path, seed=1, overwrite=True)
        return same and pmw.read_table(out, domain, private=False) == table


KINDS: dict[str, Callable[[], bool]] = {
    **{name: lambda name=name: frame_keeps(name) for name in FRAMES},  # type: ignore[misc]
    **{
        name: lambda name=name: text_keeps(name) and (name not in FRAMES or frame_keeps(name))  # type: ignore[misc]
        for name in TEXTS
    },
    "csv in its own form": csv_keeps,
}


def show() -> None:
    """Print which kinds come back as they went in, and how many."""
    kept = {name: keeps() for name, keeps in KINDS.items()}
    for name, comes_back in kept.items():
        print(f"{name:24} {'as it went in' if comes_back else 'CHANGED'}")
    print(f"columns of {len(kept)} kinds of types that come back as they went in: {sum(kept.values())}")
