"""Measures of the code's structure beside their targets: lines, packages, noises, parameters, names, options.

    python benches/study.py structure        # one line per measure
    python benches/study.py structure -v     # and what was counted, where that is a list

`passage` measures how much of the code a release runs; `pytest --collect-only` counts the cases of the suite.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import privmw
from privmw.cli import make_parser

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "docs")]
import test_plain_english  # noqa: E402

import test_architecture  # noqa: E402

MODULES = sorted((ROOT / "privmw").rglob("*.py"))
TREES = {path: ast.parse(path.read_text("utf-8")) for path in MODULES}
NOISES = ("discrete[-_ ]?gaussian", "discrete[-_ ]?laplace")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_core(path: Path) -> bool:
    return "extensions" not in path.parts


def words_of_code(tree: ast.AST) -> Iterator[str]:
    """Every identifier and string of a module, without its docstrings and comments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    docstrings = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        for field in ("id", "attr", "name", "arg"):
            if isinstance(word := getattr(node, field, None), str):
                yield word


def naming_a_noise() -> list[str]:
    """The modules that name a noise: the one of the two noises that more modules name."""
    naming = (
        [
            name(path)
            for path, tree in TREES.items()
            if any(re.search(noise, w, re.I) for w in words_of_code(tree))
        ]
        for noise in NOISES
    )
    return max(naming, key=len)


def stating_the_unit_rule() -> list[str]:
    """Where a product or a power is taken with the number of records of a unit."""

    def is_number_of_records(node: ast.AST) -> bool:
        return getattr(node, "id", getattr(node, "attr", "")).lstrip("_") == "at_most"

    return [
        f"{name(path)}:{node.lineno}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult | ast.Pow | ast.Div)
        and (is_number_of_records(node.left) or is_number_of_records(node.right))
    ]


def deriving_costs() -> list[str]:
    """The modules of the core that divide a budget into looks."""
    return [
        name(path)
        for path, tree in TREES.items()
        if is_core(path)
        and any(isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Look" for n in ast.walk(tree))
    ]


def options() -> list[str]:
    """The distinct long options of all commands, without --help and --version."""
    commands: dict[str, argparse.ArgumentParser] = make_parser().commands
    found = {option for parser in commands.values() for option in parser._option_string_actions}
    return sorted(option for option in found if option.startswith("--") and option != "--help")


def repeated_constants() -> list[str]:
    return sorted(test_plain_english.repeated_constants() - test_plain_english.SHARED)


def unclear_words() -> list[str]:
    pages = [*test_plain_english.PAGES, *test_plain_english.CODE]
    patterns = (test_plain_english.UNCLEAR, test_plain_english.BUILDING)
    return [str(found) for pattern in patterns for found in test_plain_english.occurrences(pattern, pages)]


def lines(core: bool) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in MODULES if is_core(path) == core)


def measures() -> list[tuple[str, Any, int]]:
    """Each measure with what was counted, a number or a list, and its target."""
    known = test_architecture.edges()
    core_of_cli = sorted(test_architecture.SEAMS)
    return [
        ("Python lines of the core", lines(core=True), 30_000),
        ("Python lines of the extensions", lines(core=False), 10_500),
        ("packages and modules of the core", sorted(test_architecture.MAY_KNOW), 16),
        ("edges between them", [f"{here} -> {there}" for here, there in sorted(known)], 70),
        ("modules of the core that know extensions", core_of_cli, 3),
        (".py files that name a noise", naming_a_noise(), 8),
        ("places that state the rule of units", stating_the_unit_rule(), 1),
        ("derivations of a run's cost", deriving_costs(), 1),
        ("functions with 8 or more parameters", test_architecture.many_parameters(), 25),
        ("public names", sorted(privmw.__all__), 35),
        ("distinct command-line options", options(), 45),
        ("constants with two meanings", repeated_constants(), 0),
        ("unclear words", unclear_words(), 0),
        ("words of CHANGELOG.md", len((ROOT / "CHANGELOG.md").read_text("utf-8").split()), 1_500),
        ("words of benches/README.md", len((ROOT / "benches/README.md").read_text("utf-8").split()), 2_500),
    ]


def main() -> None:
    for measure, counted, target in measures():
        many = counted if isinstance(counted, int) else len(counted)
        print(f"{measure:44} {many:7,}  at most {target:6,}{'' if many <= target else '  NO'}")
        if "-v" in sys.argv[1:] and isinstance(counted, list):
            print(*(f"    {one}" for one in counted), sep="\n")


if __name__ == "__main__":
    main()
