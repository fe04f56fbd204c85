import datetime
import decimal
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

from pyarrow import csv, parquet  # noqa: E402

import privmw as pmw  # noqa: E402
import privmw.data.propose  # noqa: E402
import privmw.data.propose.edges  # noqa: E402
import privmw.io.public_source  # noqa: E402
import privmw.io.tally  # noqa: E402
from marks.slow import examples  # noqa: E402
from privmw.data.propose import propose  # noqa: E402
from privmw.data.propose.edges import Dates, Numbers, bin_edges  # noqa: E402

DATA = os.environ.get("PRIVMW_DATA")
real = pytest.mark.skipif(not DATA, reason="PRIVMW_DATA is not set")


def declared(values, **options):
    """What the proposal says of one column, without room for what a private file may have."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    options = {"other": None, "missing": None, **options}
    return json.loads(pmw.Domain.from_public(pa.table({"x": array}), **options).to_json())["x"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False], ["false", "true"]),
        ([True, None], {"labels": ["false", "true"], "missing": "missing"}),
        (["b", "a", "b"], ["a", "b"]),
        (["10", "9", "N", "-1"], ["-1", "9", "10", "N"]),
        (["missing", None], {"labels": ["missing"], "missing": "missing 2"}),
        ([2, 0, 1, 1], 3),
        ([2, 1, 7], [1, 2, 7]),
        ([5, 5], [5]),
        ([1.0, 3.0, float("nan")], {"labels": [1, 3], "missing": "missing"}),
        ([0.5, 1.0, 1.5], {"edges": [0.5, 1, 1.5, 1.6], "open": True}),
        ([2.25, 2.25], {"edges": [2.2, 2.4], "open": True}),
        ([decimal.Decimal("1.50"), decimal.Decimal("2.00")], {"edges": [1.5, 2, 2.05], "open": True}),
        ([datetime.date(2020, 2, 29)], {"edges": ["2020-02-29", "2020-03-01"], "open": True}),
        (pa.array(["y", "x", "y"]).dictionary_encode(), ["x", "y"]),
        (pa.array([7, 3, 7]).dictionary_encode(), [3, 7]),
    ],
)
def test_each_kind_of_column_has_its_declaration(values, expected):
    assert declared(values) == expected


def test_a_categorical_whose_order_matters_keeps_it_and_its_unused_labels():
    ordered = pa.DictionaryArray.from_arrays(
        pa.array([1, 0], pa.int8()), ["low", "high", "top"], ordered=True
    )
    assert declared(ordered) == ["low", "high", "top"]
    assert declared(ordered, most_labels=2) == ["high", "low"]


def test_a_column_has_room_for_what_only_a_private_file_has():
    table = pa.table({"a": [0, 1], "b": [0.5, 1.7], "c": [True, False], "d": ["x", None]})
    proposal = propose(table)
    assert json.loads(proposal.domain.to_json()) == {
        "a": {"labels": [0, 1], "other": "other"},
        "b": {"edges": [0.5, 1, 1.8], "open": True, "missing": "missing"},
        "c": {"labels": ["false", "true"], "missing": "missing"},
        "d": {"labels": ["x"], "other": "other", "missing": "missing"},
    }
    private = pa.table({"a": [None, 7], "b": [-1e9, None], "c": [None, True], "d": ["strange", "?"]})
    codes = pmw.Table.from_frame(private, proposal.domain, private=True).columns
    assert [list(column) for column in codes] == [[2, 2], [0, 2], [2, 1], [1, 2]]
    assert proposal.notes[-1].startswith('room for values that only a private file has: "other"')
    assert propose(table, other=None, missing=None).notes[-1].endswith("bins open at both ends, in 1 column")


def test_an_amount_with_one_dominant_value_gets_bins_and_codes_get_labels():
    rng = np.random.default_rng(5)
    amounts = np.where(rng.random(4000) < 0.98, 0, rng.integers(150, 4400, 4000))
    codes = rng.choice([100, 200, 301, 302, 303, 304, 305, 306, 307, 308, 1100, 2400], 4000)
    few = np.where(np.arange(4000) < 3, 20 + np.arange(4000), rng.integers(1, 20, 4000))
    domain = pmw.Domain.from_public(pa.table({"loss": amounts, "area": codes, "rare": few}))
    assert len(np.unique(amounts)) > 40
    assert domain["loss"].edges[:2] == (0, 1)
    assert len(domain["area"].labels) == 12
    assert len(domain["rare"].labels) == 22


def test_words_for_missing_values_are_alike_in_text_and_numbers(tmp_path):
    rows = "".join(
        f"{age},{job}\n" for age, job in [(31, "clerk"), ("?", "N/A"), ("N/A", "?"), (4, "unknown")]
    )
    (tmp_path / "x.csv").write_text("age,job\n" + rows)
    proposal = propose(tmp_path / "x.csv")
    assert "'?', 'N/A', 'unknown' taken as missing" in proposal.notes[0]
    table = pmw.read_table(tmp_path / "x.csv", proposal.domain, private=False)
    assert [list(table.column(name) == proposal.domain[name].size - 1) for name in ("age", "job")] == [
        [False, True, True, False],
        [False, True, True, True],
    ]
    countries = pmw.Domain.from_public(pa.table({"x": ["NA", "DE", "FR"]}))
    assert countries["x"].labels == ("DE", "FR", "NA")


def test_other_takes_over_a_label_of_its_name():
    table = pa.table(
        {"a": [0, 1], "b": [0.5, 1.7], "c": [True, None], "d": ["x", "other"], "e": ["other"] * 2}
    )
    domain = pmw.Domain.from_public(table, other="other")
    assert domain["a"].labels == (0, 1)
    assert (domain["d"].labels, domain["d"].other) == (("x",), "other")
    assert (domain["e"].labels, domain["e"].other) == (("other",), "other 2")


def test_of_many_texts_the_commonest_are_labels():
    texts = [f"t{number:03}" for number in range(100) for _ in range(100 - number)]
    proposal = propose(pa.table({"x": texts}), most_labels=3)
    assert proposal.domain["x"].declaration() == {"labels": ["t000", "t001", "t002"], "other": "other"}
    assert proposal.notes[:1] == (
        "column 'x': the commonest 3 of its 100 texts are labels, the rest (94.1%) is 'other'",
    )
    assert propose(pa.table({"x": texts}), most_labels=3, other="rare").domain["x"].other == "rare"


def test_numbers_written_as_text_get_a_hint():
    texts = [str(number % 180) for number in range(300)]
    assert "its numbers are text" in propose(pa.table({"x": texts})).notes[0]


def test_ages_written_as_text_are_all_labels_in_their_order():
    ages = [str(number % 96) for number in range(960)]
    assert declared(ages) == [str(age) for age in range(96)]
    assert len(declared(ages, most_labels=64)["labels"]) == 64


def test_ages_with_words_are_all_labels_in_their_order_and_come_back_as_they_were():
    ages = ["Under 1 year", "1 year", *(f"{age} years" for age in range(2, 95)), "95 years and over"]
    column = pa.table({"age": [*sorted(ages), *ages[:60] * 9, None]})
    domain = pmw.Domain.from_public(column)
    assert list(domain["age"].labels) == ages
    table = pmw.Table.from_frame(column, domain, private=False)
    assert [domain["age"].label(code) for code in table.column("age")[:96].tolist()] == sorted(ages)


def test_columns_that_identify_records_are_left_out_unless_named():
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "name": [f"person {number}" for number in range(1000)],
            "id": rng.permutation(10**6)[:1000],
            "household": np.sort(rng.permutation(1000) % 400),
            "income": rng.integers(0, 300, 1000),
            "height": rng.normal(170, 10, 1000),
        }
    )
    proposal = propose(table)
    assert proposal.domain.names == ("id", "income", "height")
    assert proposal.notes[:-1] == (
        "column 'name' left out: nearly every record has a value of its own",
        "column 'id': nearly every record has a value of its own: if it identifies records and is no amount, "
        "leave it out",
        "column 'household' left out: it seems to number the records",
    )
    assert propose(table, columns=["id", "name"]).domain.names == ("id", "name")


def test_amounts_of_which_each_record_has_its_own_are_no_identifiers():
    rng = np.random.default_rng(0)
    salaries = np.unique(rng.lognormal(11, 0.5, 3000).astype(int))
    proposal = propose(pa.table({"salary": rng.permutation(salaries)}))
    assert len(proposal.domain["salary"].edges) > 8
    assert propose(pa.table({"x": [1], "number": [7]})).domain.names == ("x", "number")


def test_kinds_that_cannot_be_coded_are_left_out_and_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"good": [1, 2], "list": [[1], [2]], "bytes": [b"", b""], "mixed": [1, "a"]})
    frame["none"] = pandas.Series([None, None], dtype=float)
    frame["far"] = [float("inf")] * 2
    assert propose(frame).notes[:-1] == (
        "column 'list' left out: list values cannot be coded",
        "column 'bytes' left out: binary values cannot be coded",
        "column 'mixed' left out: mixed values cannot be coded",
        "column 'none' left out: all its values are missing",
        "column 'far' left out: all its values are missing or infinite",
    )
    with pytest.raises(ValueError, match="column 'list' must have values for a domain: list values"):
        propose(frame, columns=["list"])
    with pytest.raises(ValueError, match="public data must have a column for a domain"):
        propose(frame[["list", "mixed"]])


def test_infinite_numbers_take_no_part_in_the_bins():
    proposal = propose(pa.table({"x": [0.5, 1.5, float("inf"), float("-inf")]}))
    assert proposal.domain["x"].edges[-1] < 2
    assert proposal.notes[0] == "column 'x': 2 of its values are infinite"


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (pa.table({"x": [1]}), {"bins": 0}, ValueError, r"bins \(0\) must be from 1 to"),
        (pa.table({"x": [1]}), {"bins": True}, TypeError, r"bins \(True\) must be an integer"),
        (pa.table({"x": [1]}), {"most_labels": 10**6}, ValueError, r"most_labels \(1000000\) must be"),
        (pa.table({"x": [1]}), {"other": 3}, TypeError, r"other \(3\) must be a string"),
        (pa.table({"x": [1]}), {"columns": ["y"]}, ValueError, "column 'y' is missing"),
        (pa.table({"x": [1]}), {"columns": "x"}, TypeError, "must be a list of names"),
        (pa.table({"x": [1]}), {"columns": []}, ValueError, "must be one or more different names"),
        (pa.table({"x": [1]}), {"columns": ["x", "x"]}, ValueError, "must be one or more different names"),
        (pa.table({"": [1]}), {}, ValueError, r"column 0 \(named ''\) must have a name"),
        (
            pa.table([[1], [2]], names=["x", "x"]),
            {},
            ValueError,
            "must (have a name of its own|be there only once)",
        ),
        (pa.table({"x": pa.array([], pa.int64())}), {}, ValueError, "must have at least one row"),
        (pa.table({}), {}, ValueError, "must have columns"),
        ({"x": [1]}, {}, TypeError, "must be a pandas, polars or pyarrow frame"),
        ("nowhere.parquet", {}, FileNotFoundError, "nowhere.parquet must exist"),
    ],
)
def test_what_cannot_be_proposed_from_is_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        propose(source, **options)


def column(kind):
    values = {
        "boolean": st.booleans(),
        "text": st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=3),
        "small": st.integers(-3, 5),
        "whole": st.integers(-(2**63), 2**63 - 1),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "single": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "float": st.integers(-1000, 1000).map(float),
        "date": st.dates(),
        "time": st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)),
        "decimal": st.decimals(-1000, 1000, places=2),
    }
    types = {
        "number": pa.float64(),
        "single": pa.float32(),
        "float": pa.float64(),
        "decimal": pa.decimal128(8, 2),
    }
    types |= {"date": pa.date32(), "time": pa.timestamp("us"), "whole": pa.int64(), "small": pa.int8()}
    types |= {"boolean": pa.bool_(), "text": pa.string()}
    return st.lists(st.none() | values[kind], min_size=12, max_size=12).map(
        lambda v: pa.array(v, types[kind])
    )


KINDS = ["boolean", "text", "small", "whole", "number", "single", "float", "date", "time", "decimal"]


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    columns = {f"{kind} {place}": draw(column(kind)) for place, kind in enumerate(kinds)}
    columns["always"] = pa.array([True, False] * 6)
    return pa.table(columns)


options = st.fixed_dictionaries(
    {
        "bins": st.integers(1, 20),
        "most_labels": st.integers(1, 15),
        "other": st.sampled_from([None, "other"]),
        "missing": st.sampled_from([None, "missing"]),
    }
)


@examples(30, 150)
def test_every_public_frame_reads_back_through_its_own_proposal(examples):
    @settings(max_examples=examples)
    @given(table=tables(), chosen=options)
    def check(table, chosen):
        domain = pmw.Domain.from_public(table, **chosen)
        assert pmw.Table.from_frame(table, domain, private=False).n == 12
        assert pmw.Domain.from_json(domain.to_json()) == domain
        assert pmw.Domain.from_public(table.slice(0), **chosen).to_json() == domain.to_json()

    check()


@settings(max_examples=60)
@given(table=tables(), chosen=options, kind=st.sampled_from(["pandas", "polars"]))
def test_pandas_and_polars_frames_read_back_too(table, chosen, kind):
    pytest.importorskip(kind)
    frame = table.to_pandas() if kind == "pandas" else pytest.importorskip("polars").from_arrow(table)
    domain = pmw.Domain.from_public(frame, **chosen)
    assert pmw.Table.from_frame(frame, domain, private=False).n == 12


@settings(max_examples=40)
@given(table=tables(), chosen=options)
def test_files_read_back_through_their_own_proposals(tmp_path_factory, table, chosen):
    folder = tmp_path_factory.mktemp("files")
    parquet.write_table(table, folder / "x.parquet", row_group_size=7)
    domain = pmw.Domain.from_public(folder / "x.parquet", **chosen)
    assert domain == pmw.Domain.from_public(table, **chosen)
    csv.write_csv(table, folder / "x.csv")
    domain = pmw.Domain.from_public(folder / "x.csv", **chosen)
    assert pmw.read_table(folder / "x.csv", domain, private=False).n == 12


def test_csv_columns_get_the_kind_that_all_their_rows_have(tmp_path):
    (tmp_path / "x.csv").write_text(
        "yes,code,income,rate,born,odd,day\n"
        "true,01,10,0.5,2020-01-31,1,2020-02-30\n"
        "FALSE,12,N,2,2021-05-01,x,2020-02-01\n"
        ",12,7,nan,,y,2020-02-01\n"
    )
    domain = pmw.Domain.from_public(tmp_path / "x.csv", other=None, missing=None)
    assert json.loads(domain.with_syntax(None).to_json()) == {
        "yes": {"labels": ["false", "true"], "missing": "missing"},
        "code": ["01", "12"],
        "income": {"labels": [7, 10], "missing": "N"},
        "rate": {"edges": [0.5, 2, 2.1], "open": True, "missing": "missing"},
        "born": {"edges": ["2020-01-01", "2021-01-01", "2021-05-01"], "open": True, "missing": "missing"},
        "odd": ["1", "x", "y"],
        "day": ["2020-02-01", "2020-02-30"],
    }
    assert pmw.read_table(tmp_path / "x.csv", domain, private=False).column("income").tolist() == [1, 2, 0]


def test_a_column_of_very_many_values_is_summed_up_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.tally, "REMEMBERED", 512)
    rng = np.random.default_rng(0)
    values = np.where(rng.random(100_000) < 0.3, 0.0, np.exp(rng.normal(size=100_000)))
    names = np.where(rng.random(100_000) < 0.5, "often", rng.integers(0, 10**4, 100_000).astype(str))
    table = pa.table({"x": values, "name": names, "id": rng.permutation(100_000)})
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=1000)
    proposal = propose(tmp_path / "x.parquet", most_labels=2)
    edges = proposal.domain["x"].edges
    held = np.histogram(values, edges)[0] / 100_000
    assert edges[0] == 0
    assert values.max() <= edges[-1]
    assert held[0] == pytest.approx(0.3, abs=0.01)
    assert held[1:].max() < 0.16
    assert "often" in proposal.domain["name"].labels
    assert "id" not in proposal.domain


@pytest.mark.parametrize("values", [[5e-324], [-5e-324, 0.0], [-5e-324, 5e-324], [-1.0, 1e-310, 2e-310, 1.0]])
def test_numbers_hardly_above_or_below_zero_have_bins_too(values):
    edges = bin_edges(np.array(values), np.ones(len(values), int), 2, Numbers(False))
    assert all(low < high for low, high in itertools.pairwise(edges))
    assert edges[0] <= values[0]
    assert edges[-1] >= values[-1]


def test_the_largest_whole_number_has_a_bin_of_its_own():
    values, counts = np.array([*range(13), 2**53]), np.array([1] * 13 + [2])
    edges = bin_edges(values, counts, 8, Numbers(whole=True))
    assert edges[-2:] == [2**53, 2**53 + 2]


@examples(60, 300)
def test_bin_edges_ascend_and_hold_every_value(examples):
    @settings(max_examples=examples)
    @given(data=st.data(), bins=st.integers(1, 30))
    def check(data, bins):
        kind = data.draw(st.sampled_from(["whole", "number", "date"]))
        finite = st.floats(allow_nan=False, allow_infinity=False)
        near = st.integers(0, 100) | st.integers(-(2**53), 2**53)
        days = st.integers(1, datetime.date.max.toordinal())
        values = data.draw(
            st.lists(
                {"whole": near, "number": finite | near.map(float), "date": days}[kind],
                min_size=1,
                unique=True,
            )
        )
        ascending = np.unique(values)
        counts = np.array(
            data.draw(st.lists(st.integers(1, 1000), min_size=len(ascending), max_size=len(ascending)))
        )
        edges = bin_edges(ascending, counts, bins, Dates() if kind == "date" else Numbers(kind == "whole"))
        numbers = [edge.toordinal() if kind == "date" else edge for edge in edges]
        assert all(low < high for low, high in itertools.pairwise(numbers))
        assert numbers[0] <= ascending[0]
        assert numbers[-1] >= ascending[-1]
        assert len(edges) <= 2 * bins + 6

    check()


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2015-01-01", "2024-12-31", [f"{year}-01-01" for year in range(2015, 2026)]),
        ("1930-06-01", "2009-01-01", [f"{year}-01-01" for year in range(1930, 2011, 10)]),
        (
            "2023-06-01",
            "2024-02-01",
            [f"2023-{m:02}-01" for m in range(6, 13)] + ["2024-01-01", "2024-02-01"],
        ),
    ],
)
def test_dates_are_cut_by_the_calendar(first, last, expected):
    days = np.arange(*(datetime.date.fromisoformat(day).toordinal() for day in (first, last)))
    assert [str(e) for e in bin_edges(days, np.ones(len(days), np.int64), 10, Dates())] == expected


def test_a_value_that_very_many_have_gets_a_bin_of_its_own():
    values = np.arange(-50, 5000)
    counts = np.where(values == 0, 3000, np.where(values == 40, 3000, 1))
    edges = bin_edges(values, counts, 10, Numbers(whole=True))
    assert {0, 1, 40, 41} <= set(edges)
    assert bin_edges(np.array([-2, -1]), np.array([1, 2]), 1, Numbers(whole=True)) == [-2, -1]


@real
@pytest.mark.parametrize("path", sorted(Path(DATA or ".").glob("*/*.parquet")), ids=lambda path: path.stem)
def test_real_files_read_back_through_their_own_proposals(path):
    domain = pmw.Domain.from_public(path)
    assert pmw.read_table(path, domain, private=False).n > 5000
    assert max(domain.sizes) <= 130


@real
def test_a_proposal_from_one_year_takes_the_next():
    folder = Path(DATA) / "acs_pums"
    proposal = propose(folder / "acs2015_hi.parquet", other="other")
    assert pmw.read_table(folder / "acs2018_hi.parquet", proposal.domain, private=True).n > 14_000
    assert proposal.notes[:1] == ("column 'HHID' left out: it seems to number the records",)
    assert proposal.domain["AGEP"].edges == tuple(range(0, 101, 10))
    assert proposal.domain["PINCP"].edges[:3] == (-10_000, 0, 1)
