"""Who may know whom: private counts and mechanisms stay behind the door, read from the sources themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import privmw

ROOT = Path(privmw.__file__).parent
FILES = {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in ROOT.rglob("*.py")}
BEHIND = {name for name in FILES if name.startswith(("curator/", "mechanisms/"))}


def imports(tree):
    """Every privmw module that a file imports, by full name; `from privmw import x` counts as privmw.x."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_that(predicate):
    return {name for name, tree in FILES.items() if any(map(predicate, ast.walk(tree)))}


def importers(module):
    return {
        name
        for name, tree in FILES.items()
        if any(found == module or found.startswith(f"{module}.") for found in imports(tree))
    }


def calls(node, attribute):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == attribute
        and bool(node.args)
    )


def test_only_the_curator_and_evaluation_count_a_table():
    # Support.counts is a property, and public: it is read, not called with a workload. Evaluation
    # measures true errors for experiments, and everything it returns says that it is not private. A scan
    # is a table: its counts are the sum of its own batches', and who may ask it for them is the same. So
    # are records on several ranks: their counts are the sum of each rank's own; and counts made by an engine:
    # the sum of its partitions'. OpenDP's own private frame is counted inside one of OpenDP's measurements.
    tables = {
        "extensions/cluster/sharded_records.py",
        "io/scan.py",
        "extensions/engines/counts.py",
        "extensions/engines/partitions.py",
    }
    tables |= {"extensions/adapters/opendp.py"}
    assert (
        files_that(lambda node: calls(node, "counts"))
        == {
            "curator/curator.py",
            "extensions/evaluation/__init__.py",
        }
        | tables
    )
    for name in tables:
        counting = {
            node.name
            for node in ast.walk(FILES[name])
            if isinstance(node, ast.FunctionDef) and any(calls(inner, "counts") for inner in ast.walk(node))
        }
        assert counting <= {"counts", "send_counts", "from_records", "_blocks", "_counts"}


def test_nothing_that_releases_can_reach_evaluation():
    # The values of an evaluation may be shown (release/errors/true_errors.py); what counts a table is asked
    # by a command of its own.
    inside = {name for name in FILES if name.startswith("extensions/evaluation/")}
    assert importers("privmw.extensions.evaluation") - inside == {"__init__.py", "cli/__init__.py"}


def test_only_the_curator_uses_mechanisms():
    # OpenDP's measurements get their data, and spend their budget, from OpenDP: adapters/opendp.py says how.
    assert importers("privmw.mechanisms") - BEHIND <= {"__init__.py", "extensions/adapters/opendp.py"}
    assert importers("privmw.curator") - BEHIND <= {
        "__init__.py",
        "cli/release.py",  # compares the files of the command line: privmw.curator.overlap
        "algorithms/mechanism.py",
        "algorithms/loop.py",
        "extensions/queries/__init__.py",
        "extensions/unbiased/measure.py",
        "extensions/unbiased/one_shot.py",
        "algorithms/choose_public.py",
    }
    # Others open the curator of rank 0: a rank above 0 would add noise to zeros.
    assert importers("privmw.curator.curator") | importers("privmw.curator.Curator") <= BEHIND | {
        "__init__.py"
    }


def test_only_what_releases_opens_the_curator_and_only_an_algorithm_runs_the_loop():
    assert importers("privmw.curator.on_ranks.open_curator") == {
        "algorithms/mechanism.py",
        "algorithms/choose_public.py",
        "extensions/queries/__init__.py",
        "extensions/unbiased/measure.py",
        "extensions/unbiased/one_shot.py",
    }
    assert importers("privmw.algorithms.loop.run_rounds") == {"algorithms/mechanism.py"}
    # A measurement or a choice without a loop hands the table to the curator, and returns what that released.
    assert importers("privmw.extensions.unbiased.measure") == {"__init__.py"}
    assert importers("privmw.extensions.unbiased.one_shot") <= {
        "__init__.py",
        "extensions/unbiased/measure.py",
        "extensions/unbiased/command.py",
    }
    assert importers("privmw.algorithms.choose_public") == {"__init__.py"}
    # Algorithms themselves name its types, and hand the table on unread.
    assert not any(name.startswith("models/") for name in importers("privmw.algorithms.loop"))


def test_models_never_take_a_table():
    inner = {"algorithms/schedule.py", "algorithms/plan.py"}
    inner |= {"release/history.py", "release/measurements.py"}
    assert inner <= set(FILES)
    inner |= {name for name in FILES if name.startswith("models/")}
    for tables in ("data.table", "data.records", "io"):
        assert not importers(f"privmw.{tables}") & inner


def test_only_mechanisms_draw():
    outside = {name for name in importers("privmw.kernels.draws") if not name.startswith("kernels/")}
    drawing = ("noise", "randomized_response", "scores", "selection")
    assert outside == {f"mechanisms/{name}.py" for name in drawing}


def test_the_privacy_stream_is_opened_behind_the_door_only():
    assert importers("privmw.random.privacy_stream") <= BEHIND | {"extensions/adapters/opendp.py"}  # as above


@pytest.mark.parametrize(
    ("room", "may_know"),
    [
        (
            "curator/curator.py",
            {
                "accounting",
                "mechanisms",
                "random",
                "data.queries",
                "data.records",
                "data.workload",
                "secrecy",
            },
        ),
        (
            "curator/on_ranks.py",
            {"accounting", "ranks", "curator", "random", "data.queries", "data.records", "data.workload"},
        ),
        ("mechanisms/", {"accounting", "kernels", "mechanisms", "random", "secrecy"}),
    ],
)
def test_the_door_knows_only_what_an_auditor_reads(room, may_know):
    for name, tree in FILES.items():
        if name.startswith(room):
            inside = {found.split(".", 1)[1] for found in imports(tree) if found.startswith("privmw.")}
            assert all(
                f"{found}.".startswith(tuple(f"{known}." for known in may_know)) for found in inside
            ), name


def test_nothing_behind_the_door_prints_logs_or_warns():
    for name in BEHIND:
        assert not {found.split(".")[0] for found in imports(FILES[name])} & {"logging", "warnings", "sys"}
        for node in ast.walk(FILES[name]):
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"print", "open"}), (
                name
            )


def test_the_rules_would_notice_a_leak():
    leak = ast.parse(
        "from privmw import mechanisms\nfrom privmw.kernels import draws\nprivate.counts(workload)"
    )
    assert set(imports(leak)) == {"privmw.mechanisms", "privmw.kernels.draws"}
    assert any(calls(node, "counts") for node in ast.walk(leak))
