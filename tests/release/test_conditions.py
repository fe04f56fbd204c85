"""Records on conditions; marginals around a target."""

import pytest

import privmw as pmw
from privmw.accounting import Ledger, Neighbors
from privmw.release import Release

DOMAIN = pmw.Domain({"sex": ["F", "M"], "age": {"edges": [0, 18, 65]}, "state": ["HI", "NM", "NY"]})
SUPPORT = pmw.Support.from_table(
    pmw.Table.from_codes([[0, 0, 0], [0, 1, 0], [1, 1, 1], [1, 0, 2]], DOMAIN, private=False)
)


def release(weights=(0.25, 0.25, 0.0, 0.5)):
    ledger = Ledger(pmw.Budget.zcdp(1), Neighbors.REPLACE_ONE, n=100)
    return Release(SUPPORT, pmw.Workload.all(DOMAIN, k=1), weights, ledger=ledger, settings={})


def rows(**conditions):
    return {tuple(row) for row in release().sample(50, seed=1, conditions=conditions).codes().tolist()}


def test_every_record_meets_the_conditions():
    assert rows(sex="F") == {(0, 0, 0), (0, 1, 0)}
    assert rows(age=30) == {(0, 1, 0), (1, 1, 1)}
    assert rows(age=30, state=["NM", "NY"]) == {(1, 1, 1)}
    assert release().sample(50, seed=1, conditions={"sex": "F"}).n == 50


@pytest.mark.parametrize(
    ("conditions", "error"),
    [
        ({"sex": "F", "state": "NM"}, "must be met by a row with weight"),
        ({"state": "NY"}, "must be met by a row with weight"),
        ({"sex": "X"}, "conditions: value of 'sex' must be one of its 2 labels, a list of these"),
        ({"sexes": "F"}, "conditions \\('sexes'\\) must name an attribute of the domain"),
        ({"sex": []}, "conditions: "),
        ("sex", "conditions \\('sex'\\) must be an object"),
    ],
)
def test_conditions_that_no_row_meets_are_refused(conditions, error):
    with pytest.raises((ValueError, TypeError), match=error):
        release().sample(5, conditions=conditions)


def test_marginals_around_a_target_are_those_that_hold_it_and_all_of_the_order_below():
    wide = pmw.Domain(dict.fromkeys("abcde", 2))
    marginals = list(pmw.Workload.all(wide, k=3, target="c"))
    assert marginals[:10] == list(pmw.Workload.all(wide, k=2))
    assert len(marginals) == 16
    assert all("c" in marginal for marginal in marginals[10:])
    assert list(pmw.Workload.all(wide, k=1, target="c")) == [("c",)]
    with pytest.raises(ValueError, match="target \\('f'\\) must be an attribute of the domain"):
        pmw.Workload.all(wide, k=3, target="f")


def test_a_target_outside_the_domain_is_refused_before_anything_is_spent():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pandas.DataFrame({"sex": ["F", "M"] * 50, "rooms": [1, 2, 3, 2] * 25})
    synthesizer = pmw.Synthesizer(target="income")
    with pytest.raises(ValueError, match="target \\('income'\\) must be an attribute of the domain"):
        synthesizer.fit(frame, public=frame.copy())
    with pytest.raises(ValueError, match="target \\('sex'\\) must come with marginals that are a number"):
        pmw.Synthesizer(target="sex", marginals=[["sex"]]).fit(frame, public=frame.copy())
    assert not hasattr(synthesizer, "release_")
