"""Counting in real engines: equal to `Table.counts`, and how long beside our kernel.

    python benches/study.py engines                    # equal on ADULT and the survey, in every engine
    python benches/study.py engines time               # 98,947 survey records, all three-way marginals
    python benches/study.py engines time --marginals 500   # how many the engines' own grouping counts

Our kernel counts all 47,905 three-way marginals; the engines' own grouping would need hours for them and
counts a random few, scaled. Needs PRIVMW_DATA; pyspark, duckdb, dask, opendp and polars where installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import real_data
import shapes

import privmw as pmw
from privmw.engines import Counts, sql


def arrow(table: pmw.Table):
    """The codes as an Arrow table: engines get what the kernel gets."""
    import pyarrow as pa

    return pa.table({name: np.asarray(table.column(name), np.int32) for name in table.domain.names})


def by_duckdb(table, workload: pmw.Workload) -> Counts:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads TO 1")
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        return Counts.from_sql(connection, sql(workload, "people", "duckdb"))


def spark_session():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "4g")
    return session.getOrCreate()


def by_spark(table, workload: pmw.Workload) -> Counts:
    frame = spark_session().createDataFrame(table).repartition(2)
    return pmw.engines.spark(frame, workload)


def by_sparks_sql(table, workload: pmw.Workload) -> Counts:
    session = spark_session()
    session.createDataFrame(table).createOrReplaceTempView("people")

    class Cursor:
        def execute(self, statement: str) -> None:
            self.result = session.sql(statement).collect()

        def fetchall(self) -> list:
            return self.result

    return Counts.from_sql(Cursor(), sql(workload, "people", "spark", batch=20))


def by_dask(table, workload: pmw.Workload) -> Counts:
    import dask.dataframe

    return pmw.engines.dask(dask.dataframe.from_pandas(table.to_pandas(), npartitions=3), workload)


def by_polars(table, workload: pmw.Workload) -> Counts:
    """A group by for each marginal."""
    import polars

    frame, counts = polars.from_arrow(table), np.zeros(workload.cells, np.int64)
    for j, names in enumerate(workload):
        grouped = frame.lazy().group_by(names).agg(polars.len()).collect()
        cells = np.ravel_multi_index([grouped[name].to_numpy() for name in names], workload.shape(j))
        counts[workload.offsets[j] + cells] = grouped["len"].to_numpy()
    return Counts(workload, counts, n=frame.height)


def by_opendp(table, workload: pmw.Workload) -> Counts:
    """OpenDP's own stable marginals, before any noise: what its contingency tables count with."""
    import opendp.prelude as dp
    import polars
    from opendp.extras.mbi._utilities import make_stable_marginals

    dp.enable_features("contrib", "honest-but-curious")
    frame, sizes = (
        polars.from_arrow(table),
        dict(zip(workload.domain.names, workload.domain.sizes, strict=True)),
    )
    domain = [
        dp.series_domain(name, dp.atom_domain(T="u32", bounds=(0, size - 1))) for name, size in sizes.items()
    ]
    neighbours = dp.frame_distance(dp.symmetric_distance())
    count = make_stable_marginals(
        dp.lazyframe_domain(domain), neighbours, dp.l1_distance(T="u32"), list(workload)
    )
    counts = count(frame.lazy())
    joined = np.concatenate([counts[names].ravel() for names in workload]).astype(np.int64)
    return Counts(workload, joined, n=frame.height)


ENGINES: dict[str, Callable] = {
    "DuckDB, GROUPING SETS": by_duckdb,
    "Spark, our kernel": by_spark,
    "Spark, GROUPING SETS": by_sparks_sql,
    "Dask, our kernel": by_dask,
    "polars, group by": by_polars,
    "OpenDP, stable marginals": by_opendp,
}


def tables() -> dict[str, tuple[pmw.Table, pmw.Workload]]:
    adult, survey = real_data.adult(), shapes.acs67_real()
    return {
        "ADULT": (adult, pmw.Workload.sample(adult.domain, k=3, size=50, seed=0)),
        "survey": (survey, pmw.Workload.sample(survey.domain, k=3, size=30, seed=0)),
    }


def equal() -> None:
    for name, (table, workload) in tables().items():
        expected = table.counts(workload)
        for label, count in ENGINES.items():
            try:
                counts = count(arrow(table), workload)
            except ImportError as error:
                print(f"{name:8} {label:24} not installed: {error.name}")
                continue
            same = np.array_equal(counts.counts(workload), expected)
            print(f"{name:8} {label:24} {workload.cells:,} cells: {'equal' if same else 'NOT EQUAL'}")


def times(marginals: int) -> None:
    table = shapes.acs67_real()
    if isinstance(table, str):
        raise real_data.NoDataError(table)
    every = pmw.Workload.all(table.domain, k=3)
    some = pmw.Workload.sample(table.domain, k=3, size=marginals, seed=0)
    print(f"{table.n:,} records, {len(every):,} marginals; engines' own grouping on {marginals:,}, scaled")
    pmw.kernels.set_threads(1)
    began = time.perf_counter()
    expected = table.counts(every)
    kernel = time.perf_counter() - began
    print(f"{'our kernel, alone':24} {kernel:9.1f} s")
    given = arrow(table)
    for label, count in ENGINES.items():
        ours = "our kernel" in label
        workload = every if ours else some
        try:
            count(given, pmw.Workload.sample(table.domain, k=3, size=1, seed=1))  # starts the engine
            began = time.perf_counter()
            counts = count(given, workload)
        except ImportError as error:
            print(f"{label:24} not installed: {error.name}")
            continue
        seconds = (time.perf_counter() - began) * len(every) / len(workload)
        wanted = expected if ours else table.counts(some)
        same = "equal" if np.array_equal(counts.counts(workload), wanted) else "NOT EQUAL"
        print(f"{label:24} {seconds:9.1f} s  {seconds / kernel:7.1f} times the kernel, {same}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["equal", "time"], nargs="?", default="equal")
    parser.add_argument("--marginals", type=int, default=200)
    given = parser.parse_args()
    try:
        equal() if given.what == "equal" else times(given.marginals)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
