"""The records of a unit that enter: at most so many, chosen by nothing but the unit itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marks.slow import examples
from privmw import Domain, Support, Table
from privmw.data import unit as unit_room
from privmw.data.unit import entering, id_hashes, integer_hashes
from truth import planted_bugs

WORD = 2**64 - 1
DOMAIN = Domain({"age": 10, "sex": ["F", "M"]})
IDS = st.lists(st.integers(0, 5), min_size=1, max_size=40)
SECRET = "S3CRET"


def mix(number):
    """The finalizer of splitmix64, in Python's integers."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ number >> shift) * factor & WORD
    return number ^ number >> 31


def slowly(ids, at_most):
    """Which records enter, by the words of privmw/data/unit.py: the smallest hash(key, id, number)."""
    key = int.from_bytes(b"privmw u", "big")
    seen, priorities = {}, []
    for one in ids:
        number = seen[one] = seen.get(one, -1) + 1
        priorities.append((mix(mix((one & WORD) ^ key) ^ mix(number)) >> 32, number))
    smallest = {
        one: sorted(p for other, p in zip(ids, priorities, strict=True) if other == one)[:at_most]
        for one in seen
    }
    return [p in smallest[one] for one, p in zip(ids, priorities, strict=True)]


def mask(ids, at_most):
    return entering(integer_hashes(np.array(ids, np.int64)), at_most)


@examples(100, 2000)
def test_the_records_of_smallest_priority_enter(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(IDS, st.integers(1, 5))
    def check(ids, at_most):
        found = mask(ids, at_most)
        assert found.tolist() == slowly(ids, at_most)
        for one in set(ids):
            size = ids.count(one)
            assert found[np.array(ids) == one].sum() == min(size, at_most)
        # Another limit chooses more or fewer of the same.
        assert (found <= mask(ids, at_most + 1)).all()

    check()


@pytest.mark.parametrize("part", [1, 7, 100])
def test_the_choice_is_the_same_where_memory_is_short(part, monkeypatch):
    ids = np.random.default_rng(3).integers(-40, 40, 700)
    whole = mask(ids, 3)
    monkeypatch.setattr(unit_room, "_PART", part)
    assert np.array_equal(mask(ids, 3), whole)
    assert whole.tolist() == slowly(ids.tolist(), 3)


def others_choose_alike(choose, ids, more, at_most):
    """Whether a unit that is added, wherever its records come, changes nothing for the others."""
    ids, stays = np.array(ids), None
    for places in more:
        with_unit = np.insert(ids, places, 77)
        found = choose(integer_hashes(with_unit), at_most)[with_unit != 77]
        alone = choose(integer_hashes(ids), at_most)
        stays = np.array_equal(found, alone) and stays is not False
    return stays


@examples(100, 1000)
def test_which_records_of_a_unit_enter_depends_on_no_other_unit(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(IDS, st.lists(st.integers(0, 1), min_size=1, max_size=9), st.integers(1, 3))
    def check(ids, places, at_most):
        assert others_choose_alike(entering, ids, [np.array(places), [0] * len(places)], at_most)

    check()


def test_that_check_notices_a_choice_by_place():
    ids = [1, 2] * 20
    assert not others_choose_alike(planted_bugs.entering_by_place, ids, [[0]], 3)
    assert others_choose_alike(entering, ids, [[0]], 3)


def test_no_place_in_a_unit_is_favoured():
    # 30,000 units of five records, of which two enter: each of the five does so two times in five.
    found = mask(np.repeat(np.arange(30_000), 5), 2).reshape(-1, 5)
    assert (found.sum(axis=1) == 2).all()
    deviation = np.sqrt(30_000 * 0.4 * 0.6)
    assert np.abs(found.sum(axis=0) - 12_000).max() < 6 * deviation
    # So does every pair, one time in ten; a choice by the number alone would always take the same pair.
    pairs = np.unique(found @ (1 << np.arange(5)), return_counts=True)[1]
    assert len(pairs) == 10
    assert np.abs(pairs - 3_000).max() < 6 * np.sqrt(30_000 * 0.1 * 0.9)


KINDS = {
    "integers": np.array([5, 5, 17, 5, 17]),
    "unsigned": np.array([5, 5, 17, 5, 17], np.uint16),
    "digits": np.array(["5", "5", "17", "5", "17"]),
    "objects": np.array([5, "5", "17", np.int64(5), 17], object),
    "a list": [5, 5, "17", 5, 17],
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_integer_and_its_digits_are_one_id(kind):
    assert np.array_equal(id_hashes(KINDS[kind]), integer_hashes(np.array([5, 5, 17, 5, 17])))


def test_ids_that_are_written_differently_are_different_units():
    texts = ["7", "07", " 7", "7 ", "７", "-7", "+7", "7.0", "a", "A", "ä", "x" * 8, "x" * 9, "x" * 16]
    texts += ["x" * 24, "x" * 23 + "y", "y" + "x" * 23, "9" * 18, "9" * 19, "\ud800"]
    assert len(set(id_hashes(texts).tolist())) == len(texts)
    # Every length and every byte counts: no two of 20,000 texts that differ in one letter.
    base = "household-0000000000000000"
    near = {base[:i] + c + base[i + 1 :] for i in range(len(base)) for c in "0123456789abcdefghijklmnop"}
    near |= {base * length for length in range(1, 200)}
    assert len(set(id_hashes(sorted(near)).tolist())) == len(near)


def capped(**options):
    table = Table({"age": [3, 9, 3, 1], "sex": [0, 1, 1, 0]}, DOMAIN, private=options.pop("private", True))
    ids = options.pop("ids", ["a", "a", "b", "a"])
    return table.capped(ids, **{"unit": "household", "at_most": 2, **options})


def test_a_capped_table_says_what_it_protects_and_keeps_no_id():
    table = capped()
    assert (table.n, table.unit, table.at_most) == (3, "household", 2)
    assert table.protected == "household of at most 2 records"
    assert repr(table) == "Table(3 rows x 2 attributes, private, at most 2 of a household)"
    enters = entering(id_hashes(["a", "a", "b", "a"]), 2)
    assert np.array_equal(table.codes(), np.array([[3, 0], [9, 1], [3, 1], [1, 0]])[enters])
    plain = Table({"age": [3], "sex": [0]}, DOMAIN, private=True)
    assert (plain.unit, plain.at_most, plain.protected) == ("record", 1, "record")
    assert capped(at_most=1).protected == "household of at most 1 record"
    assert capped(at_most=9).n == 4
    assert capped() == capped()
    assert capped(at_most=3) != capped(at_most=4)


def test_tables_made_of_a_capped_one_keep_its_unit_and_never_pass_its_limit():
    table = capped()
    for derived in (table.project(["sex"]), table.take([2, 0]), table.take([True, False, True])):
        assert (derived.unit, derived.at_most) == ("household", 2)
    assert [batch.protected for batch in table.batches()] == ["household of at most 2 records"]
    with pytest.raises(ValueError, match="rows must not repeat one: every private record counts once"):
        table.take([0, 1, 0])
    with pytest.raises(ValueError, match="must be joined before they are capped"):
        Table.concatenate([table, table])
    with pytest.raises(ValueError, match="must be capped only once"):
        table.capped([1, 2, 3], unit="person", at_most=1)


NUMBERS = np.array([1.0, 1.0, 2.0, 1.0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"unit": None}, TypeError, r"unit \(.*\) and at_most \(.*\) must be given together"),
        ({"at_most": None}, TypeError, r"unit \(.*\) and at_most \(.*\) must be given together"),
        ({"unit": None, "at_most": None}, TypeError, "unit and at_most must be given"),
        ({"unit": 3}, TypeError, "unit .3. must be the name of a column"),
        ({"unit": " "}, ValueError, "must be one line of printable text"),
        ({"unit": "a\nb"}, ValueError, "must be one line of printable text"),
        ({"unit": "record"}, ValueError, "must be what several records can belong to"),
        ({"unit": "sex"}, ValueError, "unit .'sex'. must not be an attribute of the domain"),
        ({"at_most": 0}, ValueError, "at_most .0. must be"),
        ({"at_most": 2**31}, ValueError, "at_most .2147483648. must be"),
        ({"at_most": 2.0}, TypeError, "at_most .2.0. must be an integer"),
        ({"private": False}, ValueError, "unit .'household'. must come with private=True"),
        ({"ids": ["a", "a"]}, ValueError, "ids .2. must be one for each of the 4 records"),
        ({"ids": [["a"] * 4]}, ValueError, "ids .2-D. must be a 1-D array"),
        ({"ids": ["a", None, "b", "a"]}, TypeError, "ids must hold integers or text, none missing or empty"),
        ({"ids": ["a", "", "b", "a"]}, TypeError, "none missing or empty"),
        ({"ids": ["a", float("nan"), "b", "a"]}, TypeError, "none missing or empty"),
        ({"ids": NUMBERS}, TypeError, "none missing or empty"),
        ({"ids": NUMBERS > 1}, TypeError, "none missing or empty"),
        ({"ids": np.array([1, True, 2, 1], object)}, TypeError, "none missing or empty"),
        ({"ids": np.ma.masked_array([1, 1, 2, 1], [0, 1, 0, 0])}, TypeError, "none missing or empty"),
        ({"ids": [[1], [1, 2], [], [3]]}, TypeError, "none missing or empty"),
        ({"ids": [SECRET, SECRET, SECRET, b"x"]}, TypeError, "none missing or empty"),
    ],
)
def test_a_unit_that_cannot_be_protected_is_refused_without_showing_an_id(options, error, message):
    with pytest.raises(error, match=message) as refusal:
        capped(**options)
    assert SECRET not in str(refusal.value)


def test_a_capped_table_is_no_support():
    with pytest.raises(ValueError, match="private"):
        Support.from_table(capped())


def test_an_integer_and_the_text_that_writes_it_are_one_id():
    for number in (-5, 0, 7, 10**17, 10**18, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 2**64, 10**30):
        hashes = id_hashes([number, str(number)])
        assert hashes[0] == hashes[1], number
    texts = ["05", "-0", "+5", "5 ", "5.0", "--5"]
    assert len(set(id_hashes([5, 0, *texts]).tolist())) == 2 + len(texts)
