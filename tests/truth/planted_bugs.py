"""Mechanisms with one mistake each, in the manner of real ones: the audit must catch them all.

Each takes private values, claims an event, and spends more than that.
"""

from fractions import Fraction

import numpy as np

from privmw.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    PermuteAndFlip,
    sigma_for_rho,
)
from privmw.data.queries import QueryGroup
from privmw.data.row_hash import mixed
from privmw.kernels import draws
from privmw.mechanisms import Selection, Threshold
from privmw.random import privacy_stream


def gaussian_of_half_the_noise(counts, *, rho, rng):
    """The variance is used where the draw wants it, but of sigma / 2."""
    sigma = sigma_for_rho(rho, 1)
    square = Fraction(sigma / 2) ** 2
    noise = draws.discrete_gaussian(
        privacy_stream(rng).bit_generator, square.numerator, square.denominator, counts.size
    )
    return counts + noise, DiscreteGaussian(sigma, 1)


def laplace_of_half_the_noise(counts, *, epsilon, rng):
    """Scale 1 / (2 epsilon), from a paper that counts the two cells of a replaced record elsewhere."""
    scale = 1 / (2 * Fraction(epsilon))
    noise = draws.discrete_laplace(
        privacy_stream(rng).bit_generator, scale.numerator, scale.denominator, counts.size
    )
    return counts + noise, DiscreteLaplace(1 / epsilon, 1)


def marginal_of_sensitivity_one(counts, *, epsilon, rng):
    """A replaced record leaves one cell and enters another, but only one of the two is paid for."""
    scale = 1 / Fraction(epsilon)
    noise = draws.discrete_laplace(
        privacy_stream(rng).bit_generator, scale.numerator, scale.denominator, counts.size
    )
    return counts + noise.reshape(counts.shape), DiscreteLaplace(1 / epsilon, 1)


def threshold_on_true_counts(counts, *, epsilon, delta, rng):
    """Whether a cell is shown depends on its count, not on its noisy count: nearly always the same choice."""
    threshold = Threshold.prepare(size=counts.size, l1_sensitivity=1, epsilon=epsilon, delta=delta)
    noisy = threshold.noise.add(counts, privacy_stream(rng))
    return np.where(counts >= threshold.event.threshold, noisy, 0), threshold.event


def threshold_of_one_record_less(counts, *, epsilon, delta, rng):
    """The threshold is that of noise alone: the record that makes a new cell is forgotten."""
    right = Threshold.prepare(size=counts.size, l1_sensitivity=1, epsilon=epsilon, delta=delta)
    noisy = right.noise.add(counts, privacy_stream(rng))
    return np.where((counts > 0) & (noisy >= right.event.threshold - 1), noisy, 0), right.event


def interaction_without_its_lattice_term(table, *, sigma, rng, runs):
    """Residual noise at a sigma that does not blur the integers: the contrast is taken for a Gaussian.

    Of a table of two values an attribute, whose one contrast a replaced record moves by 2 in N cells.
    """
    square = Fraction(sigma) ** 2
    noise = draws.discrete_gaussian(
        privacy_stream(rng).bit_generator, square.numerator, square.denominator, table.size * runs
    )
    signs = np.array([(-1) ** sum(cell) for cell in np.ndindex(*table.shape)])
    contrasts = (table.ravel() + noise.reshape(runs, table.size)) @ signs
    return contrasts, DiscreteGaussian(sigma, Fraction(4, table.size))


class GroupOfHalfTheSensitivity(QueryGroup):
    """The sum over the columns of two records is taken for twice what one of them moves."""

    def moved(self, order, *, replace):
        return max(super().moved(order, replace=replace) // 2, 1)


def selection_of_half_the_sensitivity(kind, scores, *, sensitivity, epsilon, rng):
    """The exponent is epsilon score / sensitivity: the 2 that makes a worse score pay too is forgotten."""
    of = {"candidates": scores.size, "sensitivity": sensitivity}
    claimed = Selection.prepare(kind, **of, epsilon=epsilon).event
    return Selection.prepare(kind, **of, epsilon=2 * epsilon).draw(scores, privacy_stream(rng))[0], claimed


def permute_and_flip_of_one_coin(scores, *, sensitivity, epsilon, uniforms, rng):
    """One uniform number serves as every candidate's coin."""
    chance = np.exp(-epsilon * (scores.max() - scores) / (2 * sensitivity))
    heads = np.flatnonzero(chance > uniforms.random())
    return int(rng.choice(heads)), PermuteAndFlip(epsilon, scores.size)


def draws_charged_as_in_the_first_round(events, records):
    """Weights of a fixed rate: a draw against a bag of t records is charged as one against a bag of one."""
    return [ExponentialMechanism(event.epsilon_of_one / records, event.candidates) for event in events]


def marginal_of_one_noise(counts, *, epsilon, rng):
    """One noise is drawn for a marginal and added to every cell: differences of cells are exact."""
    scale = 2 / Fraction(epsilon)
    generator = privacy_stream(rng).bit_generator
    noise = draws.discrete_laplace(generator, scale.numerator, scale.denominator, len(counts))
    return counts + noise[:, np.newaxis], DiscreteLaplace(2 / epsilon, 2)


def fractions_of_the_public_n(counts, *, n, public_n, epsilon, rng):
    """Fractions of n records, with the sensitivity 1 / n of the public table, which is larger."""
    sensitivity = 1 / public_n
    noise = np.random.default_rng(rng).laplace(scale=sensitivity / epsilon, size=counts.size)
    return np.floor(n * (counts / n + noise)).astype(np.int64), DiscreteLaplace(1 / epsilon, 1)


def release_that_charges_measurements_only(run):
    """The events of a run without those of its selections."""
    return [event for event in run if isinstance(event, DiscreteGaussian | DiscreteLaplace)]


def table_without_its_cap(table, unit, at_most):
    """The limit is said, and every record of a unit enters."""
    return table._entering(np.ones(table.n, bool), unit, at_most)


def table_that_pays_for_one_record(capped):
    """At most so many records of a unit enter, but noise and scores are those of one record."""
    return capped._entering(np.ones(capped.n, bool), capped.unit, 1)


def entering_by_place(hashes, at_most):
    """The priority of a record is a hash of its place in the table, not of its number in its unit."""
    places = np.arange(len(hashes), dtype=np.uint64)
    order = np.lexsort([mixed(hashes ^ mixed(places)), hashes])
    first = np.flatnonzero(np.r_[True, np.diff(hashes[order]) != 0])
    ranks = np.arange(len(hashes)) - np.repeat(first, np.diff(np.r_[first, len(hashes)]))
    enters = np.zeros(len(hashes), bool)
    enters[order[ranks < at_most]] = True
    return enters
