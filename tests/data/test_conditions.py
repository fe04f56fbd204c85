"""Conditions on one attribute: which codes they mean, and what is refused."""

import datetime

import numpy as np
import pytest

import privmw as pmw
from privmw.data.conditions import condition_on, joined, ordered_values, read_query

DOMAIN = pmw.Domain(
    {
        "age": 100,
        "income": {"edges": [0, 10, 20, 50], "missing": "none"},
        "wealth": {"edges": [0, 10, 20, 50], "open": True},
        "born": {"edges": ["1950-01-01", "1980-01-01", "2000-01-01", "2020-01-01"]},
        "rooms": {"labels": [1, 2, 5], "other": "more"},
        "grade": ["10", "2", "7"],
        "class": ["<=50K", ">50K"],
        "job": ["clerk", "a, b", "x|y"],
        "years": {"labels": ["Under 1 year", "1 year", "17 years", "65 years and over"], "missing": "N"},
    }
)


def codes(name, value):
    return np.flatnonzero(condition_on(DOMAIN[name], value).codes).tolist()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("age", (25, 27), [25, 26, 27]),
        ("age", (97, None), [97, 98, 99]),
        ("age", "<=1", [0, 1]),
        ("age", "< 2", [0, 1]),
        ("age", "> 97.5", [98, 99]),
        ("age", range(3), [0, 1, 2]),
        ("age", np.array([4, 2, 4]), [2, 4]),
        ("age", np.int64(7), [7]),
        ("income", (10, 50), [1, 2]),
        ("income", (None, 10), [0]),
        ("income", (-5, 20), [0, 1]),
        ("income", (None, None), [0, 1, 2]),
        ("income", "<=50", [0, 1, 2]),
        ("income", ">=10", [1, 2]),
        ("income", [3, None], [0, 3]),
        ("wealth", (10, None), [1, 2]),
        ("wealth", "<20", [0, 1]),
        ("born", ("1980-01-01", "2000-01-01"), [1]),
        ("born", (datetime.date(1980, 1, 1), None), [1, 2]),
        ("born", "<1980-01-01", [0]),
        ("rooms", ">=2", [1, 2]),
        ("rooms", [2, 17], [1, 3]),
        ("grade", (2, 7), [1, 2]),
        ("class", ">50K", [1]),
        ("job", "a, b", [1]),
    ],
)
def test_a_condition_means_these_codes(name, value, expected):
    assert codes(name, value) == expected


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("age", (40, 25), "low <= high"),
        ("age", (1, 2, 3), r"must be \(low, high\)"),
        ("age", (200, None), "no value is >= 200"),
        ("age", [], "must not be empty"),
        ("age", [101], "from 0 to 99"),
        ("age", ("x", None), "a number"),
        ("age", (True, None), "a number"),
        ("age", (float("nan"), None), "a number"),
        ("age", ">=old", "a number"),
        ("income", (10, 10), "hold a bin"),
        ("income", (10, 15), r"15 lies inside the bin \[10, 20\)"),
        ("income", ">10", ">=10 does not"),
        ("income", "<=20", "<20 does not"),
        ("income", "<50", "<=50 does not"),
        ("wealth", (0, 10), r"0 lies inside the bin \(-inf, 10\)"),
        ("wealth", "<=50", "cuts a bin|lies inside"),
        ("born", (1980, None), "a date"),
        ("class", (0, 1), "has no order"),
        ("class", ">=50K", "has no order"),
        ("job", "> 3", "has no order"),
        ("job", ["clerk", "baker"], "one of its 3 labels"),
    ],
)
def test_a_bad_condition_is_refused(name, value, said):
    with pytest.raises((TypeError, ValueError), match=said) as refused:
        condition_on(DOMAIN[name], value)
    assert name in str(refused.value)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("age>=98", {"age": [98, 99]}),
        ("age>=97, age<99,class=>50K", {"age": [97, 98], "class": [1]}),
        ("class=<=50K", {"class": [0]}),
        ("age=25..27", {"age": [25, 26, 27]}),
        ("age=98..", {"age": [98, 99]}),
        ("age=3|5,job=a, b", {"age": [3, 5], "job": [1]}),
        ("job=x|y", {"job": [2]}),
        ("income=[10, 20)", {"income": [1]}),
        ("income=[10, 20)|none", {"income": [1, 3]}),
        ("born>=2000-01-01", {"born": [2]}),
    ],
)
def test_a_query_is_read(query, expected):
    found = joined([condition for _, _, condition in read_query(query, DOMAIN)])
    assert {name: np.flatnonzero(c.codes).tolist() for name, c in found.items()} == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("agee>=3", "did you mean 'age'"),
        ("age", "must be conditions"),
        ("", "must be conditions"),
        ("age=1,age=2", "given once"),
        ("age=1,age>0", "given once"),
        ("age<10,age>20", "no value is"),
        ("age>", "a number|conditions"),
        ("job>clerk", "has no order"),
    ],
)
def test_a_bad_query_is_refused(query, said):
    with pytest.raises((TypeError, ValueError), match=said):
        joined([condition for _, _, condition in read_query(query, DOMAIN)])


def test_order_comes_from_numbers_and_dates():
    assert ordered_values(DOMAIN["grade"]) == [10, 2, 7]
    assert ordered_values(DOMAIN["rooms"]) == [1, 2, 5]
    assert ordered_values(DOMAIN["income"]) == [0, 10, 20]
    assert ordered_values(DOMAIN["job"]) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (">=65", [3]),
        ("<65", [0, 1, 2]),
        (">=1", [1, 2, 3]),
        ("<1", [0]),
        ("> 16.5", [2, 3]),
        ((2, 64), [2]),
        ((None, 17), [0, 1, 2]),
        (["1 year", "N"], [1, 4]),
    ],
)
def test_ranges_of_labels_that_are_numbers_with_words(value, expected):
    assert codes("years", value) == expected


@pytest.mark.parametrize("value", [">65", ">=70", "<=65", (17, 70), ">=0", "<=.5"])
def test_a_range_that_cuts_a_label_is_refused(value):
    with pytest.raises(ValueError, match=r"attribute 'years': .* cuts the label '(65|Under)"):
        codes("years", value)


@pytest.mark.parametrize(
    "labels",
    [
        ["1 year", "2 months"],
        ["85+", "90"],
        ["under 5", "4"],
        ["under 5", "below 1"],
        ["90 and over", "95 or more"],
        ["Grade 1", "Grade 2"],
        ["1", "1 or 2"],
        ["under 1 or more", "5"],
        ["1", "2020-01-31"],
    ],
)
def test_labels_whose_numbers_are_unclear_have_no_order(labels):
    with pytest.raises(ValueError, match="has no order"):
        condition_on(pmw.Domain({"a": labels})["a"], ">=1")
