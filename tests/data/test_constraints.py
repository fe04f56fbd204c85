import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privmw.data.constraints
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.table import Table

DOMAIN = Domain(
    {
        "age": {"edges": [0, 15, 30, 65, 100], "other": "else", "missing": "none"},
        "married": ["no", "yes"],
        "state": ["HI", "NY", "WY"],
        "county": [1, 2, 3, 7],
        "born": {"edges": ["1990-01-01", "2000-01-01", "2010-01-01"]},
        "rooms": 3,
    }
)
RULES = {
    "invalid": [
        {"age": [{"from": 0, "to": 15}], "married": ["yes"]},
        {"born": ["[2000-01-01, 2010-01-01]"], "age": ["[30, 65)", None, "else"], "rooms": [2]},
    ],
    "valid": [{"attributes": ["county", "state"], "combinations": [[1, "HI"], [2, "NY"], [7, "HI"]]}],
}


def keeps(row):
    labels = [attribute.label(code) for attribute, code in zip(DOMAIN.attributes, row, strict=True)]
    age, married, state, county, born, rooms = labels
    if age == "[0, 15)" and married == "yes":
        return False
    if born == "[2000-01-01, 2010-01-01]" and age in ("[30, 65)", "none", "else") and rooms == 2:
        return False
    return (county, state) in [(1, "HI"), (2, "NY"), (7, "HI")]


def test_rows_that_keep_the_rules_are_those_that_one_would_say():
    every = Support.full(DOMAIN).table
    expected = [keeps(row) for row in every.codes().tolist()]
    assert Constraints(RULES, DOMAIN).mask(every).tolist() == expected
    assert 0 < sum(expected) < every.n


@given(data=st.data())
def test_rules_looked_up_together_are_the_rules_one_by_one(data):
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    domain = Domain({f"a{place}": size for place, size in enumerate(sizes)})
    names = st.lists(st.sampled_from(domain.names), min_size=1, unique=True)

    def values(name):
        return st.lists(st.integers(0, domain[name].size - 1), min_size=1, max_size=3)

    rules = range(data.draw(st.integers(0, 4)))
    invalid = [{name: data.draw(values(name)) for name in data.draw(names)} for _ in rules]
    listed = data.draw(names)
    row = st.tuples(*(st.integers(0, domain[name].size - 1) for name in listed))
    valid = [{"attributes": listed, "combinations": data.draw(st.lists(row, min_size=1, max_size=6))}]
    every = Support.full(domain).table
    codes = [dict(zip(domain.names, row, strict=True)) for row in every.codes().tolist()]
    kept = [
        not any(all(row[name] in rule[name] for name in rule) for rule in invalid)
        and tuple(row[name] for name in listed) in valid[0]["combinations"]
        for row in codes
    ]
    constraints = Constraints({"invalid": invalid, "valid": valid}, domain)
    assert constraints.mask(every).tolist() == kept
    assert Constraints(json.loads(constraints.to_json()), domain) == constraints
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(privmw.data.constraints, "LOOKUP_CELLS", 0)
        assert constraints.mask(every).tolist() == kept


def test_thousands_of_rules_on_the_same_attributes_cost_one_lookup():
    domain = Domain({"a": 300, "b": 300, "c": 2})
    rules = [{"a": [a], "b": [b]} for a, b in itertools.product(range(60), range(60))]
    table = Table.from_codes(
        np.random.default_rng(0).integers(0, [300, 300, 2], (200_000, 3)), domain, private=False
    )
    mask = Constraints({"invalid": rules}, domain).mask(table)
    assert np.array_equal(mask, (table.column("a") >= 60) | (table.column("b") >= 60))


def test_huge_attributes_have_rules_too():
    domain = Domain({"a": 2**32 - 1, "b": 2**32 - 1, "c": 2**32 - 1})
    table = Table.from_codes(np.array([[5, 2**32 - 2, 7], [5, 6, 7], [2**32 - 2] * 3]), domain, private=False)
    listed = {"attributes": ["c", "a", "b"], "combinations": [[7, 5, 2**32 - 2], [2**32 - 2] * 3]}
    rules = {"valid": [listed], "invalid": [{"a": [2**32 - 2], "b": [2**32 - 2]}]}
    assert Constraints(rules, domain).mask(table).tolist() == [True, False, False]


def test_the_same_rules_in_another_order_are_equal():
    first = Constraints(RULES, DOMAIN)
    turned = {
        "valid": [{"attributes": ["state", "county"], "combinations": [["HI", 7], ["HI", 1], ["NY", 2]]}],
        "invalid": [dict(reversed(rule.items())) for rule in reversed(RULES["invalid"])] + RULES["invalid"],
    }
    second = Constraints(turned, DOMAIN)
    assert first == second
    assert hash(first) == hash(second)
    assert first.to_json() == second.to_json()
    assert len(first) == 3
    assert repr(first) == "Constraints(3 rules on 6 attributes)"
    assert first != Constraints({}, DOMAIN)
    assert copy.deepcopy(first) == pickle.loads(pickle.dumps(first)) == first


def test_a_range_of_dates_is_made_of_whole_bins():
    named = Constraints({"invalid": [{"born": ["[1990-01-01, 2000-01-01)"]}]}, DOMAIN)
    assert Constraints({"invalid": [{"born": [{"from": "1990-01-01", "to": "2000-01-01"}]}]}, DOMAIN) == named


def test_a_file_a_person_wrote_is_read(tmp_path):
    path = tmp_path / "rules.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(RULES).encode())
    assert Constraints.read(path, DOMAIN) == Constraints(RULES, DOMAIN)
    path.write_text('{"invalid": [{"age": ["none"], "age": ["else"]}]}')
    with pytest.raises(ValueError, match=r"rules.json: key .'age'. must be given only once"):
        Constraints.read(path, DOMAIN)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"rules.json: "):
        Constraints.read(path, DOMAIN)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "rules .* must be an object"),
        ({"never": []}, "keys of rules must be invalid, valid, order, equal or sum"),
        ({"invalid": {}}, r"invalid \(dict\) must be a list"),
        ({"invalid": [{}]}, r"invalid\[0\] .* must be an object of attributes"),
        ({"invalid": [{"aeg": ["none"]}]}, r"invalid\[0\]\[0\] is not in the domain; did you mean 'age'\?"),
        ({"invalid": [{"married": []}]}, r"invalid\[0\]: values of 'married' must be at least one"),
        ({"invalid": [{"married": "yes"}]}, r"invalid\[0\]: values of 'married' \(str\) must be a list"),
        (
            {"invalid": [{"married": ["maybe"]}]},
            r"invalid\[0\]: attribute 'married': value \(str\) must be one of its 2 labels",
        ),
        (
            {"invalid": [{"married": [None]}]},
            r"invalid\[0\]: attribute 'married': value \(NoneType\) must be one of its 2 labels",
        ),
        (
            {"invalid": [{"county": [4]}]},
            r"invalid\[0\]: attribute 'county': value \(int\) must be one of its 4 labels",
        ),
        (
            {"invalid": [{"rooms": [True]}]},
            r"invalid\[0\]: attribute 'rooms': value \(bool\) must be an integer from 0 to 2",
        ),
        (
            {"invalid": [{"age": [12]}]},
            r"invalid\[0\]: attribute 'age': value \(int\) must be the label of a bin, or a range",
        ),
        (
            {"invalid": [{"age": [200]}]},
            r"invalid\[0\]: attribute 'age': value \(int\) must be the label of a bin, or a range",
        ),
        ({"invalid": [{"age": [{"from": 0, "to": 16}]}]}, "must be of whole bins"),
        ({"invalid": [{"age": [{"from": 15, "to": 15}]}]}, "must be of whole bins"),
        ({"invalid": [{"age": [{"from": 15}]}]}, "must have from and to"),
        ({"invalid": [{"rooms": [{"from": 0, "to": 1}]}]}, "an attribute with bins"),
        ({"valid": [{"attributes": ["age"]}]}, r"valid\[0\] .* must be an object of attributes"),
        ({"valid": [{"attributes": [], "combinations": []}]}, "must be one or more, each once"),
        ({"valid": [{"attributes": ["rooms"] * 2, "combinations": []}]}, "must be one or more, each once"),
        ({"valid": [{"attributes": ["rooms"], "combinations": []}]}, "combinations must be at least one"),
        ({"valid": [{"attributes": ["rooms"], "combinations": [[1, 2]]}]}, r"must have 1 values"),
        (
            {"valid": [{"attributes": ["rooms"], "combinations": [1]}]},
            r"valid\[0\]: combination \(int\) must be a list",
        ),
    ],
)
def test_rules_that_cannot_be_are_refused_and_named(rules, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Constraints(rules, DOMAIN)


def test_private_tables_are_never_checked():
    private = Table.from_codes([[0] * 6], DOMAIN, private=True)
    with pytest.raises(ValueError, match="must be public"):
        Constraints(RULES, DOMAIN).mask(private)
    with pytest.raises(ValueError, match="must be public"):
        Constraints(RULES, DOMAIN).broken(private)


SMALL = Domain({"age": 3, "sex": ["F", "M"], "pregnant": ["no", "yes"]})
NO_FATHERS = Constraints({"invalid": [{"sex": ["M"], "pregnant": ["yes"]}]}, SMALL)


def test_rows_that_break_a_rule_leave_the_support():
    table = Table.from_codes([[0, 1, 1], [2, 0, 1], [2, 0, 1], [1, 1, 0]], SMALL, private=False)
    support = Support.from_table(table, NO_FATHERS)
    assert support.rows.tolist() == [[1, 1, 0], [2, 0, 1]]
    assert support.counts.tolist() == [1, 2]
    assert Support.full(SMALL, NO_FATHERS).size == 9
    assert support.constraints == NO_FATHERS
    assert Support.from_table(table).constraints is None


def test_new_rows_of_a_widened_support_keep_the_rules():
    table = Table.from_codes([[2, 0, 1], [1, 1, 0], [0, 0, 0]], SMALL, private=False)
    free = Support.from_table(table).widened()
    bound = Support.from_table(table, NO_FATHERS).widened()
    assert not NO_FATHERS.mask(free.table).all()
    assert NO_FATHERS.mask(bound.table).all()
    assert bound.rows.tolist() == [row for row in free.rows.tolist() if row[1:] != [1, 1]]
    assert bound.constraints == NO_FATHERS
    assert pickle.loads(pickle.dumps(bound)).constraints == NO_FATHERS


def test_a_support_without_rows_says_how_many_each_rule_took():
    table = Table.from_codes([[0, 1, 1], [2, 1, 1]], SMALL, private=False)
    with pytest.raises(ValueError, match=r"must leave a row of the support: .* takes 2 of 2 rows"):
        Support.from_table(table, NO_FATHERS)


def test_constraints_of_another_domain_are_refused():
    with pytest.raises(ValueError, match="must be on the domain of the support"):
        Support.from_table(Table.from_codes([[0] * 6], DOMAIN, private=False), NO_FATHERS)
    with pytest.raises(TypeError, match="must be Constraints"):
        Support.full(SMALL, {"invalid": []})


@pytest.mark.parametrize("names", [["a", ["b"]], ["a", {}], "ab"])
def test_attributes_of_a_relation_that_are_no_texts_are_refused(names):
    domain = Domain({"a": 3, "b": 3})
    with pytest.raises(ValueError, match=r"order\[0\]: attributes must be two attributes"):
        Constraints({"order": [{"attributes": names}]}, domain)
