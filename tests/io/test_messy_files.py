"""Files as people have them: each is read right, or refused with what helps.

What a public file tells about itself is stored in the domain, and a private file is read by that.
"""

import codecs
import contextlib
import datetime
import gzip
import json
import re
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

import privmw as pmw  # noqa: E402
from privmw.data.propose import propose  # noqa: E402
from privmw.io.public_source import PublicSource  # noqa: E402

NAMES = ("age", "income", "born", "job")
AGES = [31, 4, 65, 40, 22, 58, 17, 80]
INCOMES = [1234.5, 250000.25, 0.75, 12.5, 98765.25, 1500.5, 7.25, 31234.75]
BORN = [datetime.date(1990 + n, 1 + n, 13 + n) for n in range(8)]
JOBS = ["clerk", "café owner", "clerk", "baker", "baker", "café owner", "clerk", "baker"]
ROWS = list(zip(AGES, INCOMES, BORN, JOBS, strict=True))


def grouped(number, mark, decimal="."):
    return f"{number:,}".replace(".", "d").replace(",", mark).replace("d", decimal)


def lines(
    separator=",",
    *,
    age=str,
    income=str,
    born=str,
    job=str,
    header=NAMES,
    rows=ROWS,
    end="\n",
):
    """The text of the rows; a field with the separator inside is quoted."""
    written = [] if header is None else [list(header)]
    written += [[age(a), income(i), born(b), job(j)] for a, i, b, j in rows]
    quoted = ([f'"{f}"' if separator.strip() in f else f for f in row] for row in written)
    return "".join(separator.join(row) + end for row in quoted)


def day(form):
    return lambda date: date.strftime(form)


def comma(number):
    return str(number).replace(".", ",")


def no_blank(date):
    return f"{date.day}/{date.month}/{date.year}"


# name of the file -> its bytes; all hold ROWS.
READ = {
    "semicolon.csv": lines(";"),
    "semicolon-commas.csv": lines(";", income=comma),
    "tab.tsv": lines("\t"),
    "tab.csv": lines("\t", income=comma),
    "bar.csv": lines("|"),
    "bar.txt": lines("|", born=day("%d/%m/%Y")),
    "comma-quoted.csv": lines(income=comma),
    "decimal-semicolon-crlf.csv": lines(";", income=comma, end="\r\n"),
    "thousands-us.csv": lines(income=lambda n: grouped(n, ",")),
    "thousands-de.csv": lines(";", income=lambda n: grouped(n, ".", ",")),
    "thousands-fr.csv": lines(";", income=lambda n: grouped(n, "\u00a0", ",")),
    "thousands-ch.csv": lines(";", income=lambda n: grouped(n, "'")),
    "blank.csv": lines(", "),
    "blank-semicolon.csv": lines("; ", income=comma),
    "utf16.csv": codecs.BOM_UTF16_LE + lines().encode("utf-16-le"),
    "utf16-be-tab.csv": codecs.BOM_UTF16_BE + lines("\t").encode("utf-16-be"),
    "utf16-no-bom.csv": lines().encode("utf-16-le"),
    "latin.csv": lines().encode("latin-1"),
    "latin-semicolon.csv": lines(";", income=comma).encode("latin-1"),
    "bom.csv": codecs.BOM_UTF8 + lines().encode(),
    "bom-semicolon.csv": codecs.BOM_UTF8 + lines(";", income=comma).encode(),
    "dmy-slash.csv": lines(born=day("%d/%m/%Y")),
    "dmy-dot.csv": lines(";", income=comma, born=day("%d.%m.%Y")),
    "dmy-short.csv": lines(born=no_blank),
    "mdy-slash.csv": lines(born=day("%m/%d/%Y")),
    "mdy-dash.csv": lines(born=day("%m-%d-%Y")),
    "ymd-slash.csv": lines(born=day("%Y/%m/%d")),
    "months.csv": lines(born=day("%d-%b-%Y")),
    "times.csv": lines(born=day("%Y-%m-%d 23:59:59")),
    "dmy-times.csv": lines(born=day("%d/%m/%Y 07:30")),
    "header-blanks.csv": lines(header=(" age ", "income ", " born", '"job"')),
    "header-quoted.csv": lines(header=[f'"{name}"' for name in NAMES]),
    "compressed.csv.gz": gzip.compress(lines(";", income=comma).encode()),
    "compressed.tsv.gz": gzip.compress(lines("\t").encode()),
    "plus.csv": lines(income=lambda n: f"+{n}"),
    "noon.csv": lines(born=day("%m/%d/%Y 12:00 PM")),
    "noon-dmy.csv": lines(";", income=comma, born=day("%d.%m.%Y 1:05:00 am")),
    "utf32.csv": lines(";").encode("utf-32"),
    "sep.csv": "sep=;\n" + lines(";", income=comma),
    "sep-comma.csv": codecs.BOM_UTF8 + ('"sep=,"\r\n' + lines(end="\r\n")).encode(),
    "mac-lines.csv": lines(end="\r"),
    "quoted-lines.csv": lines(job=lambda job: f'"{job}"'),
}


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def values_of(path, syntax=None):
    """The values of every column, as the public reader takes them."""
    source = PublicSource(path, syntax)
    columns = {name: [] for name in source.names}
    for batch in source.batches(source.names):
        for name, array in batch.items():
            columns[name] += array.to_pylist()
    return columns


def clean(folder):
    """The same rows in the plainest file, and the domain of it, without a syntax."""
    path = write(folder, "plain.csv", lines())
    return path, pmw.Domain.from_public(path, columns=NAMES, most_labels=3).with_syntax(None)


def check_same(path, folder, syntax=None, names=NAMES):
    """A messy file is the same table as the plain one, for its own proposal and as a private file."""
    expected = dict(zip(NAMES, zip(*ROWS, strict=True), strict=True))
    found = values_of(path, syntax)
    for name, original in zip(names, NAMES, strict=True):
        assert found[name] == list(expected[original]), name
    plain, domain = clean(folder)
    renamed = pmw.Domain(dict(zip(names, json.loads(domain.to_json()).values(), strict=True)))
    public = pmw.read_table(plain, domain, private=False)
    proposed = propose(path, syntax=syntax).domain
    told = renamed.with_syntax(proposed.syntax)
    for private, read in ((True, told), (False, told), (False, renamed)):
        said = []
        table = pmw.read_table(path, read, private=private, syntax=syntax, on_note=said.append)
        assert all((a == b).all() for a, b in zip(table.columns, public.columns, strict=True))
        assert said == [] or read is renamed
    assert pmw.Domain.from_json(proposed.to_json()).syntax == proposed.syntax
    assert pmw.scan_table(path, proposed, private=True).n == len(ROWS)


@pytest.mark.parametrize("name", READ)
def test_a_messy_file_is_read_as_the_plain_one(name, tmp_path):
    check_same(write(tmp_path, name, READ[name]), tmp_path)


def test_what_was_detected_is_said_in_one_line(tmp_path):
    expected = {
        "semicolon-commas.csv": "';' between columns, decimal comma",
        "tab.tsv": "tab between columns",
        "utf16.csv": "utf-16",
        "latin.csv": "latin-1",
        "thousands-de.csv": "';' between columns, decimal comma, thousands marks",
        "dmy-slash.csv": "dates day first",
        "mdy-dash.csv": "dates month first",
    }
    for name, said in expected.items():
        path = write(tmp_path, name, READ[name])
        assert propose(path).notes[0] == f"{path}: {said}"


UNNAMED = ("column 1", "column 2", "column 3", "column 4")
NO_HEADER = {
    "unnamed.csv": lines(header=None),
    "unnamed-semicolon.csv": lines(";", income=comma, header=None),
    "unnamed-blank.csv": lines(", ", header=None),
}


@pytest.mark.parametrize("name", NO_HEADER)
def test_a_file_without_a_header_has_numbered_columns(name, tmp_path):
    path = write(tmp_path, name, NO_HEADER[name])
    check_same(path, tmp_path, names=UNNAMED)
    assert "no header line" in propose(path).notes[0]


def feather(path, table, compression):
    import pyarrow.feather

    pyarrow.feather.write_feather(table, str(path), compression=compression)


def typed():
    return pa.table(dict(zip(NAMES, zip(*ROWS, strict=True), strict=True)))


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
@pytest.mark.parametrize("name", ["t.feather", "t.arrow"])
def test_feather_is_read(name, compression, tmp_path):
    feather(tmp_path / name, typed(), compression)
    check_same(tmp_path / name, tmp_path)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson"])
def test_json_lines_are_read(name, tmp_path):
    rows = [dict(zip(NAMES, (a, i, str(b), j), strict=True)) for a, i, b, j in ROWS]
    path = write(tmp_path, name, "".join(json.dumps(row) + "\n" for row in rows))
    plain, domain = clean(tmp_path)
    expected = pmw.read_table(plain, domain, private=False)
    assert (pmw.read_table(path, domain, private=False).codes() == expected.codes()).all()
    assert propose(path).domain.names == NAMES


@pytest.mark.parametrize("text", [False, True])
def test_the_first_sheet_of_a_workbook_is_read(text, tmp_path):
    pytest.importorskip("python_calamine")
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(NAMES)
    for age, income, born, job in ROWS:
        book.active.append(
            [str(age), comma(income), no_blank(born), job] if text else [age, income, born, job]
        )
    book.save(tmp_path / "t.xlsx")
    check_same(tmp_path / "t.xlsx", tmp_path)


def workbook(path, rows, *sheets):
    pytest.importorskip("python_calamine")
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    for sheet in sheets:
        book.create_sheet(sheet)
    book.save(path)
    return path


def test_numbers_of_a_workbook_have_the_value_that_they_have_there(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["x"], [1.234], [2.345]])
    assert values_of(path, pmw.Syntax(decimal=","))["x"] == [1.234, 2.345]
    assert values_of(path)["x"] == [1.234, 2.345]


def test_a_workbook_of_several_sheets_says_that_the_first_is_read(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["age"], [31], [4]], "secret")
    assert propose(path).notes[0] == f"{path}: the first of 2 sheets"
    said = []
    for private in (False, True):
        pmw.read_table(path, pmw.Domain({"age": {"edges": [0, 120]}}), private=private, on_note=said.append)
    assert said == [f"{path}: the first of 2 sheets"]  # and nothing about the private one


def test_a_workbook_whose_cells_lie_far_apart_is_refused_before_it_is_read(tmp_path):
    pytest.importorskip("python_calamine")
    book = pytest.importorskip("openpyxl").Workbook()
    book.active["A1"], book.active["XFD1048576"] = "age", 3
    book.save(tmp_path / "t.xlsx")
    for read in (propose, lambda path: pmw.read_table(path, pmw.Domain({"age": 9}), private=True)):
        with pytest.raises(ValueError, match=r"t[.]xlsx must have its cells near each other: save it as csv"):
            read(tmp_path / "t.xlsx")


def test_an_empty_first_column_of_a_sheet_without_a_header_is_a_column(tmp_path):
    """A private record that has a value there must not move those of the others."""
    syntax = pmw.Syntax(names=["free", "age"])
    domain = pmw.Domain({"age": 100})
    for free in (None, "x"):
        path = workbook(tmp_path / "t.xlsx", [[None, 31], [free, 4]])
        assert pmw.read_table(path, domain, private=True, syntax=syntax).column("age").tolist() == [31, 4]


def sheet_of(path, cells):
    book = pytest.importorskip("openpyxl").Workbook()
    for place, value in cells.items():
        book.active[place] = value
    book.save(path)
    return path


def test_a_cell_beside_the_table_of_a_private_sheet_moves_and_tells_nothing(tmp_path):
    pytest.importorskip("python_calamine")
    cells = {f"{c}{r}": v for r in (2, 3, 4) for c, v in (("C", "x"), ("D", "y"), ("E", "x"))}
    domain = pmw.Domain({"column 4": {"labels": ["x", "y"], "other": "o"}, "a": ["x"]})
    said = []
    for extra in ({}, {"B3": "q"}, {"H3": "q"}):
        path = sheet_of(tmp_path / "t.xlsx", {"E1": "a", **cells, **extra})
        table = pmw.read_table(path, domain, private=True, on_note=said.append)
        assert table.column("column 4").tolist() == [1, 1, 1]
    assert said == [f"{path}: left out: 3 columns that the domain does not name"] * 3


@pytest.mark.parametrize("encoding", ["iso2022_jp", "hz", "utf-7", "unicode_escape", "raw_unicode_escape"])
def test_encodings_in_which_a_record_reaches_the_next_are_refused(encoding):
    with pytest.raises(ValueError, match="and without escapes that change the meaning of later characters"):
        pmw.Syntax(encoding=encoding)


@pytest.mark.parametrize("record", ["x" * 15, "丁丂七丄丅丆万丈三上下丌不与丏一" * 2])
def test_what_is_said_of_the_encoding_of_a_private_file_is_told_by_its_header(record, tmp_path):
    domain = pmw.Domain({"a": {"labels": ["x", "y"], "other": "o"}})
    path = write(tmp_path, "t.csv", f"a\nx\ny\n{record}\n".encode("utf-16"))
    with pytest.raises(ValueError, match="say --syntax encoding=utf-16 for this file"):
        pmw.read_table(path, domain, private=True)
    path = write(tmp_path, "t.csv", f"b;a\n1;x\n2;{record}\n")
    with pytest.raises(ValueError, match="say --syntax separator=';' for this file"):
        pmw.read_table(path, domain, private=True, syntax=pmw.Syntax(encoding="ascii"))


def test_a_missing_entry_of_any_dictionary_is_refused():
    column = pa.array([0, 1, 2, None], pa.uint64()).dictionary_encode()
    with pytest.raises(ValueError, match=r"column 'a' of kind integer: every value must be .* none missing"):
        pmw.Table.from_frame(pa.table({"a": column}), pmw.Domain({"a": 256}), private=True)


@pytest.mark.parametrize("kind", ["object", "category"])
def test_objects_with_time_zones_are_no_column_of_days(kind):
    pandas = pytest.importorskip("pandas")
    domain = pmw.Domain({"a": {"edges": ["2020-01-01", "2020-01-03"], "open": True}})
    zone, late = datetime.timezone(datetime.timedelta(hours=5)), datetime.datetime(2020, 1, 1, 23, 30)
    zoned = [late.replace(tzinfo=zone), late.replace(tzinfo=datetime.timezone.utc)]
    # Arrow takes the zone of the first: none, here, so that the others would be days of UTC.
    for values in (zoned, [late, *zoned], [late.date(), *zoned]):
        column = pandas.Series(values, dtype=object).astype(kind)
        with contextlib.suppress(AttributeError):
            column = column.cat.set_categories(pandas.Index(values, dtype=object))
        with pytest.raises(TypeError, match="column 'a' must be one of dates or times, not of objects"):
            pmw.Table.from_frame(pandas.DataFrame({"a": column}), domain, private=True)


def test_a_month_in_odd_letters_and_deep_json_are_bad_values_of_their_records(tmp_path):
    domain = pmw.Domain({"a": {"edges": ["2020-01-01", "2021-01-01"], "missing": "N"}})
    days = ["4 Sep 2020", "5 Sep 2020", "4 ſep 2020"]
    path = write(tmp_path, "t.csv", "a\n" + "".join(f"{day}\n" for day in days))
    assert pmw.read_table(path, domain, private=True).column("a").tolist() == [0, 0, 1]
    nested = ["[" * depth + "]" * depth for depth in (900, 960, 980, 5000)]
    rows = [*('{"a": "2020-05-05"}' for _ in range(6)), *(f'{{"a": {value}}}' for value in nested)]
    path = write(tmp_path, "t.jsonl", "".join(f"{row}\n" for row in rows))
    assert pmw.read_table(path, domain, private=True).column("a").tolist() == [0] * 6 + [1] * 4


@pytest.mark.parametrize("formula", ["=A2*2", '=IF(A2>3, "old", "young")'])
def test_formulas_without_values_are_refused(formula, tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["age", "twice"], [31, formula], [4, 8]])
    with pytest.raises(ValueError, match=r"t[.]xlsx must hold the values of its formulas: open it"):
        propose(path)
    domain = pmw.Domain({"age": {"edges": [0, 120]}})
    with pytest.raises(ValueError, match=r"t[.]xlsx must hold the values of its formulas"):
        pmw.read_table(path, domain, private=True)


def test_a_workbook_whose_sheet_is_damaged_is_refused_in_one_line(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["age"], *([n] for n in range(99))])
    with zipfile.ZipFile(path) as packed:
        start = packed.getinfo("xl/worksheets/sheet1.xml").header_offset
    content = path.read_bytes()
    for place in range(start, start + 200):  # its header, and the first of its data
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        with contextlib.suppress(ValueError):
            pmw.read_table(path, pmw.Domain({"age": {"edges": [0, 120]}}), private=True)


@pytest.mark.parametrize("suffix", ["xlsx", "xlsb", "ods"])
@pytest.mark.parametrize(("private", "largest"), [(True, 2**31), (False, 2**20)])
def test_a_workbook_that_unpacks_to_too_much_is_refused_and_not_unpacked(
    private, largest, suffix, tmp_path, monkeypatch
):
    def unpack(*_):
        raise AssertionError

    path = workbook(tmp_path / "t.xlsx", [["age"], [31], [4]]).rename(tmp_path / f"t.{suffix}")
    size = 2**26 if largest == 2**31 else 2**21
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed, packed.open("more.xml", "w") as more:
        for _ in range(size // 2**20):
            more.write(bytes(2**20))
    assert path.stat().st_size < 2**17
    monkeypatch.setattr("privmw.io.workbook.LARGEST_WORKBOOK", largest)
    monkeypatch.setattr("python_calamine.CalamineWorkbook", SimpleNamespace(from_path=unpack))
    monkeypatch.setattr("zipfile.ZipFile.read", unpack)
    with pytest.raises(ValueError, match=rf"t[.]{suffix} must unpack to at most .*: save it as csv or parq"):
        pmw.read_table(path, pmw.Domain({"age": {"edges": [0, 99]}}), private=private)


def test_a_workbook_that_is_not_packed_has_no_such_bound(tmp_path):
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0 and more")
    with pytest.raises(ValueError, match="must be a workbook"):
        pmw.read_table(tmp_path / "t.xls", pmw.Domain({"age": 3}), private=True)


@pytest.mark.parametrize("rows", [[["Report"], ["age", "sex"]], [["Report"], [], ["age", "sex"]]])
def test_a_title_over_a_sheet_is_no_name(rows, tmp_path):
    path = workbook(tmp_path / "t.xlsx", [*rows, [31, "F"], [4, "M"]])
    with pytest.raises(ValueError, match="as a title does: --syntax skip=1 leaves it out"):
        propose(path)
    assert values_of(path, pmw.Syntax(skip=len(rows) - 1)) == {"age": [31, 4], "sex": ["F", "M"]}


WRONG_KIND = {
    "packed.csv": (gzip.compress(b"a,b\n1,2\n"), "it is packed: let its name end in .gz"),
    "zip.csv": (b"PK\x03\x04 and more", "it is a workbook, whose name ends in .xlsx, or a zip file"),
    "parquet.csv": (b"PAR1 and more", "it is parquet: let its name end in .parquet"),
}
DAMAGED = {  # what a public and a private file are told; None: it is a bad value of one record
    "latin.jsonl": (
        '{"a": "1"}\n{"a": "café"}\n'.encode("latin-1"),
        "must be JSON lines in UTF-8, one object a line",
        None,
    ),
    "open.csv": (
        'a,b\n1,"x\n2,y\n3,z\n',
        "must have its quotes in pairs",
        "must have every record on one line",
    ),
    "inside.csv": ('a,b\n1,"x\n2,"y\n3,z\n', "must have its quotes in pairs", "must have every record on"),
    "escaped.csv": ('a,b\n1,"an \\"x\\" here"\n2,y\n3,z\n', "must have its quotes in pairs", None),
    "open.csv.gz": (
        gzip.compress(b'a,b\n1,"x\n2,y\n'),
        "must have its quotes in pairs",
        "must have every record",
    ),
    "long.csv": ("a,b\n1,x\n1,x,3\n1,y\n", "each row as long as the header", None),
    "short.csv": ("a,b\n1,x\n1\n1,y\n", "each row as long as the header", None),
    "bytes.csv": (b"a,b\n1,x\n\xff\xfe\xfd,x\n1,y\n", "must be read with its encoding", None),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_damaged_in_one_record_is_refused_or_a_bad_value_of_it(name, tmp_path):
    content, public, private = DAMAGED[name]
    path = write(tmp_path, name, content)
    domain = pmw.Domain({"a": {"labels": ["1"], "other": "other"}})
    with pytest.raises(ValueError, match=public):
        pmw.read_table(path, domain, private=False)
    if private is None:
        table = pmw.read_table(path, domain, private=True)
        assert 1 in table.column("a")
    else:
        with pytest.raises(ValueError, match=private) as raised:
            pmw.read_table(path, domain, private=True)
        assert raised.value.__context__ is None


def test_a_blank_line_is_a_record_of_a_private_file(tmp_path):
    path = write(tmp_path, "t.csv", "a,b\n1,2\n\n3,4\n")
    domain = pmw.Domain({"a": {"labels": ["1", "3"], "missing": "N"}})
    assert pmw.read_table(path, domain, private=True).column("a").tolist() == [0, 2, 1]
    assert pmw.read_table(path, domain, private=False).column("a").tolist() == [0, 1]
    path = write(tmp_path, "t.jsonl", '{"a": 1}\n\n{"a": 3}\n')
    assert pmw.read_table(path, domain, private=True).column("a").tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match=r"column 'a' of kind text: every value .* and none missing"):
        pmw.read_table(path, pmw.Domain({"a": ["1", "3"]}), private=True)


def test_a_value_that_cannot_be_read_is_other_or_missing_where_that_is_declared(tmp_path):
    rows = "1.5,2020-01-31,x\n" * 5 + "1,5;,01/31/2020,x\n" + "one,01/31/2020,\n"
    path = write(tmp_path, "t.csv", "a,b,c\n" + rows)
    numbers, days = (
        {"edges": [0, 1, 2], "missing": "N"},
        {"edges": ["2020-01-01", "2021-01-01"], "other": "O"},
    )
    domain = pmw.Domain({"a": numbers, "b": days, "c": {"labels": ["x"], "missing": "N"}})
    table = pmw.read_table(path, domain, private=True)
    assert table.column("a").tolist() == [1, 1, 1, 1, 1, 2, 2]
    assert table.column("b").tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert table.column("c").tolist() == [0, 0, 0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"column 'a' has 1 value outside the domain \(first: 'one'"):
        pmw.read_table(write(tmp_path, "u.csv", "a\n1.5\none\n"), domain.project(["a"]), private=False)


@pytest.mark.parametrize(
    ("cells", "declared", "said"),
    [
        (
            ["1,5", "2,5"],
            {"edges": [0, 9], "missing": "N"},
            "written with a decimal point .--syntax decimal=... says",
        ),
        (
            ["31/01/2020"],
            {"edges": ["2020-01-01", "2021-01-01"], "missing": "N"},
            "written year first .--syntax dates",
        ),
    ],
)
def test_a_private_column_that_is_mostly_written_in_another_way_is_refused(cells, declared, said, tmp_path):
    path = write(tmp_path, "t.csv", "n;x\n" + "".join(f"1;{cell}\n" for cell in cells))
    domain = pmw.Domain({"x": declared}).with_syntax(pmw.Syntax(separator=";"))
    with pytest.raises(ValueError, match=f"column 'x': most of its values must be .*{said}") as raised:
        pmw.read_table(path, domain, private=True)
    assert not any(cell in str(raised.value) for cell in cells)
    right = pmw.Syntax(decimal=",", dates="dmy")
    assert pmw.read_table(path, domain, private=True, syntax=right).n == len(cells)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lines(";"), "--syntax separator=';'"),
        (lines("\t"), "--syntax separator=tab"),
        (codecs.BOM_UTF16_LE + lines().encode("utf-16-le"), "--syntax encoding=utf-16"),
        (
            codecs.BOM_UTF16_LE + lines(";").encode("utf-16-le"),
            "--syntax encoding=utf-16 --syntax separator=';'",
        ),
    ],
)
def test_the_header_of_a_private_file_tells_which_option_it_needs(content, said, tmp_path):
    _, domain = clean(tmp_path)
    path = write(tmp_path, "t.csv", content)
    for syntax in (None, pmw.Syntax(separator=",", encoding="utf-8")):
        told = re.escape(f"column 'job' is missing; say {said} for this file")
        with pytest.raises(ValueError, match=told) as raised:
            pmw.read_table(path, domain.with_syntax(syntax), private=True)
        assert not any(job in str(raised.value) for job in JOBS)
    headless = pmw.Syntax(header=False, names=NAMES)
    with pytest.raises(ValueError, match="column 'age'") as raised:
        pmw.read_table(path, domain.with_syntax(headless), private=True)
    assert "say --" not in str(raised.value)


def test_a_private_file_in_another_encoding_is_never_misread(tmp_path):
    jobs = pmw.Domain({"job": {"labels": sorted(set(JOBS)), "other": "other"}})
    path = write(tmp_path, "t.csv", lines().encode("latin-1"))
    found = pmw.read_table(path, jobs, private=True).column("job")
    assert [bool(code == 3) for code in found] == [job == "café owner" for job in JOBS]
    with pytest.raises(
        ValueError, match="column 'job' of kind text: every value must be one of its 3 labels"
    ):
        pmw.read_table(path, pmw.Domain({"job": sorted(set(JOBS))}), private=True)
    with pytest.raises(
        ValueError, match=r"must be in the encoding 'utf-16'; --syntax encoding=... names another"
    ):
        pmw.read_table(path, jobs, private=True, syntax=pmw.Syntax(encoding="utf-16"))


def test_a_private_file_without_a_header_must_be_told_its_columns(tmp_path):
    path = write(tmp_path, "t.csv", "1,F\n2,M\n")
    domain = pmw.Domain({"column 2": ["F", "M"]})
    with pytest.raises(ValueError, match=r'must be read with the names of its columns.*"[$]syntax"'):
        pmw.read_table(path, domain, private=True, syntax=pmw.Syntax(header=False))
    proposed = propose(path, syntax=pmw.Syntax(header=False)).domain
    assert proposed.syntax.names == ("column 1", "column 2")
    assert pmw.read_table(path, proposed, private=True).n == 2


def test_the_syntax_of_a_domain_is_read_and_edited_in_its_file(tmp_path):
    path = write(tmp_path, "public.csv", READ["thousands-de.csv"])
    text = pmw.Domain.from_public(path).to_json()
    assert text.splitlines()[1] == (
        '  "$syntax": {"separator": ";", "encoding": "utf-8", "header": true, "decimal": ",", '
        '"thousands": ".", "dates": "ymd", "skip": 0},'
    )
    domain = pmw.Domain.read(write(tmp_path, "domain.json", text.replace('";"', '"|"')))
    assert domain.syntax.separator == "|"
    assert domain.project(["age"]).syntax == domain.syntax
    assert domain == pmw.Domain.from_json(text)
    private = write(tmp_path, "private.csv", lines("|", income=lambda n: grouped(n, ".", ",")))
    assert pmw.read_table(private, domain, private=True).n == len(ROWS)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"seperator": ";"}, r"[$]syntax: key \('seperator'\) must be separator, encoding"),
        ({"encoding": "klingon"}, r"[$]syntax: encoding \('klingon'\) must be one that Python knows"),
        ({"encoding": "hex"}, r"[$]syntax: encoding \('hex'\) must be one that Python knows"),
        ({"thousands": ".", "decimal": "."}, r"[$]syntax: thousands \('.'\) must be marks such as"),
        (";", r"[$]syntax \(';'\) must be an object"),
    ],
)
def test_a_domain_with_a_wrong_syntax_is_refused(declared, said):
    with pytest.raises((TypeError, ValueError), match=said):
        pmw.Domain.from_json(json.dumps({"$syntax": declared, "age": 3}))


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("name", WRONG_KIND)
def test_a_file_that_is_not_what_it_seems_is_refused(name, private, tmp_path):
    content, said = WRONG_KIND[name]
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=said) as raised:
        pmw.read_table(path, pmw.Domain({"a": {"labels": ["1"], "other": "other"}}), private=private)
    assert str(raised.value).startswith(str(path))
    assert raised.value.__context__ is None


def test_a_quoted_value_may_have_lines_and_quotes_and_any_length(tmp_path):
    values = ["two\nlines", 'a "word"', "x" * 200_000]
    quoted = [chr(34) + value.replace(chr(34), chr(34) * 2) + chr(34) for value in values]
    path = write(tmp_path, "t.csv", "n;x\n" + "".join(f"{n};{text}\n" for n, text in enumerate(quoted)))
    assert values_of(path)["x"] == values


def test_text_that_is_no_utf8_is_left_out_of_a_proposal(tmp_path):
    data = [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xe9")]
    damaged = pa.Array.from_buffers(pa.string(), 1, data)
    proposal = propose(pa.table({"a": damaged, "b": ["x"]}))
    assert proposal.notes[0] == "column 'a' left out: damaged values cannot be coded"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["31/02/2020", "13/05/2021"], "'x' kept as text: some of its days do not exist"),
        (["13/01/20", "14/02/21"], "'x' kept as text: its years need four digits"),
        (["1", "−2", "3"], "'x' kept as text: '−2' is no number"),
        (["1", "none", "-", "4", "5"], "'x' kept as text: '-' is no number"),
        (["1", "2", "-"], "'-' taken as missing"),
    ],
)
def test_what_is_not_read_as_a_number_or_date_is_said(cells, said, tmp_path):
    path = write(tmp_path, "t.csv", "n,x\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells)))
    assert said in propose(path).notes[0]


def test_codes_with_leading_zeros_are_no_mistaken_numbers(tmp_path):
    path = write(tmp_path, "t.csv", "n,zip\n1,01234\n2,99999\n3,00501\n")
    assert "zip" not in propose(path).notes[0]


def test_days_without_marks_are_said_to_be_whole_numbers(tmp_path):
    path = write(tmp_path, "t.csv", "n,day\n" + "".join(f"{n},202601{n:02d}\n" for n in range(1, 31)))
    assert any("'day': its whole numbers look like days" in note for note in propose(path).notes)
    amounts = pa.table({"x": [20260131, 20261301]})
    assert not any("look like days" in note for note in propose(amounts).notes)


@pytest.mark.parametrize("rows", [20, 70])
def test_numbers_of_many_digits_are_labels_or_left_out(rows, tmp_path):
    numbers = [9 * 10**17 + n for n in range(rows)]
    path = write(tmp_path, "t.csv", "id,n\n" + "".join(f"{i},{n % 3}\n" for n, i in enumerate(numbers * 20)))
    proposal = propose(path)
    if rows > 64:
        assert "column 'id' left out: its numbers are too large to tell them apart in bins" in proposal.notes
    else:
        assert proposal.domain["id"].labels == tuple(numbers)
        assert (pmw.read_table(path, proposal.domain, private=True).column("id")[:20] == range(20)).all()


def test_marks_of_decimals_are_no_thousands_marks(tmp_path):
    path = write(tmp_path, "t.csv", 'a,b\n"0,234",1\n"2,345",2\n')
    assert propose(path).notes[0] == f"{path}: decimal comma"


def test_folders_in_a_folder_are_not_left_out_without_a_word(tmp_path):
    (tmp_path / "parts" / "2020").mkdir(parents=True)
    write(tmp_path / "parts", "a.csv", lines())
    with pytest.raises(ValueError, match="must hold files alone: '2020' is a folder, and would be left out"):
        propose(tmp_path / "parts")


def test_the_files_of_a_folder_are_written_as_the_first(tmp_path):
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", "a.csv", lines(rows=ROWS[:3]))
    write(tmp_path / "parts", "b.csv", lines(";", rows=ROWS[3:]))
    with pytest.raises(ValueError, match=r"b[.]csv: column 'age' is missing"):
        propose(tmp_path / "parts")


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_folder_of_csv_is_one_table(separator, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    number = comma if separator == ";" else str
    write(folder, "a.csv", lines(separator, income=number, rows=ROWS[:3]))
    write(folder, "b.csv", lines(separator, income=number, rows=ROWS[3:]))
    write(folder, "_notes.txt", "nothing")
    check_same(folder, tmp_path)


def test_a_folder_of_several_kinds_is_refused(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder, "a.csv", lines())
    feather(folder / "b.feather", typed(), "lz4")
    with pytest.raises(ValueError, match="must hold files of one kind, not feather and text"):
        propose(folder)


MEASURED = {
    "40 h": ("h", lambda n: f"{n} h"),
    "40h": ("h", lambda n: f"{n}h"),
    "12%": ("%", lambda n: f"{n}%"),
    "$5": ("$", lambda n: f"${n}"),
    "US$5": ("US$", lambda n: f"US${n}"),
    "EUR 5": ("EUR", lambda n: f"EUR {n}"),
}


@pytest.mark.parametrize("form", MEASURED)
def test_a_word_beside_every_number_is_its_measure(form, tmp_path):
    word, write_age = MEASURED[form]
    path = write(tmp_path, "t.csv", lines(age=write_age))
    proposal = propose(path)
    assert f"'age' in {word}" in proposal.notes[0]
    assert proposal.domain["age"].measured_in == word
    assert values_of(path)["age"] == AGES
    for private in (True, False):
        assert pmw.read_table(path, proposal.domain, private=private).n == 8
    other = write(tmp_path, "u.csv", lines(age=lambda n: f"{n} min"))
    with pytest.raises(ValueError, match=r"column 'age'.* must be"):
        pmw.read_table(other, proposal.domain, private=True)


def test_letters_right_before_numbers_make_codes(tmp_path):
    path = write(tmp_path, "t.csv", "quarter,n\n" + "".join(f"Q{n % 4 + 1},{n}\n" for n in range(20)))
    assert propose(path).domain["quarter"].labels == ("Q1", "Q2", "Q3", "Q4")


def test_several_words_beside_numbers_are_text(tmp_path):
    path = write(tmp_path, "t.csv", lines(age=lambda n: f"{n} {'h' if n > 30 else 'min'}"))
    assert propose(path).domain["age"].labels[0] == "17 min"


SEVERAL_DATES = "".join(f"{n},0{n}/0{n + 1}/2020\n" for n in range(1, 8))
POINTS = "".join(f"{n};{n}.{n}00\n" for n in range(1, 8))
MIXED = "n,x\n" + '1,"1,5"\n2,2.5\n' * 3
YEARS = "country,2019,2020\n" + "".join(f"c{n},{n},{n + 1}\n" for n in range(9))
BOTH = "a,b;c\n" + "1,2;3\n" * 5
# name -> bytes, what the refusal says, and for each way out a syntax and the values of a column.
REFUSED = {
    "dates.csv": (
        "n,day\n" + SEVERAL_DATES,
        r"column 'day' .*--syntax dates=dmy .* 3rd of April, dates=mdy as the 4th of March",
        [
            (pmw.Syntax(dates="dmy"), "day", datetime.date(2020, 2, 1)),
            (pmw.Syntax(dates="mdy"), "day", datetime.date(2020, 1, 2)),
        ],
    ),
    "dates-mixed.csv": (
        "n,day\n1,31/12/2020\n2,12/31/2020\n3,1/2/2020\n",
        r"column 'day' is written in two ways.*--syntax dates=dmy",
        [(pmw.Syntax(dates="dmy"), "day", "31/12/2020")],
    ),
    "points.csv": (
        "n;x\n" + POINTS,
        r"column 'x' .*--syntax decimal=\. .* decimal=,",
        [(pmw.Syntax(decimal="."), "x", 1.1), (pmw.Syntax(decimal=","), "x", 1100)],
    ),
    "points-tab.tsv": (
        "n\tx\n" + POINTS.replace(";", "\t"),
        r"column 'x' .*--syntax decimal=\. .* decimal=,",
        [(pmw.Syntax(decimal="."), "x", 1.1), (pmw.Syntax(decimal=","), "x", 1100)],
    ),
    "marks-mixed.csv": (
        MIXED,
        "column 'x' is written in two ways, and must be in one: --syntax decimal",
        [(pmw.Syntax(decimal="."), "x", "1,5")],
    ),
    "marks-of-two-columns.csv": (
        "a,b\n" + '1.5,"2,5"\n' * 2,
        "is written in two ways",
        [(pmw.Syntax(decimal="."), "a", 1.5), (pmw.Syntax(decimal=","), "b", 2.5)],
    ),
    "separators.csv": (
        BOTH,
        r"--syntax separator=',' \(2 columns\) or separator=';' \(2 columns\)",
        [(pmw.Syntax(separator=","), "a", 1), (pmw.Syntax(separator=";"), "c", 3)],
    ),
    "years.csv": (
        YEARS,
        "--syntax header=yes, if its first line names the columns, or with header=no",
        [(pmw.Syntax(header=True), "2019", 0), (pmw.Syntax(header=False), "column 2", 2019)],
    ),
    "numbers.csv": (
        "0,1\n3,4\n5,6\n",
        "--syntax header=yes, if its first line names the columns, or with header=no",
        [(pmw.Syntax(header=True), "0", 3), (pmw.Syntax(header=False), "column 1", 0)],
    ),
    "encodings.csv": (
        "n,town\n1,Zürich\n".encode() + "2,Köln\n".encode("latin-1"),
        "in one encoding: some of it is UTF-8 and some is not; --syntax encoding=latin-1",
        [(pmw.Syntax(encoding="latin-1"), "town", "ZÃ¼rich")],
    ),
    "cyrillic.csv": (
        "n,town\n1,Москва\n2,Казань\n".encode("cp1251"),
        r"\(not UTF-8\) must be read with its encoding: --syntax encoding=latin-1, or another \(.*cp1251\)",
        [(pmw.Syntax(encoding="cp1251"), "town", "Москва")],
    ),
    "blanks.csv": (
        "age sex\n" + "31 F\n4 M\n" * 3,
        r"--syntax separator=' ' \(2 columns\) or separator=',' \(1 column\)",
        [(pmw.Syntax(separator=" "), "age", 31), (pmw.Syntax(separator=","), "age sex", "31 F")],
    ),
    "colons.csv": (
        "age:sex\n" + "31:F\n4:M\n" * 3,
        r"--syntax separator=':' \(2 columns\) or separator=',' \(1 column\)",
        [(pmw.Syntax(separator=":"), "sex", "F")],
    ),
    "runs.txt": (
        "age  sex\n" + "31     F\n4     M\n" * 3,
        "must have one mark between its columns, not runs of blanks",
        [(pmw.Syntax(separator=","), "age  sex", "31     F")],
    ),
    "title.csv": (
        "Report,,\nage,sex,job\n" + "31,F,a\n4,M,b\n" * 3,
        "first line has one alone, as a title does: --syntax skip=1 leaves it out",
        [(pmw.Syntax(skip=1), "age", 31), (pmw.Syntax(header=True), "column 2", "sex")],
    ),
    "note.csv": (
        "Report of 2020\n\nage,sex\n31,F\n4,M\n",
        "each row as long as the header .*; --syntax skip=N leaves out lines at its top",
        [(pmw.Syntax(skip=1), "age", 31), (pmw.Syntax(skip=2), "age", 31)],
    ),
    "mac.csv": (
        "n,town\n1,Orléans\n2,Rome\n".encode("mac_roman"),
        "must be read with its encoding: .*mac_roman",
        [(pmw.Syntax(encoding="mac_roman"), "town", "Orléans")],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused_until_one_is_said(name, tmp_path):
    content, said, ways = REFUSED[name]
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=said) as raised:
        propose(path)
    assert str(raised.value).startswith(str(path))
    for syntax, column, first in ways:
        assert values_of(path, syntax)[column][0] == first
        assert propose(path, syntax=syntax).domain


@pytest.mark.parametrize(
    ("header", "said"),
    [(" Age ", "did you mean 'Age'"), ("AGE", "did you mean 'AGE'"), ("agee", "did you mean 'agee'")],
)
def test_a_header_that_is_nearly_right_is_suggested_if_it_is_public(header, said, tmp_path):
    path = write(tmp_path, "t.csv", f"{header},sex\n31,F\n")
    domain = pmw.Domain({"age": {"edges": [0, 120]}, "sex": ["F"]})
    with pytest.raises(ValueError, match=f"column 'age' is missing; {said}"):
        pmw.read_table(path, domain, private=False)
    with pytest.raises(ValueError, match="column 'age' is missing") as raised:
        pmw.read_table(path, domain, private=True)
    assert header.strip() not in str(raised.value)


def test_columns_of_a_private_file_that_the_domain_does_not_name_are_counted(tmp_path):
    path = write(tmp_path, "t.csv", "age,sex,secret1,secret2\n31,F,1,2\n")
    domain = pmw.Domain({"age": {"edges": [0, 120]}, "sex": ["F"]})
    for read in (pmw.read_table, pmw.scan_table):
        said = []
        read(path, domain, private=True, on_note=said.append)
        assert said == [f"{path}: left out: 2 columns that the domain does not name"]
    said = []
    frame = pa.table({"age": [31], "sex": ["F"], "secret": [1]})
    pmw.Table.from_frame(frame, domain, private=True, on_note=said.append)
    assert said == ["frame: left out: 1 column that the domain does not name"]


def test_a_column_without_a_name_gets_one(tmp_path):
    path = write(tmp_path, "t.csv", "," + lines().replace("\n", "\n0,", 8).removesuffix("0,"))
    assert PublicSource(path).names == ["column 1", *NAMES]


def test_there_are_forty_messy_files_and_more():
    assert len(READ) + len(NO_HEADER) + len(REFUSED) + len(MEASURED) >= 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"separator": ";;"}, r"separator \(';;'\) must be one character"),
        ({"separator": "a"}, r"separator \('a'\) must not be a part of values"),
        ({"encoding": "klingon"}, r"encoding \('klingon'\) must be one that Python knows"),
        ({"decimal": ";"}, r"decimal \(';'\) must be '.' or ','"),
        ({"dates": "dd/mm"}, r"dates \('dd/mm'\) must be 'ymd', 'dmy' or 'mdy'"),
        ({"header": "no"}, r"header \('no'\) must be True or False"),
        ({"decimal": 1}, r"decimal \(1\) must be a string"),
        ({"names": 2}, r"names \(2\) must be a list of strings"),
        ({"names": "age"}, r"names \('age'\) must be a list of strings"),
        ({"names": ["age", "age"]}, "names must be at least one, each only once"),
        ({"names": ["age"], "header": True}, "names must be for a file without a header"),
        ({"skip": -1}, r"skip \(-1\) must not be negative"),
        ({"skip": 1.0}, r"skip \(1.0\) must be an integer"),
    ],
)
def test_a_syntax_that_is_none_is_refused(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        pmw.Syntax(**given)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_names_and_skipped_lines_are_as_given(tmp_path, form, private):
    rows = [["a note", ""], ["31", "F"], ["4", "M"]]
    path = tmp_path / f"people.{form}"
    if form == "csv":
        path.write_text("".join(";".join(row) + "\n" for row in rows))
    else:
        pytest.importorskip("python_calamine")
        sheet = pytest.importorskip("openpyxl").Workbook()
        for row in rows:
            sheet.active.append(row)
        sheet.save(path)
    domain = pmw.Domain({"sex": ["F", "M"], "age": {"edges": [0, 18, 120]}})
    syntax = pmw.Syntax(names=["age", "sex"], skip=1)
    separator = ";" if private else None
    table = pmw.read_table(path, domain, private=private, syntax=replace(syntax, separator=separator))
    assert [table.column(name).tolist() for name in domain] == [[0, 1], [1, 0]]
    if private and form == "xlsx":  # its rows are as long as the longest
        return
    wider = pmw.Syntax(names=["age", "sex", "x"], skip=1, separator=separator)
    with pytest.raises(ValueError, match=r"must (have 3 columns, one for each name|be one of its 2 labels)"):
        pmw.read_table(path, domain, private=private, syntax=wider)
