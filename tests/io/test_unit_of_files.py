"""The unit of a private file or frame: every reader lets the same records enter, and shows no id."""

from __future__ import annotations

import numpy as np
import pytest

from marks.slow import slow_among
from privmw import Domain, Table, Workload, read_table, scan_table
from privmw.io import files, lines, scan

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")

DOMAIN = Domain({"a": 4, "b": ["x", "y"]})
WORKLOAD = Workload.all(DOMAIN, [1, 2])
ROWS, SECRET = 600, "H-SECRET"
RNG = np.random.default_rng(5)
CODES = np.stack([RNG.integers(0, size, ROWS) for size in DOMAIN.sizes], axis=1)
NUMBERS = RNG.integers(0, 90, ROWS)  # about seven records a household, in no order
TEXTS = np.array([f"H{number:04d}-ä" for number in NUMBERS])
UNIT = {"private": True, "unit": "household", "at_most": 4}

IDS = {
    "int64": pa.array(NUMBERS),
    "uint8": pa.array(NUMBERS.astype(np.uint8)),
    "text": pa.array(TEXTS),
    "large text": pa.array(TEXTS, pa.large_string()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "digits": pa.array([str(number) for number in NUMBERS]),
}


def arrow(ids="int64"):
    labels = np.array(["x", "y"])[CODES[:, 1]]
    return pa.table({"a": CODES[:, 0], "household": IDS[ids], "b": labels})


def expected(ids="int64", at_most=4):
    """The same from codes in memory, which tests/data/test_unit.py compares with the slow truth."""
    table = Table.from_codes(CODES, DOMAIN, private=True)
    return table.capped(IDS[ids].to_pylist(), unit="household", at_most=at_most)


def write_parquet(folder, ids):
    pq.write_table(arrow(ids), folder / "t.parquet", row_group_size=97)
    return folder / "t.parquet"


def write_folder(folder, ids):
    # A dictionary of its own in every file, and a household in several.
    for number, first in enumerate(range(0, ROWS, 250)):
        pq.write_table(arrow(ids).slice(first, 250), folder / f"part-{number}.parquet", row_group_size=97)
    return folder


def write_csv(folder, ids):
    csv.write_csv(arrow(ids), folder / "t.csv")
    return folder / "t.csv"


WRITERS = {"parquet": write_parquet, "folder": write_folder, "csv": write_csv}
PLAIN = ["int64", "text"]


@pytest.mark.parametrize("ids", slow_among(IDS, [kind for kind in IDS if kind not in PLAIN]))
@pytest.mark.parametrize("kind", WRITERS)
def test_every_file_lets_the_same_records_enter(tmp_path, kind, ids, monkeypatch):
    monkeypatch.setattr(files, "PARQUET_BATCH_ROWS", 41)
    monkeypatch.setattr(lines, "BLOCK", 512)
    monkeypatch.setattr(scan, "BATCH", 50)
    path = WRITERS[kind](tmp_path, ids)
    read, opened = read_table(path, DOMAIN, **UNIT), scan_table(path, DOMAIN, **UNIT)
    assert read == expected(ids)
    assert read.n < ROWS
    assert (opened.n, opened.unit, opened.at_most) == (read.n, "household", 4)
    batches = list(opened.batches())
    assert len(batches) > 3
    assert {batch.protected for batch in batches} == {"household of at most 4 records"}
    assert np.array_equal(np.concatenate([batch.codes() for batch in batches]), read.codes())
    for records in (read, opened):
        assert np.array_equal(records.counts(WORKLOAD), expected(ids).counts(WORKLOAD))
    assert repr(opened).endswith(", private, at most 4 of a household)")


def test_files_of_digits_and_of_integers_choose_alike(tmp_path):
    tables = [read_table(WRITERS[kind](tmp_path, ids), DOMAIN, **UNIT) for kind, ids in (("csv", "int64"),)]
    tables += [
        read_table(write_parquet(tmp_path, ids), DOMAIN, **UNIT) for ids in ("digits", "uint8", "int64")
    ]
    assert all(table == expected() for table in tables)


def test_a_batch_of_which_no_record_enters_is_no_table(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PARQUET_BATCH_ROWS", 10)
    monkeypatch.setattr(scan, "BATCH", 10)
    one = arrow().set_column(1, "household", pa.array([7] * ROWS))
    pq.write_table(one, tmp_path / "t.parquet")
    opened = scan_table(tmp_path / "t.parquet", DOMAIN, private=True, unit="household", at_most=1)
    assert [batch.n for batch in opened.batches()] == [1]
    assert opened.counts(WORKLOAD).sum() == len(WORKLOAD)


FRAMES = {"pyarrow": lambda table: table, "pandas": lambda table: table.to_pandas(), "polars": None}


@pytest.mark.parametrize("ids", ["int64", "text", "dictionary"])
@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_lets_the_same_records_enter(kind, ids):
    module = pytest.importorskip(kind)
    frame = module.from_arrow(arrow(ids)) if kind == "polars" else FRAMES[kind](arrow(ids))
    assert Table.from_frame(frame, DOMAIN, **UNIT) == expected(ids)
    if kind == "polars":
        assert Table.from_frame(frame.lazy(), DOMAIN, **UNIT) == expected(ids)


def with_ids(ids):
    column = pa.array([SECRET] * (ROWS - 1) + [None]) if ids is None else ids
    return arrow().set_column(1, "household", column)


BAD = {
    "missing": (None, ValueError, "column 'household': every record must have an id, none missing or empty"),
    "missing integer": (pa.array([*range(ROWS - 1), None]), ValueError, "none missing or empty"),
    "missing entry": (
        pa.DictionaryArray.from_arrays([0] * (ROWS - 1) + [1], [SECRET, None]),
        ValueError,
        "none missing or empty",
    ),
    "missing index": (
        pa.DictionaryArray.from_arrays([0] * (ROWS - 1) + [None], [SECRET]),
        ValueError,
        "none missing or empty",
    ),
    "empty": (pa.array([SECRET] * (ROWS - 1) + [""]), ValueError, "none missing or empty"),
    "nothing": (pa.nulls(ROWS), ValueError, "none missing or empty"),
    "numbers": (pa.array(NUMBERS.astype(float)), TypeError, "of kind number must hold integers or text"),
    "booleans": (pa.array(NUMBERS > 3), TypeError, "of kind boolean must hold integers or text"),
    "dates": (pa.array(NUMBERS, pa.timestamp("s")), TypeError, "of kind date must hold integers or text"),
}


READERS = [(reader, case) for reader in ("read", "scan", "frame") for case in BAD]
for reader in ("read", "scan"):  # Arrow writes no dictionary with a missing entry
    READERS.remove((reader, "missing entry"))


@pytest.mark.parametrize(("reader", "case"), READERS)
def test_ids_that_name_no_unit_are_refused_by_column_and_rule(tmp_path, reader, case):
    ids, error, message = BAD[case]
    table = with_ids(ids)
    path = tmp_path / "t.parquet"
    if reader != "frame":
        pq.write_table(table, path)
    open_it = {
        "read": lambda: read_table(path, DOMAIN, **UNIT),
        "scan": lambda: scan_table(path, DOMAIN, **UNIT),
        "frame": lambda: Table.from_frame(table, DOMAIN, **UNIT),
    }
    with pytest.raises(error, match=message) as refusal:
        open_it[reader]()
    assert "column 'household'" in str(refusal.value)
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None
    if reader == "read":  # without the unit, such a file is a table
        assert read_table(path, DOMAIN, private=True).n == ROWS


def test_an_entry_of_the_dictionary_that_no_record_has_may_be_missing():
    ids = pa.DictionaryArray.from_arrays([0, 2] * (ROWS // 2), ["u", None, "v", ""])
    assert Table.from_frame(with_ids(ids), DOMAIN, **UNIT).n == 8


def test_empty_ids_of_csv_are_missing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,household\n1,x,7\n2,y,\n")
    with pytest.raises(ValueError, match="every record must have an id, none missing or empty"):
        read_table(tmp_path / "t.csv", DOMAIN, **UNIT)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"unit": "household"}, TypeError, r"unit \(.*\) and at_most \(.*\) must be given together"),
        ({"at_most": 3}, TypeError, r"unit \(.*\) and at_most \(.*\) must be given together"),
        ({"unit": "b", "at_most": 3}, ValueError, "must not be an attribute of the domain"),
        ({"unit": "home", "at_most": 3}, ValueError, "column 'home' is missing"),
        ({"unit": "household", "at_most": 0}, ValueError, "at_most .0. must be"),
        ({"unit": "household", "at_most": 3, "private": False}, ValueError, "must come with private=True"),
    ],
)
def test_a_wrong_unit_is_refused_by_every_reader(tmp_path, options, error, message):
    path = write_parquet(tmp_path, "int64")
    for reader, source in ((read_table, path), (scan_table, path), (Table.from_frame, arrow())):
        with pytest.raises(error, match=message):
            reader(source, DOMAIN, **{"private": True, **options})


@pytest.mark.parametrize("number", [-5, 7, 1234567890123456789, 2**63 + 9])
def test_no_unit_counts_twice_where_the_files_of_a_folder_differ(tmp_path, number):
    whole = pa.int64() if number < 2**63 else pa.uint64()
    for name, ids in (("a", pa.array([number] * 6, whole)), ("b", pa.array([str(number)] * 6))):
        pq.write_table(pa.table({"hh": ids, "age": [1] * 6}), tmp_path / f"{name}.parquet")
    domain = Domain({"age": 3})
    for read in (read_table, scan_table):
        assert read(tmp_path, domain, private=True, unit="hh", at_most=3).n == 3


@pytest.mark.parametrize("read", [read_table, scan_table])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float64(), pa.null()])
def test_a_private_file_without_records_has_units_too(tmp_path, read, kind):
    empty = pa.table({"hh": pa.array([], kind), "age": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet", Domain({"age": 3}), private=True, unit="hh", at_most=3)
    assert (table.n, table.protected) == (0, "hh of at most 3 records")
