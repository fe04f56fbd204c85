"""Spark and Dask, for real: partitions counted where they lie add up to what `Table.counts` counts."""

import os
import re
import sys

import numpy as np
import pytest

import privmw as pmw
from extensions.engines.engines_data import DOMAIN, WORKLOAD, frame, values
from privmw import engines
from privmw.extensions.engines import partitions

pa = pytest.importorskip("pyarrow")


def expected(**unit):
    return pmw.Table.from_frame(frame(), DOMAIN, private=True, **unit)


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONSAFEPATH"] = "1"  # workers import what is installed, not the sources where they start
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = (
        builder.config("spark.sql.shuffle.partitions", "3").config("spark.driver.memory", "1g").getOrCreate()
    )
    yield session
    session.stop()


def in_spark(spark, **changed):
    return spark.createDataFrame(frame(**changed)).repartition(5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_counts_as_the_table_does(spark):
    counts = engines.spark(in_spark(spark), WORKLOAD)
    assert np.array_equal(counts.counts(WORKLOAD), expected().counts(WORKLOAD))
    capped = engines.spark(in_spark(spark), WORKLOAD, unit="home", at_most=2)
    assert (capped.n, capped.unit, capped.at_most) == (expected(unit="home", at_most=2).n, "home", 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_sparks_own_sql_counts_as_the_table_does(spark):
    in_spark(spark).createOrReplaceTempView("people")

    class Cursor:
        def execute(self, statement):
            self.result = spark.sql(statement).collect()

        def fetchall(self):
            return self.result

    counts = engines.Counts.from_sql(Cursor(), engines.sql(WORKLOAD, "people", "spark"))
    assert np.array_equal(counts.counts(WORKLOAD), expected().counts(WORKLOAD))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_names_a_column_outside_its_domain_and_no_value(spark):
    code = values()["code"].copy()
    code[3] = 77
    with pytest.raises(Exception, match="column 'code'") as caught:
        engines.spark(in_spark(spark, code=code), WORKLOAD)
    told = str(caught.value).partition("JVM stacktrace")[0].replace("partition 77", "")
    assert "77" not in re.sub(r"line \d+", "line", told)  # the trace of the worker names lines of code


@pytest.fixture
def dask():
    return pytest.importorskip("dask.dataframe")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("partitions", [1, 7, 20])
def test_dask_counts_as_the_table_does(dask, partitions):
    data = dask.from_pandas(frame().to_pandas(date_as_object=True), npartitions=partitions)
    counts = engines.dask(data, WORKLOAD)
    assert np.array_equal(counts.counts(WORKLOAD), expected().counts(WORKLOAD))
    capped = engines.dask(data, WORKLOAD, unit="home", at_most=2)
    assert (capped.n, capped.unit, capped.at_most) == (expected(unit="home", at_most=2).n, "home", 2)


@pytest.mark.parametrize("engine", [engines.dask, engines.spark])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"workload": 3}, TypeError, r"workload \(3\) must be a Workload"),
        ({"unit": "home"}, TypeError, r"unit \(.home.\) and at_most \(None\) must be given together"),
        ({"unit": "code", "at_most": 2}, ValueError, r"unit \('code'\) must not be an attribute"),
    ],
)
def test_a_bad_argument_is_refused(engine, change, error, message):
    pytest.importorskip("pyspark" if engine is engines.spark else "dask")
    given = {"workload": WORKLOAD, **change}
    with pytest.raises(error, match=message):
        engine(None, given.pop("workload"), **given)


@pytest.mark.parametrize("engine", [engines.dask, engines.spark, engines.ray])
@pytest.mark.parametrize("frame", [None, 3, {"code": [1]}])
def test_what_is_no_frame_of_the_engine_is_refused(engine, frame):
    if engine is not engines.ray:
        pytest.importorskip(engine.__name__.replace("spark", "pyspark"))
    with pytest.raises(TypeError, match=r"must be a (Dask data frame|Spark data frame|Ray dataset)"):
        engine(frame, WORKLOAD)


@pytest.mark.filterwarnings("ignore")
def test_a_column_that_is_missing_is_named(dask):
    data = dask.from_pandas(frame().to_pandas(date_as_object=True).drop(columns="code"), npartitions=2)
    with pytest.raises(ValueError, match="dataframe: column 'code' is missing"):
        engines.dask(data, WORKLOAD)


def test_blocks_come_back_from_what_travels():
    rng = np.random.default_rng(0)
    blocks = {-1: np.array([7]), 0: rng.integers(0, 2**62, 1000), 3: np.zeros(1, np.int64)}
    columns = partitions._as_columns(blocks)
    back = dict(partitions._of_columns(pa.Table.from_pydict(columns, schema=partitions._schema())))
    assert list(back) == list(blocks)
    assert all(np.array_equal(back[number], blocks[number]) for number in blocks)
