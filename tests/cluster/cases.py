"""What the tests of releases over MPI share with the programs that they run."""

import numpy as np

import privmw as pm

ALGORITHMS = {
    "mw-pub": pm.MWPub(rounds=6),
    "mw-pub by changes": pm.MWPub(rounds=6, replay="none"),
    "pep": pm.PEP(rounds=4),
}
MASK = np.int64(0x5A5A_5A5A_5A5A_5A5A)  # hides numbers from a search for them


def workload_of(domain):
    return pm.Workload.all(domain, k=3)
