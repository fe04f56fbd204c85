"""No record decides how another one is read: private files that differ in one record, or in one unit.

Files of every format are drawn, with any separator, encoding, mark and order of dates; then one record, or
all records of one unit, become anything at all. Either one of the two files is refused, or all other records
have the same codes and the same of them enter. The draws are fixed by their seeds. Power: with each of the
planted readers, which look at private files as earlier ones did, the same check finds records that move.
"""

import codecs
import csv
import datetime
import gzip
import io
import itertools
import json
import math
import re
import zlib
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.json as arrow_json  # noqa: E402
import pyarrow.parquet as parquet  # noqa: E402

import privmw as pmw  # noqa: E402
from privmw.io import lines, scan  # noqa: E402

ATTRIBUTES = {
    "sex": {"labels": ["F", "M", "é", "£", "Â£"], "other": "other"},
    "age": {"edges": [0, 18, 65, 120], "open": True, "missing": "N"},
    "wage": {"edges": [0, 2, 1000, 5000], "other": "O", "missing": "N"},
    "born": {"edges": ["1990-01-01", "2020-03-15", "2020-05-01", "2030-01-01"], "open": True, "missing": "N"},
    "code": {"labels": [1, 2, 3], "other": -1},
    "note": {
        "labels": ["a;b", "x,y", 'say "x"', "2020-01-31", "true", "1"],
        "other": "other",
        "missing": "N",
    },
}
COLUMNS = ("house", "free", *ATTRIBUTES)
WEIRD = [
    *('"', '""', '"x', 'x"', '"a"b', "x,y", "a;b", "|", "\t", " F ", "'F", "=1+1", "\\", '\\"', "", " ", "-"),
    *("1,234", "1.234", "1.5", "1,5", "1 234", "1'234", "-7", "+3", "1e3", "nan", "inf", "N", "?", "NULL"),
    *("03/04/2020", "13/04/2020", "04/13/2020", "13.04.2020", "2020-02-30", "2020-04-13", "4 Mar 2020"),
    *(
        "F",
        "M",
        "é",
        "caf\ufffd",
        "£",
        "Â£",
        "é",
        "𝔘",
        "\ufeffF",
        "\x00",
        "\x0b",
        "\x1c",
        "\x85",
        "\u2028",
        "\x1a",
    ),
    *("true", "TRUE", "1", "2.0", "3", "01", "sep=;", "x" * 300, "{", "[1]", "null", "ａ"),
]
TELLING = {  # cells that would tell a reader how their column is written
    "sex": ["é", "£", "Â£", "𝔘"],
    "wage": ["1,234", "1.234", "1.5", "1,5", "1 234", "1'234"],
    "born": ["13/04/2020", "04/13/2020", "12/31/1999", "31/12/1999"],
}
ENCODINGS = (
    "utf-8",
    "utf-8",
    "utf-8",
    "latin-1",
    "latin-1",
    "cp1252",
    "utf-16",
    "utf-32-le",
    "shift_jis",
    "gb18030",
)
ONE_BYTE = (
    "utf-8",
    "latin-1",
    "cp1252",
)  # whose line break is a byte, so that a record is any bytes but that
TEXT = ("csv", "csv", "csv", "csv.gz", "tsv", "jsonl")


class Draw:
    """One drawn table: a syntax, records as rows of text, and how they are written."""

    def __init__(self, seed, kind):
        self.rng = np.random.default_rng(seed)
        self.kind = kind
        self.units = bool(self.rng.integers(2))
        self.at_most = int(self.rng.integers(1, 4))
        decimal = str(self.rng.choice([".", ","]))
        header = bool(self.rng.random() < 0.8)
        self.syntax = pmw.Syntax(
            separator="\t" if kind == "tsv" else str(self.rng.choice([",", ",", ";", "|", "\t"])),
            encoding=str(self.rng.choice(ENCODINGS)),
            decimal=decimal,
            thousands=str(self.rng.choice(["", ",", ".", " ", "'"])).replace(decimal, ""),
            dates=str(self.rng.choice(["ymd", "dmy", "dmy", "mdy"])),
            names=None if header else list(COLUMNS),
            header=header,
            skip=int(self.rng.random() < 0.2),
        )
        self.domain = pmw.Domain(ATTRIBUTES).with_syntax(self.syntax)
        self.quoting = csv.QUOTE_ALL if self.rng.random() < 0.3 else csv.QUOTE_MINIMAL
        self.notes = self.pick([["a;b", "x,y", 'say "x"', "2020-01-31", "true", "1", ""], ["2020-01-31"]])
        # Near the edges of bins, days of 2020 mean another bin with day and month exchanged.
        self.years = self.pick([(1985, 2025), (2020, 2021), (2020, 2021)])
        self.last_day = self.pick([12, 12, 28])
        n = int(self.rng.integers(6, 14))
        self.houses = [f"h{house}" for house in self.rng.integers(0, 3, n)]
        self.rows = [self.proper(house) for house in self.houses]

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def proper(self, house):
        """A record that fits, nearly always."""
        year, month, day = (
            int(self.rng.integers(low, high)) for low, high in (self.years, (1, 13), (1, self.last_day + 1))
        )
        order = {
            "ymd": (f"{year}", f"{month:02}", f"{day:02}"),
            "dmy": (day, month, year),
            "mdy": (month, day, year),
        }
        mark = "-" if self.syntax.dates == "ymd" else "/"
        wage = f"{self.rng.integers(0, 4000)}.{self.rng.integers(1, 9)}".replace(".", self.syntax.decimal)
        values = {
            "sex": self.pick(["F", "M", "F", "£", "Â£", "x"]),
            "age": str(self.rng.integers(0, 99)),
            "wage": wage,
            "born": mark.join(map(str, order[self.syntax.dates])),
            "code": str(self.rng.integers(1, 5)),
            "note": self.pick(self.notes),
        }
        if self.rng.random() < 0.05:
            values[self.pick(list(values))] = self.pick(WEIRD)
        return [house, self.pick(["", "free", *WEIRD]), *values.values()]

    def strange(self, house):
        """A record that is anything: cells of any kind, in the right number."""
        return [house, *(self.pick(WEIRD) if self.rng.random() < 0.7 else c for c in self.proper(house)[1:])]

    def encoded(self, text):
        """Text in the encoding of the file, without a mark at its start."""
        encoding = "utf-8" if self.kind == "jsonl" else self.syntax.encoding.replace("utf-16", "utf-16-le")
        return text.encode(encoding, "replace")

    def line(self, row):
        """A record as it should be written, without line breaks."""
        if self.kind == "jsonl":
            cells = dict(zip(COLUMNS, row, strict=True))
            cells["age"] = int(cells["age"]) if cells["age"].isdecimal() else cells["age"]
            return json.dumps(cells, ensure_ascii=False)
        text = io.StringIO()
        csv.writer(text, delimiter=self.syntax.separator, quoting=self.quoting, lineterminator="").writerow(
            row
        )
        return text.getvalue()

    def changed_line(self, house):
        """A line of any kind, in bytes; it never has a line break, which would make two of it."""
        way = self.rng.random()
        if way < 0.25:
            return self.encoded(self.line(self.strange(house)))
        if way < 0.55:  # one cell alone
            row = self.proper(house)
            name = self.pick(COLUMNS[1:] if way < 0.3 else [*TELLING])
            row[COLUMNS.index(name)] = self.pick(WEIRD if way < 0.3 else TELLING[name])
            return self.encoded(self.line(row))
        if way < 0.75 or self.kind == "jsonl":
            cells = self.strange(house)[: int(self.rng.integers(1, 12))]
            loose = self.syntax.separator.join(
                [*cells, *map(self.pick, [WEIRD] * int(self.rng.integers(0, 2)))]
            )
            return self.encoded(
                loose if self.kind != "jsonl" or way < 0.6 else '{"age": 1.5, "age": [' + loose
            )
        if way < 0.8:
            return b""
        if self.syntax.encoding not in ONE_BYTE:
            return self.encoded(self.pick(WEIRD))
        start = self.encoded(house + self.syntax.separator) if self.rng.random() < 0.7 else b""
        noise = self.rng.integers(0, 256, int(self.rng.integers(1, 60)), np.uint8).tobytes()
        marks = b"".join(
            self.pick([b'"', b",", b";", b"\xc3", b"\xff", b"\x80", b"\xef\xbb\xbf"]) for _ in range(6)
        )
        return start + self.pick([noise, marks, noise + marks])

    def write(self, path, changed):
        """The file, with other contents in the places of `changed`."""
        if self.kind in ("parquet", "feather", "xlsx"):
            self.write_typed(path, changed)
            return
        skipped = [self.encoded("a title")] * self.syntax.skip if self.kind != "jsonl" else []
        named = self.syntax.header and self.kind != "jsonl"
        header = [self.encoded(self.line(COLUMNS))] if named else []
        body = [changed.get(place, self.encoded(self.line(row))) for place, row in enumerate(self.rows)]
        if len(self.encoded("\n")) == 1:
            body = [line.replace(b"\r", b"r").replace(b"\n", b"n") for line in body]
        content = b"".join(line + self.encoded("\n") for line in [*skipped, *header, *body])
        content = (codecs.BOM_UTF16_LE if self.syntax.encoding == "utf-16" else b"") + content
        path.write_bytes(gzip.compress(content) if self.kind.endswith("gz") else content)

    def write_typed(self, path, changed):
        rows = [changed.get(place, row) for place, row in enumerate(self.rows)]
        if self.kind == "xlsx":
            sheet = pytest.importorskip("openpyxl").Workbook()
            titles = [["a title"]] * self.syntax.skip
            for row in [*titles, *([COLUMNS] if self.syntax.header else []), *rows]:
                cells = (str(cell).translate(dict.fromkeys([0, 11, 26, 28])) for cell in row)
                sheet.active.append([cell if cell[:1] != "=" else f"'{cell}" for cell in cells])
            sheet.save(path)
            return
        columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
        columns["age"] = [float(age) if age.isdigit() else None for age in columns["age"]]
        columns["code"] = [int(code) if code.isdigit() else None for code in columns["code"]]
        columns["wage"] = [float(len(free)) for free in columns["free"]]
        columns["born"] = [born if len(born) == 10 and born[4] == "-" else None for born in columns["born"]]
        types = {"age": pa.float64(), "wage": pa.float64(), "code": pa.int64()}
        table = pa.table(columns, pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS]))
        write = parquet.write_table if self.kind == "parquet" else feather.write_feather
        write(table, str(path))

    def change(self, place):
        if self.kind in ("parquet", "feather", "xlsx"):
            return self.strange(self.houses[place])
        return self.changed_line(self.houses[place])

    def read(self, path):
        """Which records enter, and the codes of those; None if the file is refused."""
        try:
            if not self.units:
                codes = pmw.read_table(path, self.domain, private=True).codes()
                return np.ones(len(codes), bool), codes.astype(int)
            table = pmw.scan_table(path, self.domain, private=True, unit="house", at_most=self.at_most)
            codes = np.concatenate([batch.codes() for batch in table.batches()])
            return table._enters, codes.astype(int)
        except (TypeError, ValueError):
            return None


def others(read, changed):
    """Whether each other record enters, and the codes of those that do."""
    enters, codes = read
    kept = np.ones(len(enters), bool)
    kept[list(changed)] = False
    return len(enters), enters[kept].tolist(), codes[kept[enters]].tolist()


def check_pairs(seeds, kinds, folder, variants=12):
    """The number of pairs in which another record moved, of pairs that were both read, and of all pairs.

    All files of a draw differ in the same record or unit alone: any two of them are a pair.
    """
    moved = both = pairs = 0
    for seed, (number, kind) in itertools.product(seeds, enumerate(kinds)):
        draw = Draw([seed, number, sum(map(ord, kind))], kind)
        path = folder / f"t.{kind}"
        house = draw.pick(draw.houses)
        places = [p for p, h in enumerate(draw.houses) if h == house]
        places = places if draw.units else [draw.pick(places)]
        read = []
        for variant in range(variants + 1):
            draw.write(path, {place: draw.change(place) for place in places if variant})
            read.append(draw.read(path))
        accepted = [others(each, places) for each in read if each is not None]
        moved += sum(one != two for one, two in itertools.combinations(accepted, 2))
        both += math.comb(len(accepted), 2)
        pairs += math.comb(len(read), 2)
    return moved, both, pairs


@pytest.mark.parametrize("kinds", [TEXT, ("xlsx",), ("parquet", "feather")], ids=["text", "sheet", "typed"])
def test_a_changed_record_moves_no_other(kinds, tmp_path):
    if kinds == ("xlsx",):
        pytest.importorskip("python_calamine")
    moved, both, pairs = check_pairs(range(5), kinds, tmp_path, variants=6)
    assert moved == 0
    assert both * 4 >= pairs >= 100


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_a_changed_record_moves_no_other_in_20000_pairs(part, tmp_path):
    pytest.importorskip("python_calamine")
    seeds = range(1000 * (part + 1), 1000 * (part + 1) + 4)
    moved, both, pairs = check_pairs(seeds, TEXT, tmp_path)
    for kinds in (("parquet", "feather"), ("xlsx",)):
        more = check_pairs(seeds[:1], kinds, tmp_path)
        moved, both, pairs = moved + more[0], both + more[1], pairs + more[2]
    assert pairs >= 2000
    assert moved == 0
    assert both * 4 >= pairs


def detected_encoding(path, domain, private, given):
    """A reader that takes the encoding that fits all records."""
    known = scan_syntax(path, domain, private, given)[0]
    if known.encoding not in ONE_BYTE:
        return known, []
    try:
        path_text(path).decode("utf-8")
    except UnicodeDecodeError:
        return replace(known, encoding="latin-1"), []
    return replace(known, encoding="utf-8"), []


def detected_dates(path, domain, private, given):
    """A reader that takes the month first as soon as a record tells it."""
    known = scan_syntax(path, domain, private, given)[0]
    told = re.search(rb"\b[0-9]{1,2}/(1[3-9]|2[0-9]|3[01])/[0-9]{4}", path_text(path))
    return (replace(known, dates="mdy") if told else known), []


def keyed_by_records(self, reads, *settings, **options):
    """A reader that chooses records of units by a key made of the file: any unit alters the choice."""
    hashes = open_scan(self, reads, *settings, **options)
    return hashes ^ np.uint64(zlib.crc32(path_text(reads[0][0])))


def path_text(path):
    with open(path, "rb") as file:
        return file.read()


def typed_json(file, names, decimal, *, private):
    """A reader of JSON lines whose types all records decide."""
    table = arrow_json.read_json(file)
    yield [["" if v is None else str(v) for v in table.column(name).to_pylist()] for name in names]


scan_syntax, open_scan = scan._syntax, scan.Scan._open


@pytest.mark.parametrize("kind", ["encoding", "dates", "types of JSON", "choice among units"])
def test_a_reader_that_looks_at_private_files_is_found(kind, tmp_path, monkeypatch):
    if kind == "types of JSON":
        monkeypatch.setattr(lines, "read_json_lines", typed_json)
    elif kind == "choice among units":
        monkeypatch.setattr(scan.Scan, "_open", keyed_by_records)
    else:
        monkeypatch.setattr(scan, "_syntax", detected_dates if kind == "dates" else detected_encoding)
    moved = check_pairs(range(30), ["jsonl" if kind == "types of JSON" else "csv"], tmp_path)[0]
    assert moved >= 3


def test_a_quote_that_is_not_closed_reaches_no_other_line(tmp_path, monkeypatch):
    """The quote of the changed record would end at that of the third, and take the second one in."""
    domain, path = pmw.Domain({"a": {"labels": ["1", "2", "3"], "other": "O"}}), tmp_path / "t.csv"
    path.write_text('a,b,c\n1,"\n2,x,y\n3,y,",x"\n')
    with pytest.raises(ValueError, match="must have every record on one line"):
        pmw.read_table(path, domain, private=True)
    monkeypatch.setattr(lines, "clean_lines", lambda block, separator, width: block)
    assert pmw.read_table(path, domain, private=True).n == 1  # without an error


BIG = 2**53
EAST, WEST = (datetime.timezone(datetime.timedelta(hours=hours)) for hours in (14, -11))
MIDNIGHT = datetime.datetime(2020, 1, 1, 23, 30)
FRAMED = {  # a declaration, with the values of the other records
    "integers beyond 2^53": ({"labels": [1, BIG, BIG + 1, -BIG - 1], "other": -1}, [1, BIG, BIG + 1, 3]),
    "booleans": ({"labels": ["true", "false"], "other": "o"}, [True, False, True, True]),
    "booleans in capitals": ({"labels": ["TRUE", "FALSE"], "other": "o"}, [True, False, True, True]),
    "times": ({"edges": ["1990-01-01", "2020-01-02", "2030-01-01"], "open": True}, [MIDNIGHT] * 4),
    "times with zones": (
        {"edges": ["1990-01-01", "2020-01-02", "2030-01-01"], "open": True},
        [MIDNIGHT.replace(tzinfo=WEST)] * 4,
    ),
    "days": ({"edges": ["1990-01-01", "2020-01-02", "2030-01-01"], "open": True}, [MIDNIGHT.date()] * 4),
    "words": ({"labels": ["1", "a", "true"], "other": "o"}, ["1", "a", "true", "zz"]),
    "numbers": ({"edges": [0, 2, BIG, BIG + 2], "open": True}, [1, BIG, BIG + 1, 1.5]),
    "durations": (
        {"edges": [0, 2, 18, BIG], "open": True},
        [datetime.timedelta(seconds=1.5), np.timedelta64(1_999_999_999, "ns")],
    ),
}
ANYTHING = [
    *(None, float("nan"), 1, -1, 1.5, float(BIG), BIG + 1, 2**63, 10**30, True, False, "1", "a", "", "true"),
    *("nan", "2020-01-02", MIDNIGHT, MIDNIGHT.date(), datetime.datetime(9999, 1, 1), b"a", [1], 1j),
    *(MIDNIGHT.replace(tzinfo=EAST), MIDNIGHT.replace(tzinfo=WEST), Decimal("2.5"), Decimal("1e25")),
    *(datetime.time(1, 2), datetime.timedelta(1), np.timedelta64(1, "s"), np.datetime64("2020-01-01", "s")),
]
FRAMES = {
    "inferred": lambda pandas, values: pandas.DataFrame({"a": values}),
    "objects": lambda pandas, values: pandas.DataFrame({"a": pandas.Series(values, dtype=object)}),
    "categories": lambda pandas, values: pandas.DataFrame({"a": pandas.Series(values, dtype="category")}),
    "of csv": lambda pandas, values: pandas.read_csv(
        io.StringIO(pandas.DataFrame({"a": values}).to_csv(index=False))
    ),
}


@pytest.mark.parametrize("made", FRAMES)
def test_a_record_that_changes_the_type_of_its_column_moves_no_other(made):
    """pandas decides the type of a column by all records; the codes of the others must not change with it."""
    pandas = pytest.importorskip("pandas")
    both = 0
    for declared, others in FRAMED.values():
        domain = pmw.Domain({"a": {**declared, "missing": "N"}})
        read = []
        for place, value in itertools.product((0, len(others)), ANYTHING):
            rows = [*others[:place], value, *others[place:]]
            with suppress(TypeError, ValueError, OverflowError):  # pandas or the table refuses
                frame = FRAMES[made](pandas, rows)
                codes = pmw.Table.from_frame(frame, domain, private=True).codes().ravel().tolist()
                read.append(codes[:place] + codes[place + 1 :])
        assert all(codes == read[0] for codes in read)
        both += len(read)
    assert both >= 60
