"""Tables whose releases grow: public rows that lack much, too few columns, none at all."""

import numpy as np

import privmw as pmw

DOMAIN = pmw.Domain({"age": 6, "sex": 2, "race": 4, "one": 1, "own": 3})
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)
RULES = pmw.Constraints({"invalid": [{"age": [0], "own": [2]}, {"sex": [1], "race": [3]}]}, DOMAIN)


def drawn(rows, seed, skew=0.4):
    rng = np.random.default_rng(seed)
    return np.stack([np.minimum(rng.geometric(skew, rows) - 1, size - 1) for size in DOMAIN.sizes], axis=1)


def table(codes, private=False):
    return pmw.Table.from_codes(codes, DOMAIN, private=private)


CODES = drawn(3000, 2)
PRIVATE = table(CODES, private=True)


def lacking(constraints=None):
    """The rows of a public table that has no age from 1 to 2, which a third of the private records have."""
    codes = drawn(400, 1)
    return pmw.Support.from_table(table(codes[(codes[:, 0] == 0) | (codes[:, 0] > 2)]), constraints)


def fewer(constraints=None):
    """Public rows without race and own."""
    names = ["age", "sex", "one"]
    codes = drawn(400, 3)[:, [0, 1, 3]]
    public = pmw.Table.from_codes(codes, DOMAIN.project(names), private=False)
    return pmw.Support.from_table(public, constraints, domain=DOMAIN)


SUPPORTS = {
    "rows that lack ages": lacking,
    "rows that keep rules": lambda: lacking(RULES),
    "fewer columns": fewer,
    "fewer columns that keep rules": lambda: fewer(RULES),
    "no public table": lambda: None,
    "no public table, but rules": lambda: pmw.Support.without_public(DOMAIN, RULES),
}
ALGORITHMS = {
    "a shot": pmw.PEP(select="all", particles=150),
    "rounds": pmw.PEP(rounds=2, particles=150),
    "cells": pmw.PEP(rounds=3, measure="cell", particles=150),
    "a shot and rounds": pmw.PEP(rounds=2, warm_up=0.4, order=1, particles=150),
}


def released(support, algorithm="a shot", rho=0.3, private=PRIVATE, **options):
    """A release by an algorithm, or by its name, from a support, or from one by its name."""
    support = SUPPORTS[support]() if isinstance(support, str) else support
    algorithm = ALGORITHMS[algorithm] if isinstance(algorithm, str) else algorithm
    return algorithm.calibrate(rho=rho)(private, support, WORKLOAD, **{"rng": 4, "threads": 1, **options})
