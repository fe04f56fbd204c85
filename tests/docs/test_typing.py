"""Type checkers complete and check what a user writes against the installed package."""

import subprocess
import sys

import pytest

PROGRAM = """
import privmw as pmw
from privmw.extensions.population import draw_population

public = draw_population(50, attributes=3, seed=1)
private = draw_population(50, attributes=3, seed=2, private=True)
support = pmw.Support.from_table(public)
workload = pmw.Workload.all(public.domain, k=2)
release = pmw.{function}(private, support, workload, {option}=1.0)
"""
FUNCTIONS = {"auto": "release_auto", "pep": "PEP(rounds=2).release"}
CHECKERS = {"mypy": ["--strict"], "pyright": ["--pythonpath", sys.executable]}


def check(checker, folder, option):
    pytest.importorskip(checker, reason="the type checkers need privmw[lint]")
    paths = []
    for name, function in FUNCTIONS.items():
        paths.append(folder / f"{name}.py")
        paths[-1].write_text(PROGRAM.format(function=function, option=option))
    command = [sys.executable, "-m", checker, *CHECKERS[checker], *map(str, paths)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return {
        path.stem: [
            line for line in done.stdout.splitlines() if f"{path.stem}.py:" in line and "error" in line
        ]
        for path in paths
    }


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_right_option_is_no_type_error(checker, tmp_path):
    for function, errors in check(checker, tmp_path, "epsilon").items():
        assert not errors, function


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_misspelt_option_is_a_type_error(checker, tmp_path):
    for function, errors in check(checker, tmp_path, "epslion").items():
        assert errors, function
