"""Tables and releases whose errors are counted by hand."""

import privmw as pmw
from privmw.release import Release

DOMAIN = pmw.Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = pmw.Workload.all(DOMAIN, [1, 2])


def table(codes, private=False):
    return pmw.Table.from_codes(codes, DOMAIN, private=private)


def release_of(support, weights, workload=WORKLOAD):
    ledger = pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=10)
    return Release(support, workload, weights, ledger=ledger, settings={})
