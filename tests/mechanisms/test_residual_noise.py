"""Residual noise: its exact law by enumeration, the cost of the worst pair, the lattice term, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privmw import ChaCha20, mechanisms
from privmw.accounting import (
    Budget,
    BudgetError,
    Ledger,
    Neighbors,
    Parallel,
    ResidualGaussian,
    worst_difference,
)
from privmw.accounting.residual_gaussian import lattice_term
from privmw.mechanisms.residual_noise import ResidualNoise, _contrasts
from privmw.random import privacy_stream

SHAPES = [(2, 2), (2, 3), (3, 4)]
SIGMAS = [0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]


def interaction(table):
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def embedded(contrasts, shape):
    table = np.zeros(shape)
    table[tuple(slice(0, size - 1) for size in shape)] = np.reshape(contrasts, [size - 1 for size in shape])
    return table


def law_over_ideal(contrasts, shape, sigma):
    """Pr[contrasts] / exp(-|P u|^2 / (2 sigma^2)) for a table of zeros, up to one factor.

    Every table with these contrasts is u plus integers r of the rows plus integers c of the columns, one of
    which may be 0. Given the rows, the columns are independent.
    """
    u = embedded(contrasts, shape)
    reach = math.ceil(9 * sigma) + 4
    steps = np.arange(-reach, reach + 1)
    free = np.array(list(itertools.product(steps, repeat=shape[0] - 1)))  # the first rows; the last is 0
    offsets = np.hstack([free, np.zeros((len(free), 1), int)])
    total = np.ones(len(offsets))
    for column in range(shape[1]):
        base = u[:, column][None, :] + offsets
        middle = -base.mean(axis=1)  # near where the sum over this column's integer is largest
        at = (
            np.rint(middle)[:, None] + np.arange(-8 - math.ceil(9 * sigma), 9 + math.ceil(9 * sigma))[None, :]
        )
        squares = (base**2).sum(axis=1)[:, None] + 2 * at * base.sum(axis=1)[:, None] + shape[0] * at**2
        total *= np.exp(-squares / (2 * sigma**2)).sum(axis=1)
    return total.sum() / math.exp(-(interaction(u) ** 2).sum() / (2 * sigma**2))


def some_contrasts(shape):
    """All of them modulo the number of cells, where there are few; the quotient above has that period."""
    cells, size = math.prod(shape), math.prod(n - 1 for n in shape)
    if cells**size <= 64:
        return list(itertools.product(range(cells), repeat=size))
    generator = np.random.default_rng(3)
    return [np.zeros(size, int), *generator.integers(0, cells, (24, size))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_exact_law_is_within_the_bound_of_the_ideal(shape, sigma):
    quotients = np.array([law_over_ideal(contrasts, shape, sigma) for contrasts in some_contrasts(shape)])
    # Both laws have mass 1, so the factor left out lies between 1 / largest and 1 / least.
    apart = quotients.max() / quotients.min()
    term = lattice_term(shape, [(0, 1)], [sigma])
    if term is None:
        assert sigma <= 1.5
        with pytest.raises(ValueError, match=r"sigmas .* must be larger"):
            ResidualGaussian(shape, ((0, 1),), (sigma,))
    else:
        assert apart - 1 <= float(term) + 1e-12
    if sigma == 0.5:
        assert apart > 1.4  # the term is real


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_the_law_of_two_by_two_is_a_convolution_and_its_divergence_is_as_claimed(sigma):
    line = np.arange(-60, 61)
    one = np.exp(-(line**2) / (2 * sigma**2))
    one /= one.sum()
    law = np.convolve(np.convolve(one, one), np.convolve(one, one))  # z11 - z12 - z21 + z22
    middle = len(law) // 2
    inside = np.arange(-8, 9)
    seen = law[inside + middle] / np.exp(-(inside**2) / (8 * sigma**2))
    told = np.array([law_over_ideal([u % 4], (2, 2), sigma) for u in inside])
    np.testing.assert_allclose(seen / seen[8], told / told[8], rtol=1e-9)
    # A replaced record moves the contrast by 2, and P x by |P(x - x')|^2 = 1.
    near, far = np.maximum(law, 1e-300), np.maximum(np.roll(law, 2), 1e-300)
    kl = float((law * np.log(near / far))[100:-100].sum())
    ideal = 1 / (2 * sigma**2)
    if sigma == 0.5:
        assert kl > 1.05 * ideal  # what leaving the term out would miss
    else:
        event = ResidualGaussian((2, 2), ((0, 1),), (sigma,))
        assert event.cost.rho == pytest.approx(ideal)
        assert kl <= float(event.cost.rho) * (1 + float(event.cost.delta)) + 4 * float(event.cost.delta)


def pairs_of_records(sizes):
    records = list(itertools.product(*map(range, sizes)))
    return itertools.product(records, records)


def moved(sizes, looks, sigmas, x, y):
    total = 0.0
    for look, sigma in zip(looks, sigmas, strict=True):
        step = np.zeros([sizes[a] for a in look])
        step[tuple(x[a] for a in look)] += 1
        step[tuple(y[a] for a in look)] -= 1
        total += (interaction(step) ** 2).sum() / (2 * sigma**2)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_the_cost_is_that_of_the_worst_pair_of_records(seed):
    generator = np.random.default_rng(seed)
    sizes = tuple(generator.integers(2, 4, 4).tolist())
    sets = [look for order in (1, 2, 3) for look in itertools.combinations(range(4), order)]
    looks = tuple(sets[i] for i in np.sort(generator.choice(len(sets), 6, replace=False)))
    sigmas = tuple(generator.uniform(8, 20, 6).tolist())
    worst = max(moved(sizes, looks, sigmas, x, y) for x, y in pairs_of_records(sizes))
    event = ResidualGaussian(sizes, looks, sigmas)
    assert worst <= float(event.cost.rho) * (1 + 1e-12)
    assert float(event.cost.rho) <= worst * (1 + 1e-9)
    assert ResidualGaussian(sizes, looks, sigmas, at_most=3).cost.rho == 9 * event.cost.rho


def test_looks_are_charged_jointly():
    # The pair that moves one attribute's table most does not move the interaction of the two at all.
    cost = {looks: ResidualGaussian((2, 2), looks, (9,) * len(looks)).cost.rho * 81
            for looks in [((0,),), ((1,),), ((0, 1),), ((0,), (1,), (0, 1))]}  # fmt: skip
    assert [float(value) for value in cost.values()] == [1, 1, 0.5, 2]


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_for_many_attributes_is_never_below_the_enumeration(seed, monkeypatch):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 9, 9).tolist()
    sets = [look for order in (1, 2, 3, 4) for look in itertools.combinations(range(9), order)]
    chosen = np.sort(generator.choice(len(sets), 60, replace=False))
    looks, sigmas = [sets[i] for i in chosen], generator.uniform(1, 9, 60).tolist()
    exact = worst_difference.worst_difference(sizes, looks, sigmas)
    monkeypatch.setattr(worst_difference, "MOST_ENUMERATED", 0)
    bound = worst_difference.worst_difference(sizes, looks, sigmas)
    assert exact <= bound <= exact * Fraction(3, 2)
    monkeypatch.setattr(worst_difference, "_MOST_SEARCH_SWEEPS", 0)
    assert bound < worst_difference.worst_difference(sizes, looks, sigmas)  # sweeps help


def test_plain_marginals_as_parts_cost_what_they_cost(monkeypatch):
    # Equal noise on marginals, written as residuals, costs 1 / sigma^2 for each: all attributes differ.
    sizes, marginals = [3, 4, 2, 5], list(itertools.combinations(range(4), 2))
    precision = {}
    for marginal in marginals:
        for order in (1, 2):
            for look in itertools.combinations(marginal, order):
                rest = math.prod(sizes[a] for a in marginal if a not in look)
                precision[look] = precision.get(look, 0) + 1 / rest
    sigmas = [value**-0.5 for value in precision.values()]
    for most in (20, 0):
        monkeypatch.setattr(worst_difference, "MOST_ENUMERATED", most)
        cost = worst_difference.worst_difference(sizes, list(precision), sigmas)
        assert float(cost) == pytest.approx(len(marginals), rel=1e-6)


def test_looks_that_have_nothing_in_common_cost_the_sum_of_their_worst():
    sizes = [2, 3, 4, 5, 6] * 5
    alone = worst_difference.worst_difference(sizes, [(a,) for a in range(25)], [10] * 25)
    assert float(alone) == pytest.approx(25 / 100, rel=1e-6)
    pairs = worst_difference.worst_difference(sizes, [(a, a + 1) for a in range(0, 24, 2)], [10] * 12)
    # Of a x b, the worst pair differs in the smaller attribute only: p + (1 / small) (1 - 1 / large).
    worst = [(1 - 1 / max(ab)) for ab in zip(sizes[:24:2], sizes[1:24:2], strict=True)]
    assert float(pairs) == pytest.approx(sum(worst) / 100, rel=1e-6)


def test_the_lattice_term_is_the_product_formula_rounded_up():
    for sizes, sigma in (((2, 2), 1.2), ((2, 3), 1.5), ((3, 4), 2.0), ((2, 2, 2), 2.0), ((5,), 1.5)):
        order, cells = len(sizes), math.prod(sizes)
        product = 1.0
        for size in sizes:
            terms = [math.exp(-2 * math.pi**2 * sigma**2 * m * m / (order * size)) for m in range(1, 9)]
            product *= (1 + 2 * math.fsum(terms)) ** (cells // size)
        eta = product - 1
        term = lattice_term(sizes, [tuple(range(order))], [sigma])
        assert math.log((1 + eta) / (1 - eta)) <= float(term) <= 3 * eta


def test_lattice_terms_of_looks_add_up_and_grow_as_sigma_falls():
    one = lattice_term([2, 3], [(0, 1)], [3.0])
    both = lattice_term([2, 3], [(0,), (0, 1)], [3.0, 3.0])
    assert one < both < lattice_term([2, 3], [(0,), (0, 1)], [3.0, 2.9])
    # The scales at which eta is 1e-30, for some shapes.
    for sizes, sigma in (
        ((2,), 2.7),
        ((42,), 12.2),
        ((16, 42), 17.6),
        ((2, 2, 2), 4.7),
        ((15, 16, 42), 21.9),
    ):
        looks = [tuple(range(len(sizes)))]
        assert lattice_term(sizes, looks, [sigma * 1.02]) < Fraction(4, 10**30)
        assert lattice_term(sizes, looks, [sigma * 0.95]) > Fraction(1, 10**30)


def test_contrasts_have_the_law_of_the_table_plus_noise():
    event = ResidualGaussian((2, 3), ((0,), (0, 1)), (3.0, 4.0))
    tables = [np.array([70, 30]), np.array([[10, 20, 40], [5, 15, 10]])]
    many = [mechanisms.add_residual_gaussian(tables, event=event, rng=seed)[0] for seed in range(2000)]
    first = np.array([one for one, _ in many])
    second = np.array([two for _, two in many])
    assert first.shape == (2000, 1)
    assert second.shape == (2000, 2)
    # C x = 70 - 30, and (10 - 40) - (5 - 10), (20 - 40) - (15 - 10); noise of 2 and 4 cells each.
    error = [4.0 * 2**0.5, 8.0, 8.0]
    means = np.array([first.mean(), *second.mean(axis=0)])
    assert (np.abs(means - [40, -25, -25]) < 6 * np.array(error) / 2000**0.5).all()
    spread = np.array([first.var(), *second.var(axis=0)])
    np.testing.assert_allclose(spread, [18, 64, 64], rtol=0.2)  # six sigmas of a variance from 2,000 draws
    assert np.cov(second.T)[0, 1] == pytest.approx(32, rel=0.35)


def test_contrasts_hold_all_that_an_interaction_has_and_nothing_else():
    generator = np.random.default_rng(1)
    for shape in ((4,), (2, 3), (3, 2, 4)):
        table = generator.integers(0, 100, shape)
        contrasts = _contrasts(table.copy())
        assert contrasts.shape == tuple(size - 1 for size in shape)
        np.testing.assert_allclose(interaction(embedded(contrasts, shape)), interaction(table.astype(float)))
        for axis in range(len(shape)):
            constant = np.repeat(generator.integers(0, 9, [n if i != axis else 1 for i, n in enumerate(shape)]), shape[axis], axis)  # fmt: skip  # noqa: E501
            np.testing.assert_array_equal(_contrasts(table + constant), contrasts)


def test_noisy_tables_are_erased(monkeypatch):
    kept = []
    add = mechanisms.Noise.add

    def spy(self, counts, stream):
        kept.append(add(self, counts, stream))
        return kept[-1]

    monkeypatch.setattr(mechanisms.Noise, "add", spy)
    noise = ResidualNoise.prepare(ResidualGaussian((2, 3), ((0, 1),), (9.0,)))
    noise.draw([np.full((2, 3), 77)], privacy_stream(1))
    assert kept
    assert not any(table.any() for table in kept)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sizes": ()}, "sizes .* must not be empty"),
        ({"sizes": (2, 0)}, r"sizes\[1\] must be positive and finite"),
        ({"sizes": (2, 1)}, "two values or more"),
        ({"looks": ()}, "looks .* must not be empty"),
        ({"looks": ((),), "sigmas": (9,)}, "look .* must not be empty"),
        ({"looks": ((0,), (0,))}, "must not repeat"),
        ({"looks": ((0,), (1, 0))}, "ascending"),
        ({"looks": ((0,), (0, 2))}, "positions from 0 to 1"),
        ({"sigmas": (9,)}, r"sigmas \(1\) must be as many as looks \(2\)"),
        ({"sigmas": (9, -1)}, r"sigmas\[1\] must be positive and finite"),
        ({"sigmas": (9, 0.5)}, "sigmas .* must be larger"),
        ({"sigmas": (9, 1e200)}, r"at most 2\^500"),
        ({"sigmas": (9, 10**400)}, r"at most 2\^500"),
        ({"at_most": 0}, r"at_most \(0\) must be positive"),
        ({"sizes": (2**16, 2**16)}, r"at most 2\^31 cells"),
        ({"sizes": (2,) * 7, "looks": ((0,), tuple(range(7)))}, "no more than 6 attributes"),
        ({"sizes": (2,) * 1290}, "at most 1,289 attributes"),
    ],
)
def test_events_that_mean_nothing_are_refused(change, match):
    good = {"sizes": (2, 3), "looks": ((0,), (0, 1)), "sigmas": (9, 9)}
    ResidualGaussian(**good)
    with pytest.raises(ValueError, match=match):
        ResidualGaussian(**(good | change))


SECRET = 987654321


@pytest.mark.parametrize("tables", [[np.full((2, 3), SECRET)] * 2, [SECRET], [np.full((2, 2), SECRET)],
                                    [np.full((2, 3), float(SECRET))], SECRET, []])  # fmt: skip
def test_tables_of_another_kind_are_refused_and_not_shown(tables):
    event, generator = ResidualGaussian((2, 3), ((0, 1),), (9.0,)), ChaCha20(seed=2)
    with pytest.raises((TypeError, ValueError), match="must") as caught:
        mechanisms.add_residual_gaussian(tables, event=event, rng=generator)
    assert str(SECRET) not in str(caught.value)
    assert generator.random_raw(1) == ChaCha20(seed=2).random_raw(1)


def test_noise_that_cannot_be_drawn_is_refused():
    for event, match in (
        (ResidualGaussian((2, 3), ((0, 1),), (2.0**41,)), r"at most 2\^40"),
        (ResidualGaussian((2, 3), ((0, 1),), (Fraction(9**2000 + 1, 9**1999),)), r"sigma\^2 .* 4096 bits"),
        (ResidualGaussian((2, 3), ((0, 1),), (9.0,), count=2), r"count \(2\) must be 1"),
    ):
        with pytest.raises(ValueError, match=match):
            ResidualNoise.prepare(event)
    with pytest.raises(TypeError, match="must be a ResidualGaussian"):
        ResidualNoise.prepare("residual")


def test_the_ledger_charges_it_keeps_it_and_reads_it_again():
    event = ResidualGaussian((2, 3, 4), ((0,), (0, 1), (1, 2)), (9.0, Fraction(19, 2), 11))
    ledger = Ledger(Budget.approximate(2, 1e-6, event_delta=1e-9), Neighbors.REPLACE_ONE, n=10)
    ledger.charge(event)
    assert ledger.total.rho == event.cost.rho
    assert ledger.delta > 0
    again = Ledger.from_json(ledger.to_json())
    assert again == ledger
    assert again.events == (event,)
    assert hash(again.events[0]) == hash(event)
    assert again.events[0].cost == event.cost
    assert "ResidualGaussian of 3 looks, sigma 9 to 11" in repr(event)
    assert "approximate zero-concentrated" in ledger.statement()
    assert event.size == 1 + 2 + 6
    with pytest.raises(BudgetError, match="deltas of events"):
        Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=10).charge(event)
    other = Ledger(Budget.zcdp(1, event_delta=1e-3), Neighbors.ADD_REMOVE_ONE, n=10)
    with pytest.raises(ValueError, match="must be REPLACE_ONE"):
        other.charge(Parallel((event,), Neighbors.ADD_REMOVE_ONE))
