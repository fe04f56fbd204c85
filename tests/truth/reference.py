"""The slow truth: what the kernels must return, from definitions, in plain numpy and Python integers.

Imports nothing of privmw. A table is a list of columns of codes with the sizes of their attributes; a
marginal is a tuple of positions; a query is a list of (attribute, value).
"""

from decimal import Context, Decimal
from fractions import Fraction
from math import fsum

import numpy as np


def marginal_sums(columns, sizes, marginals, masses, rows=None):
    """The cells of every marginal, in C order, one marginal after the other; of some rows only, if given."""
    answers = [np.empty(0, np.int64)]
    for marginal in marginals:
        cells, number = np.zeros(len(masses), np.int64), 1
        for attribute in marginal:
            codes = columns[attribute] if rows is None else columns[attribute][rows]
            cells = cells * sizes[attribute] + codes.astype(np.int64)
            number *= sizes[attribute]
        sums = np.zeros(number, np.int64)
        np.add.at(sums, cells, masses)
        answers.append(sums)
    return np.concatenate(answers)


def potentials(columns, sizes, marginals, values):
    """For each row the values of its cells, added over all marginals; exactly, then rounded."""
    found, first = [[] for _ in columns[0]], 0
    for marginal in marginals:
        cells, number = np.zeros(len(columns[0]), np.int64), 1
        for attribute in marginal:
            cells = cells * sizes[attribute] + columns[attribute].astype(np.int64)
            number *= sizes[attribute]
        for row, value in enumerate(values[first + cells].tolist()):
            found[row].append(value)
        first += number
    return np.array([fsum(row) for row in found])


def distinct_rows(columns):
    """The distinct rows in ascending order: where each comes first, and how often it comes."""
    _, first, counts = np.unique(
        np.stack(columns, axis=1).astype(np.int64), axis=0, return_index=True, return_counts=True
    )
    return first, counts


def matches(columns, query):
    """Whether each row has the values that a query asks for."""
    return np.array(
        [
            all(int(columns[attribute][row]) == value for attribute, value in query)
            for row in range(len(columns[0]))
        ]
    )


def bitmap(found):
    """Row r is bit r % 64 of word r // 64."""
    words = [0] * -(-len(found) // 64)
    for row in np.flatnonzero(found).tolist():
        words[row // 64] |= 1 << (row % 64)
    return words


def groups_alike(columns, queries):
    """Numbers rows by their answers to all queries, in the order of first rows."""
    answers = zip(*(matches(columns, query).tolist() for query in queries), strict=True)
    rows = list(answers) if queries else [()] * len(columns[0])
    numbers = {}
    return [numbers.setdefault(row, len(numbers)) for row in rows], len(numbers)


def masses(weights):
    """Weights times 2^60 to the nearest integer, ties to even, exactly."""
    return [round(Fraction(weight) * 2**60) for weight in np.asarray(weights).tolist()]


def exp(x):
    """The exponential of a float to the nearest float."""
    return float(Decimal(x).exp(Context(prec=40)))


def tilt(base, potentials):
    """base * exp(potentials) over its sum, and the logarithm of the sum, in forty digits."""
    exact, context = Context(prec=2000), Context(prec=40)
    most = Decimal(max(potential for weight, potential in zip(base, potentials, strict=True) if weight > 0))
    each = [
        context.multiply(Decimal(weight), context.exp(exact.subtract(Decimal(potential), most)))
        if weight > 0
        else Decimal(0)
        for weight, potential in zip(base, potentials, strict=True)
    ]
    total = Decimal(0)
    for term in each:
        total = context.add(total, term)
    weights = [float(context.divide(term, total)) for term in each]
    return weights, float(exact.add(most, context.ln(total)))


def membership(columns, sizes, marginals):
    """Which rows each cell holds, cells x rows of zeros and ones; and where each marginal's cells start."""
    held, offsets = [], [0]
    for marginal in marginals:
        for values in np.ndindex(*(sizes[attribute] for attribute in marginal)):
            held.append(matches(columns, list(zip(marginal, values, strict=True))))
        offsets.append(len(held))
    return np.array(held, np.float64), offsets


class Measured:
    """What a run measured so far: for each cell its mean by inverse variances, items in order of coming."""

    def __init__(self, offsets, n):
        self.offsets, self.n = offsets, n
        self.seen = {}
        self.items = []

    def add(self, cells, noisy_counts, variance):
        """Returns the items measured: ranges of cells, one of a single cell or one of each marginal."""
        for cell, count in zip(cells, noisy_counts, strict=True):
            self.seen.setdefault(int(cell), []).append((count / self.n, 1 / variance))
        if len(cells) == 1:
            new = [(int(cells[0]), int(cells[0]) + 1)]
        else:
            bounds = zip(self.offsets, self.offsets[1:], strict=False)
            new = [(first, end) for first, end in bounds if set(range(first, end)) & set(map(int, cells))]
        self.items += [item for item in new if item not in self.items]
        return new

    def answers(self, item):
        """The measured answers of an item's cells."""
        means = []
        for cell in range(*item):
            answers, weights = np.array(self.seen[cell]).T
            means.append((answers * weights).sum() / weights.sum())
        return np.array(means)


def multiplicative_weights(held, offsets, start, n, rounds, *, replay="none", output="last", shuffle=None):
    """A(x) <- A(x) exp(q(x) (a - q(A)) / 2), renormalised, as the papers have it, row by row and in full.

    rounds: for each round its measurements (cells, noisy_counts, variance). shuffle: for a round, what
    orders a list in place.
    """
    now, measured, kept = start / start.sum(), Measured(offsets, n), []

    def missing(item, at):
        return np.clip(measured.answers(item), 0, 1) - held[slice(*item)] @ at

    def moved(at, item, by):
        at = at * np.exp(by @ held[slice(*item)] / 2)
        return at / at.sum()

    for number, measurements in enumerate(rounds):
        new = [item for one in measurements for item in measured.add(*one)]
        if replay == "none":
            for item in new:
                now = moved(now, item, missing(item, now))
        else:
            before = {item: missing(item, now) for item in measured.items}
            least = min(np.abs(before[item]).max() for item in new) / 2
            again = [item for item in measured.items if np.abs(before[item]).max() >= least]
            if replay == "paper":
                for item in again + new:
                    now = moved(now, item, before[item])
            else:
                cells = [item for item in again if item[1] - item[0] == 1]
                marginals = [item for item in again if item[1] - item[0] > 1]
                order = shuffle(number)
                for items in (cells, marginals):
                    order(items)
                    for item in items:
                        now = moved(now, item, missing(item, now))
        kept.append(now)
    return np.mean(kept, axis=0) if output == "average" else now


def projection_dual(held, prior, answers, w):
    """The l2 dual of PEP's projection as a function of the multipliers, with gradient and Hessian.

    Its solution is the distribution D that minimises KL(D || prior) + sum w_i (q_i(D) - a_i)^2 / 2.
    """

    def distribution(multipliers):
        potentials = multipliers @ held
        tilted = prior * np.exp(potentials - potentials.max())
        return tilted / tilted.sum(), np.log(tilted.sum()) + potentials.max()

    def value(multipliers):
        return distribution(multipliers)[1] - multipliers @ answers + (multipliers**2 / w).sum() / 2

    def gradient(multipliers):
        return held @ distribution(multipliers)[0] - answers + multipliers / w

    def hessian(multipliers):
        now = distribution(multipliers)[0]
        fitted = held @ now
        return (held * now) @ held.T - np.outer(fitted, fitted) + np.diag(1 / w)

    return distribution, value, gradient, hessian
