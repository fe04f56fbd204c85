"""A private table, public rows near it, and the runs that the algorithms are tried on."""

from functools import cache

import numpy as np

from privmw import Domain, Support, Table, Workload

SIZES = {"a": 3, "b": 2, "c": 4, "d": 1, "e": 2}
DOMAIN = Domain(SIZES)
WORKLOAD = Workload.all(DOMAIN, k=2)
N = 2000


class EndedError(Exception):
    """Raised to end a run early."""


@cache
def drawn(n, skew, seed):
    """Codes in which the first values are the more common the larger the skew."""
    rng = np.random.default_rng(seed)
    return [np.minimum((rng.random(n) ** skew * size).astype(np.int64), size - 1) for size in SIZES.values()]


def table(n=N, skew=2.0, seed=1, private=False):
    return Table.from_codes(np.stack(drawn(n, skew, seed), axis=1), DOMAIN, private=private)


def private(**options):
    return table(private=True, **options)


@cache
def support():
    """Public rows: not every row of the domain, so that some cells hold none."""
    return Support.from_table(table(60, 1.2, 2))


FULL = {"rounds": 6, "rng": 3}
MW_OPTIONS = {
    "plain": {},
    "last": {"output": "last"},
    "uniform start": {"start": "uniform"},
    "exponential": {"select": "exponential", "split": 0.3},
    "marginals": {"measure": "marginal"},
    "three a round": {"per_round": 3, "output": "last"},
    "two marginals a round": {"per_round": 2, "measure": "marginal"},
    "paper": {"replay": "paper", "output": "last", "rounds": 15},
    "paper, three a round": {"replay": "paper", "per_round": 3},
    "paper, marginals": {"replay": "paper", "measure": "marginal", "rounds": 12},
    "paper, warm-up": {"replay": "paper", "warm_up": 0.3, "order": 1},
    "fresh": {"replay": "fresh", "output": "last", "rounds": 15},
    "fresh, three a round": {"replay": "fresh", "per_round": 3},
    "fresh, marginals": {"replay": "fresh", "measure": "marginal", "rounds": 12},
    "fresh, warm-up": {"replay": "fresh", "warm_up": 0.3, "order": 3, "measure": "marginal"},
    "warm-up": {"warm_up": 0.25},
    "warm-up, order 1, cells": {"warm_up": 0.25, "order": 1, "output": "last"},
    "warm-up, order 2, marginals": {"warm_up": 0.25, "order": 2, "measure": "marginal"},
    "all": {"select": "all", "rounds": None},
    "all, order 1": {"select": "all", "order": 1, "rounds": None},
    "all, order 2": {"select": "all", "order": 2, "rounds": None, "output": "last"},
}
PEP_OPTIONS = {
    "l2": {"prior_weight": 300.0},
    "l2, a chosen prior weight": {"rounds": 4},
    "l2, cells": {"measure": "cell", "rounds": 12, "prior_weight": 1000.0},
    "l2, uniform start": {"start": "uniform", "prior_weight": 50.0},
    "l2, cells, warm-up": {"measure": "cell", "warm_up": 0.4, "order": 1, "prior_weight": 300.0},
    "l2, all": {"select": "all", "rounds": None, "prior_weight": 300.0},
    "l2, all, order 1": {"select": "all", "order": 1, "rounds": None},
    "l1, cells": {"slack": "l1", "measure": "cell", "rounds": 12},
    "l1, marginals": {"slack": "l1", "gamma": 0.05, "per_round": 2, "rounds": 4},
}
