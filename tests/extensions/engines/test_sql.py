"""SQL on real engines: what it counts is what `Table.counts` counts, bit for bit."""

import decimal

import numpy as np
import pytest

import privmw as pmw
from extensions.engines.engines_data import DOMAIN, WORKLOAD, frame, values
from extensions.engines.postgresql_server import programs, running
from privmw.extensions.engines import Counts, sql
from privmw.extensions.engines.statements import DIALECTS

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
            assert not asked or {label.encode().hex() for label in ("F'", "M\\", "ü\n")} <= texts


HOSTILE = [
    *[
        "'",
        "''",
        "\\",
        "\\\\",
        "\\'",
        "'; DROP TABLE people; --",
        "\\'; DROP TABLE people; --",
        "' OR '1'='1",
    ],
    *["a--b", "/* a", "# a", "a;b", "%%", "%s", "?", ":a", "@a", "&a", "$$", "${spark.master}", "{{ a }}"],
    *[
        '"',
        "`",
        "[a]",
        "\n",
        "\r\n.quit\n",
        "\x08",
        "\x1a",
        "\u2028",
        "ü",
        "ʼ",
        "＇",
        "%27",
        "\\x27",
        "\\u0027",
    ],
]
PLAIN = ["", "F", "<=50K", "Never-married", "Some-college, 10th (or so)", "+1/2 = 0.5", " a_b "]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_lexer_reads_a_label_as_anything_but_text(dialect):
    tokens = pytest.importorskip("sqlglot.tokens")
    sqlglot = pytest.importorskip("sqlglot")
    lexers = sorted(set(sqlglot.dialects.dialect.Dialect.classes) - {"dax"})  # no SQL: it quotes names so
    assert {"mysql", "tsql", "oracle", "sqlite", "clickhouse", *DIALECTS} - {"postgresql"} <= set(lexers)
    for label in PLAIN + HOSTILE:
        literal = DIALECTS[dialect].literal(label)
        shape = set()
        for lexer in lexers:
            found = sqlglot.tokenize(f"SELECT {literal} AS a", read=lexer)
            texts = [token.text for token in found if token.token_type == tokens.TokenType.STRING]
            assert texts[0] == (label if label in PLAIN else label.encode().hex()), (label, lexer)
            shape.add((len(found), tuple(texts)))
        assert len(shape) == 1, label


NAMES = ['a"b', '"', "a`b", "a'b", "a\\", "a;--b", "a%b", 'x" FROM people; DROP TABLE people; --', "ü\n"]
ODD = pmw.Domain(
    {
        "label": HOSTILE,
        "either": {"labels": HOSTILE[::2], "other": "o'", "missing": "\\m"},
        **{name: {"labels": HOSTILE[-2:], "other": "'"} for name in NAMES},
    }
)
ODD_WORKLOAD = pmw.Workload.all(ODD, k=[1, 2])


def odd_values(n=300):
    rng = np.random.default_rng(5)
    choose = lambda labels: [labels[i] for i in rng.integers(0, len(labels), n)]  # noqa: E731
    either = choose([*HOSTILE, "o'", "\\m", None])
    return {"label": choose(HOSTILE), "either": either, **{name: choose(HOSTILE) for name in NAMES}}


def odd_counts():
    return pmw.Table.from_frame(pa.table(odd_values()), ODD, private=True).counts(ODD_WORKLOAD)


def test_hostile_labels_and_names_are_counted_as_they_are_in_duckdb(duck):
    duck.register("odd", pa.table(odd_values()))
    counts = Counts.from_sql(duck, sql(ODD_WORKLOAD, "odd", "duckdb"))
    assert np.array_equal(counts.counts(ODD_WORKLOAD), odd_counts())
    assert duck.execute("SELECT COUNT(*) FROM people").fetchall() == [(400,)]


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("quote", ["on", "off", "safe_encoding"])
def test_hostile_labels_and_names_are_counted_as_they_are_in_postgresql(postgres, conforming, quote):
    name, columns = DIALECTS["postgresql"].name, odd_values()
    with postgres.cursor() as cursor:
        cursor.execute(f"SET standard_conforming_strings = {conforming}")
        cursor.execute(f"SET backslash_quote = {quote}")
        cursor.execute(
            f"CREATE TEMPORARY TABLE odd ({', '.join(f'{name(column)} text' for column in columns)})"
        )
        with cursor.copy("COPY odd FROM STDIN") as copying:
            for row in zip(*columns.values(), strict=True):
                copying.write_row(row)
        counts = Counts.from_sql(cursor, sql(ODD_WORKLOAD, "odd", "postgresql"))
        assert np.array_equal(counts.counts(ODD_WORKLOAD), odd_counts())
        cursor.execute("DROP TABLE odd")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"a": ["b\0"]}, r"label \('b\\x00'\) must not hold NUL"),
        ({"a\0": 2}, r"name \('a\\x00'\) must not hold NUL"),
        ({"a${b}": 2}, "name .* must not hold"),
        ({"a%%b": 2}, "name .* must not hold"),
    ],
)
def test_what_no_engine_holds_or_a_client_replaces_is_refused(attributes, message):
    for dialect in DIALECTS:
        with pytest.raises(ValueError, match=message):
            sql(pmw.Workload.all(pmw.Domain(attributes), k=[1]), "people", dialect)


def test_a_name_that_postgresql_would_cut_is_refused():
    domain = pmw.Domain({"a" * 61 + "ü": 2, "a" * 62 + "ü": 2})
    with pytest.raises(ValueError, match="must take at most 63 bytes"):
        sql(pmw.Workload.all(domain, k=[1]), "people", "postgresql")
    assert sql(pmw.Workload(domain, [domain.names[:1]]), "people", "postgresql")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_that_an_engine_takes_for_one_are_refused(dialect):
    workload = pmw.Workload.all(pmw.Domain({"Age": 2, "age": 2}), k=[1])
    if dialect in ("postgresql", "snowflake"):
        assert sql(workload, "people", dialect)
        return
    with pytest.raises(ValueError, match="must differ in more than case"):
        sql(workload, "people", dialect)
    with pytest.raises(ValueError, match="must differ in more than case"):
        sql(pmw.Workload(SMALL.domain, [["a"]]), "people", dialect, unit="B", at_most=1)


OURS = ["c0", "C0", "c1", "c2", "unit", "owner", "OWNER", "uncoded", "coded", "encoded", "place", "people"]


def with_missing(name):
    """A workload with a column that the table does not have, where any text at all would be counted."""
    return pmw.Workload.all(pmw.Domain({"code": 4, name: {"labels": ["a"], "other": "x"}, "word": 2}), k=[2])


@pytest.mark.parametrize("name", [*OURS, "rowid"])
def test_a_missing_column_is_refused_by_duckdb_whatever_its_name(duck, name):
    for unit in ({}, {"unit": "home", "at_most": 2}):
        duck.execute("CREATE OR REPLACE TABLE people AS SELECT code, home, 0 AS word FROM given")
        workload = with_missing(name)
        with pytest.raises(ValueError, match="must have a column for each attribute"):
            Counts.from_sql(duck, sql(workload, "people", "duckdb", **unit))
        # Where there is such a column, it is the one that is counted.
        with_it = f"SELECT code, home, 0 AS word, 'a' AS \"{name}\" FROM given"
        duck.execute(f"CREATE OR REPLACE TABLE people AS {with_it}")
        counts = Counts.from_sql(duck, sql(workload, "people", "duckdb", **unit)).counts(workload)
        entering = capped_by_hand("home", 2) if unit else 400
        assert counts[:8].reshape(4, 2).sum(axis=0).tolist() == [entering, 0]


@pytest.mark.parametrize("name", [*OURS, "ctid", "tableoid", "xmin", "to_json", "text"])
def test_a_missing_column_is_refused_by_postgresql_whatever_its_name(postgres, name):
    for unit in ({}, {"unit": "home", "at_most": 2}):
        with postgres.cursor() as cursor, postgres.transaction(force_rollback=True):
            cursor.execute("CREATE TEMPORARY TABLE people (code integer, home integer, word integer)")
            cursor.execute("INSERT INTO people SELECT i % 4, i % 9, i % 2 FROM generate_series(1, 40) AS i")
            present = pmw.Workload.all(pmw.Domain({"code": 4, "word": 2}), k=[2])
            assert Counts.from_sql(cursor, sql(present, "people", "postgresql", **unit)).n in (40, 18)
            with pytest.raises(ValueError, match="must have a column for each attribute"):
                Counts.from_sql(cursor, sql(with_missing(name), "people", "postgresql", **unit))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_name_of_ours_is_a_column_of_the_domain(dialect):
    sqlglot = pytest.importorskip("sqlglot")
    domain = pmw.Domain({name: 2 for name in OURS if name not in ("C0", "OWNER")})
    for statement in sql(pmw.Workload.all(domain, k=[1, 2]), "t", dialect, unit="home", at_most=1)[1:]:
        parsed = sqlglot.parse_one(statement, read={"postgresql": "postgres"}.get(dialect, dialect))
        innermost = next(
            select
            for select in parsed.find_all(sqlglot.exp.Select)
            if select.args["from_"].this.alias.startswith("uncoded")
        )
        ours = {projection.alias for projection in innermost.expressions}
        ours.add(innermost.args["from_"].this.alias)
        assert len(ours) == len(domain.names) + 2
        assert not ours & set(domain.names)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"workload": 3}, TypeError, r"workload \(3\) must be a Workload"),
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
