"""Tables from data frames of every kind."""

import numpy as np
import pytest

import privmw as pmw

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

import privmw.io.frames  # noqa: E402

DOMAIN = pmw.Domain(
    {
        "age": {"edges": [0, 18, 65, 120], "missing": "N", "other": "else"},
        "sex": ["F", "M"],
        "code": 300,
        "rooms": {"labels": [1, 2, 3], "missing": 0},
        "own": ["true", "false"],
        "born": {"edges": ["1900-01-01", "1950-01-01", "2000-12-31"], "missing": "N"},
    }
)
COLUMNS = {
    "name": ["x", "y", "z"],
    "rooms": [3, None, 1],
    "sex": ["M", "F", "F"],
    "age": [17.99, None, 1e6],
    "code": [0, 299, 7],
    "born": [None, "1900-01-01", "2000-12-31"],
    "own": [True, False, True],
}
CODES = [[0, 1, 0, 2, 0, 2], [4, 0, 299, 3, 1, 0], [3, 0, 7, 0, 0, 1]]
TABLE = pmw.Table.from_codes(CODES, DOMAIN, private=False)
PANDAS = pd.DataFrame(COLUMNS)
FRAMES = {
    "pandas": PANDAS,
    "pandas, missing integers and dates": PANDAS.assign(
        rooms=PANDAS.rooms.astype("Int8"), born=pd.to_datetime(PANDAS.born), own=PANDAS.own.astype("boolean")
    ),
    "pandas, categories": PANDAS.astype({"sex": "category", "rooms": "category", "born": "category"}),
    "pandas, objects": PANDAS.astype(object),
    "pandas, arrow": PANDAS.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, in time zones": PANDAS.assign(born=pd.to_datetime(PANDAS.born).dt.tz_localize("Etc/GMT-9")),
    "polars": pl.DataFrame(COLUMNS),
    "polars, lazy": pl.LazyFrame(COLUMNS),
    "polars, categories": pl.DataFrame(COLUMNS).with_columns(
        pl.col("sex").cast(pl.Categorical), pl.col("born").str.to_date()
    ),
    "polars, enums": pl.DataFrame(COLUMNS).with_columns(pl.col("sex").cast(pl.Enum(["M", "other", "F"]))),
    "pyarrow": pa.table(COLUMNS),
    "pyarrow, a batch": pa.table(COLUMNS).to_batches()[0],
    "pyarrow, chunks": pa.concat_tables([pa.table(COLUMNS).slice(row, 1) for row in range(3)]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_is_the_same_table(kind):
    assert pmw.Table.from_frame(FRAMES[kind], DOMAIN, private=False) == TABLE
    private = pmw.Table.from_frame(FRAMES[kind], DOMAIN, private=True)
    assert private.private
    assert private.codes().tolist() == CODES


def test_a_stream_of_batches_is_read_once():
    for missing_ok in (False, True):
        reader = pa.table(COLUMNS).to_reader(max_chunksize=1)
        assert pmw.Table.from_frame(reader, DOMAIN, private=False, missing_ok=missing_ok) == TABLE

    def failing():
        yield pa.record_batch({"a": ["secret"]})
        raise ValueError("secret")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.string()}), failing())
    with pytest.raises(ValueError, match=r"^frame \(RecordBatchReader\) must be one that can be read$"):
        pmw.Table.from_frame(reader, pmw.Domain({"a": 3}), private=True)


def test_a_panic_of_polars_is_not_shown():
    class Panic(BaseException):
        """As pyo3 raises it: no Exception."""

    def panic(frame):
        raise Panic("secret")

    lazy = pl.LazyFrame({"a": [1]}).map_batches(panic)
    with pytest.raises(ValueError, match=r"^frame \(lazy\) must be one that can be collected$") as raised:
        pmw.Table.from_frame(lazy, pmw.Domain({"a": 3}), private=True)
    assert raised.value.__context__ is None


def test_a_relation_of_duckdb_is_a_frame_without_a_copy_on_disk():
    duckdb = pytest.importorskip("duckdb")
    columns = pa.table(COLUMNS)
    relation = duckdb.connect().from_arrow(columns)
    for private in (False, True):
        table = pmw.Table.from_frame(relation, DOMAIN, private=private)
        assert table.codes().tolist() == CODES
        women = pmw.Table.from_frame(relation.filter("sex = 'F'"), DOMAIN, private=private)
        assert women.codes().tolist() == CODES[1:]
    broken = relation.project("CAST(sex AS INTEGER) AS code")
    with pytest.raises(ValueError, match=r"^frame \(lazy\) must be one that can be collected$") as raised:
        pmw.Table.from_frame(broken, DOMAIN.project(["code"]), private=True)
    assert raised.value.__context__ is None


def test_a_table_does_not_change_with_the_frame_that_it_came_from():
    memory = np.arange(3, dtype=np.uint8)
    pandas = pd.DataFrame({"a": memory.copy()})
    frames = [pa.table({"a": memory}), pl.DataFrame({"a": memory}), pandas, pa.Table.from_pandas(pandas)]
    tables = [pmw.Table.from_frame(frame, pmw.Domain({"a": 3}), private=False) for frame in frames]
    memory[:] = 200
    pandas.iloc[:, 0] = 200
    pandas.loc[0, "a"] = 200
    for table in tables:
        assert table.column("a").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "frame", [PANDAS[:0], pl.DataFrame(COLUMNS)[:0], pa.table(COLUMNS).schema.empty_table()]
)
def test_no_rows_make_no_table(frame):
    with pytest.raises(ValueError, match="a table must have at least one row"):
        pmw.Table.from_frame(frame, DOMAIN.project(["sex", "own"]), private=False)


@pytest.mark.parametrize(
    "junk", [None, 3, "path.parquet", [[1]], {"a": [1]}, np.zeros((2, 2)), PANDAS["sex"], TABLE]
)
def test_what_is_no_frame_is_refused(junk):
    with pytest.raises(TypeError, match=r"frame \([A-Za-z]+\) must be a pandas, polars or pyarrow frame"):
        pmw.Table.from_frame(junk, DOMAIN, private=False)


def test_a_lazy_frame_that_fails_is_refused_without_its_words():
    lazy = pl.LazyFrame({"a": ["secret"]}).with_columns(pl.col("a").cast(pl.Int8))
    with pytest.raises(ValueError, match=r"^frame \(lazy\) must be one that can be collected$") as raised:
        pmw.Table.from_frame(lazy, pmw.Domain({"a": 3}), private=True)
    assert raised.value.__context__ is None


def test_a_domain_and_a_flag_are_wanted():
    with pytest.raises(TypeError, match="must be a Domain"):
        pmw.Table.from_frame(PANDAS, {"sex": 2}, private=False)
    with pytest.raises(TypeError, match=r"private \(.*\) must be True or False"):
        pmw.Table.from_frame(PANDAS, DOMAIN, private=1)


def test_columns_must_be_there_once():
    domain = pmw.Domain({"sex": ["F", "M"]})
    with pytest.raises(ValueError, match=r"frame: column 'sex' is missing; did you mean 'Sex'\?"):
        pmw.Table.from_frame(PANDAS.rename(columns={"sex": "Sex", "age": 7}), domain, private=False)
    with pytest.raises(
        ValueError, match=r"^frame: column 'sex' is missing; .* blanks or capitals\? Rename it$"
    ):
        pmw.Table.from_frame(PANDAS.rename(columns={"sex": "Sex"}), domain, private=True)
    with pytest.raises(ValueError, match="must have a name of its own"):
        pmw.Table.from_frame(pd.concat([PANDAS, PANDAS], axis=1), domain, private=False)


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (["secret", 1], 3),
        (["secret", "F"], ["F"]),
        ([1, 2, 777], [1, 2]),
        ([0.5, 777.25], {"edges": [0, 1]}),
        ([None, 1.0], [1]),
        ([b"secret"], ["F"]),
        ([["secret"]], ["F"]),
        ([{"secret": 777}], ["F"]),
        ([object()], ["F"]),
        ([2**70], {"edges": [0, 1]}),
        ([1j], {"edges": [0, 1]}),
    ],
)
def test_a_bad_value_of_a_private_frame_is_not_told(values, declared):
    frame = pd.DataFrame(
        {"a": pd.Series(values, dtype=object if not isinstance(values[-1], float) else None)}
    )
    with pytest.raises((TypeError, ValueError), match="column 'a'") as raised:
        pmw.Table.from_frame(frame, pmw.Domain({"a": declared}), private=True)
    assert not {word for word in ("secret", "777", "row", "first") if word in str(raised.value)}
    assert raised.value.__context__ is None


def test_a_bad_value_of_a_public_frame_is_told():
    with pytest.raises(ValueError, match=r"column 'a' has 2 values outside the domain \(first: 7, row 1\)"):
        pmw.Table.from_frame(pa.table({"a": [1, 7, 9]}), pmw.Domain({"a": 3}), private=False)
    with pytest.raises(TypeError, match="column 'a' must hold values of one kind"):
        pmw.Table.from_frame(pd.DataFrame({"a": [1, "x"]}), pmw.Domain({"a": 3}), private=False)
