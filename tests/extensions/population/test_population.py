import hashlib

import numpy as np
import pytest

import privmw as pmw
import privmw.extensions.population
from privmw.extensions.population import draw_population, draw_values, population_domain
from privmw.extensions.population.census import DETAILS, PEOPLE

N = 20_000


def shares(table, name):
    return np.bincount(table.column(name), minlength=table.domain[name].size) / table.n


def share(values, where, name, *wanted):
    return np.isin(values[name][where].astype(str), wanted).mean()


def test_there_are_14_attributes_that_read_well_and_67_in_all():
    assert len(PEOPLE) == 14
    assert len(PEOPLE) + len(DETAILS) == 67
    assert population_domain().names == tuple(node.name for node in PEOPLE)
    assert len(population_domain(67)) == 67
    assert population_domain(67).project(population_domain().names) == population_domain()


def test_every_table_has_a_row_for_each_value_of_its_parents():
    for node in [*PEOPLE, *DETAILS]:
        domain = population_domain(67)
        size = domain[node.name].size
        assert np.shape(node.odds) == ((size,) if node.given is None else (domain[node.given].size, size))
        for parent, by_value in node.tilts.items():
            assert np.ndim(by_value) == 0 or len(by_value) == domain[parent].size
        for parent in (*([node.given] if node.given else []), *node.tilts):
            assert domain.index(parent) < domain.index(node.name)


def test_the_same_seed_gives_the_same_people_on_every_machine():
    codes = draw_population(5_000, attributes=67, shift=0.5, seed=3).codes()
    assert (
        hashlib.sha256(codes.tobytes()).hexdigest()
        == "7e1ca28036c65af9421e26b05dece7633fb5c61b8336b7824f295805b48b5f42"
    )
    values = draw_values(5_000, attributes=14, seed=3)
    assert (
        hashlib.sha256(values["income"].astype("<i8").tobytes()).hexdigest()
        == "5a0e98a9e043347ceb12a88aa6d9abfbf55adeb2439d1618fd6f9ee6ddf1285e"
    )


def test_the_first_people_and_attributes_do_not_depend_on_how_many_are_drawn():
    few = draw_population(100, attributes=14, seed=7)
    many = draw_population(N, attributes=67, seed=7)
    assert many.project(few.domain.names).take(np.arange(100)) == few
    assert draw_population(100, seed=8) != few


def test_values_are_those_of_the_codes_and_the_domain_codes_every_one():
    table, values = (
        draw_population(2_000, attributes=67, shift=1, seed=5),
        draw_values(2_000, attributes=67, shift=1, seed=5),
    )
    for attribute, column in zip(table.domain.attributes, table.columns, strict=True):
        assert [attribute.code(value) for value in values[attribute.name]] == column.tolist()
    assert values["age"].dtype == values["income"].dtype == np.int64
    assert values["sex"][0] in ("F", "M")


def test_every_label_of_the_14_attributes_is_somebodys():
    table = draw_population(N)
    assert min(shares(table, name).min() for name in table.domain.names) > 0.002


def test_children_are_neither_married_nor_employed_nor_paid():
    values = draw_values(N)
    children = values["age"] < 16
    assert share(values, children, "marital status", "never married") == 1
    assert share(values, children, "employment", "under 16") == 1
    assert values["income"][children].max() == values["hours"][children].max() == 0
    assert share(values, ~children, "employment", "under 16") == 0


def test_attributes_depend_on_each_other_as_one_would_think():
    values = draw_values(N, attributes=67)
    employed = values["employment"] == "employed"
    degree = np.isin(values["education"], ["bachelor", "higher"])
    old = values["age"] >= 65
    assert np.median(values["income"][employed & degree]) > 1.5 * np.median(
        values["income"][employed & ~degree]
    )
    assert share(values, old, "employment", "retired") > 0.7
    assert share(values, ~old, "employment", "retired") < 0.1
    assert share(values, values["born"] == "abroad", "language", "national") < 0.5
    assert share(values, values["sex"] == "M", "gave birth", "yes") == 0
    assert share(values, old, "walking difficulty", "yes") > 4 * share(
        values, ~old, "walking difficulty", "yes"
    )


def test_most_people_have_few_uncommon_details():
    table = draw_population(N, attributes=67)
    uncommon = sum((column != np.bincount(column).argmax()).astype(int) for column in table.columns)
    assert 8 < uncommon.mean() < 18
    rare = [1 - shares(table, node.name).max() for node in DETAILS]
    assert np.median(rare) < 0.1
    assert min(rare) > 0.001


def test_a_shift_makes_people_older_and_better_paid_and_moves_them():
    before, after = draw_values(N, seed=1), draw_values(N, shift=1, seed=2)
    assert after["age"].mean() > before["age"].mean() + 4
    assert after["income"].mean() > 1.2 * before["income"].mean()
    everyone = np.full(N, True)
    assert share(after, everyone, "region", "capital") > 1.2 * share(before, everyone, "region", "capital")


def test_a_shifted_public_table_leaves_a_release_something_to_do():
    public, private = draw_population(4_000, seed=1), draw_population(N, shift=1, seed=2, private=True)
    workload = pmw.Workload.all(public.domain, k=2)
    release = pmw.release_auto(
        private, pmw.Support.from_table(public), workload, epsilon=1.0, delta=1e-9, rng=0
    )
    assert 0.05 < pmw.evaluate(public, private, workload).max_error < 0.15
    assert pmw.evaluate(release, private).max_error < 0.01


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n": 0}, ValueError, r"n \(0\) must be from 1"),
        ({"n": 1.0}, TypeError, r"n \(1.0\) must be an integer"),
        ({"attributes": 68}, ValueError, r"attributes \(68\) must be from 1 to 67"),
        ({"attributes": True}, TypeError, r"attributes \(True\) must be an integer"),
        ({"shift": 1.5}, ValueError, r"shift \(1.5\) must be from 0 to 1"),
        ({"shift": float("nan")}, ValueError, r"shift \(nan\) must be from 0 to 1"),
        ({"shift": "1"}, TypeError, r"shift \('1'\) must be a number"),
        ({"seed": -1}, ValueError, r"seed \(-1\) must be from 0"),
    ],
)
def test_a_bad_option_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        draw_population(**{"n": 10, **options})
