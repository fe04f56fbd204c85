"""What the tests of releases over MPI share with the programs that they run."""

import numpy as np

import privmw as pmw

ALGORITHMS = {
    "mw-pub": pmw.MWPub(rounds=6),
    "mw-pub by changes": pmw.MWPub(rounds=6, replay="none"),
    "pep": pmw.PEP(rounds=4),
    "pep that grows": pmw.PEP(rounds=3, particles=300),
}
MASK = np.int64(0x5A5A_5A5A_5A5A_5A5A)  # hides numbers from a search for them


def workload_of(domain):
    return pmw.Workload.all(domain, k=3)
