"""Keeps who may know whom, as far as imports and includes tell.

`python tests/test_architecture.py` prints the map: how many rooms, edges and pairs that know each other.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "privmw").rglob("*.py"))
CORE = sorted((ROOT / "csrc" / "core").rglob("*.[ch]pp"))
CAPI = sorted((ROOT / "csrc" / "capi").glob("*.[ch]pp"))
DRAW = sorted((ROOT / "csrc" / "draw").glob("*.[ch]pp"))

# Room -> the rooms it may know. A room is a folder or a file of privmw, and knows itself. A room below
# extensions/ may know every room of the core, and no other extension; the core knows none, but for SEAMS.
MAY_KNOW = {
    "version": "",
    "ranks": "",
    "secrecy": "",
    "random": "secrecy",
    "accounting": "secrecy",
    "kernels": "ranks secrecy",
    # io: what a method of a table or a domain reads or writes
    "data": "io kernels random ranks secrecy",
    "io": "data kernels random secrecy",
    "mechanisms": "accounting kernels random secrecy",
    "curator": "accounting data mechanisms random ranks secrecy",
    "release": "accounting data io kernels random ranks secrecy",
    "models": "data kernels random ranks release secrecy",
    "algorithms": "accounting curator data io kernels models random ranks release secrecy version",
    "evaluation": "data kernels release secrecy",
    "population": "data kernels",
    "report": "accounting algorithms data evaluation io kernels release secrecy version",
    "cli": "accounting algorithms curator data evaluation io population ranks release report secrecy version",
    "__main__": "cli",
}
# What users import, the commands, and what the commands of the core take from extensions.
SEAMS = {"__init__.py", "cli/__init__.py", "cli/extensions.py"}
# What methods that show or convert their object may import, when they are called, though that knows them.
SHOWS = {
    "accounting": {"extensions/adapters", "report"},
    "algorithms": {"report"},
    "data": {"report"},
    "release": {"extensions/explorer", "report"},
}
# Rooms and modules that a room of released values never meets, and what the mechanisms need not know.
NEVER_KNOWS = {
    "mechanisms": {"algorithms", "curator", "data", "models", "release"},
    "models": {"algorithms", "curator", "data.records", "data.table", "mechanisms"},
    "extensions/postprocess": {"curator", "mechanisms"},
    "extensions/unbiased/strategies": {"curator", "data.records", "data.table", "mechanisms"},
    "release": {"curator", "mechanisms"},
    "report": {"curator", "evaluation.mixture", "mechanisms"},
    "cli": {"curator.curator", "curator.on_ranks", "mechanisms"},
    "curator": {"algorithms", "models", "release"},
}
# May ask a table for its counts; a scan asks its own batches, sharded records their own part, an engine its
# own partitions: tables as well; a measurement of OpenDP (adapters) the frame that OpenDP gives it.
# tests/curator/test_door.py says where.
COUNTING = {
    "extensions/adapters",
    "extensions/cluster",
    "curator",
    "extensions/engines",
    "evaluation",
    "io",
    "mechanisms",
}


def room(path):
    first, *more = path.relative_to(ROOT / "privmw").with_suffix("").parts
    return f"extensions/{more[0]}" if first == "extensions" else first


def is_extension(room):
    return room.startswith("extensions")


def is_seam(path):
    return path.relative_to(ROOT / "privmw").as_posix() in SEAMS


def imported(source, package=("privmw",), shows=frozenset()):
    """The modules of privmw that a module of a package imports: "room" or "room.module"; "" is the house.

    shows: rooms that methods may import when they are called; those imports are left out.
    """
    found, tree = set(), ast.parse(source)
    methods = [f for c in tree.body if isinstance(c, ast.ClassDef) for f in c.body]
    lazy = {node for f in methods if isinstance(f, ast.FunctionDef) for node in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        modules = {".".join(part[1:3]) for part in parts if part[0] == "privmw"}
        found |= {m for m in modules if node not in lazy or rooms_of([m]).isdisjoint(shows)}
    return found


def known_by(path):
    """What a module of privmw imports, but for what its methods may import when they are called."""
    return imported(path.read_text(), path.relative_to(ROOT).parts[:-1], SHOWS.get(room(path), frozenset()))


def rooms_of(modules):
    parts = [module.split(".") for module in modules]
    return {"/".join(part[:2]) if part[0] == "extensions" else part[0] for part in parts}


def edges():
    """Every (room, room it knows) of the core."""
    known = {}
    for path in MODULES:
        modules = known_by(path)
        if not is_extension(room(path)):
            known.setdefault(room(path), set()).update(rooms_of(modules) - {room(path)})
            if is_seam(path):
                known[room(path)] = {there for there in known[room(path)] if not is_extension(there)}
    known.pop("__init__")  # the house itself
    return {(here, there) for here, theirs in known.items() for there in theirs}


def many_parameters():
    """How many functions have 8 or more parameters, self apart; overloads count once each."""
    functions = (
        node.args
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    )
    named = ([*given.posonlyargs, *given.args, *given.kwonlyargs] for given in functions)
    return sum(len([arg for arg in args if arg.arg not in ("self", "cls")]) >= 8 for args in named)


def calls_counts(source):
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "counts"
        for node in ast.walk(ast.parse(source))
    )


def includes(path):
    return re.findall(r"^\s*#\s*include\s*(\S+)", path.read_text(), re.MULTILINE)


def test_a_room_imports_only_rooms_it_may_know():
    for path in MODULES:
        here = room(path)
        modules = known_by(path)
        theirs = rooms_of(modules) - {here}
        if is_extension(here):
            assert theirs <= set(MAY_KNOW), f"{path}: an extension knows the core, and no other extension"
        elif here != "__init__":
            core = {there for there in theirs if not is_extension(there)} if is_seam(path) else theirs
            assert core <= set(MAY_KNOW[here].split()), path
        if here != "__init__":
            assert "" not in rooms_of(modules), f"{path}: a room imports rooms, not the house"
        assert not (modules | rooms_of(modules)) & NEVER_KNOWS.get(here, set()), path


def test_every_permission_is_used_and_only_data_and_files_know_each_other():
    found = edges()
    assert found == {(here, there) for here, theirs in MAY_KNOW.items() for there in theirs.split()}
    assert {pair for pair in found if pair[::-1] in found} == {("data", "io"), ("io", "data")}


def test_only_the_curator_evaluation_and_a_table_itself_ask_for_counts():
    asking = [path for path in MODULES if calls_counts(path.read_text())]
    assert {room(path) for path in asking} <= COUNTING, asking


def test_the_readers_of_imports_see_what_they_must():
    source = """
import privmw.data.table as t, numpy
from privmw import kernels, support
from privmw.accounting.events import Event
def f():
    from privmw.curator import Curator
    import privmw
"""
    modules = imported(source)
    assert modules == {"data.table", "kernels", "support", "accounting.events", "curator.Curator", ""}
    assert rooms_of(modules) == {"data", "kernels", "support", "accounting", "curator", ""}
    inside = ("privmw", "accounting")
    assert rooms_of(imported("from .events import Event\nfrom . import ledger", inside)) == {"accounting"}
    assert imported("from ..data.table import Table", inside) == {"data.table"}
    assert imported("from privmw.data import table") == {"data.table"}
    assert imported("from .. import ranks", inside) == {"ranks"}
    method = "class A:\n def f(self):\n  from privmw.report import panel\n  import privmw.cli"
    assert imported(method, shows={"report"}) == {"cli"}
    assert imported(method) == {"cli", "report.panel"}
    assert imported("from privmw.report import panel", shows={"report"}) == {"report.panel"}
    assert calls_counts("x = table.counts(workload)")
    assert not calls_counts("x = support.counts")


def test_every_room_has_its_rule_and_every_rule_its_room():
    rooms = {room(path) for path in MODULES} - {"__init__"}
    assert set(MAY_KNOW) == {room for room in rooms if not is_extension(room)}
    assert min(len(CORE), len(DRAW), len(CAPI)) >= 4, "the globs still find the files"


def test_the_core_includes_the_standard_library_and_itself_only():
    allowed = re.compile(r'<[a-z_]+>|"wiped\.hpp"|"core/[a-z_/]+\.hpp"')
    for path in CORE:
        for quoted in includes(path):
            assert allowed.fullmatch(quoted), (path, quoted)
            assert quoted not in ("<random>", "<pybind>"), path


def test_the_draws_know_neither_python_nor_the_core():
    for path in DRAW:
        for quoted in includes(path):
            assert "core/" not in quoted, path
            assert not re.search(r"Python\.h|pybind|bind/|<random>", quoted), (path, quoted)


def test_the_c_interface_knows_no_python():
    for path in CAPI:
        for quoted in includes(path):
            assert re.fullmatch(r'<[a-z_]+>|"(capi|core|draw)/[a-z0-9_/]+\.(hpp|h)"', quoted), (path, quoted)


def test_the_core_draws_nothing_and_knows_neither_python_nor_epsilon():
    strange = (
        r"\b(s?rand|rand_r|random_device|mt19937\w*|getrandom|getentropy|Py[A-Z]\w*|py|pybind11|epsilon)\b"
    )
    for path in CORE:
        assert not re.search(strange, path.read_text()), path
        assert not re.search(r"fast-math|fp_contract", path.read_text(), re.IGNORECASE), path


def test_the_tests_truth_imports_nothing_of_privmw():
    assert not imported((ROOT / "tests" / "truth" / "reference.py").read_text())


def test_importing_privmw_loads_numpy_and_nothing_else_from_outside(tmp_path):
    program = """
import sys
before = set(sys.modules)
import privmw
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
outside = tops - set(sys.stdlib_module_names) - {"privmw", "numpy"}
print(*sorted(name for name in outside if "cython" not in name))  # Cython's shared types have module names
"""
    from kernels.cases import load

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


if __name__ == "__main__":
    known = edges()
    pairs = sorted({tuple(sorted(pair)) for pair in known if pair[::-1] in known})
    both = ", ".join(" and ".join(pair) for pair in pairs)
    print(f"{len(MAY_KNOW)} rooms, {len(known)} edges, {len(pairs)} pairs that know each other: {both}")
    print(f"{many_parameters()} functions with 8 or more parameters")
    print(f"{len(list((ROOT / 'privmw').glob('*.py')))} modules directly in privmw/")
