"""Tables in files: read whole, or scanned batch by batch."""

import copy
import gzip
import itertools
import json
import os
import pickle
import re
import reprlib
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privmw as pmw
import privmw.data.make_support
import privmw.io.extras
import privmw.io.files
import privmw.io.scan

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DOMAIN = pmw.Domain(
    {
        "age": {"edges": [0, 18, 65, 120], "missing": "N"},
        "sex": ["F", "M"],
        "code": 300,
        "zip": ["01", "1", "a,b", 'say "x"', "two\nlines", ""],
        "rooms": {"labels": [1, 2, 3], "other": -1},
        "born": {"edges": ["1900-01-01", "1950-01-01", "2000-12-31"]},
        "own": ["true", "false"],
    }
)
ROWS = pa.table(
    {
        "extra": pa.array([[1], [2], None]),
        "rooms": pa.array([3, 17, 1], pa.int32()),
        "sex": ["M", "F", "F"],
        "age": pa.array([17.99, None, 120.0]),
        "code": pa.array([0, 299, 7], pa.uint16()),
        "zip": ["01", "two\nlines", ""],
        "born": pa.array(["1950-01-01", "1900-01-01", "2000-12-31"]),
        "own": [True, False, True],
    }
)
CODES = [[0, 1, 0, 0, 2, 1, 0], [3, 0, 299, 4, 3, 0, 1], [2, 0, 7, 5, 0, 1, 0]]
TABLE = pmw.Table.from_codes(CODES, DOMAIN, private=False)
CSV = "rooms,sex,age,code,zip,born,own\n3,M,17.99,0,01,1950-01-01,true\n"
CSV += '17,F,,299,"two\nlines",1900-01-01,False\n1,F,120,7,"",2000-12-31,TRUE\n'
SMALL = pmw.Domain({"a": 10, "b": ["x", "y"]})


@pytest.fixture
def files(tmp_path):
    pq.write_table(ROWS, tmp_path / "t.parquet")
    (tmp_path / "folder").mkdir()
    for part in range(3):
        pq.write_table(ROWS.slice(part, 1), tmp_path / "folder" / f"part-{part}.parquet")
    (tmp_path / "folder" / "_SUCCESS").touch()
    (tmp_path / "t.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "bom.CSV").write_text(CSV, encoding="utf-8-sig")
    with gzip.open(tmp_path / "t.csv.gz", "wt", encoding="utf-8") as file:
        file.write(CSV)
    return [tmp_path / name for name in ("t.parquet", "folder", "t.csv", "bom.CSV", "t.csv.gz")]


def small(path, rows=1000, group=100, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"b": np.array(["x", "y"])[rng.integers(0, 2, rows)], "a": rng.integers(0, 10, rows)}
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def test_every_form_of_a_file_is_the_same_table(files):
    for path in files:
        assert pmw.read_table(path, DOMAIN, private=False) == TABLE
        if "csv" in path.name.lower():  # where a line is a record, and a label with a line break is none
            with pytest.raises(ValueError, match="must have every record on one line"):
                pmw.read_table(path, DOMAIN, private=True)
        else:
            assert pmw.read_table(str(path), DOMAIN, private=True).private
        scan = pmw.scan_table(path, DOMAIN, private=False)
        assert [table.codes().tolist() for table in scan.batches()] == [CODES]
        assert (scan.n, len(scan), scan.domain, scan.path) == (3, 3, DOMAIN, str(path))


def test_columns_of_a_file_may_come_in_any_order_and_number(tmp_path, files):
    two = DOMAIN.project(["own", "sex"])
    assert pmw.read_table(files[0], two, private=False) == TABLE.project(["own", "sex"])
    pq.write_table(pa.table([[1], [2], ["x"], [3]], ["c", "c", "b", "a"]), tmp_path / "twice.parquet")
    (tmp_path / "twice.csv").write_text("c,c,b,a\n1,2,x,3\n")
    for name in ("twice.parquet", "twice.csv"):
        assert pmw.read_table(tmp_path / name, SMALL, private=False).codes().tolist() == [[3, 0]]


def test_lines_may_end_in_either_way_and_columns_have_dots(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"b,a\r\nx,3\r\ny,4")
    assert pmw.read_table(tmp_path / "t.csv", SMALL, private=False).codes().tolist() == [[3, 0], [4, 1]]
    pq.write_table(pa.table({"a.b": [1], "a": [2], "c": [{"a": 3}]}), tmp_path / "t.parquet")
    domain = pmw.Domain({"a": 3, "a.b": 3})
    assert pmw.read_table(tmp_path / "t.parquet", domain, private=False).codes().tolist() == [[2, 1]]


def test_a_scan_counts_what_the_table_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.files, "PARQUET_BATCH_ROWS", 64)
    monkeypatch.setattr(privmw.io.scan, "BATCH", 200)
    path = small(tmp_path / "t.parquet")
    scan, table = pmw.scan_table(path, SMALL, private=True), pmw.read_table(path, SMALL, private=True)
    assert len(list(scan.batches())) > 2
    assert all(batch.private for batch in scan.batches())
    assert np.array_equal(np.concatenate([batch.codes() for batch in scan.batches()]), table.codes())
    for workload in (pmw.Workload.all(SMALL, [1, 2]), pmw.Workload(SMALL, [])):
        counts = scan.counts(workload)
        assert counts.dtype == np.int64
        assert np.array_equal(counts, table.counts(workload))
    with pytest.raises(TypeError, match="must be a Workload"):
        scan.counts([("a",)])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=60),
    batch=st.integers(1, 20),
    pending=st.integers(1, 30),
)
def test_a_support_of_a_file_is_the_support_of_its_table(rows, batch, pending, tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.files, "PARQUET_BATCH_ROWS", batch)
    monkeypatch.setattr(privmw.io.scan, "BATCH", batch)
    monkeypatch.setattr(privmw.data.make_support, "PENDING", pending)
    table = pmw.Table.from_codes(rows, SMALL, private=False)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": table.column("a"), "b": np.array(["x", "y"])[table.column("b")]}), path)
    assert pmw.Support.from_table(pmw.scan_table(path, SMALL, private=False)) == pmw.Support.from_table(table)


def test_a_private_scan_makes_no_support_and_shows_nothing(tmp_path):
    path = small(tmp_path / "t.parquet")
    private, public = (pmw.scan_table(path, SMALL, private=private) for private in (True, False))
    with pytest.raises(ValueError, match=r"public \(a private table\) must be public"):
        pmw.Support.from_table(private)
    assert repr(private) == f"Scan(1000 rows x 2 attributes of {reprlib.repr(str(path))}, private)"
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a private table must not be pickled"):
            leak(private)
    again = pickle.loads(pickle.dumps(public))
    assert (again.n, again.path, again.domain, again.private) == (1000, str(path), SMALL, False)


def test_a_release_from_a_scan_is_the_release_from_its_table(tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.files, "PARQUET_BATCH_ROWS", 300)
    monkeypatch.setattr(privmw.io.scan, "BATCH", 300)
    private = small(tmp_path / "private.parquet")
    support = pmw.Support.from_table(
        pmw.scan_table(small(tmp_path / "public.parquet", seed=1), SMALL, private=False)
    )
    workload = pmw.Workload.all(SMALL, 2)
    for run in (pmw.MWPub().release, pmw.PEP().release, pmw.release_auto):
        found = [
            run(opened(private, SMALL, private=True), support, workload, epsilon=1.0, rng=7)
            for opened in (pmw.scan_table, pmw.read_table)
        ]
        assert np.array_equal(found[0].weights, found[1].weights)
        assert found[0].ledger.statement() == found[1].ledger.statement()
        scanned = pmw.evaluate(found[0], pmw.scan_table(private, SMALL, private=True))
        assert (
            scanned.max_error
            == pmw.evaluate(found[1], pmw.read_table(private, SMALL, private=True)).max_error
        )


@pytest.mark.parametrize(
    "later", [lambda scan: list(scan.batches()), lambda scan: scan.counts(pmw.Workload.all(SMALL, 1))]
)
@pytest.mark.parametrize("change", ["rows", "touched", "gone", "bad"])
def test_a_file_that_changed_since_it_was_opened_is_refused(tmp_path, later, change):
    path = small(tmp_path / "t.parquet")
    scan = pmw.scan_table(path, SMALL, private=True)
    if change == "rows":
        small(path, rows=1001)
    elif change == "touched":
        os.utime(path, ns=(1, 1))
    elif change == "gone":
        path.unlink()
    else:
        pq.write_table(pa.table({"a": [77], "b": ["secret"]}), path)
    with pytest.raises((ValueError, OSError), match=r"t\.parquet") as raised:
        later(scan)
    assert "77" not in str(raised.value).replace(str(path), "")


def test_a_file_that_changes_while_it_is_scanned_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.files, "PARQUET_BATCH_ROWS", 100)
    monkeypatch.setattr(privmw.io.scan, "BATCH", 100)
    scan = pmw.scan_table(small(tmp_path / "t.parquet"), SMALL, private=False)
    batches = scan.batches()
    next(batches)
    os.utime(tmp_path / "t.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"t\.parquet \(changed since it was opened\) must stay as it is"):
        list(batches)


SECRET = "Z9secret"


def bad_files(folder):
    """Files that are no table on SMALL, each with SECRET inside if there is anything inside."""
    write = {
        "empty.parquet": b"",
        "text.parquet": f"a,b\n1,{SECRET}\n".encode(),
        "empty.csv": b"",
        "latin.csv": f"a,b\n1,x\n2,{SECRET}\xe9\n".encode("latin-1"),
        "ragged.csv": f"a,b\n1,x\n2,{SECRET},3\n".encode(),
        "short.csv": f"a,b\n1,x\n{SECRET}\n".encode(),
        "quoted.csv": f'a,b\n1,"{SECRET}\n'.encode(),
        "label.csv": f"a,b\n1,{SECRET}\n".encode(),
        "not-gzip.csv.gz": f"a,b\n1,{SECRET}\n".encode(),
        "missing.csv": f"a,c\n1,{SECRET}\n".encode(),
        "semicolons.csv": f"a;b\n1;{SECRET}\n".encode(),
        "twice.csv": f"a,b,b\n1,{SECRET},x\n".encode(),
        "rows.csv": b"a,b\n",
        "name.doc": SECRET.encode(),
        "blank.csv": b"\n\n",
    }
    for name, content in write.items():
        (folder / name).write_bytes(content)
    good = pa.table({"a": [1, 2], "b": ["x", SECRET]})
    tables = {
        "label.parquet": good,
        "kind.parquet": pa.table({"a": [SECRET], "b": ["x"]}),
        "float.parquet": pa.table({"a": [1.5], "b": ["x"]}),
        "null.parquet": pa.table({"a": [1, None], "b": ["x", "x"]}),
        "nan.parquet": pa.table({"a": [float("nan"), float("inf")], "b": ["x", "x"]}),
        "list.parquet": pa.table({"a": [1], "b": [[SECRET]]}),
        "struct.parquet": pa.table({"a": [1], "b": [{SECRET: 1}]}),
        "missing.parquet": pa.table({"A": [1], "b": [SECRET]}),
        "twice.parquet": pa.table([[1], [2], [SECRET]], names=["a", "a", "b"]),
        "rows.parquet": good.slice(0, 0),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / name, compression="none")
    whole = (folder / "label.parquet").read_bytes()
    (folder / "truncated.parquet").write_bytes(whole[:-20])
    (folder / "flipped.parquet").write_bytes(
        whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :]
    )
    (folder / "truncated.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,x\n" * 10_000)[:-20])
    (folder / "nothing-inside").mkdir()
    (folder / "folder.parquet").mkdir()
    (folder / "folder-of-bad").mkdir()
    (folder / "folder-of-bad" / "1.parquet").write_bytes(whole)
    return sorted(path.name for path in folder.iterdir())


with tempfile.TemporaryDirectory() as folder:
    NAMES = bad_files(Path(folder))


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_file_is_refused_in_one_line_that_shows_nothing_private(tmp_path, name):
    bad_files(tmp_path)
    both = (False,) if name.startswith("rows.") else (True, False)  # a private table may be empty
    for opened, private in itertools.product((pmw.read_table, pmw.scan_table), both):
        with pytest.raises((ValueError, TypeError, OSError)) as raised:
            opened(tmp_path / name, SMALL, private=private)
        text = str(raised.value)
        assert str(tmp_path / name) in text
        assert "\n" not in text
        if private:
            assert not any(SECRET in str(error) for error in behind(raised.value))


def behind(error):
    """An error and all that it holds on to, shown or not: a debugger or a log may show it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


OUTSIDE = "has 1 value outside the domain"
WRONG = {
    "label.parquet": f"column 'b' {OUTSIDE} (first: 'Z9secret', row 1): must be one of its 2 labels",
    "null.parquet": f"column 'a' {OUTSIDE} (first: missing, row 1): must be an integer from 0 to 9",
    "missing.parquet": "column 'a' is missing",
    "missing.csv": "column 'b' is missing: the first line must name the columns, as the domain does",
    "twice.parquet": "column 'a' must be there only once",
    "twice.csv": "column 'b' must be there only once",
    "rows.parquet": "a table must have at least one row",
    "rows.csv": "a table must have at least one row",
    "empty.csv": "(0 bytes) must not be empty",
    "ragged.csv": "must be a csv file in its encoding, each row as long as the header (CSV parse error: ",
    "truncated.parquet": "must be a whole parquet file (",
    "name.doc": "must be a .parquet, .csv, .tsv, .feather, .jsonl or .xlsx file, or a folder of one kind",
    "nothing-inside": "(a folder) must hold parquet files",
}
WRONG_KINDS = {
    "kind.parquet": f"column 'a' {OUTSIDE} (first: 'Z9secret', row 0): must be an integer from 0 to 9",
    "float.parquet": f"column 'a' {OUTSIDE} (first: 1.5, row 0)",
    "list.parquet": "column 'b' of kind list must hold integers, numbers, text, booleans or dates",
}


@pytest.mark.parametrize("name", [*WRONG, *WRONG_KINDS])
def test_what_is_wrong_with_a_public_file_is_said(tmp_path, name):
    bad_files(tmp_path)
    error = ValueError if name in WRONG else TypeError
    with pytest.raises(error, match=re.escape({**WRONG, **WRONG_KINDS}[name])):
        pmw.read_table(tmp_path / name, SMALL, private=False)


def test_bad_values_are_counted_over_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(privmw.io.files, "PARQUET_BATCH_ROWS", 2)
    values = [1, 2, 3, 77, 4, 88, 99, 5]
    pq.write_table(pa.table({"a": values, "b": ["x"] * 8}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'a' has 3 values outside the domain \(first: 77, row 3\)"):
        pmw.scan_table(tmp_path / "t.parquet", SMALL, private=False)
    rule = "every value must be an integer from 0 to 9, and none missing"
    with pytest.raises(ValueError, match=rf"t\.parquet: column 'a' of kind integer: {rule}; declare \"a\": "):
        pmw.scan_table(tmp_path / "t.parquet", SMALL, private=True)


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_every_bad_column_is_in_one_message_with_what_mends_it(tmp_path, kind, private):
    domain = pmw.Domain({"a": 10, "b": ["x", "y"], "c": {"edges": [0, 5]}, "d": ["true", "false"]})
    table = pa.table({"a": [1, 77], "b": ["Z9secret", "x"], "c": [99.5, None], "d": [True, False]})
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        path.write_text("a,b,c,d\n1,Z9secret,99.5,true\n77,x,,false\n")
    source, read = (table, pmw.Table.from_frame) if kind == "frame" else (path, pmw.read_table)
    with pytest.raises(ValueError, match="3 columns have values outside the domain") as raised:
        read(source, domain, private=private)
    said = str(raised.value)
    mended = {}
    for part in re.findall(r'declare ("[a-d]": \{.*?\})', said):
        mended.update(json.loads(f"{{{part}}}"))
    assert sorted(mended) == ["a", "b", "c"]
    fixed = pmw.Domain({**json.loads(domain.to_json()), **mended})
    assert read(source, fixed, private=private).n == 2
    if private:
        assert not re.search("Z9secret|77|99[.]5", said.replace(str(path), ""))


def test_a_near_column_name_is_suggested(tmp_path):
    pq.write_table(pa.table({"Age": [1]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'age' is missing; did you mean 'Age'\?"):
        pmw.read_table(tmp_path / "t.parquet", pmw.Domain({"age": 3}), private=False)


def test_a_private_file_without_a_header_does_not_have_its_first_record_suggested(tmp_path):
    (tmp_path / "t.csv").write_text("aged,poor\nyoung,rich\n")
    domain = pmw.Domain({"age": ["aged", "young"], "means": ["poor", "rich"]})
    with pytest.raises(
        ValueError, match=r"'age' is missing; .*: the first line must name the columns"
    ) as raised:
        pmw.read_table(tmp_path / "t.csv", domain, private=True)
    assert "aged" not in str(raised.value)


def test_a_missing_file_and_an_unreadable_one_are_os_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet must exist"):
        pmw.read_table(tmp_path / "nowhere.parquet", SMALL, private=False)
    path = small(tmp_path / "t.parquet")
    path.chmod(0)
    if not os.access(path, os.R_OK):
        with pytest.raises(PermissionError, match=r"t\.parquet"):
            pmw.read_table(path, SMALL, private=False)


@pytest.mark.parametrize("junk", [None, 3, 2.5, b"\xff", [], {}, "", "\0", "no/such", TABLE])
def test_junk_for_path_domain_or_private_is_refused(tmp_path, junk):
    path = small(tmp_path / "t.parquet")
    for opened in (pmw.read_table, pmw.scan_table):
        with pytest.raises((TypeError, ValueError, OSError)):
            opened(junk, SMALL, private=False)
        with pytest.raises(TypeError, match="must be a Domain"):
            opened(path, junk, private=False)
        with pytest.raises(TypeError, match=r"private \(.*\) must be True or False"):
            opened(path, SMALL, private=junk)


def test_private_has_no_default(tmp_path):
    path, codes = small(tmp_path / "t.parquet"), [[0, 0]]
    for make in (
        lambda **flags: pmw.read_table(path, SMALL, **flags),
        lambda **flags: pmw.scan_table(path, SMALL, **flags),
        lambda **flags: pmw.Table.from_frame(pa.table({"a": [1], "b": ["x"]}), SMALL, **flags),
        lambda **flags: pmw.Table.from_codes(codes, SMALL, **flags),
        lambda **flags: pmw.Table({"a": [0], "b": [0]}, SMALL, **flags),
    ):
        with pytest.raises(TypeError, match="private"):
            make()
        assert [make(private=flag).private for flag in (False, True)] == [False, True]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=80),
    suffix=st.sampled_from([".csv", ".csv.gz", ".parquet"]),
    private=st.booleans(),
)
def test_no_bytes_do_worse_than_one_line(tmp_path, data, suffix, private):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(b"a,b\n" + data if suffix == ".csv" else data)
    text = str(path)
    try:
        pmw.read_table(path, SMALL, private=private)
    except (TypeError, ValueError, OSError) as error:
        text = str(error)
    assert text.count(str(path)) == 1
    assert "\n" not in text


DAMAGED = {
    "dictionary": {"compression": "none"},
    "plain": {"compression": "none", "use_dictionary": False},
    "compressed": {"compression": "zstd"},
    "pages": {"compression": "none", "data_page_version": "2.0"},
}


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    form=st.sampled_from([*DAMAGED]),
    damage=st.dictionaries(st.integers(4, 700), st.integers(0, 255), min_size=1, max_size=4),
)
def test_a_damaged_private_file_is_good_or_refused_in_one_line(tmp_path, form, damage):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(10)) * 10, "b": ["x", "y"] * 50}), path, **DAMAGED[form])
    content = bytearray(path.read_bytes())
    for where, byte in damage.items():
        content[where % len(content)] = byte
    path.write_bytes(content)
    with suppress(ValueError, TypeError):
        pmw.read_table(path, SMALL, private=True)


def test_text_of_a_feather_file_that_is_no_utf8_is_a_bad_value_of_its_record(tmp_path):
    path, feather = tmp_path / "t.feather", pytest.importorskip("pyarrow.feather")
    texts = pa.array([b"x", b"\xff", b"y"]).view(pa.string())
    domain = pmw.Domain({"b": {"labels": ["x", "y"], "other": "o"}})
    for columns in ({"b": texts}, {"b": ["x", "z", "y"], "c": texts}):
        feather.write_feather(pa.table(columns), path)
        assert pmw.read_table(path, domain, private=True).codes().ravel().tolist() == [0, 2, 1]


@pytest.mark.parametrize("end", [2**30, -1, 1])
def test_damaged_offsets_of_a_feather_file_are_not_followed(end, tmp_path):
    path = tmp_path / "t.feather"
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(pa.table({"a": [1] * 100, "b": ["x"] * 100}), path, compression="uncompressed")
    offsets = np.arange(101, dtype=np.int32)
    content = path.read_bytes()
    assert content.count(offsets.tobytes()) == 1
    path.write_bytes(content.replace(offsets.tobytes(), np.where(offsets == 50, end, offsets).tobytes()))
    for private in (True, False):
        with pytest.raises(ValueError, match=r"t[.]feather must be a whole Arrow or feather file"):
            pmw.read_table(path, SMALL, private=private)


def test_without_pyarrow_it_is_said_what_to_install(tmp_path):
    program = """
import sys
sys.modules["pyarrow"] = None
import privmw as pmw
try:
    pmw.read_table(sys.argv[1], pmw.Domain({"a": 10, "b": ["x", "y"]}), private=False)
except ModuleNotFoundError as error:
    print(error)
"""
    path = small(tmp_path / "t.parquet")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert done.stdout == "pyarrow must be installed to read files: pip install 'privmw[io]'\n"


@pytest.mark.skipif("PRIVMW_DATA" not in os.environ, reason="PRIVMW_DATA is not set")
def test_the_survey_is_read_from_its_own_codes():
    folder = Path(os.environ["PRIVMW_DATA"], "acs_pums")
    described = json.loads((folder / "domain.json").read_text())
    names = [name for name in described["profiles"]["acs67"] if name != "AGEP10"]
    labels = {name: described["attributes"][name]["codes"] for name in names}
    domain = pmw.Domain({"AGEP": {"edges": [*range(0, 100, 10), 120]}, **labels})
    table = pmw.read_table(folder / "acs2018_hi.parquet", domain, private=False)
    rows = pq.read_table(folder / "acs2018_hi.parquet")
    assert np.array_equal(table.column("AGEP"), np.minimum(rows["AGEP"].to_numpy() // 10, 9))
    for name in names:
        assert np.array_equal(np.array(labels[name])[table.column(name)], rows[name].to_numpy())
    assert pmw.Support.from_table(pmw.scan_table(folder, domain, private=False)).counts.sum() > 90_000


def test_a_public_file_may_lack_columns_if_that_is_said(tmp_path):
    path = tmp_path / "public.csv"
    path.write_text("b,other\nx,1\ny,2\n")
    for read in (pmw.read_table, pmw.scan_table):
        with pytest.raises(ValueError, match="column 'a' is missing"):
            read(path, SMALL, private=False)
        table = read(path, SMALL, private=False, missing_ok=True)
        assert table.domain == SMALL.project(["b"])
        support = pmw.Support.from_table(table, domain=SMALL)
        assert (support.missing, support.rows.tolist()) == (("a",), [[0, 0], [0, 1]])
        with pytest.raises(ValueError, match="must not be given for a private table"):
            read(path, SMALL, private=True, missing_ok=True)
        with pytest.raises(ValueError, match="must have at least one column of the domain"):
            read(path, pmw.Domain({"age": 3}), private=False, missing_ok=True)
    whole = tmp_path / "whole.csv"
    whole.write_text("b,a\nx,1\n")
    assert pmw.read_table(whole, SMALL, private=False, missing_ok=True).domain is SMALL


def test_a_folder_of_public_files_has_the_columns_that_every_file_has(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["y"]}), tmp_path / "2.parquet")
    table = pmw.read_table(tmp_path, SMALL, private=False, missing_ok=True)
    assert table.domain == SMALL.project(["b"])
    assert table.codes().tolist() == [[0], [1]]
    scan = pmw.scan_table(tmp_path, SMALL, private=False, missing_ok=True)
    assert pickle.loads(pickle.dumps(scan)).domain == table.domain


def test_a_frame_may_lack_columns_if_that_is_said():
    pytest.importorskip("narwhals")
    frame = pa.table({"b": ["x", "y"]})
    assert pmw.Table.from_frame(frame, SMALL, private=False, missing_ok=True).codes().tolist() == [[0], [1]]
    with pytest.raises(ValueError, match="must not be given for a private table"):
        pmw.Table.from_frame(frame, SMALL, private=True, missing_ok=True)
    with pytest.raises(ValueError, match="frame must have at least one column of the domain"):
        pmw.Table.from_frame(frame, pmw.Domain({"age": 3}), private=False, missing_ok=True)
