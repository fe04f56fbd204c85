"""Tables and algorithms of which ranks release the same bits as one process."""

import numpy as np

import privmw as pmw

DOMAIN = pmw.Domain({"age": 7, "sex": 2, "race": 5, "zip": 11, "own": 3})


def made(rows, seed, private=False):
    rng = np.random.default_rng(seed)
    skewed = [np.minimum(rng.geometric(0.4, rows) - 1, size - 1) for size in DOMAIN.sizes]
    return pmw.Table.from_codes(np.stack(skewed, axis=1), DOMAIN, private=private)


PUBLIC, PRIVATE = made(3000, 1), made(2000, 2, private=True)
SUPPORT = pmw.Support.from_table(PUBLIC)
WORKLOAD = pmw.Workload.all(DOMAIN, k=3)

ALGORITHMS = {
    "mw-pub": pmw.MWPub(rounds=6),
    "mw-pub by changes": pmw.MWPub(rounds=6, replay="none"),
    "mw-pub afresh": pmw.MWPub(rounds=6, replay="fresh"),
    "mw-pub averaged": pmw.MWPub(rounds=4, output="average", start="uniform"),
    "mw-pub on marginals": pmw.MWPub(rounds=4, measure="marginal"),
    "mw-pub on marginals, once each": pmw.MWPub(rounds=4, measure="marginal", replay="none"),
    "mw-pub on marginals afresh": pmw.MWPub(rounds=3, measure="marginal", replay="fresh", per_round=2),
    "mw-pub after a shot": pmw.MWPub(rounds=3, warm_up=0.3, order=2),
    "mwem+pub": pmw.MWEMPub(rounds=5),
    "pep": pmw.PEP(rounds=5),
    "pep on cells": pmw.PEP(rounds=5, measure="cell"),
    "pep within gamma": pmw.PEP(rounds=4, slack="l1"),
    "pep within gamma on cells": pmw.PEP(rounds=5, slack="l1", measure="cell", gamma=0.02),
    "pep of all": pmw.PEP(select="all"),
    "pep of all pairs": pmw.PEP(select="all", order=2, start="uniform"),
}
