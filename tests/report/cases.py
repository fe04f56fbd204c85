"""Releases and fits to report on: one by hand, whose numbers are known, and small ones of each kind."""

from functools import cache

import numpy as np

import privmw as pmw
from algorithms.cases import DOMAIN, WORKLOAD, private, support
from extensions.postprocess.cases import drawn
from privmw.accounting import DiscreteGaussian, ExponentialMechanism
from privmw.extensions.postprocess import (
    NoisyMarginal,
    NoisyMarginals,
    max_fit,
    nnls,
    ols,
    reweight,
    sequential,
)
from privmw.release import Release, Round
from privmw.release.measurements import Measurement

HAND_DOMAIN = pmw.Domain({"age": 10, "sex": ["F", "M"], "zip": 60_000})
HAND_WORKLOAD = pmw.Workload(HAND_DOMAIN, [("age",), ("age", "sex")])
HOSTILE = "</style></script><script>alert('x')</script>&amp;\"'{{ 7 * 7 }} $x^2$ id=\"y\""


def by_hand(**changed):
    """Four rows, three noisy counts of a thousand records; rho 1/16 and 1/8 spent of a budget of 1/2."""
    rows = [[3, 0, 9], [9, 1, 59_999], [3, 0, 9], [0, 1, 5], [3, 0, 8]]
    given = {
        "support": pmw.Support.from_table(pmw.Table.from_codes(rows, HAND_DOMAIN, private=False)),
        "workload": HAND_WORKLOAD,
        "weights": np.array([0.125, 0.5, 0.0, 0.375]),
        "measurements": [
            Measurement([3, 9], [493, 372], "discrete-gaussian", 4.0, 1),
            Measurement([17], [30], "discrete-laplace", 2.5, 2),
        ],
        "ledger": ledger(),
        "settings": {"algorithm": "MWPub", "rounds": 2, "measure": "cell", "gamma": None},
        "history": [Round(1, (3,), 0.25, 0.125, 0.0625), Round(2, (17,), 0.0625, 0.03, 0.1875)],
        **changed,
    }
    return Release(given.pop("support"), given.pop("workload"), given.pop("weights"), **given)


def ledger(neighbors=pmw.accounting.Neighbors.REPLACE_ONE, **words):
    made = pmw.accounting.Ledger(pmw.Budget.zcdp(0.5), neighbors, n=1000, **words)
    made.charge(DiscreteGaussian(sigma=4, l2_sensitivity_squared=2, size=2))
    made.charge(ExponentialMechanism(1, candidates=30))
    return made


def hostile():
    """A release whose every name is an attack on the page."""
    domain = pmw.Domain(
        {HOSTILE: [HOSTILE, "b"], "日本語 \u202e\x07": {"labels": ["é" * 200, "$\\frac$", ""]}}
    )
    table = pmw.Table.from_codes([[0, 0], [1, 1], [0, 2], [0, 0]], domain, private=False)
    workload = pmw.Workload.all(domain, k=2)
    paid = pmw.accounting.Ledger(
        pmw.Budget.zcdp(0.5), pmw.accounting.Neighbors.REPLACE_ONE, n=9, unit=HOSTILE, generator=HOSTILE
    )
    paid.mark_seeded(HOSTILE)
    return Release(
        pmw.Support.from_table(table),
        workload,
        [0.5, 0.25, 0.25],
        measurements=[Measurement(np.arange(6), [3, 1, 1, 0, 2, 1], "discrete-gaussian", 1.0, 0)],
        ledger=paid,
        settings={"algorithm": HOSTILE, HOSTILE: [HOSTILE], "measure": "cell", "\ud800": "\ud800"},
        history=[Round(1, (0,), 0.5, 0.25, 0.1), Round(2, (5,), 0.25, 0.2, 0.2)],
    )


@cache
def runs():
    """Runs of each kind, seeded."""
    table, rows = private(), support()
    everywhere = {"epsilon": 1.0, "delta": 1e-6, "rng": 3}
    return {
        "auto": pmw.release_auto(table, rows, WORKLOAD, **everywhere),
        "rounds": pmw.MWPub(rounds=6, measure="marginal").release(table, rows, WORKLOAD, **everywhere),
        "cells": pmw.PEP(rounds=5, measure="cell").release(table, rows, WORKLOAD, **everywhere),
        "warm-up": pmw.MWPub(rounds=4, warm_up=0.3, order=1).release(table, rows, WORKLOAD, **everywhere),
        "other marginals": pmw.PEP(select="all", order=1).release(table, rows, WORKLOAD, **everywhere),
        "pure": pmw.MWEM(rounds=4).release(table, None, WORKLOAD, epsilon=1.0, delta=0, rng=3),
        "pure, one shot": pmw.MWEM(select="all").release(table, None, WORKLOAD, epsilon=1.0, delta=0, rng=3),
        "advanced": pmw.MWEMPub(rounds=4).release(table, rows, WORKLOAD, **everywhere),
        "many rounds": pmw.MWPub(rounds=130, per_round=4).release(table, rows, WORKLOAD, **everywhere),
    }


def evaluated(name):
    return pmw.evaluate(runs()[name], private())


def unusual():
    """Releases on odd domains, and with nothing in them."""
    free = {
        "ledger": pmw.accounting.Ledger(pmw.Budget.pure(1), pmw.accounting.Neighbors.REPLACE_ONE, n=1),
        "settings": {},
    }
    one = pmw.Domain({"only": 1})
    many = pmw.Domain({"zip": 60_000})
    codes = np.random.default_rng(0).integers(0, 60_000, (3_000, 1))
    rows = pmw.Support.from_table(pmw.Table.from_codes(codes, many, private=False))
    huge = pmw.Domain({"id": 2**32 - 1, "x": 2})
    few = pmw.Support.from_table(pmw.Table.from_codes([[0, 1], [2**32 - 2, 0]], huge, private=False))
    noise = Measurement(np.arange(60_000), np.arange(60_000) % 7 - 3, "discrete-laplace", 1e-3, 0)
    return {
        "one value": Release(pmw.Support.full(one), pmw.Workload.all(one, k=1), [1.0], **free),
        "no workload": Release(pmw.Support.full(DOMAIN), pmw.Workload(DOMAIN, []), np.ones(48) / 48, **free),
        "60,000 values": Release(
            rows, pmw.Workload.all(many, k=1), rows.start("uniform"), measurements=[noise], **free
        ),
        "a huge attribute": Release(few, pmw.Workload(huge, [("x",)]), [0.25, 0.75], **free),
        "grown by hand": grown_by_hand(),
        "no public row": by_hand(
            support=pmw.Support.without_public(HAND_DOMAIN).with_rows([[3, 0, 9], [9, 1, 7]]).support,
            weights=np.array([0.25, 0.75]),
        ),
    }


def grown_by_hand():
    """The rows of `by_hand` and two grown ones: age 7 is new, and so is sex M at age 3."""
    support = by_hand().support.with_rows([[3, 1, 9], [7, 0, 9]]).support
    weights = np.array([0.125, 0.25, 0.0, 0.25, 0.25, 0.125])  # ages 0, 3, 3, 3, 7, 9
    return by_hand(support=support, weights=weights)


@cache
def fits():
    """Fits of every method, over a histogram and over rows that lack some, and of odd answers."""
    measured, pairs = drawn((9, 24), (0, 1, 2), 3), drawn((4, 3, 5, 6), (0, 1, 2), 5, noise="gaussian")
    rows = np.random.default_rng(1).integers(0, [3, 3, 5, 6], (60, 4))
    lacking = pmw.Support.from_table(pmw.Table.from_codes(rows, pairs.domain, private=False))
    domain = hostile().support.domain
    attacks = [((), 1), (domain.names[:1], 2), (domain.names, 6)]
    attack = NoisyMarginals(
        [NoisyMarginal(names, np.arange(cells), "discrete-gaussian", 3.0) for names, cells in attacks], domain
    )
    many = pmw.Domain({"zip": 60_000, "sex": 2})
    wide = NoisyMarginals(
        [
            NoisyMarginal(("zip",), np.arange(60_000) % 7 - 3, "laplace", 2.0),
            NoisyMarginal(("sex",), [4e8, 3e8], "gaussian", 50.0),
        ],
        many,
    )
    total = NoisyMarginals([NoisyMarginal((), [-5.0], "laplace", 1.0)], pmw.Domain({"only": 1}))
    return {
        "ols": ols(measured),
        "nnls": nnls(measured),
        "max_fit": max_fit(measured),
        "sequential": sequential(pairs, lacking),
        "reweight": reweight(pairs),
        "hostile": nnls(attack),
        "60,000 values": nnls(wide),
        "a total": nnls(total),
    }
