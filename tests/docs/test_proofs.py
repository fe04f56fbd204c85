"""The proofs of docs/proofs name files, functions and tests, and each of them must exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "proofs").glob("*.md"))
NAMED = re.compile(r"`((?:privmw|csrc|tests|benches)/[^`]*)`")


def names_of(text):
    """Everything that a page names: "file" or "file::name"."""
    return NAMED.findall(text)


def defined_in(source):
    """Functions and classes of a module, and those of its classes as "Class.name"."""
    found = set()

    def visit(body, prefix):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(f"{prefix}{node.name}")
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(ast.parse(source).body, "")
    return found


def missing(named):
    """Why a name of a page is none; empty if it exists."""
    file, _, name = named.partition("::")
    path = ROOT / file
    if not path.is_file():
        return f"{named}: no such file"
    source = path.read_text("utf-8")
    if path.suffix == ".py":
        exists = not name or name in defined_in(source)
    else:  # C++: defined or declared, not only mentioned in a comment
        code = re.sub(r"//.*", "", source)
        exists = not name or re.search(rf"\b(?:class |struct )?{re.escape(name)}\b\s*[({{]", code) is not None
    return "" if exists else f"{named}: {file} has no {name}"


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_what_a_proof_names_exists(page):
    names = names_of(page.read_text("utf-8"))
    assert [why for why in map(missing, names) if why] == []
    if page.stem != "index":
        assert any(re.match(r"tests/.*::test_", name) for name in names), "a proof names tests"
        assert any(re.match(r"(?:privmw|csrc)/.*::\w", name) for name in names), "a proof names functions"


def test_every_proof_is_in_the_list_of_proofs():
    listed = set(re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs" / "proofs" / "index.md").read_text("utf-8")))
    assert listed == {page.name for page in PAGES} - {"index.md"}


def test_a_proof_that_named_what_is_not_there_would_be_noticed():
    text = """`privmw/mechanisms/noise.py::Noise.add` `privmw/mechanisms/noise.py::Noise.subtract`
`privmw/mechanisms/none.py` `csrc/draw/selection.cpp::peel` `csrc/draw/selection.cpp::rejection`
`tests/docs/test_proofs.py::test_what_a_proof_names_exists` `tests/docs/test_proofs.py::test_none`"""
    names = names_of(text)
    assert [bool(missing(name)) for name in names] == [False, True, True, False, True, False, True]
