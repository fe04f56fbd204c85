import csv
import datetime
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

from pyarrow import feather, parquet  # noqa: E402

import privmw as pmw  # noqa: E402
import privmw.io.decode  # noqa: E402  # noqa: E402
import privmw.io.output  # noqa: E402

KINDS = ["pyarrow", "pandas", "polars"]
DOMAIN = pmw.Domain(
    {
        "sex": ["M", "F"],
        "rooms": 4,
        "class": {"labels": [1, 2, 5], "other": "other", "missing": "N"},
        "income": {"edges": [0, 1, 1000, 2.5e6], "other": "beyond", "missing": "none"},
        "born": {"edges": ["1950-01-01", "2000-01-01", "2010-01-01"], "missing": "unknown"},
    }
)
TABLE = pmw.Table.from_codes(
    [[0, 3, 0, 0, 0], [1, 0, 2, 2, 1], [1, 1, 4, 4, 2], [0, 2, 1, 1, 0]], DOMAIN, private=False
)
PUBLIC = pa.table(
    {
        "income": [0, 0, 7, 20, 20, 10**6, None, 10**7],
        "born": pa.array([datetime.date(1999, 12, 31)] * 8),
    }
)


def test_labels_are_restored():
    frame = TABLE.to_frame()
    assert frame.to_pydict() == {
        "sex": ["M", "F", "F", "M"],
        "rooms": [3, 0, 1, 2],
        "class": [1, 5, None, 2],
        "income": ["[0, 1)", "[1000, 2500000]", None, "[1, 1000)"],
        "born": ["[1950-01-01, 2000-01-01)", "[2000-01-01, 2010-01-01]", None, "[1950-01-01, 2000-01-01)"],
    }
    assert frame.column("income").chunk(0).dictionary.to_pylist()[-1] == "beyond"
    assert frame.schema.field("class").type == pa.int64()


def test_midpoints_lie_in_their_bins():
    frame = TABLE.to_frame(bins="midpoint").to_pydict()
    assert frame["income"] == [0.5, 1250500.0, None, 500.5]
    assert frame["born"] == [
        datetime.date(1975, 1, 1),
        datetime.date(2004, 12, 31),
        None,
        datetime.date(1975, 1, 1),
    ]


def test_drawn_values_are_those_of_public_records_in_the_bin():
    many = TABLE.take(np.arange(4000) % 4)
    frame = many.to_frame(bins="draw", public=PUBLIC, seed=1).to_pydict()
    assert set(frame["income"][::4]) == {0}
    assert set(frame["income"][1::4]) == {10**6}
    assert set(frame["income"][2::4]) == {None}
    drawn = np.array(frame["income"][3::4])
    assert set(drawn) == {7, 20}
    assert np.mean(drawn == 20) == pytest.approx(2 / 3, abs=0.06)
    assert set(frame["born"][::4]) == {datetime.date(1999, 12, 31)}
    assert {date.year for date in frame["born"][1::4]} == {*range(2000, 2010)}  # no public one: spread
    assert many.to_frame(bins="draw", public=PUBLIC, seed=1).to_pydict() == frame
    assert many.to_frame(bins="draw", public=PUBLIC, seed=2).to_pydict() != frame


def test_draws_from_whole_numbers_are_whole_where_every_bin_has_one():
    tens = pmw.Domain({"x": {"edges": [0, 10, 20]}})
    public = pa.table({"x": [3, 4]})
    assert (
        pmw.Table.from_codes([[0], [1]], tens, private=False)
        .to_frame(bins="draw", public=public, seed=0)["x"]
        .type
        == "int64"
    )
    halves = pmw.Table.from_codes([[0], [1]], pmw.Domain({"x": {"edges": [0.2, 0.4, 10]}}), private=False)
    assert halves.to_frame(bins="draw", public=public, seed=0)["x"].type == "double"


def test_pandas_and_polars_have_their_own_kinds_of_columns():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = TABLE.to_frame("pandas", bins="midpoint")
    assert list(frame["sex"].cat.categories) == ["M", "F"]
    assert frame["class"].dtype == pandas.Int64Dtype()
    assert frame["rooms"].dtype == np.int64
    assert frame["born"].dtype.kind == "M"
    frame = TABLE.to_frame("polars")
    assert frame.schema["sex"] == polars.Enum(["M", "F"])
    assert frame.schema["class"] == polars.Int64


def test_other_among_numbers_is_null_in_a_frame_and_a_word_in_csv(tmp_path):
    table = pmw.Table.from_codes([[0, 0, 3, 3, 0], [0, 0, 4, 0, 0]], DOMAIN, private=False)
    frame = table.to_frame(bins="midpoint")
    assert frame["class"].to_pylist() == [None, None]
    assert frame["income"].to_pylist() == [None, 0.5]
    table.write(tmp_path / "x.csv", bins="midpoint")
    assert (tmp_path / "x.csv").read_text().splitlines()[1:] == [
        '"M",0,"other","beyond",1975-01-01',
        '"M",0,,"0.5",1975-01-01',
    ]
    assert pmw.read_table(tmp_path / "x.csv", DOMAIN, private=False) == table


FORMULAS = [
    "=1+1",
    "'=1+1",
    "''=1+1",
    "+49 1",
    "- none",
    "'-5",
    "@SUM(A1)",
    "\tx",
    "\n=1",
    "＝1",
    "-",
    "+1;2",
]
HARMLESS = ["-5", "+3", "-1e5", "a=b", "'quoted'", "(-inf, 3)"]
words = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=4)
words |= st.sampled_from([*FORMULAS, *HARMLESS])
numbers = st.integers(-(2**40), 2**40) | st.floats(-1e12, 1e12) | st.sampled_from([0, 1, 2, 5, 10])


@st.composite
def attributes(draw):
    kind = draw(st.sampled_from(["size", "words", "integers", "numbers", "dates"]))
    if kind == "size":
        return draw(st.integers(1, 300))
    integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
    made = {
        "words": lambda: {"labels": draw(st.lists(words, min_size=1, max_size=6, unique=True))},
        "integers": lambda: {"labels": draw(st.lists(integers, min_size=1, max_size=6, unique=True))},
        "numbers": lambda: {"edges": sorted(draw(st.lists(numbers, min_size=2, max_size=6, unique=True)))},
        "dates": lambda: {"edges": sorted(map(str, draw(st.lists(st.dates(), min_size=2, unique=True))))},
    }[kind]()
    taken = set(made.get("labels", ()))
    for key in ("other", "missing"):
        label = draw(st.none() | words | st.integers(-5, 5))
        if label is not None and label not in taken:
            made[key] = label
            taken.add(label)
    return made


@st.composite
def tables(draw):
    declared = draw(st.lists(attributes(), min_size=1, max_size=4))
    domain = pmw.Domain({f"a{place}": attribute for place, attribute in enumerate(declared)})
    rows = draw(st.integers(1, 8))
    codes = [[draw(st.integers(0, size - 1)) for size in domain.sizes] for _ in range(rows)]
    return pmw.Table.from_codes(codes, domain, private=False)


def without_lost_words(table, bins):
    """The rows of which a frame tells every value."""
    kept = np.ones(table.n, bool)
    for decoder, codes in zip(
        privmw.io.output._Values(table, bins=bins, public=None, seed=None).decoders,
        table.columns,
        strict=True,
    ):
        attribute = decoder.attribute
        lost = set(decoder.nulls) - ({attribute.size - 1} if attribute.missing is not None else set())
        kept &= ~np.isin(codes, list(lost))
    return table.take(kept) if kept.any() else None


def public_of(table, seed):
    rng = np.random.default_rng(seed)
    frame = table.take(rng.integers(0, table.n, 6)).to_frame(bins="midpoint")
    return frame.select([a.name for a in table.domain.attributes if a.edges])


@settings(max_examples=150)
@given(
    table=tables(), kind=st.sampled_from(KINDS), bins=st.sampled_from(["label", "midpoint", "spread", "draw"])
)
def test_a_frame_reads_back_as_the_table(table, kind, bins):
    pytest.importorskip(kind)
    table = without_lost_words(table, "midpoint" if bins == "draw" else bins)
    if table is not None:
        public = public_of(table, 0) if bins == "draw" else None
        assert (
            pmw.Table.from_frame(
                table.to_frame(kind, bins=bins, public=public, seed=0), table.domain, private=False
            )
            == table
        )


@settings(max_examples=150)
@given(
    table=tables(), suffix=st.sampled_from(["csv", "parquet"]), bins=st.sampled_from(["label", "midpoint"])
)
def test_a_file_reads_back_as_the_table(tmp_path_factory, table, suffix, bins):
    path = tmp_path_factory.mktemp("out") / f"x.{suffix}"
    table = table if suffix == "csv" else without_lost_words(table, bins)
    if table is not None:
        table.write(path, bins=bins)
        assert pmw.read_table(path, table.domain, private=False) == table


@pytest.mark.parametrize("sign", ["int", "uint"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integer_types_of_arrow_have_the_dtype_of_numpy(sign, bits):
    kind = f"{sign}{bits}"
    assert privmw.io.decode._dtype(getattr(pa, kind)()) == np.dtype(kind)


def cells_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("sizes", [1, 2])
def test_no_text_in_csv_is_run_by_a_spreadsheet_program_unless_raw(tmp_path, sizes):
    labels, names = [*FORMULAS, *HARMLESS], ["=cmd|' /C calc'!A1", "'@x", "-5", "plain"]
    domain = pmw.Domain(
        dict.fromkeys(names, labels) | {"numbers": {"edges": [-9, 0, 9]}, "codes": {"labels": [-5, 3]}}
    )
    codes = [[code] * len(names) + [code % 2, code % 2] for code in range(len(labels))]
    table = pmw.Table.from_codes(codes * sizes, domain, private=False)
    table.write(tmp_path / "x.csv", bins="midpoint")
    header, *rows = cells_of(tmp_path / "x.csv")
    assert header == ["'" + names[0], "''@x", *names[2:], "numbers", "codes"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in FORMULAS), *HARMLESS] * sizes
    assert {row[-2] for row in rows} == {"-4.5", "4.5"}
    assert {row[-1] for row in rows} == {"-5", "3"}
    assert pmw.read_table(tmp_path / "x.csv", domain, private=False) == table
    table.write(tmp_path / "raw.csv", bins="midpoint", raw=True)
    header, *rows = cells_of(tmp_path / "raw.csv")
    assert header[:4] == names
    assert [row[0] for row in rows] == labels * sizes


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_only_csv_is_written_with_other_spellings(tmp_path, suffix):
    table = pmw.Table.from_codes([[0], [1]], pmw.Domain({"=x": ["=1", "'=1"]}), private=False)
    table.write(tmp_path / f"x.{suffix}")
    assert pmw.read_table(tmp_path / f"x.{suffix}", table.domain, private=False) == table
    assert table.to_frame().to_pylist() == [{"=x": "=1"}, {"=x": "'=1"}]


def test_a_file_written_in_batches_is_the_frame(tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.output, "OUTPUT_BATCH_ROWS", 7)
    many = TABLE.take(np.arange(100) % 4)
    for suffix in ("parquet", "csv"):
        path = tmp_path / f"x.{suffix}"
        many.write(path, bins="draw", public=PUBLIC, seed=3)
        assert pmw.read_table(path, DOMAIN, private=False) == many
    frame = many.to_frame(bins="draw", public=PUBLIC, seed=3)
    assert parquet.read_table(tmp_path / "x.parquet").to_pydict() == frame.to_pydict()
    many.write(tmp_path / "x.feather", bins="draw", public=PUBLIC, seed=3)
    assert feather.read_table(tmp_path / "x.feather").equals(frame)
    assert parquet.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("suffix", ["parquet", "csv", "feather"])
def test_progress_is_told_how_many_records_are_written(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(privmw.io.output, "OUTPUT_BATCH_ROWS", 40)
    told = []
    TABLE.take(np.arange(100) % 4).write(tmp_path / f"x.{suffix}", progress=told.append)
    assert told == [40, 80, 100]


def test_seeded_records_are_marked_in_every_format(tmp_path):
    seeded = TABLE.not_for_release()
    seeded.write(tmp_path / "x.feather")
    seeded.write(tmp_path / "x.parquet")
    for read in (feather.read_table(tmp_path / "x.feather"), parquet.read_table(tmp_path / "x.parquet")):
        assert json.loads(read.schema.metadata[b"privmw"])["for_release"] is False
    with pytest.raises(ValueError, match=r"path \(.*x.csv\) must have 'seeded' in its name: these records"):
        seeded.write(tmp_path / "x.csv")
    seeded.write(tmp_path / "x.seeded.csv")


def test_public_files_can_be_drawn_from(tmp_path):
    parquet.write_table(PUBLIC, tmp_path / "public.parquet")
    drawn = TABLE.to_frame(bins="draw", public=tmp_path / "public.parquet", seed=0)
    assert drawn.equals(TABLE.to_frame(bins="draw", public=PUBLIC, seed=0))


def test_a_private_table_is_never_written(tmp_path):
    private = pmw.Table.from_codes([[0] * 5], DOMAIN, private=True)
    with pytest.raises(ValueError, match="a private table must not be written"):
        private.to_frame()
    with pytest.raises(ValueError, match="a private table must not be written"):
        private.write(tmp_path / "x.parquet")
    assert os.listdir(tmp_path) == []


def test_an_existing_file_is_kept_unless_overwritten(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="must not exist: say overwrite=True"):
        TABLE.write(path)
    assert path.read_text() == "mine"
    TABLE.write(path, overwrite=True)
    assert pmw.read_table(path, DOMAIN, private=False) == TABLE


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_failure_leaves_no_file_and_keeps_the_old_one(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"x.{suffix}"
    path.write_text("mine")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(privmw.io.output, "_arrow", full)
    with pytest.raises(OSError, match="No space left"):
        TABLE.write(path, overwrite=True)
    assert [(file, path.read_text()) for file in os.listdir(tmp_path)] == [(path.name, "mine")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "R"}, ValueError, "kind .* must be 'pyarrow', 'pandas' or 'polars'"),
        ({"bins": "middle"}, ValueError, "bins .* must be one of 'label', 'midpoint', 'spread', 'draw'"),
        ({"bins": "draw"}, ValueError, "public must be given to draw"),
        ({"public": PUBLIC}, ValueError, "public must be given to draw .* and only then"),
        ({"bins": "draw", "public": pa.table({"x": [1]})}, ValueError, "public must have a column such as"),
        (
            {"bins": "draw", "public": PUBLIC.set_column(0, "income", pa.array(["x"] * 8))},
            TypeError,
            r"public column 'income' \(text\) must hold numbers",
        ),
        ({"bins": "draw", "public": PUBLIC, "seed": -1}, ValueError, r"seed \(-1\) must be"),
    ],
)
def test_what_cannot_be_made_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        TABLE.to_frame(**options)


@pytest.mark.parametrize(("name", "error"), [("x.txt", ValueError), ("no/x.csv", FileNotFoundError)])
def test_a_file_that_cannot_be_written_is_named(tmp_path, name, error):
    with pytest.raises(error, match=name):
        TABLE.write(tmp_path / name)


def test_booleans_in_are_booleans_out():
    frame = pa.table({"own": [True, False, None], "rooms": pa.array([1, 2, 3], pa.int8())})
    domain = pmw.Domain.from_public(frame)
    out = pmw.Table.from_frame(frame, domain, private=False).to_frame("pyarrow")
    assert out.schema.field("own").type == pa.bool_()
    assert out.column("own").to_pylist() == [True, False, None]
    assert pmw.Table.from_frame(out, domain, private=False) == pmw.Table.from_frame(
        frame, domain, private=False
    )


@pytest.mark.parametrize("form", ["frame", "parquet", "feather"])
def test_synthetic_records_keep_the_type_of_every_public_column(form, tmp_path):
    import datetime

    days = [datetime.datetime(2000 + n, 1, 1 + n) for n in range(9)]
    public = pa.table(
        {
            "own": [True, False, None] * 3,
            "rooms": pa.array(range(9), pa.int8()),
            "income": pa.array(range(100_000, 1_000_000, 100_000), pa.int32()),
            "rate": pa.array([0.5 * n for n in range(9)], pa.float32()),
            "born": pa.array(days, pa.timestamp("ms")),
            "sex": pa.array(["F", "M", "F"] * 3),
            "job": pa.array(["a", "b", "c"] * 3).dictionary_encode(),
        }
    )
    domain = pmw.Domain.from_public(public, columns=public.column_names, bins=3, most_labels=8)
    source = public
    if form != "frame":
        source = tmp_path / f"public.{form}"
        pmw_io = pytest.importorskip("pyarrow.feather" if form == "feather" else "pyarrow.parquet")
        (pmw_io.write_feather if form == "feather" else pmw_io.write_table)(public, str(source))
    table = pmw.Table.from_frame(public, domain, private=False)
    drawn = table.to_frame("pyarrow", bins="draw", public=source, seed=0)
    wanted = dict(zip(public.schema.names, public.schema.types, strict=True))
    found = dict(zip(drawn.schema.names, drawn.schema.types, strict=True))
    assert {name: found[name] for name in wanted if name != "job"} == {
        name: kind for name, kind in wanted.items() if name != "job"
    }
    assert pa.types.is_dictionary(found["job"])
    assert pmw.Table.from_frame(drawn, domain, private=False) == table
    table.write(tmp_path / "out.parquet", bins="draw", public=source, seed=0)
    assert pmw.read_table(tmp_path / "out.parquet", domain, private=False) == table


def test_columns_of_csv_keep_their_kind(tmp_path):
    (tmp_path / "p.csv").write_text(
        "own,age,rate,born\n" + "true,31,0.5,2001-02-03\nfalse,4,1.5,1999-12-31\n" * 4
    )
    domain = pmw.Domain.from_public(tmp_path / "p.csv")
    table = pmw.read_table(tmp_path / "p.csv", domain, private=False)
    drawn = table.to_frame("pyarrow", bins="draw", public=tmp_path / "p.csv", seed=0)
    assert drawn.schema.types == [pa.bool_(), pa.int64(), pa.float64(), pa.date32()]
