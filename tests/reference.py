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
