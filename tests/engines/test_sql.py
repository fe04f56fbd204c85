"""SQL on real engines: what it counts is what `Table.counts` counts, bit for bit."""

import decimal

import numpy as np
import pytest

import privmw as pmw
from engines.engines_data import DOMAIN, WORKLOAD, frame, values
from engines.postgresql_server import programs, running
from privmw.engines import Counts, sql
from privmw.engines.statements import DIALECTS

pa = pytest.importorskip("pyarrow")


def counted(table=None, **unit):
    return pmw.Table.from_frame(frame() if table is None else table, DOMAIN, private=True, **unit)


@pytest.fixture
def duck():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("given", frame())
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        yield connection


@pytest.mark.parametrize("batch", [None, 1, 17])
def test_duckdb_counts_as_the_table_does(duck, batch):
    counts = Counts.from_sql(duck, sql(WORKLOAD, "people", "duckdb", batch=batch))
    assert np.array_equal(counts.counts(WORKLOAD), counted().counts(WORKLOAD))
    assert Counts.from_sql(duck.cursor(), sql(WORKLOAD, ("main", "people"), "duckdb")).n == 400


def test_rows_of_python_are_read_like_columns(duck):
    class Cursor:  # as of any DB-API module
        def execute(self, statement):
            self.result = duck.execute(statement).fetchall()

        def fetchall(self):
            return self.result

    counts = Counts.from_sql(Cursor(), sql(WORKLOAD, "people", "duckdb"))
    assert np.array_equal(counts.counts(WORKLOAD), counted().counts(WORKLOAD))


def test_a_table_without_records_has_counts_of_zero(duck):
    duck.execute("CREATE TABLE nobody AS SELECT * FROM people LIMIT 0")
    assert Counts.from_sql(duck, sql(WORKLOAD, "nobody", "duckdb")).n == 0


def test_an_odd_table_name_and_a_quoted_one(duck):
    duck.execute('CREATE TABLE "a ""b.c\'" AS SELECT * FROM people')
    assert Counts.from_sql(duck, sql(WORKLOAD, "a \"b.c'", "duckdb")).n == 400


def capped_by_hand(unit, at_most):
    """How many records of units enter: the least of their number and the cap, summed over units."""
    return sum(min(at_most, int(n)) for n in np.unique(values()[unit], return_counts=True)[1])


def test_units_are_capped_alike_in_every_batch(duck):
    every = Counts.from_sql(duck, sql(WORKLOAD, "people", "duckdb", unit="home", at_most=2))
    small = Counts.from_sql(duck, sql(WORKLOAD, "people", "duckdb", unit="home", at_most=2, batch=5))
    assert every == small
    assert every.n == capped_by_hand("home", 2) == counted(unit="home", at_most=2).n
    assert (every.unit, every.at_most) == ("home", 2)


def test_which_records_of_a_unit_enter_is_its_own_affair(duck):
    """Changing one home's records changes counts by no more than those of that home."""
    before = Counts.from_sql(duck, sql(WORKLOAD, "people", "duckdb", unit="home", at_most=2))
    changed = values()
    rows = np.flatnonzero(changed["home"] == np.bincount(changed["home"]).argmax())
    assert len(rows) > 4
    changed["code"][rows] = (changed["code"][rows] + 1) % 4
    changed["works"][rows] = ~changed["works"][rows]
    duck.register("others", frame(**changed).take(np.random.default_rng(1).permutation(400)))
    after = Counts.from_sql(duck, sql(WORKLOAD, "others", "duckdb", unit="home", at_most=2))
    moved = np.abs(before.counts(WORKLOAD) - after.counts(WORKLOAD))
    assert before.n == after.n
    # Each marginal: at most two records leave and at most two enter.
    assert 0 < np.add.reduceat(moved, WORKLOAD.offsets[:-1]).max() <= 4


def test_a_record_without_a_unit_is_refused(duck):
    homes = [None, *values()["home"].tolist()[1:]]
    duck.register("others", frame(home=homes))
    with pytest.raises(ValueError, match=r"unit \('home'\) must be given for every record"):
        Counts.from_sql(duck, sql(WORKLOAD, "others", "duckdb", unit="home", at_most=2))


def test_all_columns_with_values_outside_are_named_and_no_value(duck):
    code = values()["code"].copy()
    code[3] = 77
    words = [*values()['s"e`x'][:-1], "SECRET"]
    duck.register("others", frame(**{"code": code, 's"e`x': words}))
    with pytest.raises(ValueError, match="outside the domain") as caught:
        Counts.from_sql(duck, sql(WORKLOAD, "others", "duckdb"))
    message = str(caught.value)
    assert "column 's\"e`x' must be one of its 3 labels" in message
    assert "column 'code' must be an integer from 0 to 3" in message
    assert "SECRET" not in message
    assert "77" not in message


@pytest.mark.parametrize("column", ["rooms", "code"])
def test_a_fraction_among_integers_is_refused(duck, column):
    numbers = [2.5, *[3.0] * 399]
    with pytest.raises((TypeError, ValueError)):
        counted(frame(**{column: numbers}))
    duck.register("others", frame(**{column: numbers}))
    with pytest.raises(ValueError, match=f"column '{column}' must be"):
        Counts.from_sql(duck, sql(WORKLOAD, "others", "duckdb"))


def test_a_table_that_changes_meanwhile_is_refused(duck):
    class Writing:
        def execute(self, statement):
            if "GROUPING" in statement:
                duck.execute("INSERT INTO living SELECT * FROM living LIMIT 1")
            return duck.execute(statement)

    duck.execute("CREATE TABLE living AS SELECT * FROM people")
    with pytest.raises(ValueError, match=r"must not change|must add up to n"):
        Counts.from_sql(Writing(), sql(WORKLOAD, "living", "duckdb", batch=30))


@pytest.fixture(scope="module")
def postgres():
    psycopg = pytest.importorskip("psycopg")
    if programs() is None:
        pytest.skip("no PostgreSQL server: apt-get install postgresql")
    with running() as address, psycopg.connect(address) as connection:
        yield connection


COLUMNS = {
    "a ge": "double precision", 's"e`x': "text", "rooms": "bigint", "code": "integer", "born": "date",
    "works": "boolean", "share": "real", "word": "text", "home": "integer", "ignored": "text",
}  # fmt: skip


def test_postgresql_counts_as_the_table_does(postgres):
    name = DIALECTS["postgresql"].name
    with postgres.cursor() as cursor:
        columns = ", ".join(f"{name(column)} {kind}" for column, kind in COLUMNS.items())
        cursor.execute(f"CREATE TABLE people ({columns})")
        with cursor.copy("COPY people FROM STDIN") as copying:
            for row in zip(*frame().to_pydict().values(), strict=True):
                copying.write_row(row)
        counts = Counts.from_sql(cursor, sql(WORKLOAD, "people", "postgresql"))
        assert np.array_equal(counts.counts(WORKLOAD), counted().counts(WORKLOAD))
        capped = Counts.from_sql(
            cursor, sql(WORKLOAD, "people", "postgresql", unit="home", at_most=2, batch=9)
        )
        assert capped.n == counted(unit="home", at_most=2).n


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_one_statement_that_a_parser_takes(dialect):
    sqlglot = pytest.importorskip("sqlglot")
    known = {"postgresql": "postgres"}.get(dialect, dialect)
    for unit in ({}, {"unit": "home", "at_most": 2}):
        for statement in sql(WORKLOAD, ("census", "people"), dialect, **unit):
            (parsed,) = sqlglot.parse(statement, read=known)
            names = {column.name for column in parsed.find_all(sqlglot.exp.Column)}
            asked = set(DOMAIN.names) if "GROUPING" in statement else set()
            assert asked <= names
            texts = {found.this for found in parsed.find_all(sqlglot.exp.Literal) if found.is_string}
            assert not asked or {"F'", "M\\", "ü\n"} <= texts


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"workload": 3}, TypeError, r"workload \(int\) must be a Workload"),
        ({"workload": pmw.Workload(DOMAIN, [])}, ValueError, "must have at least one marginal"),
        ({"dialect": "oracle"}, ValueError, r"dialect \('oracle'\) must be one of duckdb, postgresql"),
        ({"dialect": 3}, ValueError, r"dialect \(3\) must be one of"),
        ({"table": ""}, TypeError, r"table \(''\) must be a name"),
        ({"table": ("a", 3)}, TypeError, "table .* must be a name, or a tuple of names"),
        ({"unit": "home"}, TypeError, r"unit \(.home.\) and at_most \(None\) must be given together"),
        ({"unit": "home", "at_most": 0}, ValueError, r"at_most \(0\) must be"),
        ({"batch": 0}, ValueError, r"batch \(0\) must be"),
    ],
)
def test_a_bad_argument_is_refused(change, error, message):
    given = {"workload": WORKLOAD, "table": "people", "dialect": "duckdb", **change}
    with pytest.raises(error, match=message):
        sql(given.pop("workload"), given.pop("table"), given.pop("dialect"), **given)


SMALL = pmw.Workload.all(pmw.Domain({"a": 2, "b": 3}), k=[1, 2])
ROWS = [
    *[(0, None, 4), (1, None, 6), (None, 0, 3), (None, 1, 3), (None, 2, 4)],
    *[(0, 0, 1), (0, 1, 1), (0, 2, 2), (1, 0, 2), (1, 1, 2), (1, 2, 2)],
]


class Answering:
    """A cursor of an engine that answers as it is told."""

    def __init__(self, rows, first=((10, 10),)):
        self.rows, self.first = rows, first

    def execute(self, statement):
        self.result = self.rows if "GROUPING" in statement else self.first

    def fetchall(self):
        return self.result


def test_integers_of_other_types_are_read():
    decimals = [tuple(None if value is None else decimal.Decimal(value) for value in row) for row in ROWS]
    for rows in (ROWS, decimals, [tuple(row) for row in np.array(ROWS, object)], ROWS[::-1]):
        counts = Counts.from_sql(Answering(rows), sql(SMALL, "t", "duckdb"))
        assert counts.counts(SMALL).tolist() == [4, 6, 3, 3, 4, 1, 1, 2, 2, 2, 2]


def test_a_connection_whose_cursor_comes_back_will_do():
    class Connection:  # as psycopg's and sqlite3's
        def execute(self, statement):
            cursor = Answering(ROWS)
            cursor.execute(statement)
            return cursor

    assert Counts.from_sql(Connection(), sql(SMALL, "t", "postgresql")).n == 10


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[:-1], r"add up to n in each marginal; in \('a', 'b'\)"),
        (ROWS[:5], r"add up to n in each marginal; in \('a', 'b'\)"),
        ([], "must not change while it is counted"),
        ([*ROWS, (None, None, 10)], "the marginals of its GROUPING SETS"),
        ([*ROWS, (1, 2, 2)], "each cell at most once"),
        ([*ROWS[:-1], (1, 77_777, 2)], "codes of the domain"),
        ([*ROWS[:-1], (1, -7, 2)], "codes of the domain"),
        ([(0, None, -77_777), (1, None, 77_787), *ROWS[2:]], "counts must not be negative"),
        ([*ROWS[:-1], (1, 2, None)], "counts must not be negative"),
        *(([*ROWS[:-1], (1, 2, wrong)], "integers") for wrong in (2.5, "77777", float("nan"), 77_777**9)),
        ([row[1:] for row in ROWS], "rows of 3 columns"),
        ([(*row, 1) for row in ROWS], "rows of 3 columns"),
        ([*ROWS[:-1], (1, 77_777)], "rows of 3 columns"),
    ],
)
def test_a_result_that_was_not_asked_for_is_refused_and_not_quoted(rows, message):
    with pytest.raises(ValueError, match=message) as caught:
        Counts.from_sql(Answering(rows), sql(SMALL, "t", "duckdb"))
    assert "777" not in str(caught.value)


@pytest.mark.parametrize(
    "first", [(), ((10,),), (("77777", "77777"),), ((10, 10), (10, 10)), ((None, None),)]
)
def test_a_number_of_records_that_is_none_is_refused(first):
    with pytest.raises(ValueError, match=r"asked for|must not change") as caught:
        Counts.from_sql(Answering(ROWS, first), sql(SMALL, "t", "duckdb"))
    assert "777" not in str(caught.value)


def test_what_an_engine_says_of_a_value_is_withheld(duck):
    duck.register("others", frame(**{"a ge": [*["1"] * 399, "SECRET"]}))
    with pytest.raises(
        ValueError, match=r"refused a statement \(.*ConversionException; .* withheld"
    ) as caught:
        Counts.from_sql(duck, sql(WORKLOAD, "others", "duckdb"))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(Exception, match="nowhere"):  # of a table that is not there, it says all
        Counts.from_sql(duck, sql(WORKLOAD, "nowhere", "duckdb"))


@pytest.mark.parametrize("connection", [None, 3, "people.db"])
def test_what_is_no_connection_is_refused(connection):
    with pytest.raises(TypeError, match="must be a DB-API cursor or a DuckDB connection"):
        Counts.from_sql(connection, sql(SMALL, "t", "duckdb"))


def test_what_is_no_statement_is_refused(duck):
    with pytest.raises(TypeError, match=r"statements \(list\) must be those of engines.sql"):
        Counts.from_sql(duck, ["SELECT 1"])
