"""Counting in real engines: equal to `Table.counts`, how long beside our kernel, and how that grows.

    python benches/study.py engines                    # equal on ADULT and the survey, in every engine
    python benches/study.py engines time               # 98,947 survey records, all three-way marginals
    python benches/study.py engines time --marginals 500   # how many the engines' own grouping counts
    python benches/study.py engines growth             # 10^5 to 10^7 records of the shape acs67

Our kernel counts all 47,905 three-way marginals; the engines' own grouping would need hours for them and
counts a random few, scaled. Records lie in the engine before its clock starts. Times are seconds of one core,
of all processes that an engine runs in, as the machine may have other work; wall time stands beside them.
Needs PRIVMW_DATA (but for growth); duckdb, psycopg with a PostgreSQL server, pyspark, dask, polars and opendp
where installed. OpenDP runs with the one version of polars that it was built for (`privmw[opendp]`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import real_data
import shapes

import privmw as pmw
from privmw.extensions.engines import Counts, sql

sys.path.append(str(Path(__file__).parents[2] / "tests"))
# A Spark worker would import privmw from the folder it starts in, where nothing is compiled.
os.environ["PYTHONSAFEPATH"] = "1"
os.environ["PYSPARK_PYTHON"] = sys.executable

Count = Callable[[pmw.Workload], Counts]
SERVERS: list[int] = []  # processes that work for this one and are not its children
FEW = 100  # marginals that slow engines count where others count more


def arrow(table: pmw.Table):
    """The codes as an Arrow table: engines get what the kernel gets."""
    import pyarrow as pa

    return pa.table({name: np.asarray(table.column(name), np.int16) for name in table.domain.names})


@contextlib.contextmanager
def in_duckdb(table) -> Iterator[Count]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads TO 1")
        connection.register("given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        yield lambda workload: Counts.from_sql(connection, sql(workload, "people", "duckdb"))


@contextlib.contextmanager
def in_postgresql(table) -> Iterator[Count]:
    import psycopg

    from extensions.engines.postgresql_server import running

    columns = ", ".join(f'"{name}" smallint' for name in table.column_names)
    with (
        running() as address,
        psycopg.connect(address) as connection,
        connection.cursor() as cursor,
    ):
        SERVERS[:] = [connection.info.backend_pid]
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute(f"CREATE TABLE people ({columns})")
        with cursor.copy("COPY people FROM STDIN") as copying:
            for row in zip(*table.to_pydict().values(), strict=True):
                copying.write_row(row)
        cursor.execute("ANALYZE people")
        yield lambda workload: Counts.from_sql(cursor, sql(workload, "people", "postgresql"))
    SERVERS.clear()


@lru_cache(maxsize=1)
def spark_session():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "4g")
    quiet = session.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    return quiet.getOrCreate()


@contextlib.contextmanager
def spark_frame(table) -> Iterator:
    import pyarrow.parquet as parquet

    session = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(table, f"{folder}/people.parquet")
        yield session.read.parquet(f"{folder}/people.parquet")


@contextlib.contextmanager
def in_spark(table) -> Iterator[Count]:
    with spark_frame(table) as frame:
        yield lambda workload: pmw.engines.spark(frame, workload)


@contextlib.contextmanager
def in_sparks_sql(table) -> Iterator[Count]:
    session = spark_session()

    class Cursor:
        def execute(self, statement: str) -> None:
            self.result = session.sql(statement).collect()

        def fetchall(self) -> list:
            return self.result

    with spark_frame(table) as frame:
        frame.createOrReplaceTempView("people")
        yield lambda workload: Counts.from_sql(Cursor(), sql(workload, "people", "spark", batch=20))


@contextlib.contextmanager
def in_dask(table) -> Iterator[Count]:
    import dask
    import dask.dataframe

    frame = dask.dataframe.from_pandas(table.to_pandas(), npartitions=3)
    with dask.config.set(scheduler="synchronous"):
        yield lambda workload: pmw.engines.dask(frame, workload)


@contextlib.contextmanager
def in_polars(table) -> Iterator[Count]:
    """A group by for each marginal."""
    import polars

    frame = polars.from_arrow(table)

    def count(workload: pmw.Workload) -> Counts:
        counts = np.zeros(workload.cells, np.int64)
        for j, names in enumerate(workload):
            grouped = frame.lazy().group_by(names).agg(polars.len()).collect()
            cells = np.ravel_multi_index([grouped[name].to_numpy() for name in names], workload.shape(j))
            counts[workload.offsets[j] + cells] = grouped["len"].to_numpy()
        return Counts(workload, counts, n=frame.height)

    yield count


@contextlib.contextmanager
def in_opendp(table) -> Iterator[Count]:
    """OpenDP's own stable marginals, before any noise: what its contingency tables count with."""
    import opendp.prelude as dp
    import polars
    from opendp.extras.mbi._utilities import make_stable_marginals

    dp.enable_features("contrib", "honest-but-curious")
    frame = polars.from_arrow(table).cast(polars.UInt32)

    def count(workload: pmw.Workload) -> Counts:
        sizes = zip(workload.domain.names, workload.domain.sizes, strict=True)
        domain = [
            dp.series_domain(name, dp.atom_domain(T="u32", bounds=(0, size - 1))) for name, size in sizes
        ]
        neighbours = dp.frame_distance(dp.symmetric_distance())
        marginals = make_stable_marginals(
            dp.lazyframe_domain(domain), neighbours, dp.l1_distance(T="u32"), list(workload)
        )
        counts = marginals(frame.lazy())
        joined = np.concatenate([counts[names].ravel() for names in workload]).astype(np.int64)
        return Counts(workload, joined, n=frame.height)

    yield count


class Engine(NamedTuple):
    """How an engine is started with an Arrow table; whether our kernel counts in it; whether it is slow.

    warm: how often the same is counted before the clock starts; Java compiles what runs often.
    """

    start: Callable[..., contextlib.AbstractContextManager[Count]]
    ours: bool = False
    slow: bool = False
    warm: int = 0


ENGINES = {
    "Spark, our kernel": Engine(in_spark, ours=True, warm=5),
    "Dask, our kernel": Engine(in_dask, ours=True),
    "DuckDB, GROUPING SETS": Engine(in_duckdb),
    "PostgreSQL, GROUPING SETS": Engine(in_postgresql, slow=True),
    "Spark, GROUPING SETS": Engine(in_sparks_sql, slow=True),
    "polars, group by": Engine(in_polars),
    "OpenDP, stable marginals": Engine(in_opendp),
}


def tables() -> dict[str, tuple[pmw.Table, pmw.Workload]]:
    adult, survey = real_data.adult(), survey_records()
    return {
        "ADULT": (adult, pmw.Workload.sample(adult.domain, k=3, size=50, seed=0)),
        "survey": (survey, pmw.Workload.sample(survey.domain, k=3, size=30, seed=0)),
    }


def survey_records() -> pmw.Table:
    table = shapes.acs67_real()
    if isinstance(table, str):
        raise real_data.NoDataError(table)
    return table


def processor_seconds() -> float:
    """Of this process, of all below it and of SERVERS, those that ended included."""
    ticks, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    own = {os.getpid(), *SERVERS}
    while more := {child for child, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(ticks.get(process, 0) for process in own) / os.sysconf("SC_CLK_TCK")


class Timed(NamedTuple):
    """A result, and how long it took."""

    counts: Counts
    processor: float
    wall: float


def timed(count: Count, workload: pmw.Workload) -> Timed:
    began, before = time.perf_counter(), processor_seconds()
    counts = count(workload)
    return Timed(counts, processor_seconds() - before, time.perf_counter() - began)


def equal() -> None:
    for name, (table, workload) in tables().items():
        expected = table.counts(workload)
        for label, engine in ENGINES.items():
            try:
                with engine.start(arrow(table)) as count:
                    counts = count(workload)
            except Exception as error:  # of many libraries
                print(f"{name:8} {label:26} not run: {str(error).strip().splitlines()[0]}")
                continue
            same = np.array_equal(counts.counts(workload), expected)
            verdict = "equal" if same else "NOT EQUAL"
            print(f"{name:8} {label:26} {workload.cells:,} cells: {verdict}", flush=True)


def times(marginals: int) -> None:
    table = survey_records()
    every = pmw.Workload.all(table.domain, k=3)
    print(f"{table.n:,} records, {len(every):,} marginals, {every.cells:,} cells; seconds of one core")
    print(f"{'':26} {'counted':>9} {'seconds':>9} {'wall':>9} {'of all':>10} {'times the kernel':>17}")
    pmw.kernels.set_threads(1)
    alone = timed(lambda workload: Counts(workload, table.counts(workload), n=table.n), every)
    show("our kernel, alone", every, alone, every, alone.processor, "")
    given = arrow(table)
    for label, engine in ENGINES.items():
        size = min(marginals, FEW) if engine.slow else marginals
        workload = every if engine.ours else pmw.Workload.sample(table.domain, k=3, size=size, seed=0)
        try:
            with engine.start(given) as count:
                count(pmw.Workload.sample(table.domain, k=3, size=1, seed=1))  # starts what is started once
                for _ in range(engine.warm):
                    show(f"{label}, before", workload, timed(count, workload), every, alone.processor, "")
                result = timed(count, workload)
        except Exception as error:
            print(f"{label:26} not run: {str(error).strip().splitlines()[0]}", flush=True)
            continue
        same = np.array_equal(result.counts.counts(workload), table.counts(workload))
        show(label, workload, result, every, alone.processor, "equal" if same else "NOT EQUAL")


def show(
    label: str, counted: pmw.Workload, result: Timed, every: pmw.Workload, alone: float, verdict: str
) -> None:
    scaled = result.processor * len(every) / len(counted)
    print(
        f"{label:26} {len(counted):9,} {result.processor:9.2f} {result.wall:9.2f} {scaled:10,.1f} "
        f"{scaled / alone:17,.1f} {verdict}",
        flush=True,
    )


def growth(rows: list[int]) -> None:
    """Spark with our kernel, in partitions of at most a million records; DuckDB's grouping beside it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    print(f"Three-way marginals of the shape acs67, all; DuckDB counts {FEW}, scaled. Seconds of one core")
    print(f"{'records':>12} {'Spark, our kernel':>18} {'wall':>9} {'us a record':>12} {'DuckDB':>9} ratio")
    table = shapes.acs67(max(rows))
    workload = pmw.Workload.all(table.domain, k=3)
    pmw.kernels.set_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for n in rows:
            path, parts = Path(folder, str(n)), -(-n // 1_000_000)
            path.mkdir()
            for part in range(parts):
                places = slice(part * 1_000_000, min(n, (part + 1) * 1_000_000))
                columns = {name: np.int16(table.column(name)[places]) for name in table.domain.names}
                parquet.write_table(pa.table(columns), path / f"{part}.parquet")
        for n in rows:
            frame = spark_session().read.parquet(str(Path(folder, str(n))))
            parts = -(-n // 1_000_000)
            if parts > 1:
                frame = frame.repartition(parts)
            if n == rows[0]:  # for Java, which compiles what runs often
                for _ in range(5):
                    pmw.engines.spark(frame, workload)
            result = timed(lambda workload, frame=frame: pmw.engines.spark(frame, workload), workload)
            records = table.take(np.arange(table.n) < n)
            if not np.array_equal(result.counts.counts(workload), records.counts(workload)):
                raise SystemExit("NOT EQUAL")
            each = result.processor / n * 1e6
            with in_duckdb(arrow(records)) as count:
                some = pmw.Workload.sample(table.domain, k=3, size=FEW, seed=0)
                theirs = timed(count, some).processor * len(workload) / len(some)
            print(
                f"{n:12,} {result.processor:18.1f} {result.wall:9.1f} {each:12.1f} {theirs:9,.0f} "
                f"{theirs / result.processor:7.1f}",
                flush=True,
            )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["equal", "time", "growth"], nargs="?", default="equal")
    parser.add_argument("--marginals", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    given = parser.parse_args()
    try:
        if given.what == "equal":
            equal()
        elif given.what == "time":
            times(given.marginals)
        else:
            growth(given.rows)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
