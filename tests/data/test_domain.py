import datetime
import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmw.data.domain import Attribute, Domain

SURVEY = {
    "age": 10,
    "sex": ["F", "M"],
    "rooms": {"labels": [1, 2, 3], "other": -1},
    "income": {"edges": [0, 10, 100], "missing": "N", "other": "else"},
    "born": {"edges": ["1900-01-01", "1950-01-01", "2000-12-31"], "missing": "unknown"},
}

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
edges = st.lists(
    st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9), min_size=2, max_size=6, unique=True
).map(sorted)
labels = st.lists(names, min_size=1, max_size=5, unique=True) | st.lists(
    st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5, unique=True
)
extras = st.fixed_dictionaries({}, optional={"other": st.just("other value"), "missing": st.just("no value")})
objects = st.one_of(
    st.builds(lambda values, more: {"labels": values, **more}, labels, extras),
    st.builds(lambda values, more: {"edges": values, **more}, edges, extras),
)
domains = st.dictionaries(names, st.integers(1, 2**32 - 1) | labels | objects, min_size=1, max_size=5).map(
    Domain
)
junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["labels", "edges", "other", "missing"]) | st.text(max_size=3), inner, max_size=3
        )
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=12,
)
fuzz = settings(derandomize=True, deadline=None, max_examples=200)


def test_a_domain_is_an_ordered_collection_of_named_attributes():
    domain = Domain(SURVEY)
    assert domain.names == ("age", "sex", "rooms", "income", "born")
    assert domain.sizes == (10, 2, 4, 4, 3)
    assert len(domain) == 5
    assert list(domain) == list(domain.names)
    assert "sex" in domain
    assert "sexe" not in domain
    assert [] not in domain
    assert domain.index("income") == 3
    assert domain["income"] is domain.attributes[3]
    assert domain.size == 10 * 2 * 4 * 4 * 3


def test_the_size_of_a_domain_may_exceed_64_bits():
    assert Domain({f"a{i}": 2**32 - 1 for i in range(5)}).size == (2**32 - 1) ** 5


def test_codes_number_labels_then_other_then_missing():
    income = Domain(SURVEY)["income"]
    assert [income.label(code) for code in range(4)] == ["[0, 10)", "[10, 100]", "else", "N"]
    rooms = Domain(SURVEY)["rooms"]
    assert [rooms.label(code) for code in range(4)] == [1, 2, 3, -1]
    assert [rooms.code(value) for value in (1, 3, -1, 17)] == [0, 2, 3, 3]


def test_bins_are_half_open_and_the_last_is_closed():
    for value, code in [
        (0, 0),
        (-0.0, 0),
        (9.999, 0),
        (10, 1),
        (10.0, 1),
        (99, 1),
        (100, 1),
        (100.0001, 2),
        (-1, 2),
        (math.inf, 2),
        (10**400, 2),
        (-(10**400), 2),
        (None, 3),
        (math.nan, 3),
        ("N", 3),
        ("else", 2),
        ("[0, 10)", 0),
        (np.float32(9.5), 0),
        (np.int8(10), 1),
        (np.float64("nan"), 3),
    ]:
        assert Domain(SURVEY)["income"].code(value) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("1900-01-01", 0),
        ("1949-12-31", 0),
        ("1950-01-01", 1),
        (datetime.date(2000, 12, 31), 1),
        (None, 2),
        (datetime.datetime(2000, 12, 31, 23, 59), 1),
        (np.datetime64("1950-01-01"), 1),
        ("unknown", 2),
    ],
)
def test_dates_fall_into_bins_of_whole_days(value, code):
    assert Domain(SURVEY)["born"].code(value) == code


def test_a_declared_missing_number_is_missing_even_inside_a_bin():
    age = Domain({"age": {"edges": [0, 50, 120], "missing": 99}})["age"]
    assert [age.code(value) for value in (98, 99, 99.0, 100)] == [1, 2, 2, 1]


def test_booleans_are_the_labels_true_and_false():
    flag = Domain({"flag": [False, True]})["flag"]
    assert flag.labels == ("false", "true")
    assert [flag.code(value) for value in (True, False, np.True_, "true")] == [1, 0, 1, 1]


def test_a_value_outside_its_attribute_is_refused():
    for name, value, error in [
        ("age", 10, ValueError),
        ("age", -1, ValueError),
        ("age", 1.5, TypeError),
        ("age", True, TypeError),
        ("age", "1", TypeError),
        ("age", None, ValueError),
        ("sex", "X", ValueError),
        ("sex", 0, TypeError),
        ("rooms", "1", TypeError),
        ("rooms", 1.5, TypeError),
        ("rooms", True, TypeError),
        ("income", "12", TypeError),
        ("income", True, TypeError),
        ("income", [], TypeError),
        ("born", "2001-01-01", ValueError),
        ("born", "1950-02-30", TypeError),
        ("born", 1950, TypeError),
        ("sex", np.zeros(2), TypeError),
    ]:
        with pytest.raises(error, match=f"attribute '{name}'"):
            Domain(SURVEY)[name].code(value)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("age", 3.0, 3),
        ("age", np.float32(3), 3),
        ("age", Fraction(6, 2), 3),
        ("age", Decimal("3.00"), 3),
        ("rooms", 2.0, 1),
        ("rooms", -1.0, 3),
        ("rooms", 1e300, 3),
        ("income", Decimal("9.99"), 0),
        ("income", Decimal("Infinity"), 2),
        ("income", Decimal("NaN"), 3),
        ("income", np.longdouble("nan"), 3),
    ],
)
def test_a_whole_number_is_an_integer_however_it_is_kept(name, value, code):
    assert Domain(SURVEY)[name].code(value) == code


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("age", {"3": 3, "03": 3, "+3": 3, "3.0": 3, "3e0": 3}),
        ("sex", {"F": 0, "M": 1}),
        ("rooms", {"1": 0, "1.0": 0, "-1": 3, "7": 3}),
        ("income", {"9.99": 0, "1e1": 1, "inf": 2, "-Infinity": 2, "nan": 3, "": 3, "N": 3, "[0, 10)": 0}),
        ("born", {"1950-01-01": 1, "unknown": 2, "": 2, "nan": 2, "?": 2, "[1900-01-01, 1950-01-01)": 0}),
    ],
)
def test_a_text_is_parsed_as_the_attribute_understands_it(name, codes):
    attribute = Domain(SURVEY)[name]
    assert {text: attribute.parse(text) for text in codes} == codes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("age", ""),
        ("age", "10"),
        ("age", "3.5"),
        ("age", "0x3"),
        ("age", "1_0"),
        ("age", "9" * 5000),
        ("sex", "f"),
        ("sex", ""),
        ("rooms", "one"),
        ("rooms", "2.5"),
        ("income", "much"),
        ("born", "2001-01-01"),
        ("born", "1950-02-30"),
        ("born", "1950"),
    ],
)
def test_a_text_outside_its_attribute_is_a_value_error(name, text):
    with pytest.raises(ValueError, match=f"attribute '{name}'"):
        Domain(SURVEY)[name].parse(text)


def test_only_text_is_parsed():
    for junk in (None, 3, b"3", ["3"]):
        with pytest.raises(TypeError, match="must be a string"):
            Domain(SURVEY)["age"].parse(junk)


def test_booleans_are_parsed_in_any_usual_spelling_and_labels_come_first():
    own = Attribute.declare("own", ["true", "false"])
    assert [own.parse(text) for text in ("true", "True", "FALSE")] == [0, 0, 1]
    odd = Attribute.declare("odd", {"labels": ["true", "True", ""], "missing": "N"})
    assert [odd.parse(text) for text in ("true", "True", "TRUE", "", "N")] == [0, 1, 0, 2, 3]
    assert Attribute.declare("one", {"labels": [1, 2], "other": "1"}).parse("1") == 0


@fuzz
@given(objects | st.integers(1, 100))
def test_what_label_says_parse_reads(declared):
    attribute = Attribute.declare("a", declared)
    for code in range(attribute.size):
        assert attribute.parse(str(attribute.label(code))) == code


@pytest.mark.parametrize(
    ("code", "error"), [(-1, ValueError), (4, ValueError), (True, TypeError), (1.0, TypeError)]
)
def test_a_code_outside_its_attribute_has_no_label(code, error):
    with pytest.raises(error, match="code"):
        Domain(SURVEY)["income"].label(code)


@fuzz
@given(domains)
def test_code_undoes_label(domain):
    for attribute in domain.attributes:
        for code in {0, attribute.size // 2, attribute.size - 1}:
            assert attribute.code(attribute.label(code)) == code


@fuzz
@given(domains)
def test_a_domain_survives_json_and_pickle(domain):
    for again in (Domain.from_json(domain.to_json()), pickle.loads(pickle.dumps(domain))):
        assert again == domain
        assert hash(again) == hash(domain)
        assert again.fingerprint() == domain.fingerprint()
        assert again.sizes == domain.sizes


def test_a_domain_survives_a_file(tmp_path):
    domain = Domain({**SURVEY, "ville": ["Orléans", "日本"]})
    domain.write(tmp_path / "domain.json")
    assert Domain.read(tmp_path / "domain.json") == domain
    assert Domain.read(str(tmp_path / "domain.json")) == domain
    assert Domain.read(json.loads(domain.to_json())) == domain
    assert "Orléans" in (tmp_path / "domain.json").read_text(encoding="utf-8")


def test_fingerprints_tell_domains_apart_and_do_not_drift():
    declared = [{"a": 2, "b": 3}, {"b": 3, "a": 2}, {"a": [0, 1], "b": 3}, {"a": ["0", "1"], "b": 3}]
    declared += [{"a": {"edges": [0, 1, 2]}, "b": 3}, {"a": {"edges": [0, 1], "other": "x"}, "b": 3}]
    declared += [{"a": {"edges": [0, 1], "missing": "x"}, "b": 3}]
    assert (
        len({Domain(d).fingerprint() for d in declared})
        == len({Domain(d) for d in declared})
        == len(declared)
    )
    assert (
        Domain({"a": {"edges": [0, 1.0]}}).fingerprint() == Domain({"a": {"edges": (0.0, 1)}}).fingerprint()
    )
    assert (
        Domain({"a": 2}).fingerprint() == "13fcc92bfc75e0fbca4871830c9fdf7919394ce2c107485906711c4a541b0f58"
    )


def test_numpy_numbers_and_arrays_declare_attributes_too():
    declared = {"a": np.int64(3), "b": np.array(["x", "y"]), "c": {"edges": np.linspace(0, 1, 3)}}
    assert Domain(declared) == Domain({"a": 3, "b": ["x", "y"], "c": {"edges": [0, 0.5, 1]}})


def test_project_keeps_the_named_attributes_in_the_named_order():
    assert Domain(SURVEY).project(["sex", "age"]) == Domain({"sex": ["F", "M"], "age": 10})


@pytest.mark.parametrize(
    ("named", "error"), [("age", TypeError), (3, TypeError), (["age", "age"], ValueError), ([], ValueError)]
)
def test_project_refuses_strings_repetition_and_nothing(named, error):
    with pytest.raises(error, match="must"):
        Domain(SURVEY).project(named)


def test_an_unknown_attribute_is_refused_with_the_nearest_name():
    for look in (
        Domain(SURVEY).index,
        Domain(SURVEY).__getitem__,
        lambda name: Domain(SURVEY).project([name]),
    ):
        with pytest.raises(ValueError, match="is not in the domain; did you mean 'income'"):
            look("incme")
        with pytest.raises(TypeError, match="must be a string"):
            look(3)


@pytest.mark.parametrize(
    ("declared", "error", "message"),
    [
        ({}, ValueError, r"attributes \(none\) must be at least one"),
        ([("a", 2)], TypeError, "must be a mapping"),
        ({3: 2}, TypeError, r"name \(3\) must be a string"),
        ({"a\ud800": 2}, ValueError, "UTF-8"),
        ({"a": 0}, ValueError, r"attribute 'a': size must be from 1 to 2\^32 - 1"),
        ({"a": -3}, ValueError, r"attribute 'a': size must be from 1 to 2\^32 - 1"),
        ({"a": 2**32}, ValueError, r"attribute 'a': size must be from 1 to 2\^32 - 1"),
        (
            {"a": True},
            TypeError,
            r"attribute 'a': size \(bool\) must be an integer, a list of labels or an object",
        ),
        (
            {"a": 2.0},
            TypeError,
            r"attribute 'a': size \(float\) must be an integer, a list of labels or an object",
        ),
        (
            {"a": None},
            TypeError,
            r"attribute 'a': size \(NoneType\) must be an integer, a list of labels or an object",
        ),
        (
            {"a": "FM"},
            TypeError,
            r"attribute 'a': size \(str\) must be an integer, a list of labels or an object",
        ),
        ({"a": {"F", "M"}}, TypeError, "must be an integer, a list of labels"),
        ({"a": []}, ValueError, "at least 1"),
        ({"a": ["F", "M", "F"]}, ValueError, r"attribute 'a': labels\[0\] must be given only once"),
        ({"a": ["true", True]}, ValueError, "only once"),
        ({"a": ["F", 1]}, TypeError, "all strings or all integers"),
        (
            {"a": [0.5, 1.5]},
            TypeError,
            r"attribute 'a': labels\[0\] \(float\) must be a string or an integer",
        ),
        ({"a": [2**63]}, ValueError, "64 bits"),
        (
            {"a": {"size": 3}},
            ValueError,
            "attribute 'a': keys must be labels, edges, open, measured_in, other or missing",
        ),
        ({"a": {"other": "x"}}, ValueError, "either labels or edges"),
        ({"a": {"labels": ["x"], "edges": [0, 1]}}, ValueError, "either labels or edges"),
        ({"a": {"labels": "xy"}}, TypeError, "must be a list"),
        (
            {"a": {"labels": ["x"], "missing": "x"}},
            ValueError,
            r"attribute 'a': labels\[0\] must be given only once",
        ),
        ({"a": {"labels": ["x"], "other": "y", "missing": "y"}}, ValueError, "only once"),
        (
            {"a": {"labels": ["x"], "other": 0.5}},
            TypeError,
            r"attribute 'a': other \(float\) must be a string or an integer",
        ),
        ({"a": {"edges": [0]}}, ValueError, "at least 2"),
        ({"a": {"edges": [0, 2, 1]}}, ValueError, "must increase"),
        ({"a": {"edges": [0, 1, 1.0]}}, ValueError, "must increase"),
        ({"a": {"edges": [0, math.inf]}}, ValueError, "must be finite"),
        ({"a": {"edges": [math.nan, 1]}}, ValueError, "must be finite"),
        ({"a": {"edges": [0, 10**400]}}, ValueError, "must be finite"),
        (
            {"a": {"edges": [0, "x"]}},
            TypeError,
            r"attribute 'a': edges\[1\] \(str\) must be a number or a date YYYY-MM-DD",
        ),
        (
            {"a": {"edges": [0, True]}},
            TypeError,
            r"attribute 'a': edges\[1\] \(bool\) must be a number or a date YYYY-MM-DD",
        ),
        ({"a": {"edges": [0, "2020-01-01"]}}, TypeError, "all numbers or all dates"),
        ({"a": {"edges": ["2020-01-01", "2019-01-01"]}}, ValueError, "must increase"),
        (
            {"a": {"edges": ["2020-01-01", "2020-02-30"]}},
            TypeError,
            r"attribute 'a': edges\[1\] \(str\) must be a number or a date YYYY-MM-DD",
        ),
    ],
)
def test_a_bad_declaration_is_refused_by_name(declared, error, message):
    with pytest.raises(error, match=message):
        Domain(declared)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (b'{"a": 2, "a": 3}', ValueError, r"key \('a'\) must be given only once"),
        (b'{"a": {"labels": ["x"], "labels": ["y"]}}', ValueError, "only once"),
        (b"[1, 2]", TypeError, "JSON object"),
        (b'{"a": 2', ValueError, "delimiter"),
        (b"", ValueError, "Expecting value"),
        (b'{"a": ["\xff"]}', ValueError, "utf-8"),
        (b'{"a": {"edges": [0, Infinity]}}', ValueError, "finite"),
        (b'{"a":' * 100_000, ValueError, "nested|Expecting"),
        (b'{"a": 1e3}', TypeError, "must be an integer"),
    ],
)
def test_a_bad_file_is_refused_with_its_path(tmp_path, text, error, message):
    (tmp_path / "bad.json").write_bytes(text)
    with pytest.raises(error, match=rf"bad\.json: .*({message})"):
        Domain.read(tmp_path / "bad.json")


def test_reading_refuses_what_is_no_path_and_says_when_a_file_is_not_there(tmp_path):
    with pytest.raises(TypeError, match="path or a mapping"):
        Domain.read(3)
    with pytest.raises(FileNotFoundError):
        Domain.read(tmp_path / "none.json")


@fuzz
@given(st.dictionaries(st.text(max_size=3) | st.integers(), junk, max_size=3) | junk)
def test_no_declaration_does_worse_than_a_type_or_value_error(declared):
    try:
        domain = Domain(declared)
    except (TypeError, ValueError):
        return
    assert Domain.from_json(domain.to_json()) == domain


@fuzz
@given(domains, junk)
def test_no_value_does_worse_than_a_type_or_value_error(domain, value):
    for attribute in domain.attributes:
        try:
            code = attribute.code(value)
        except (TypeError, ValueError):
            continue
        assert type(code) is int
        assert 0 <= code < attribute.size


@fuzz
@given(st.text(st.sampled_from('{}[]",:0123ae. \\u'), max_size=30))
def test_no_text_does_worse_than_a_type_or_value_error(text):
    try:
        Domain.from_json(text)
    except (TypeError, ValueError):
        return


def test_reprs_and_messages_stay_short():
    domain = Domain({"x" * 10_000 + str(i): ["y" * 10_000, "z"] for i in range(50)})
    assert len(repr(domain)) < 200
    assert len(repr(domain.attributes[0])) < 100
    with pytest.raises(ValueError, match="not in the domain") as unknown:
        domain.index("w" * 10_000)
    assert len(str(unknown.value)) < 200
    assert repr(Domain({"age": 10, "sex": ["F", "M"]})) == "Domain(age: 10, sex: 2)"


def test_attributes_and_domains_cannot_be_changed():
    domain = Domain(SURVEY)
    with pytest.raises(AttributeError):
        domain.size = 3
    with pytest.raises(AttributeError):
        domain["age"].size = 3
    assert isinstance(domain["age"], Attribute)
