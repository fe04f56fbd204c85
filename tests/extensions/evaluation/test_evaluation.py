import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import privmw as pmw
import privmw.extensions.evaluation
import privmw.extensions.evaluation.mixture
from extensions.evaluation.cases import DOMAIN, WORKLOAD, release_of, table
from privmw.extensions.evaluation import best_mixture_error, evaluate
from truth import reference

rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes)), min_size=1, max_size=30)


def truth(codes):
    marginals = [tuple(DOMAIN.index(name) for name in names) for names in WORKLOAD]
    columns = list(np.array(codes, np.int64).T)
    return [
        reference.marginal_sums(columns, DOMAIN.sizes, [m], np.ones(len(codes), np.int64)) / len(codes)
        for m in marginals
    ]


@settings(max_examples=50)
@given(rows, rows)
def test_the_errors_are_those_of_plain_counting(private, synthetic):
    found = evaluate(table(synthetic), table(private, True), WORKLOAD)
    errors = [abs(a - b) for a, b in zip(truth(private), truth(synthetic), strict=True)]
    flat = np.concatenate(errors)
    assert found.max_error == pytest.approx(flat.max(), abs=1e-15)
    assert found.mean_error == pytest.approx(flat.mean(), abs=1e-15)
    assert found.rmse == pytest.approx(np.sqrt((flat**2).mean()), abs=1e-15)
    assert found.per_marginal == pytest.approx([e.max() for e in errors], abs=1e-15)
    assert found.total_variation == pytest.approx([e.sum() / 2 for e in errors], abs=1e-14)
    assert found.max_total_variation == found.total_variation.max()
    assert found.mean_total_variation == found.total_variation.mean()
    worst = found.worst
    assert (worst.names, worst.values) == WORKLOAD.query(worst.cell)
    assert abs(worst.released - worst.true) == found.max_error
    assert np.concatenate(truth(private))[worst.cell] == pytest.approx(worst.true)
    assert [cell.error for cell in found.largest] == pytest.approx(np.sort(flat)[::-1][:20], abs=1e-15)
    errors = [cell.error for cell in found.typical]
    assert errors == sorted(errors, reverse=True)
    assert len(errors) == min(np.count_nonzero(flat), 200)
    for cell in (*found.largest, *found.typical):
        assert (cell.names, cell.values) == WORKLOAD.query(cell.cell)
        assert cell.true == pytest.approx(np.concatenate(truth(private))[cell.cell])
        assert cell.released == pytest.approx(np.concatenate(truth(synthetic))[cell.cell])


def test_a_release_is_evaluated_on_its_own_workload_or_another():
    support = pmw.Support.from_table(table([[0, 0, 0], [2, 1, 3]]))
    release = release_of(support, [0.25, 0.75])
    private = table([[0, 0, 0], [0, 0, 0], [2, 1, 3], [2, 1, 3]], True)
    found = evaluate(release, private)
    assert found.max_error == 0.25
    assert len(found.per_marginal) == len(WORKLOAD)
    assert len(evaluate(release, private, pmw.Workload(DOMAIN, [("a",)])).per_marginal) == 1


def test_an_evaluation_says_that_it_is_not_private():
    private = table([[0, 0, 0], [2, 1, 3]], True)
    found = evaluate(table([[0, 0, 0]]), private, WORKLOAD)
    assert repr(found).startswith("NOT PRIVATE: ")
    assert str(found).startswith("NOT PRIVATE: ")
    assert found.for_release is False
    bracket = best_mixture_error(private, pmw.Support.from_table(table([[0, 0, 0]])), WORKLOAD)
    assert str(bracket).startswith("NOT PRIVATE: Bracket(0.5 to 0.5")
    for described in (evaluate, best_mixture_error):
        assert "NOT PRIVATE" in described.__doc__.splitlines()[0]


def test_the_best_mixture_may_weigh_grown_rows():
    private = table([[0, 0, 0], [2, 1, 3]], True)
    support = pmw.Support.from_table(table([[0, 0, 0]])).with_rows([[2, 1, 3]]).support
    assert best_mixture_error(private, support, WORKLOAD).upper < 1e-3
    nothing = pmw.Support.without_public(DOMAIN).with_rows([[0, 0, 0], [2, 1, 3]]).support
    assert best_mixture_error(private, nothing, WORKLOAD).upper < 1e-3


def test_typical_cells_are_taken_at_even_steps_through_the_errors():
    domain = pmw.Domain({"x": 1000})
    workload = pmw.Workload.all(domain, k=1)
    private = pmw.Table.from_codes(np.repeat(np.arange(500), np.arange(500))[:, None], domain, private=True)
    found = evaluate(pmw.Table.from_codes([[999]], domain, private=False), private, workload)
    assert len(found.typical) == 200
    assert found.typical[0] == found.worst == found.largest[0]
    assert (found.worst.cell, found.typical[-1].cell) == (999, 1)
    steps = -np.diff([cell.cell for cell in found.typical[1:]])
    assert set(steps.tolist()) == {2, 3}


def test_what_cannot_be_evaluated_is_refused():
    private, other = table([[0, 0, 0]], True), pmw.Domain({"a": 3})
    support = pmw.Support.from_table(table([[0, 0, 0]]))
    elsewhere = pmw.Table.from_codes([[1]], other, private=False)
    for call, error, message in (
        (lambda: evaluate(table([[0, 0, 0]]), private), TypeError, "workload must be given"),
        (lambda: evaluate(support, private, WORKLOAD), TypeError, "must be a Release or a Table"),
        (lambda: evaluate(elsewhere, private, WORKLOAD), ValueError, "domain"),
        (lambda: evaluate(table([[0, 0, 0]]), elsewhere, WORKLOAD), ValueError, "domain"),
        (lambda: evaluate(private, private, pmw.Workload(DOMAIN, [])), ValueError, "at least one cell"),
        (lambda: evaluate(private, [[0, 0, 0]], WORKLOAD), TypeError, r"private \(list\) must be a Table"),
        (lambda: best_mixture_error(private, private, WORKLOAD), TypeError, "must be a Support"),
        (lambda: best_mixture_error(private, support, 3), TypeError, "must be a Workload"),
        (
            lambda: best_mixture_error(private, pmw.Support.full(other), WORKLOAD),
            ValueError,
            "must be on the domain",
        ),
        (lambda: best_mixture_error(private, support, WORKLOAD, tolerance=0), ValueError, "tolerance"),
        (lambda: best_mixture_error(private, support, WORKLOAD, rounds=-1), ValueError, "rounds"),
    ):
        with pytest.raises(error, match=message):
            call()


def program(private, support):
    """The whole linear program, every cell and row of it."""
    target = np.concatenate(truth(private))
    matches = np.stack([support.answers(WORKLOAD, unit) for unit in np.eye(support.size)], axis=1)
    slack = np.ones((len(target), 1))
    return linprog(
        np.append(np.zeros(support.size), 1),
        A_ub=np.block([[matches, -slack], [-matches, -slack]]),
        b_ub=np.concatenate([target, -target]),
        A_eq=np.append(np.ones(support.size), 0)[None],
        b_eq=[1],
    ).fun


@settings(max_examples=40)
@given(rows, rows)
def test_the_bracket_holds_the_linear_programs_value_and_closes(private, public):
    support = pmw.Support.from_table(table(public))
    exact = program(private, support)
    found = best_mixture_error(table(private, True), support, WORKLOAD, tolerance=1e-3)
    assert found.lower - 1e-9 <= exact <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-3
    error = np.abs(support.answers(WORKLOAD, found.weights) - np.concatenate(truth(private))).max()
    assert found.upper == pytest.approx(error, abs=1e-15)
    assert found.weights.sum() == pytest.approx(1)


def test_the_linear_program_proves_what_no_single_cell_does(monkeypatch):
    # a and b agree in every public row and differ in every private one; each cell alone can be met.
    domain = pmw.Domain({"a": 2, "b": 2})
    workload = pmw.Workload(domain, [("a",), ("b",)])
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 0], [1, 1]], domain, private=False))
    private = pmw.Table.from_codes([[0, 1]] * 3 + [[1, 0]], domain, private=True)
    monkeypatch.setattr(privmw.extensions.evaluation.mixture, "IDLE_PROJECTIONS", 10)
    found = best_mixture_error(private, support, workload, tolerance=1e-6)
    assert found.lower == pytest.approx(0.25, abs=1e-6)
    assert found.upper == pytest.approx(0.25, abs=1e-6)


def test_a_bracket_after_no_rounds_is_wide_and_true():
    support = pmw.Support.from_table(table([[0, 0, 0], [2, 1, 3], [2, 1, 3]]))
    private = [[0, 0, 0], [2, 1, 3]]
    found = best_mixture_error(table(private, True), support, WORKLOAD, rounds=0)
    assert (found.lower, found.rounds) == (0, 0)
    assert found.upper == pytest.approx(1 / 6)


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    private = table([[0, 0, 0]], True)
    with pytest.raises(ImportError, match=r"pip install 'privmw\[fit\]'"):
        best_mixture_error(private, pmw.Support.full(DOMAIN), WORKLOAD)


@pytest.mark.skipif("PRIVMW_DATA" not in os.environ, reason="PRIVMW_DATA is not set")
def test_the_bracket_of_adult_with_few_women_closes():
    parquet = pytest.importorskip("pyarrow.parquet")
    sizes = {
        "sex": 2, "income>50K": 2, "race": 5, "relationship": 6, "marital-status": 7, "workclass": 9,
        "occupation": 15, "education-num": 16, "native-country": 42, "capital-gain": 16, "capital-loss": 6,
        "hours-per-week": 10, "age_10": 10,
    }  # fmt: skip
    read = parquet.read_table(Path(os.environ["PRIVMW_DATA"]) / "adult" / "adult_pmwpub.parquet")
    codes = np.stack([read[name].to_numpy().astype(np.int64) for name in sizes], axis=1)
    codes = codes[np.random.default_rng(0).permutation(len(codes))]
    public, private = codes[: len(codes) // 10], codes[len(codes) // 10 :]
    women, men = public[public[:, 0] == 0], public[public[:, 0] == 1]
    share = (codes[:, 0] == 0).mean() - 0.3
    public = np.concatenate([men, women[: round(len(men) * share / (1 - share))]])
    domain = pmw.Domain(sizes)
    support = pmw.Support.from_table(pmw.Table.from_codes(public, domain, private=False))
    found = best_mixture_error(
        pmw.Table.from_codes(private, domain, private=True), support, pmw.Workload.all(domain, k=3)
    )
    assert found.upper - found.lower <= 1e-4
    assert 0.001 < found.lower < 0.03
