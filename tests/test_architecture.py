"""Keeps who may know whom, as far as imports and includes tell."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.cases import load

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "privmw").rglob("*.py"))
CORE = sorted((ROOT / "csrc" / "core").rglob("*.[ch]pp"))
DRAW = sorted((ROOT / "csrc" / "draw").glob("*.[ch]pp"))

# Room -> the rooms of privmw it may import; a room is a file or a folder of privmw, and knows itself.
MAY_KNOW = {
    "arrays": set(),
    "attribute": set(),
    "combinations": set(),
    "communicator": set(),
    "domain": {"attribute", "propose"},
    "propose": {"domain", "io"},
    "constraints": {"archive", "attribute", "domain", "table"},
    "workload": {"arrays", "combinations", "domain"},
    "records": {"communicator", "domain", "table", "workload"},
    "row_hash": set(),
    "table": {"arrays", "domain", "io", "kernels", "records", "workload"},
    "io": {"arrays", "attribute", "domain", "random", "records", "table", "workload"},
    "support": {
        "arrays",
        "communicator",
        "constraints",
        "domain",
        "kernels",
        "random",
        "records",
        "row_hash",
        "table",
        "workload",
    },
    "cluster": {
        "arrays",
        "communicator",
        "constraints",
        "domain",
        "io",
        "kernels",
        "random",
        "records",
        "row_hash",
        "support",
        "table",
        "version",
        "workload",
    },
    "kernels": {"arrays", "communicator", "_native"},
    "population": {"arrays", "domain", "table"},
    "measurements": {"arrays"},
    "apportion": set(),
    "history": set(),
    "archive": {"io"},
    "cells": {"domain", "io", "measurements", "postprocess", "release", "workload"},
    "version": set(),
    "release": {
        "accounting",
        "apportion",
        "arrays",
        "communicator",
        "history",
        "kernels",
        "measurements",
        "random",
        "release_file",
        "support",
        "table",
        "workload",
    },
    "release_file": {
        "accounting",
        "archive",
        "domain",
        "history",
        "measurements",
        "release",
        "support",
        "table",
        "workload",
    },
    "mechanisms": {"accounting", "kernels", "random"},
    "curator": {"accounting", "mechanisms", "random", "records", "workload"},
    "door": {"accounting", "communicator", "curator", "random", "records", "workload"},
    "checkpoint": {
        "accounting",
        "adaptive",
        "archive",
        "communicator",
        "history",
        "io",
        "random",
        "release_file",
        "support",
    },
    "measure": {"accounting", "curator", "postprocess", "random", "records", "workload"},
    "schedule": {"accounting"},
    "question": {"communicator", "records", "support", "workload"},
    "adaptive": {"accounting", "door", "history", "measurements", "question", "schedule", "workload"},
    "newton": {"communicator", "kernels"},
    "slack": {"newton"},
    "projection": {"communicator", "kernels", "newton", "slack"},
    "models": {"communicator", "kernels", "measurements", "projection", "random", "support", "workload"},
    "plan": {"accounting", "question", "schedule", "support"},
    "algorithm": {
        "accounting",
        "adaptive",
        "checkpoint",
        "communicator",
        "door",
        "plan",
        "question",
        "random",
        "records",
        "release",
        "schedule",
        "support",
        "version",
        "workload",
    },
    "shorthand": {
        "accounting",
        "algorithm",
        "communicator",
        "question",
        "records",
        "release",
        "support",
        "workload",
    },
    "mw_pub": {
        "adaptive",
        "algorithm",
        "models",
        "question",
        "records",
        "release",
        "shorthand",
        "support",
        "workload",
    },
    "mwem": {"algorithm", "mw_pub", "records", "release", "shorthand", "support", "workload"},
    "mwem_pub": {"algorithm", "mw_pub", "records", "release", "shorthand", "support", "workload"},
    "pep": {
        "adaptive",
        "algorithm",
        "models",
        "plan",
        "question",
        "records",
        "release",
        "shorthand",
        "support",
        "workload",
    },
    "auto": {
        "accounting",
        "algorithm",
        "communicator",
        "pep",
        "question",
        "records",
        "release",
        "shorthand",
        "support",
        "workload",
    },
    "mixture": {"kernels", "support", "workload"},
    "true_errors": set(),
    "evaluation": {
        "arrays",
        "history",
        "mixture",
        "records",
        "release",
        "support",
        "table",
        "true_errors",
        "workload",
    },
    "report": {
        "accounting",
        "domain",
        "io",
        "measurements",
        "postprocess",
        "release",
        "true_errors",
        "workload",
    },
    "cli": {
        "accounting",
        "algorithm",
        "auto",
        "cells",
        "cluster",
        "communicator",
        "constraints",
        "domain",
        "evaluation",
        "history",
        "io",
        "mw_pub",
        "mwem",
        "mwem_pub",
        "pep",
        "population",
        "postprocess",
        "propose",
        "release",
        "release_file",
        "report",
        "shorthand",
        "support",
        "true_errors",
        "version",
        "workload",
    },
    "__main__": {"cli"},
    "postprocess": {
        "arrays",
        "domain",
        "io",
        "kernels",
        "measurements",
        "random",
        "release",
        "support",
        "table",
        "workload",
    },
    "accounting": set(),
    "random": set(),
}
# Rooms that work on released values only, and so never meet the one who holds private counts.
NEVER_KNOWS = {
    "mechanisms": {"adaptive", "curator", "models", "records", "release", "support", "table", "workload"},
    "models": {"adaptive", "checkpoint", "curator", "door", "mechanisms", "records", "table"},
    "postprocess": {"curator", "mechanisms"},
    "release": {"curator", "mechanisms"},
    "report": {"curator", "mechanisms"},
    "cli": {"curator", "mechanisms"},
    "curator": {"adaptive", "models", "release"},
}
# May ask a table for its counts; a scan asks its own batches, sharded records their own part: tables as well.
COUNTING = {
    "cluster",
    "curator",
    "evaluation",
    "io",
    "mechanisms",
}  # may ask for counts; test_door.py says where


def room(path):
    first = path.relative_to(ROOT / "privmw").parts[0]
    return first.removesuffix(".py")


def imported_rooms(source, package=("privmw",)):
    """The rooms of privmw that a module of a package imports, wherever; "privmw" is the house itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "privmw" else [module]
        else:
            continue
        parts = [name.split(".") for name in names]
        found |= {part[1] if len(part) > 1 else "privmw" for part in parts if part[0] == "privmw"}
    return found


def calls_counts(source):
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "counts"
        for node in ast.walk(ast.parse(source))
    )


def named(paths):
    return {"argvalues": paths, "ids": [str(path.relative_to(ROOT)) for path in paths]}


@pytest.mark.parametrize("path", **named(MODULES))
def test_a_room_imports_only_rooms_it_may_know(path):
    here = room(path)
    known = imported_rooms(path.read_text(), path.relative_to(ROOT).parts[:-1]) - {here}
    assert known <= MAY_KNOW.get(here, known)
    assert not known & NEVER_KNOWS.get(here, set())
    assert "privmw" not in known, "a room imports rooms, not the house"


@pytest.mark.parametrize("path", **named(MODULES))
def test_only_the_curator_evaluation_and_a_table_itself_ask_for_counts(path):
    assert room(path) in COUNTING or not calls_counts(path.read_text())


def test_the_readers_of_imports_see_what_they_must():
    source = """
import privmw.data.table as t, numpy
from privmw import kernels
from privmw.data import support
from privmw.accounting.events import Event
def f():
    from privmw.curator import Curator
    import privmw
"""
    assert imported_rooms(source) == {"table", "kernels", "support", "accounting", "curator", "privmw"}
    inside = ("privmw", "accounting")
    assert imported_rooms("from .events import Event\nfrom . import ledger", inside) == {"accounting"}
    assert imported_rooms("from ..table import Table", inside) == {"table"}
    assert imported_rooms("from .. import domain", inside) == {"domain"}
    assert calls_counts("x = table.counts(workload)")
    assert not calls_counts("x = support.counts")


def test_every_room_has_its_rule_and_every_rule_its_room():
    rooms = {room(path) for path in MODULES}
    assert set(MAY_KNOW) == rooms - {"__init__"}
    assert len(CORE) >= 8


@pytest.mark.parametrize("path", **named(CORE))
def test_the_core_includes_the_standard_library_and_itself_only(path):
    for quoted in re.findall(r"^\s*#\s*include\s*(\S+)", path.read_text(), re.MULTILINE):
        assert re.fullmatch(r'<[a-z_]+>|"core/[a-z_/]+\.hpp"', quoted)
        assert quoted not in ("<random>", "<pybind>")


@pytest.mark.parametrize("path", **named(DRAW))
def test_the_draws_know_neither_python_nor_the_core(path):
    for quoted in re.findall(r"^\s*#\s*include\s*(\S+)", path.read_text(), re.MULTILINE):
        assert "core/" not in quoted
        assert not re.search(r"Python\.h|pybind|bind/|<random>", quoted)


@pytest.mark.parametrize("path", **named(CORE))
def test_the_core_draws_nothing_and_knows_neither_python_nor_epsilon(path):
    strange = (
        r"\b(s?rand|rand_r|random_device|mt19937\w*|getrandom|getentropy|Py[A-Z]\w*|py|pybind11|epsilon)\b"
    )
    assert not re.search(strange, path.read_text())
    assert not re.search(r"fast-math|fp_contract", path.read_text(), re.IGNORECASE)


def test_the_tests_truth_imports_nothing_of_privmw():
    assert not imported_rooms((ROOT / "tests" / "truth" / "reference.py").read_text())


def test_importing_privmw_loads_numpy_and_nothing_else_from_outside(tmp_path):
    program = """
import sys
before = set(sys.modules)
import privmw
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
outside = tops - set(sys.stdlib_module_names) - {"privmw", "numpy"}
print(*sorted(name for name in outside if "cython" not in name))  # Cython's shared types have module names
"""
    backend = "native" if load("native") else "numpy"
    environment = {**os.environ, "PRIVMW_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
