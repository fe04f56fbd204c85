"""SQL statements that count a workload in a database, and the parsing of their results.

Each statement encodes the columns by the domain's rules (one CASE per attribute), then counts a batch of
marginals with GROUPING SETS. A code is never NULL, so the columns that are NULL in a row of the result
identify its marginal in every dialect. A value outside the domain gets code -1.
What a column holds must be of its attribute's kind: text for words, numbers for numbers. Text that holds
numbers is not read as numbers, unlike in a csv file; booleans count as the labels "true" and "false".

Labels and names of columns are public but may be hostile. Labels with characters that some engine, setting or
client interprets are written in hexadecimal. Our own names differ from all columns of the domain, and
(SELECT *) leaves out the columns that engines add.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from privmw.data.attribute import Attribute
from privmw.data.unit import checked_unit
from privmw.data.workload import Workload
from privmw.extensions.engines.counts import Counts
from privmw.kernels.arrays import Int64s
from privmw.kernels.checks import check_integer
from privmw.secrecy import erased_on_failure, expect, sealed, shown

OUTSIDE = -1  # the code of values outside the domain
_WRONG_RESULT = "the result of a statement must be what engines.sql asked for: {}"
NOT_IN_MARGINAL = -2  # instead of NULL, in columns that are not in a row's marginal
# Characters that every engine takes literally between single quotes: no quotes, escapes, comments, parameters
# or templates, and ASCII only.
_LITERAL = re.compile(r"(?!.*--)[A-Za-z0-9 _.,()<>=+/-]*")


class Connection(Protocol):
    """A DB-API cursor, or a DuckDB connection."""

    def execute(self, statement: str) -> Any:
        """Run a statement."""

    def fetchall(self) -> Sequence[Sequence[Any]]:
        """All rows of its result."""


@dataclass(frozen=True)
class Dialect:
    """The differences between engines."""

    quote: str  # around a name
    folds_case: bool  # whether names are case-insensitive
    unhexed: str  # a text from the hexadecimal digits of its UTF-8, as a template
    text: str  # type of text
    double: str  # type of 64-bit floating point numbers
    is_nan: str  # whether a double is NaN, as a template
    hashed: str  # a text's hash as a template
    most_sets: int  # grouping sets of one statement

    def name(self, name: str) -> str:
        """A quoted name.

        >>> DIALECTS["postgresql"].name('a "b'), DIALECTS["spark"].name("a`b")
        ('"a ""b"', '`a``b`')
        """
        size = len(_utf8("name", name))
        if "${" in name or "%%" in name:
            raise ValueError(f'name ({shown(name)}) must not hold "${{" or "%%", which clients replace')
        if self is DIALECTS["postgresql"] and size > 63:
            raise ValueError(f"name ({shown(name)}) must take at most 63 bytes: PostgreSQL cuts it there")
        if self is DIALECTS["bigquery"]:
            return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, value: object) -> str:
        """A number, a date or a text.

        >>> DIALECTS["duckdb"].literal("<=50K"), DIALECTS["spark"].literal("it's")
        ("'<=50K'", "CAST(UNHEX('69742773') AS STRING)")
        """
        if isinstance(value, datetime.date):
            return f"DATE '{value}'"
        if not isinstance(value, str):
            return repr(value) if isinstance(value, int) and value >= 0 else f"({value!r})"
        return f"'{value}'" if _LITERAL.fullmatch(value) else self.unhexed.format(_utf8("label", value).hex())


def _utf8(what: str, text: str) -> bytes:
    if "\0" in text:
        raise ValueError(f"{what} ({shown(text)}) must not hold NUL, which engines cut or refuse")
    return text.encode()


_POSTGRESQL_NAN = "{} = CAST('NaN' AS DOUBLE PRECISION)"
_POSTGRESQL_TEXT = "CONVERT_FROM(DECODE('{}', 'hex'), 'UTF8')"
_SNOWFLAKE_NAN = "{} = CAST('NaN' AS DOUBLE)"
DIALECTS = {
    "duckdb": Dialect('"', True, "DECODE(UNHEX('{}'))", "VARCHAR", "DOUBLE", "isnan({})", "md5({})", 1000),
    "postgresql": Dialect(
        '"', False, _POSTGRESQL_TEXT, "TEXT", "DOUBLE PRECISION", _POSTGRESQL_NAN, "md5({})", 100
    ),
    "spark": Dialect(
        "`", True, "CAST(UNHEX('{}') AS STRING)", "STRING", "DOUBLE", "isnan({})", "md5({})", 100
    ),
    "bigquery": Dialect(
        "`", True, "CAST(FROM_HEX('{}') AS STRING)", "STRING", "FLOAT64", "IS_NAN({})", "TO_HEX(MD5({}))", 100
    ),
    "snowflake": Dialect(
        '"', False, "HEX_DECODE_STRING('{}')", "VARCHAR", "DOUBLE", _SNOWFLAKE_NAN, "MD5({})", 100
    ),
}


@dataclass(frozen=True)
class Statements(Sequence[str]):
    """The statements that count a workload; `Counts.from_sql` runs them, in their order.

    The first counts the records, and those that have a unit. Each of the others counts a batch of marginals.
    """

    workload: Workload
    unit: str | None
    at_most: int | None
    texts: tuple[str, ...]
    batches: tuple[tuple[int, int, tuple[int, ...]], ...]  # marginals from, to; attributes of the columns

    def __getitem__(self, index: Any) -> Any:
        return self.texts[index]

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Statements({len(self.texts)}, for {self.workload!r})"


def sql(
    workload: Workload,
    table: str | Sequence[str],
    dialect: str,
    *,
    unit: str | None = None,
    at_most: int | None = None,
    batch: int | None = None,
) -> Statements:
    """The statements that count a workload's cells in a table of a database.

    table: its name, or its schema's and its own: ("census", "people"); names are quoted, so that they are
    taken as they are. dialect: "duckdb", "postgresql", "spark", "bigquery" or "snowflake". unit, at_most: a
    column whose values tell units apart, and how many records of one are counted at most. Which ones depends
    on that unit's own id and records alone: those whose codes, with the id, have the smallest hashes.
    batch: how many marginals a statement counts; by default as many as the engine takes with ease.

    >>> from privmw import Domain, Workload
    >>> domain = Domain({"age": {"edges": [0, 18, 65], "other": "older"}, "sex": ["F", "M"]})
    >>> statements = sql(Workload.all(domain, k=[1, 2]), "people", "duckdb")
    >>> print(statements[0])
    SELECT COUNT(*) AS records, COUNT(*) AS with_unit FROM (SELECT * FROM "people") AS uncoded
    >>> print(statements[1])  # doctest: +NORMALIZE_WHITESPACE
    SELECT c0, c1, COUNT(*) FROM (SELECT
      CASE WHEN "age" IS NULL OR isnan(CAST("age" AS DOUBLE)) THEN 2
        WHEN CAST("age" AS DOUBLE) < 0 THEN 2 WHEN CAST("age" AS DOUBLE) < 18 THEN 0
        WHEN CAST("age" AS DOUBLE) <= 65 THEN 1 ELSE 2 END AS c0,
      CASE WHEN "sex" IS NULL THEN -1
        WHEN CAST("sex" AS VARCHAR) = 'F' THEN 0 WHEN CAST("sex" AS VARCHAR) = 'M' THEN 1 ELSE -1 END AS c1
      FROM (SELECT * FROM "people") AS uncoded) AS coded GROUP BY GROUPING SETS ((c0), (c1), (c0, c1))
    """
    expect("workload", workload, Workload, "a Workload")
    if not len(workload):
        raise ValueError(f"workload ({shown(workload)}) must have at least one marginal")
    known = DIALECTS.get(dialect) if isinstance(dialect, str) else None
    if known is None:
        raise ValueError(f"dialect ({shown(dialect)}) must be one of {', '.join(DIALECTS)}")
    parts = list(table) if isinstance(table, Sequence) and not isinstance(table, str) else [table]
    named = bool(parts) and all(isinstance(part, str) and part for part in parts)
    expect("table", table, named, "a name, or a tuple of names")
    checked_unit(unit, at_most, workload.domain, True)
    sets = known.most_sets if batch is None else check_integer("batch", batch, 1, 4096)
    names = [*workload.domain.names, *([] if unit is None else [unit])]
    folded = Counter(map(_folded, names))
    twins = [name for name in names if folded[_folded(name)] > 1]
    if known.folds_case and twins:
        raise ValueError(
            f"names ({', '.join(map(shown, twins))}) must differ in more than case: {dialect} takes them "
            "for one"
        )
    codes = [_own(f"c{a}", folded) for a in range(len(workload.domain.names))]
    source = f"(SELECT * FROM {'.'.join(map(known.name, parts))}) AS {_own('uncoded', folded)}"
    some = "*" if unit is None else known.name(unit)
    capped = None if unit is None else (unit, at_most, _own("owner", folded))
    texts, batches = [f"SELECT COUNT(*) AS records, COUNT({some}) AS with_unit FROM {source}"], []
    starts = workload.starts
    for first in range(0, len(workload), sets):
        last = min(first + sets, len(workload))
        used = sorted(set(workload.attributes[starts[first] : starts[last]].tolist()))
        batches.append((first, last, tuple(used)))
        marginals = (workload.attributes[starts[j] : starts[j + 1]].tolist() for j in range(first, last))
        grouping = ", ".join(f"({', '.join(codes[a] for a in marginal)})" for marginal in marginals)
        columns = ", ".join(codes[a] for a in used)
        coded = _coded(workload, codes, used, source, known, capped)
        texts.append(f"SELECT {columns}, COUNT(*) FROM {coded} AS coded GROUP BY GROUPING SETS ({grouping})")
    return Statements(workload, unit, at_most, tuple(texts), tuple(batches))


def _folded(name: str) -> str:
    """The case-folded name, by the rules of all engines."""
    return name.upper().casefold()


def _own(name: str, taken: Container[str]) -> str:
    """A name that no column of the domain has, made unique with underscores.

    Must not contain i, k or s, whose case folding differs between engines.
    """
    while name in taken:
        name += "_"
    return name


def _coded(
    workload: Workload,
    codes: Sequence[str],
    used: Sequence[int],
    source: str,
    dialect: Dialect,
    capped: tuple[str, int | None, str] | None,
) -> str:
    """The subquery of the codes of the records that enter.

    capped: the unit's column, how many of its records enter, and a free name for the column.
    """
    attributes = workload.domain.attributes
    # With units the choice must be the same in every batch, so it sorts by all attributes; ties are between
    # equal records.
    coded = used if capped is None else range(len(attributes))
    cases = ",\n".join(f"  {_case(attributes[a], dialect)} AS {codes[a]}" for a in coded)
    if capped is None:
        return f"(SELECT\n{cases}\nFROM {source})"
    unit, at_most, owner = capped
    name = f"CAST({dialect.name(unit)} AS {dialect.text})"
    text = " || ',' || ".join([owner, *(f"CAST({code} AS {dialect.text})" for code in codes)])
    kept = ", ".join(codes)
    number = f"ROW_NUMBER() OVER (PARTITION BY {owner} ORDER BY {dialect.hashed.format(text)}, {kept})"
    encoded = f"(SELECT {name} AS {owner},\n{cases}\nFROM {source}) AS encoded"
    placed = f"(SELECT {kept}, {number} AS place FROM {encoded}) AS placed"
    return f"(SELECT {kept} FROM {placed} WHERE place <= {at_most})"


def _case(attribute: Attribute, dialect: Dialect) -> str:
    """The expression that encodes a column as `Attribute.code` encodes a value."""
    column = dialect.name(attribute.name)
    size, missing = attribute.size, attribute.missing
    other = OUTSIDE if attribute.other is None else size - 1 - (missing is not None)
    null = size - 1 if attribute.takes_missing else OUTSIDE
    first: object = (attribute.edges or attribute.labels or (0,))[0]
    if isinstance(first, str):
        value, numeric = f"CAST({column} AS {dialect.text})", False
    elif isinstance(first, datetime.date):
        value, numeric = f"CAST({column} AS DATE)", False
    else:
        value, numeric = column, True
    double = f"CAST({column} AS {dialect.double})"
    whens = [
        f"{column} IS NULL" + (f" OR {dialect.is_nan.format(double)}" if numeric else "") + f" THEN {null}"
    ]
    declared = ((attribute.other, other), (missing, size - 1))
    extras = [(label, code) for label, code in declared if label is not None]
    whens += [
        f"{value} = {dialect.literal(label)} THEN {code}"
        for label, code in extras
        if isinstance(label, int) == numeric and not isinstance(first, datetime.date)
    ]
    if attribute.edges:
        if numeric:
            value = double
        write: Callable[[object], str] = dialect.literal
        whens.append(f"{value} < {write(attribute.edges[0])} THEN {other}")
        bins = list(pairwise(attribute.edges))
        for code, (_, high) in enumerate(bins):
            sign = "<=" if code == len(bins) - 1 else "<"
            whens.append(f"{value} {sign} {write(high)} THEN {code}")
        return _written(whens, other)
    if numeric:  # integers: fractions are outside the domain even if there is an "other"
        whens.append(f"{double} <> FLOOR({double}) THEN {OUTSIDE}")
    if attribute.labels:
        whens += [
            f"{value} = {dialect.literal(label)} THEN {code}" for code, label in enumerate(attribute.labels)
        ]
        return _written(whens, other)
    whens.append(f"{value} < 0 OR {value} >= {size} THEN {OUTSIDE}")
    return _written(whens, f"CAST({value} AS {'INT64' if dialect is DIALECTS['bigquery'] else 'BIGINT'})")


def _written(whens: Sequence[str], otherwise: object) -> str:
    return "CASE " + " ".join(f"WHEN {when}" for when in whens) + f" ELSE {otherwise} END"


@sealed
def counted(connection: Connection, statements: Statements) -> Counts:
    """Run statements, and read the counts; see `Counts.from_sql`."""
    expect("statements", statements, Statements, "those of engines.sql")
    right = callable(getattr(connection, "execute", None))
    expect("connection", connection, right, "a DB-API cursor or a DuckDB connection")
    workload, unit = statements.workload, statements.unit
    both = _columns(connection, statements[0], 2, reads_values=False)
    if any(len(column) != 1 for column in both):
        raise ValueError(_WRONG_RESULT.format("one row of two numbers"))
    (records,), (with_unit,) = both
    if records != with_unit:
        raise ValueError(f"unit ({shown(unit)}) must be given for every record: ids are missing")
    counts = np.zeros(workload.cells, np.int64)
    outside: set[int] = set()
    with erased_on_failure(counts):
        for text, (first, last, used) in zip(statements.texts[1:], statements.batches, strict=True):
            columns = _columns(connection, text, len(used) + 1)
            if len(columns[0]):
                outside |= _place(counts, workload, range(first, last), used, columns)
        if outside:
            rules = (workload.domain.attributes[a] for a in sorted(outside))
            said = "; ".join(f"column {shown(rule.name)} must be {rule.rule}" for rule in rules)
            raise ValueError(f"the table has values outside the domain: {said}")
        # Capped or not, every marginal counts the same records: `Counts` checks that each adds up to n.
        n = int(counts[: workload.offsets[1]].sum())
        if unit is None and n != records:
            raise ValueError("the table must not change while it is counted")
        return Counts(workload, counts, n=n, unit=unit, at_most=statements.at_most)


def _columns(
    connection: Connection, statement: str, width: int, *, reads_values: bool = True
) -> list[Int64s]:
    """The `width` columns of a result, codes and counts, with NOT_IN_MARGINAL for NULL.

    reads_values: whether the engine's error message could quote a private value.
    """
    try:
        columns = _fetched(connection, statement, width)
    except Exception as error:
        if not reads_values:
            raise
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
    else:
        if len(columns) != width:
            raise ValueError(_WRONG_RESULT.format(f"rows of {width} columns"))
        return [_integers(column) for column in columns]
    raise ValueError(
        f"the engine refused a statement ({kind}; its message is withheld, as it may quote values): the "
        "table must have a column for each attribute, text for words and numbers for numbers"
    )


def _fetched(connection: Connection, statement: str, width: int) -> Sequence[Any]:
    result = connection.execute(statement)
    if hasattr(result, "fetchnumpy"):  # DuckDB: ten times as fast as fetchall
        arrays = map(np.ma.asarray, result.fetchnumpy().values())
        return [np.ma.filled(array, NOT_IN_MARGINAL) for array in arrays]
    rows = (result if hasattr(result, "fetchall") else connection).fetchall()
    if not rows:
        return [()] * width
    # Rows of different lengths: no valid result.
    return list(zip(*rows, strict=True)) if len({len(row) for row in rows}) == 1 else ()


def _integers(column: Any) -> Int64s:
    """Convert to int64; raises without quoting values, unlike numpy."""
    try:
        if isinstance(column, tuple):
            column = np.array([NOT_IN_MARGINAL if value is None else value for value in column], object)
        if column.dtype.kind not in "iu":
            integers = np.array([int(value) for value in column.tolist()], np.int64)
            if not (integers == column).all():
                raise ValueError
            return integers
        return column.astype(np.int64)  # type: ignore[no-any-return]
    except (TypeError, ValueError, ArithmeticError):
        pass
    raise ValueError(_WRONG_RESULT.format("integers"))


def _place(
    counts: Int64s,
    workload: Workload,
    marginals: range,
    used: Sequence[int],
    columns: Sequence[Int64s],
) -> set[int]:
    """Write the rows of a result to their cells; returns the attributes with values outside the domain."""
    table, numbers = np.stack(columns[:-1]), columns[-1]
    outside = {used[a] for a in np.flatnonzero((table == OUTSIDE).any(axis=1)).tolist()}
    if outside:
        return outside
    # The pattern of columns of a row, as bits, identifies its marginal.
    patterns, which = np.unique(np.packbits(table != NOT_IN_MARGINAL, axis=0), axis=1, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel(), minlength=patterns.shape[1]))
    starts, flat = workload.starts, workload.attributes
    marginal_of = {tuple(flat[starts[j] : starts[j + 1]].tolist()): j for j in marginals}
    for pattern, rows in zip(patterns.T, np.split(order, ends[:-1]), strict=True):
        places = np.flatnonzero(np.unpackbits(pattern, count=len(used))).tolist()
        j = marginal_of.get(tuple(used[place] for place in places))
        if j is None:
            raise ValueError(_WRONG_RESULT.format("the marginals of its GROUPING SETS"))
        codes, shape = tuple(table[place, rows] for place in places), workload.shape(j)
        if any((code < 0).any() or (code >= size).any() for code, size in zip(codes, shape, strict=True)):
            raise ValueError(_WRONG_RESULT.format("codes of the domain"))
        cells = np.ravel_multi_index(codes, shape)
        if len(np.unique(cells)) < len(cells):
            raise ValueError(_WRONG_RESULT.format("each cell at most once"))
        counts[workload.offsets[j] + cells] = numbers[rows]
    return set()
