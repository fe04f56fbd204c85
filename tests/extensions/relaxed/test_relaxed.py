"""Products that learn and become rows: gradients, the draw, and what the rows answer."""

from __future__ import annotations

import itertools

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from privmw import Constraints, Domain, Support, Table, Workload
from privmw.extensions.relaxed.model import Draws, products_of, softmax, softmax_gradient
from privmw.extensions.relaxed.relaxed_rows import Fitted, RelaxedRows
from privmw.models.inputs import ModelInputs
from privmw.models.products import Products
from privmw.models.training import Adam, Training
from privmw.random import sampling_stream
from privmw.release.measurements import Measurement

DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "1": 1, "d": 2})
WORKLOAD = Workload.all(DOMAIN, k=3)
NONE = Support.without_public(DOMAIN)
STARTS = np.concatenate([[0], np.cumsum(DOMAIN.sizes)])
N = 10_000


def private():
    rng = np.random.default_rng(1)
    codes = np.stack([(rng.random(N) ** 2 * size).astype(np.int64) for size in DOMAIN.sizes], axis=1)
    codes[: N // 3, 4] = codes[: N // 3, 1]
    return Table.from_codes(codes, DOMAIN, private=False)


COUNTS = private().counts(WORKLOAD)


def measurement(marginals=None, scale=20.0, seed=2, number=0):
    cells = WORKLOAD.cells_of(range(len(WORKLOAD)) if marginals is None else marginals)
    noise = np.random.default_rng(seed).normal(0, scale, len(cells))
    return Measurement(
        cells, COUNTS[cells] + np.rint(noise).astype(np.int64), "discrete-gaussian", scale, number
    )


def model(support=NONE, **options):
    given = {
        "rows": 20,
        "softmax": True,
        "rate": 0.2,
        "steps": 60,
        "prior_weight": None,
        "draws": 5000,
        "seed": 0,
    } | options
    training = Training(given.pop("steps"), given.pop("rate"), given.pop("prior_weight"))
    draws = Draws(given.pop("draws"), given.pop("seed"))
    return RelaxedRows(ModelInputs(support, WORKLOAD, WORKLOAD, N, threads=1), draws, training, **given)


def formula(tables, numpy):
    """The answers of the mean of the products, cell by cell."""
    cells = []
    for marginal in WORKLOAD:
        places = [STARTS[DOMAIN.index(name)] for name in marginal]
        sizes = [DOMAIN.sizes[DOMAIN.index(name)] for name in marginal]
        for values in itertools.product(*map(range, sizes)):
            cell = 1.0
            for place, value in zip(places, values, strict=True):
                cell = cell * tables[place + value]
            cells.append(numpy.mean(cell))
    return numpy.stack(cells) if numpy is anp else np.array(cells)


def softmax_formula(logits, numpy):
    parts = [logits[a:b] for a, b in itertools.pairwise(STARTS)]
    parts = [numpy.exp(part) / numpy.exp(part).sum(axis=0) for part in parts]
    return numpy.concatenate(parts)


@pytest.mark.parametrize("relaxed", [True, False], ids=["softmax", "clipped"])
def test_the_gradient_of_the_loss_is_that_of_autodiff_and_finite_differences(relaxed):
    rng = np.random.default_rng(3)
    rows = model(softmax=relaxed)
    here = rng.uniform(-1, 1, (int(STARTS[-1]), 4))
    goal, weights = rng.random(WORKLOAD.cells), rng.choice([0.0, 0.5, 1.0], WORKLOAD.cells)
    margins = rng.standard_normal(int(STARTS[-1]))

    def loss(numbers):
        tables = softmax_formula(numbers, anp) if relaxed else numbers
        loss = (weights * (formula(tables, anp) - goal) ** 2).sum() / 2
        if relaxed:  # and the mean divergence from the margins
            loss = loss + 0.3 * (tables * (anp.log(tables) - margins[:, None])).sum() / 4
        return loss

    fitted = Fitted(products_of(WORKLOAD), goal, weights, margins[:, None], 0.3 if relaxed else 0.0)
    rows._numbers = here.copy()
    value, gradient = rows.gradient(fitted)
    assert value == pytest.approx(loss(here), rel=1e-12)
    expected = autograd.grad(loss)(here)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-10 * np.abs(expected).max())
    for _ in range(3):
        along = rng.standard_normal(here.shape)
        ends = []
        for far in (1e-5, -1e-5):
            rows._numbers = here + far * along
            ends.append(rows.gradient(fitted)[0])
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx((gradient * along).sum(), rel=1e-5)


def test_softmax_gives_distributions_for_any_logits():
    logits = np.array([[800.0, -900.0], [0.0, 0.0], [700.0, 0.0], *np.zeros((9, 2))])
    shares = softmax(logits, STARTS)
    sums = np.add.reduceat(shares, STARTS[:-1], axis=0)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    assert np.isfinite(softmax_gradient(shares, np.ones_like(shares), STARTS)).all()


def test_adam_applies_every_gradient():
    """A first step moves each number by the rate, against the sign of its gradient."""
    numbers = np.zeros(3, np.float32)
    Adam(numbers).step(np.array([5.0, -1e-3, 0.0], np.float32), 0.1)
    np.testing.assert_allclose(numbers, [-0.1, 0.1, 0.0], rtol=1e-4)


def test_the_last_gradient_is_applied():
    """With one step, the numbers are not those of the start."""
    rows = model(steps=1, softmax=False)
    before = rows._numbers.copy()
    rows.update([measurement()])
    assert (rows._numbers != before).mean() > 0.9


@pytest.mark.parametrize("relaxed", [True, False], ids=["softmax", "clipped"])
def test_rows_answer_as_the_products_they_are_drawn_from(relaxed):
    """Within four standard errors of 5,000 records that are drawn evenly: at most .5 / sqrt(5,000) each."""
    rows = model(softmax=relaxed, rate=0.2 if relaxed else 0.02, steps=200)
    rows.update([measurement()])
    products = rows.answers().copy()
    rows._training = Training(0, 0.0)  # no step: the last update draws from these products
    details = rows.update([], last=True)
    assert details["from_products"] == np.abs(rows.answers() - products).max()
    assert details["from_products"] < (4 * 0.5 / np.sqrt(5000) if relaxed else 0.2)
    truth = COUNTS / N
    assert np.abs(rows.answers() - truth).max() < (0.01 if relaxed else 0.1)
    assert np.abs(model().answers() - truth).max() > 0.2  # before anything is learnt


def test_a_released_support_has_only_rows_that_keep_the_constraints():
    rules = Constraints({"invalid": [{"b": [0], "d": [1]}]}, DOMAIN)
    support = Support.without_public(DOMAIN, rules)
    rows = model(support)
    rows.update([measurement()], last=True)
    made, weights = rows.result()
    assert rules.allows(made.rows.astype(np.uint32)).all()
    assert weights.sum() == pytest.approx(1.0)
    free, _ = _finished(model()).result()
    assert not rules.allows(free.rows.astype(np.uint32)).all()  # the rule forbids rows that are likely


def _finished(rows):
    rows.update([measurement()], last=True)
    return rows


def test_the_seed_decides_everything():
    one, again, other = (_finished(model(seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.result()[1], again.result()[1])
    assert not np.array_equal(one.result()[1], other.result()[1])
    assert one.result()[0].rows.tolist() == again.result()[0].rows.tolist()


def test_a_restored_model_goes_on_as_if_it_had_not_ended():
    rounds = [measurement([j], seed=j, number=j) for j in range(3)]
    through, begun, resumed = model(), model(), model()
    for made in rounds[:2]:
        through.update([made])
        begun.update([made])
    state = begun.state()
    assert state is not None
    resumed.restore(rounds[:2], state)
    assert np.array_equal(resumed.answers(), through.answers())
    ends = [rows.update([rounds[2]], last=True) for rows in (through, resumed)]
    assert ends[0] == ends[1]
    assert np.array_equal(through.result()[1], resumed.result()[1])
    assert through.state() is None


def test_answers_of_clipped_rows_are_fractions_where_a_round_chooses_by_them():
    rows = model(softmax=False, rows=1)
    relaxed = products_of(WORKLOAD).answers(rows._tables())
    assert relaxed.min() < 0
    assert rows.answers().min() >= 0
    assert rows.answers().max() <= 1


def test_single_cells_can_be_learnt():
    cell = WORKLOAD.cell(["a", "b", "c"], [0, 1, 0])
    made = Measurement(np.array([cell]), np.array([4000]), "discrete-gaussian", 10.0, 1)
    rows = model(steps=300)
    rows.update([made])
    assert rows.answers()[cell] == pytest.approx(0.4, abs=0.01)


def test_records_drawn_evenly_have_the_share_of_every_product_and_value():
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.full(4, 2.0))
    tables = tuple(rng.dirichlet(np.ones(size), 4) for size in (3, 5))
    products = Products(weights, tables)
    codes = products.draw_evenly(2000, sampling_stream(1))
    for a, table in enumerate(tables):
        counts = np.bincount(codes[:, a], minlength=table.shape[1])
        # Each of the four products rounds its number of records, and then each value's.
        assert np.abs(counts - 2000 * weights @ table).max() <= 8
    plain = products.draw(2000, sampling_stream(1))
    assert np.abs(np.bincount(plain[:, 1]) - 2000 * weights @ tables[1]).max() > 8
    assert products.draw_evenly(0, sampling_stream(1)).shape == (0, 2)
