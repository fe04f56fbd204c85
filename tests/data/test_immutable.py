"""What is made once stays as it is, and no tool for plain records takes it apart."""

import dataclasses
import pickle

import numpy as np
import pytest

import privmw as pmw

DOMAIN = pmw.Domain({"age": 3, "sex": 2})
WORKLOAD = pmw.Workload.all(DOMAIN, k=1)
SECRET = pmw.Table.from_codes([[2, 1], [0, 1]], DOMAIN, private=True)
SUPPORT = pmw.Support.full(DOMAIN)
RELEASE = pmw.Release(
    SUPPORT,
    WORKLOAD,
    np.full(6, 1 / 6),
    ledger=pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=40),
    settings={},
)
OBJECTS = {
    "domain": (DOMAIN, "names"),
    "workload": (WORKLOAD, "offsets"),
    "table": (SECRET, "columns"),
    "support": (SUPPORT, "counts"),
    "release": (RELEASE, "weights"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_attributes_are_neither_set_nor_deleted(name):
    made, attribute = OBJECTS[name]
    before = getattr(made, attribute)
    for change in (lambda: setattr(made, attribute, None), lambda: delattr(made, attribute)):
        with pytest.raises(AttributeError, match="is immutable"):
            change()
    with pytest.raises(AttributeError):
        made.another = 1
    assert getattr(made, attribute) is before


def test_a_private_table_is_not_taken_apart():
    for take in (dataclasses.asdict, dataclasses.astuple, pickle.dumps):
        with pytest.raises(TypeError):
            take(SECRET)
