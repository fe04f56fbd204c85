"""Whole columns against the rule, `Attribute.code` and `Attribute.parse`, value by value."""

import datetime
import math
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privmw.data.attribute import Attribute

pa = pytest.importorskip("pyarrow")

from marks.slow import examples  # noqa: E402
from privmw.io.encode import Encoder  # noqa: E402
from privmw.io.forms import plain_date  # noqa: E402

DATES = {"edges": ["1900-01-01", "1970-01-01", "2000-12-31"], "other": "else", "missing": -1}
DECLARED = [
    3,
    300,
    2**32 - 1,
    ["F", "M"],
    ["true", "false"],
    ["0", "01", "", "nan", "True"],
    [1, 2, 3],
    [-5, 0, 10**6, 2**53 + 1],
    [-(2**63), 2**63 - 1],
    {"labels": ["F", "M"], "other": "else", "missing": "N"},
    {"labels": ["F", "M"], "other": 7, "missing": 9},
    {"labels": ["true", "x"], "other": "else"},
    {"labels": [1, 2, 3], "other": -1, "missing": 0},
    {"labels": [1, 2, 3], "other": "true", "missing": "N"},
    {"labels": list(range(0, 5000, 7)), "missing": "N"},
    {"edges": [0, 10, 100]},
    {"edges": [-0.5, 0.1, 2**53, 1e300], "other": "else", "missing": 3},
    {"edges": [0, 10, 100], "other": 2**60, "missing": -(2**53)},
    {"edges": [0, 10, 100], "other": "true"},
    {"edges": ["1900-01-01", "1970-01-01", "2000-12-31"]},
    DATES,
]
attributes = st.sampled_from([Attribute.declare("a", declared) for declared in DECLARED])

near = [0, 1, 2, 3, 7, 9, 10, 100, 255, 299, 300, 5000, 10**6, 2**31, 2**32 - 2, 2**32 - 1, 2**53, 2**53 + 1]
near += [2**60, 2**63 - 1, 2**63, 2**64 - 1]
integers = st.sampled_from([*near, *(-value for value in near)]) | st.integers(-(2**63), 2**64 - 1)
floats = st.floats() | integers.map(float) | st.sampled_from([0.1, 2.5, 99.99999, 100.00001, 1e300, 1e301])
texts = st.sampled_from(
    ["F", "M", "N", "else", "true", "True", "TRUE", "false", "", "1", "01", "1.0", "+2", ".5"]
)
texts |= st.sampled_from(
    ["nan", "NaN", "inf", "-Infinity", "ınf", "1e3", "1e999", "0x1", "1_0", " 1", "1 ", "１"]
)
texts |= st.sampled_from(
    ["[0, 10)", "[10, 100]", "1970-01-01", "2000-12-31", "2001-01-01", "1970-02-30", "1970-1-1"]
)
texts |= st.sampled_from([str(value) for value in near]) | st.text(max_size=4) | floats.map(str)
days = st.dates() | st.sampled_from([datetime.date(1970, 1, 1), datetime.date(2000, 12, 31)])
moments = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1))
decimals = st.decimals(-(10**6), 10**6, places=3) | st.integers(-(10**6), 10**6).map(Decimal)


def within(kind):
    information = np.iinfo(kind.to_pandas_dtype())
    return integers.filter(lambda value: information.min <= value <= information.max)


INTEGERS = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int8(), pa.int16(), pa.int32(), pa.int64()]
COLUMNS = {
    **{kind: within(kind) for kind in INTEGERS},
    pa.float16(): (st.floats(width=16) | st.integers(-9, 2048).map(float)).map(np.float16),
    pa.float32(): st.floats(width=32) | st.integers(-9, 2**24).map(float),
    pa.float64(): floats,
    pa.bool_(): st.booleans(),
    pa.string(): texts,
    pa.large_string(): texts,
    pa.date32(): days,
    pa.date64(): days,
    pa.timestamp("s"): moments.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us"): moments,
    pa.timestamp("ns"): moments,
    pa.timestamp("us", "Asia/Tokyo"): moments,
    pa.decimal128(12, 3): decimals,
    pa.decimal128(38, 3): decimals,
    pa.decimal256(15, 3): decimals,
    pa.decimal256(50, 3): decimals,
    pa.decimal128(15, 15): st.decimals(-1, 1, places=15).filter(lambda value: abs(value) < 1),
    pa.null(): st.none(),
}


if hasattr(pa, "string_view"):
    COLUMNS[pa.string_view()] = texts
if hasattr(pa, "decimal32"):
    COLUMNS[pa.decimal32(9, 2)] = st.decimals(-(10**6), 10**6, places=2)
    COLUMNS[pa.decimal64(15, 9)] = st.decimals(-(10**5), 10**5, places=9)
    COLUMNS[pa.decimal64(18, 2)] = decimals.map(lambda value: round(value, 2))
PLAIN_ONLY = ("null", "string_view", "halffloat", "decimal32", "decimal64")  # to this Arrow


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(list(COLUMNS)))
    values = draw(st.lists(COLUMNS[kind] | st.none(), max_size=8))
    column = pa.array(values, kind)
    form = draw(st.sampled_from(["plain", "dictionary", "slice"]))
    if form == "dictionary" and str(kind).partition("(")[0] not in PLAIN_ONLY:
        return column.dictionary_encode(null_encoding=draw(st.sampled_from(["mask", "encode"])))
    return column.slice(1, 4) if form == "slice" else column


def by_the_rule(rule, values):
    """The codes, or the type of the first error, its row, and how many there are."""
    codes, errors = [], []
    for row, value in enumerate(values):
        try:
            codes.append(rule(value))
        except (TypeError, ValueError) as error:
            errors.append((row, type(error)))
    return codes, errors


def agrees(encoder, column, rule):
    codes, errors = by_the_rule(rule, column.to_pylist())
    found = encoder.codes(column)
    assert encoder.refused == len(errors)
    if not errors:
        encoder.check()
        assert found.tolist() == codes
        assert found.dtype == np.min_scalar_type(encoder.attribute.size - 1)
        return
    row, error = errors[0]
    what = "1 value" if len(errors) == 1 else f"{len(errors)} values"
    with pytest.raises(error, match=rf"^column 'a' has {what} outside the domain \(first: .*, row {row}\)"):
        encoder.check()


@examples(200, 1500)
def test_a_column_becomes_what_the_rule_says_value_by_value(examples):
    @settings(max_examples=examples)
    @given(attributes, columns())
    @example(Attribute.declare("a", [1, 2]), pa.array([2**64 - 1], pa.uint64()))
    @example(Attribute.declare("a", [-1, 2]), pa.array([2**64 - 1], pa.uint64()))
    @example(Attribute.declare("a", 3), pa.array([1, None], pa.uint8()))
    def check(attribute, column):
        agrees(Encoder(attribute), column, attribute.code)

    check()


def parsed(attribute, text):
    """What the text means; a day may be written 1970-1-1, and a number 1,234."""
    day = plain_date(text.strip(" \t\r\n"), "ymd")
    return attribute.parse(text if text in attribute.texts or day is None else day.isoformat())


@examples(100, 800)
def test_a_column_of_text_becomes_what_parsing_says_value_by_value(examples):
    @settings(max_examples=examples)
    @given(attributes, st.lists(texts, max_size=8))
    @example(
        Attribute.declare("a", [-(2**63), 2**63 - 1]), ["9223372036854775807", "9223372036854775806", "1e3"]
    )
    def check(attribute, values):
        agrees(Encoder(attribute, text=True), pa.array(values, pa.string()), partial(parsed, attribute))

    check()


@examples(60, 300)
def test_rows_and_refusals_add_up_over_columns(examples):
    @settings(max_examples=examples)
    @given(attributes, st.lists(columns(), min_size=2, max_size=3))
    def check(attribute, parts):
        encoder = Encoder(attribute)
        found = [code for part in parts for code in encoder.codes(part).tolist()]
        values = [value for part in parts for value in part.to_pylist()]
        codes, errors = by_the_rule(attribute.code, values)
        assert (encoder.rows, encoder.refused) == (len(values), len(errors))
        if errors:
            with pytest.raises(errors[0][1], match=f"row {errors[0][0]}"):
                encoder.check()
        else:
            assert found == codes

    check()


mends = {}


@settings(max_examples=300)
@given(attributes, columns())
def test_of_private_values_only_column_kind_and_rule_are_told(attribute, column):
    encoder = Encoder(attribute, private=True)
    encoder.codes(column)
    if encoder.refused:
        missing = ", and none missing" if not attribute.takes_missing else " or missing"
        with pytest.raises(ValueError, match="column") as raised:
            encoder.check()
        kind = str(raised.value).split("of kind ")[1].split(":")[0]
        assert kind in ("integer", "number", "string", "boolean", "date", "missing")
        expected = f"column 'a' of kind {kind}: every value must be {attribute.rule}{missing}; "
        assert str(raised.value).startswith(expected)
        mend = str(raised.value).removeprefix(expected)
        assert mend.startswith(("store the column as ", 'declare "a": {', "correct the file"))
        assert mend == mends.setdefault((attribute, kind), mend)  # whatever the values
        assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([{"secret": 1}]),
        pa.array([b"1"]),
        pa.array([b"1"], pa.binary(1)),
        pa.array([[("secret", 1)]], pa.map_(pa.string(), pa.int8())),
    ],
    ids=lambda column: str(column.type),
)
def test_kinds_that_no_attribute_has_are_refused_by_name_alone(column):
    with pytest.raises(TypeError, match=r"column 'a' of kind [a-z_0-9]+ must hold integers, numbers, text"):
        Encoder(Attribute.declare("a", 3)).codes(column)


def test_codes_that_fit_already_are_not_copied():
    for kind, size in ((np.uint8, 256), (np.uint16, 300), (np.uint32, 70_000)):
        column = pa.array(np.arange(5, dtype=kind))
        codes = Encoder(Attribute.declare("a", size)).codes(column)
        assert codes.dtype == kind
        assert np.shares_memory(codes, np.frombuffer(column.buffers()[1], kind))


def test_a_dictionary_entry_that_no_row_uses_may_be_anything():
    column = pa.DictionaryArray.from_arrays([0, 0], ["F", "unheard of"])
    encoder = Encoder(Attribute.declare("a", ["F", "M"]))
    assert encoder.codes(column).tolist() == [0, 0]
    encoder.check()


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("index", [2, 77, -1])
@pytest.mark.parametrize("entries", [["F", "M"], ["F", "M", "x", "y", "z"]])
def test_an_index_beyond_its_dictionary_is_refused_by_name_alone(entries, index, private):
    indices = pa.array([0, index if index < 0 else index + len(entries), None], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(entries), safe=False)
    with pytest.raises(ValueError, match=r"^column 'sex' of kind string must be one that Arrow can read$"):
        Encoder(Attribute.declare("sex", ["F", "M"]), private=private).codes(column)


def test_a_long_dictionary_of_a_short_column_is_not_looked_up_whole():
    column = pa.DictionaryArray.from_arrays(np.array([9_999, 3]), [str(i) for i in range(10_000)])
    encoder = Encoder(Attribute.declare("a", ["3", "9999"]))
    assert encoder.codes(column).tolist() == [1, 0]


def test_dates_beyond_python_and_broken_text_are_outside():
    attribute = Attribute.declare("a", DATES)
    far = pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
    assert Encoder(attribute).codes(far).tolist() == [2, 2]
    strict = Encoder(Attribute.declare("a", {"edges": ["1900-01-01", "2000-12-31"]}))
    strict.codes(far)
    with pytest.raises(
        ValueError, match=r"has 2 values outside the domain \(first: one that cannot be shown, row 0"
    ):
        strict.check()
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], "i4")), pa.py_buffer(b"\xff")]
    )
    for declared in (["F"], 3, {"edges": [0, 1]}, DATES):
        for text in (False, True):
            encoder = Encoder(Attribute.declare("a", declared), text=text)
            encoder.codes(broken)
            with pytest.raises((TypeError, ValueError), match="column 'a' has 1 value outside"):
                encoder.check()


def test_nanoseconds_of_a_timestamp_do_not_matter():
    column = pa.array(
        [np.datetime64("1969-12-31T23:59:59.999999999"), np.datetime64("1970-01-01T00:00:00.000000001")]
    )
    assert Encoder(Attribute.declare("a", DATES)).codes(column).tolist() == [0, 1]


def test_a_time_zone_that_nobody_knows_is_refused():
    column = pa.array([0], pa.timestamp("s", "Mars/Olympus"))
    with pytest.raises(ValueError, match="column 'a' of kind date must be one that Arrow can read"):
        Encoder(Attribute.declare("a", DATES)).codes(column)


def test_infinity_is_outside_every_bin():
    column = pa.array([math.inf, -math.inf, 5.0])
    assert Encoder(Attribute.declare("a", {"edges": [0, 10], "other": "else"})).codes(column).tolist() == [
        1,
        1,
        0,
    ]


def test_durations_and_times_are_numbers_of_seconds():
    attribute = Attribute.declare("a", {"edges": [0, 60, 3600, 90_000], "missing": "N"})
    values = [datetime.timedelta(seconds=59, microseconds=999_999), datetime.time(0, 1), None]
    durations = pa.array([values[0], datetime.timedelta(hours=25), None], pa.duration("us"))
    assert Encoder(attribute).codes(durations).tolist() == [0, 2, 3]
    assert Encoder(attribute).codes(pa.array([values[1], None], pa.time64("ns"))).tolist() == [1, 3]
    assert [attribute.code(value) for value in values] == [0, 1, 3]
