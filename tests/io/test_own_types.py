"""What came in comes out: columns of synthetic records have the types of the public frame's."""

import datetime
import decimal

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

import privmw as pmw  # noqa: E402

N = 300
RNG = np.random.default_rng(7)
KIND = RNG.integers(0, 5, N)
SECONDS = RNG.integers(0, 10**7, N)
HALF = KIND == 0
COLUMNS = {
    "int8": KIND.astype("int8"),
    "uint16": KIND.astype("uint16"),
    "nullable integers": pandas.array(np.where(HALF, None, KIND * 7), "Int64"),
    "small nullable integers": pandas.array(np.where(HALF, None, KIND), "UInt8"),
    "amounts": RNG.integers(0, 10**6, N).astype("int32"),
    "float32": RNG.normal(size=N).astype("float32"),
    "nullable floats": pandas.array(np.where(HALF, None, SECONDS / 7), "Float64"),
    "integers with NaN": np.where(HALF, np.nan, KIND),
    "booleans": KIND > 2,
    "nullable booleans": pandas.array(np.where(HALF, None, KIND > 2), "boolean"),
    "categories": pandas.Categorical(np.array(list("abcde"))[KIND], categories=list("edcba")),
    "ordered categories": pandas.Categorical(
        np.array(["low", "mid", "high"])[KIND % 3], categories=["low", "mid", "high", "top"], ordered=True
    ),
    "categories of integers": pandas.Categorical(KIND * 10),
    "strings": pandas.array(np.array(list("xyzxy"))[KIND], "string"),
    "objects of text": np.array(list("xyzxy"))[KIND].astype(object),
    "leading zeros": np.array(["01", "02", "10", "003", "4"])[KIND],
    "times": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(SECONDS, "s"),
    "times in a zone": (pandas.Timestamp("2020-05-01") + pandas.to_timedelta(SECONDS // 2, "s")).tz_localize(
        "Europe/Berlin", ambiguous=True, nonexistent="shift_forward"
    ),
    "days as objects": [datetime.date(2020, 1, 1) + datetime.timedelta(int(s) % 999) for s in SECONDS],
    "durations": pandas.to_timedelta(SECONDS, "s"),
    "times of day": [datetime.time(int(s) % 24, int(s) % 60) for s in SECONDS],
    "decimals": [decimal.Decimal(int(s)) / 100 for s in SECONDS],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_pandas_comes_out_as_it_went_in(name):
    public = pandas.DataFrame({name: COLUMNS[name], "sex": np.array(["F", "M"])[KIND % 2]})
    domain = pmw.Domain.from_public(public, columns=list(public.columns))
    table = pmw.Table.from_frame(public, domain, private=False)
    records = table.to_frame("pandas", bins="draw", public=public, seed=1)
    assert records.dtypes.to_dict() == public.dtypes.to_dict()
    assert set(records[name].dropna()) <= set(public[name].dropna())
    assert records[name].isna().sum() == public[name].isna().sum()
    kinds = [{type(value) for value in frame[name].dropna()} for frame in (records, public)]
    assert kinds[0] == kinds[1]
    assert pmw.Table.from_frame(records, domain, private=False) == table


@pytest.mark.parametrize("dtype", ["Categorical", "Enum", "Int8", "Duration", "Time", "Date", "Decimal"])
def test_a_column_of_polars_comes_out_as_it_went_in(dtype):
    polars = pytest.importorskip("polars")
    values = {
        "Categorical": polars.Series(np.array(list("abcde"))[KIND]).cast(polars.Categorical),
        "Enum": polars.Series(np.array(list("abcde"))[KIND]).cast(polars.Enum(list("edcbaz"))),
        "Int8": polars.Series(KIND).cast(polars.Int8),
        "Duration": polars.Series(COLUMNS["durations"].to_numpy()),
        "Time": polars.Series(COLUMNS["times of day"]),
        "Date": polars.Series(COLUMNS["days as objects"]),
        "Decimal": polars.Series(COLUMNS["decimals"], dtype=polars.Decimal(12, 2)),
    }[dtype]
    public = polars.DataFrame({"x": values})
    domain = pmw.Domain.from_public(public, columns=["x"])
    table = pmw.Table.from_frame(public, domain, private=False)
    records = table.to_frame("polars", bins="draw", public=public, seed=1)
    assert records.schema == public.schema
    assert set(records["x"]) <= set(public["x"])


def test_a_type_that_cannot_hold_every_value_is_not_taken():
    public = pandas.DataFrame(
        {"rooms": np.arange(5, dtype="int8"), "class": pandas.Categorical(list("abcab"))}
    )
    domain = pmw.Domain({"rooms": {"labels": [0, 1, 300], "missing": "N"}, "class": ["a", "b", "c", "d"]})
    table = pmw.Table.from_codes([[2, 3], [3, 0]], domain, private=False)
    public = public[public["rooms"] < 2]
    records = table.to_frame("pandas", bins="draw", public=public, seed=0)
    assert records["rooms"].tolist() == [300, pandas.NA]
    assert records["class"].tolist() == ["d", "a"]
