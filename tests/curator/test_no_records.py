"""A private table without records is measured like any other: a refusal would tell it from its neighbour."""

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.thread_ranks import run_ranks
from kernels.cases import door_of
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.ranks import ALONE

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DOMAIN = pmw.Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"], "code": 70_000})
NAMES = list(DOMAIN.names)
WORKLOAD = pmw.Workload(DOMAIN, [("age",), ("age", "sex")])
ARROW = pa.table(
    {"age": pa.array([], pa.int64()), "sex": pa.array([], pa.string()), "code": pa.array([], pa.int32())}
)


def file(folder, kind):
    path = folder / f"none.{kind}"
    if kind == "csv":
        path.write_text("age,sex,code\n")
    else:
        parquet.write_table(ARROW, path)
    return path


WAYS = {
    "columns": lambda _, **private: pmw.Table(dict.fromkeys(NAMES, ()), DOMAIN, **private),
    "codes": lambda _, **private: pmw.Table.from_codes(np.empty((0, 3), np.int64), DOMAIN, **private),
    "pandas": lambda _, **private: pmw.Table.from_frame(pandas.DataFrame(columns=NAMES), DOMAIN, **private),
    "polars": lambda _, **private: pmw.Table.from_frame(polars.from_arrow(ARROW), DOMAIN, **private),
    "arrow": lambda _, **private: pmw.Table.from_frame(ARROW, DOMAIN, **private),
    "parquet": lambda folder, **private: pmw.read_table(file(folder, "parquet"), DOMAIN, **private),
    "csv": lambda folder, **private: pmw.read_table(file(folder, "csv"), DOMAIN, **private),
    "scan": lambda folder, **private: pmw.scan_table(file(folder, "parquet"), DOMAIN, **private),
    "scan of csv": lambda folder, **private: pmw.scan_table(file(folder, "csv"), DOMAIN, **private),
    "sharded": lambda folder, **private: ShardedRecords.from_parquet(
        file(folder, "parquet"), DOMAIN, ALONE, **private
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_private_table_without_records_is_measured(tmp_path, way):
    records = WAYS[way](tmp_path, private=True)
    assert records.n == 0
    assert not records.counts(WORKLOAD).any()
    with pmw.curator.Curator(
        records,
        WORKLOAD,
        pmw.Budget.zcdp(10**9),
        neighbors=pmw.accounting.Neighbors.ADD_REMOVE_ONE,
        public_n=5,
        rng=0,
    ) as curator:
        assert not curator.measure(marginals=[0, 1], rho=10**6).any()  # noise of deviation 0.001
        assert not curator.measure(total=True, rho=10**6).any()
        assert curator.measure([0, 1, 2], rho=1e-4).any()
    measured, ledger = pmw.measure_marginals(
        records,
        [(), ("age", "sex")],
        rho=1,
        neighbors=pmw.accounting.Neighbors.ADD_REMOVE_ONE,
        public_n=5,
        rng=0,
    )
    assert len(measured) == 2
    assert ledger.rho == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_public_table_without_records_is_refused(tmp_path, way):
    with pytest.raises(ValueError, match="at least one row"):
        WAYS[way](tmp_path, private=False)


def test_without_records_there_is_nothing_to_replace():
    none = WAYS["codes"](None, private=True)
    support = pmw.Support.full(DOMAIN.project(["age", "sex"]))
    refused = r"private \(0 records\) must have at least one record"
    with pytest.raises(ValueError, match=refused):
        pmw.curator.Curator(none, WORKLOAD, pmw.Budget.zcdp(1))
    with pytest.raises(ValueError, match=refused):
        pmw.release_auto(
            none.project(["age", "sex"]), support, pmw.Workload.all(support.domain, k=1), epsilon=1
        )
    with pytest.raises(ValueError, match=refused):
        pmw.evaluate(none, none, WORKLOAD)


def test_every_backend_counts_no_records(backend):
    none = WAYS["codes"](None, private=True)
    with door_of(backend):
        for workload in (WORKLOAD, pmw.Workload(DOMAIN, [("sex", "code")]), pmw.Workload.all(DOMAIN, k=1)):
            counts = none.counts(workload)
            assert counts.shape == (workload.cells,)
            assert not counts.any()


def test_no_record_on_any_of_several_ranks(tmp_path):
    path = file(tmp_path, "parquet")

    def count(comm):
        records = ShardedRecords.from_parquet(path, DOMAIN, comm, private=True)
        return records.n, int(records.counts(WORKLOAD).sum())

    assert run_ranks(3, count) == [(0, 0)] * 3
