"""Files as their publishers give them away become tables on the domains of the experiments.

`read_table` reads every file, on a domain with the values as the file has them; then each code becomes that
of the same value in the domain of the experiment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

import numpy as np

from privmw.data.domain import Domain
from privmw.data.syntax import Syntax
from privmw.data.table import Table
from privmw.io.files import checked_path, is_text
from privmw.io.lines import raw_blocks
from privmw.io.scan import read_table
from privmw.secrecy import expect, shown

Path: TypeAlias = "str | os.PathLike[str]"

# UCI's files have no header; adult.names lists the columns.
_UCI_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip
_COLUMN_OF = {"age_10": "age", "income>50K": "income", "AGEP10": "AGEP"}  # others have the attribute's name
_PROFILES = ("acs67", "acs15_reduced")
_FILES = {
    "adult": "adult.json",
    "acs67": "survey.json",
    "acs15_reduced": "survey.json",
    "loans": "loans.json",
}
# The papers' reduced survey: few enough records are possible for MWEM on all of them.
_REDUCED = (
    "DEYE", "DEAR", "ESR", "PRIVCOV", "HINS4", "HINS3", "RACAIAN", "RACASN", "RACBLK", "RACSOR",
    "RACPI", "RACWHT", "SEX", "DREM", "HINS1",
)  # fmt: skip


def domain(name: str) -> Domain:
    """The domain of a data set: "adult", "acs67", "acs15_reduced" or "loans".

    adult: 13 attributes, with the bins and the order of codes of the authors of MW-Pub. acs67 and
    acs15_reduced: the codes of the survey's dictionary in its order, -1 first where a question does not apply
    to everybody. loans: sizes alone, as its publisher gives no labels.

    >>> domain("adult")["capital-gain"].label(5), domain("acs67")["AGEP10"].label(9)
    ('[0, 1)', '[90, 120]')
    >>> domain("acs15_reduced").size
    172032
    """
    expect("name", name, str, "a string")
    if name not in _FILES:
        raise ValueError(f"name ({shown(name)}) must be one of {', '.join(_FILES)}")
    return _read(name)


@lru_cache(maxsize=len(_FILES))
def _read(name: str) -> Domain:
    path = files("privmw.extensions.experiments").joinpath(_FILES[name])
    whole = Domain.from_json(path.read_text(encoding="utf-8"))
    return whole.project(_REDUCED) if name == "acs15_reduced" else whole


def adult(*paths: Path, private: bool) -> Table:
    r"""ADULT on the 13 attributes of the papers, from UCI's `adult.data`, `adult.test` or both.

    The records come in the order of the files, all of them: the authors drop what is said twice and reorder
    the rest, which `benches/real_data.py` does. A file with a header, or parquet, must have UCI's names.
    private: what the table is to be taken as. The files are read as the public ones that they are: UCI's end
    in a blank line, which would be a record of a private file.

    >>> import pathlib, tempfile
    >>> person = "39, State-gov, 77516, Bachelors, 13, Divorced, Adm-clerical, Not-in-family, White, Male"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "adult.test")
    ...     _ = path.write_text(f"|1x3 Cross validator\n{person}, 2174, 0, 40, United-States, <=50K.\n")
    ...     adult(path, private=False).to_frame("pyarrow").to_pylist()[0]["age_10"]
    '[30, 40)'
    """
    published = domain("adult")
    declared = {_column(a.name): a.declaration() for a in published.attributes}
    gains = sorted(published["capital-gain"].labels or (), key=_bounds)
    declared["capital-gain"] = {"edges": [_bounds(gains[0])[0], *(_bounds(gain)[1] for gain in gains)]}
    declared["income"] = [label + end for end in ("", ".") for label in ("<=50K", ">50K")]
    read = Domain(declared)
    tables = [read_table(path, read, private=False, syntax=_uci_syntax(path)) for path in _listed(paths)]
    return _on(published, tables, private)


def survey(*paths: Path, private: bool, profile: Literal["acs67", "acs15_reduced"] = "acs67") -> Table:
    r"""Person records of the American Community Survey on 67 or 15 attributes.

    The columns and codes are those of the Census Bureau's dictionary, with capitals, as its csv files up to
    2018 have them; 2019 renamed some. An empty field, or -1, is "not applicable". AGEP10 is the age in tens,
    90 and above together. private: as in `read_table`.

    >>> import pathlib, tempfile
    >>> names = ("SERIALNO", *domain("acs15_reduced").names)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "psam_p15.csv")
    ...     _ = path.write_text(",".join(names) + "\n2018GQ0000001,2,2,,1,2,2,0,1,0,0,0,0,1,,1\n")
    ...     survey(path, private=False, profile="acs15_reduced").codes().tolist()
    [[1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]]
    """
    if profile not in _PROFILES:
        raise ValueError(f"profile ({shown(profile)}) must be {' or '.join(map(repr, _PROFILES))}")
    published = domain(profile)
    declared: dict[str, object] = {}
    for attribute in published.attributes:
        labels = attribute.labels or ()
        applicable = [label for label in labels if label != -1]
        blank = {"labels": applicable, "missing": -1}
        declared[_column(attribute.name)] = blank if -1 in labels else attribute.declaration()
    read = Domain(declared)
    return _on(published, [read_table(path, read, private=private) for path in _listed(paths)], private)


def loans(path: Path, *, private: bool) -> Table:
    """LOANS on 48 attributes, from a file of the codes 0, 1, ... that its publisher made.

    private: as in `read_table`.

    >>> loans("loans.csv", private=False)
    Traceback (most recent call last):
    FileNotFoundError: loans.csv must exist
    """
    return read_table(path, domain("loans"), private=private)


def _listed(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    if not paths:
        raise ValueError("paths (none) must be at least one")
    return paths


def _column(name: str) -> str:
    """The column of an attribute, as files have it."""
    return _COLUMN_OF.get(name, name)


def _bounds(label: str | int) -> tuple[int, int]:
    """The ends of a bin, from a label such as "[0, 10)"."""
    low, high = str(label)[1:-1].split(", ")
    return int(low), int(high)


def _uci_syntax(path: Path) -> Syntax:
    """How a file of ADULT is written: UCI's have no header, and the test split's has a line at the top."""
    text = checked_path(path)
    if os.path.isdir(text) or not is_text(text):
        return Syntax()
    start = next(raw_blocks(text), b"")
    if b"education-num" in start.partition(b"\n")[0]:
        return Syntax(header=True)
    return Syntax(separator=",", names=_UCI_COLUMNS, skip=int(start.startswith(b"|")))


def _on(published: Domain, tables: Sequence[Table], private: bool) -> Table:
    """The records of tables one after the other, each value with its code in the domain of the experiment."""
    table = Table.concatenate(tables)
    columns = {}
    for attribute in published.attributes:
        read = table.domain[_column(attribute.name)]
        labels = (read.label(code) for code in range(read.size))
        # The full stop after the labels of UCI's test split.
        codes = [attribute.code(x.rstrip(".") if isinstance(x, str) else x) for x in labels]
        columns[attribute.name] = np.array(codes, np.uint8)[table.column(read.name)]
    joined = Table(columns, published, private=private).with_traces(table.traces)
    return joined if table.for_release else joined.not_for_release()
