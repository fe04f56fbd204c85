"""A small release by hand, each part of which a test may change."""

import math

import numpy as np

import privmw as pmw
from privmw.release import Release, Round
from privmw.release.measurements import Measurement

DOMAIN = pmw.Domain({"age": 10, "sex": ["F", "M"], "zip": 60_000})
SUPPORT = pmw.Support.from_table(
    pmw.Table.from_codes([[3, 0, 9], [9, 1, 59_999], [3, 0, 9], [0, 1, 5], [3, 0, 8]], DOMAIN, private=False)
)
WORKLOAD = pmw.Workload(DOMAIN, [("age",), ("age", "sex")])
WEIGHTS = np.array([0.125, 0.5, 0.0, 0.375])


def ledger(n=1000, seeded=False):
    made = pmw.accounting.Ledger(pmw.Budget.zcdp(0.5), pmw.accounting.Neighbors.REPLACE_ONE, n=n)
    made.charge(pmw.accounting.DiscreteGaussian(sigma=4, l2_sensitivity_squared=1, size=2))
    made.charge(pmw.accounting.PermuteAndFlip(0.25, candidates=30))
    made.charge(pmw.accounting.DiscreteLaplace(scale=4, l1_sensitivity=1))
    if seeded:
        made.mark_seeded("seed 0")
    return made


def release(**changed):
    given = {
        "support": SUPPORT,
        "workload": WORKLOAD,
        "weights": WEIGHTS,
        "measurements": [
            Measurement([3, 9], [360, -4], "discrete-gaussian", 4.0, 0),
            Measurement([17], [500], "discrete-laplace", 4.0, 1),
        ],
        "ledger": ledger(),
        "settings": {"algorithm": "MWPub", "rounds": 1, "split": (0.5, 0.5), "replay": None},
        "history": [
            Round(0, (), 0.5, 0.25, 0.03125),
            Round(1, (17,), 0.25, 0.125, 0.09375, {"gap": math.inf, "kkt": math.nan}),
        ],
        **changed,
    }
    return Release(given.pop("support"), given.pop("workload"), given.pop("weights"), **given)
