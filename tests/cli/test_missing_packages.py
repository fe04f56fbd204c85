"""A package that is not installed: a command succeeds without it, or is refused before anything is spent."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import privmw as pmw
import privmw.extensions.evaluation.command
from cli.cases import FILES, RELEASED, names_in, release_line, write_pair
from marks.slow import slow_among
from privmw.cli import main

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
DEVELOPMENT = ("test", "bench", "wheels", "docs", "lint")


def packages():
    """What the extras of pyproject.toml name, as it is imported."""
    section = PYPROJECT.read_text("utf-8").partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = re.findall(r"(?ms)^([a-z-]+) = (\[.*?\]$)", section)
    lists = [listed for extra, listed in extras if extra not in DEVELOPMENT]
    names = {name for listed in lists for name in re.findall(r'"([a-z0-9-]+)', listed)} - {"privmw"}
    return sorted(name.replace("-", "_") for name in names)


# What these need in turn, and what pyarrow takes where it is there.
NEEDED = ["PIL", "kiwisolver", "markupsafe", "pandas", "pygments"]
REFUSED = {"pyarrow", "jinja2", "matplotlib", "PIL", "kiwisolver", "markupsafe"}
ALL = {*packages(), *NEEDED}
# All that no command needs are hidden at once, and pandas alone too: pyarrow does without it in another way.
CASES = [*sorted(REFUSED), "pandas", " ".join(sorted(ALL - REFUSED))]
QUICK = ["matplotlib", "pandas"]

WITHOUT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from privmw.cli import main
sys.exit(main())
"""

COMMANDS = {
    "release": [*release_line(account="spent.json", delta="1e-6", format="csv"), "--progress"],
    "synthesize": [
        *("synthesize", "private.parquet", "public.parquet", "-o", "new.csv", "--yes"),
        *("--epsilon", "1", "--delta", "1e-6", "--account", "spent.json"),
    ],
    "demo": ["demo", "--n", "500"],
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    assert main(["account", "new", "spent.json", "--epsilon", "9", "--delta", "1e-5", "--quiet"]) == 0
    return tmp_path


def test_the_extras_are_found():
    assert {"pyarrow", "narwhals", "rich", "jinja2", "python_calamine", "scipy", "numba"} <= set(packages())


@pytest.mark.parametrize("names", slow_among(CASES, sorted(set(CASES) - set(QUICK))))
@pytest.mark.parametrize("command", slow_among(list(COMMANDS), ["synthesize", "release"]))
def test_a_missing_package_is_not_needed_or_nothing_is_spent(command, names, here):
    before = names_in(here)
    line = [sys.executable, "-c", WITHOUT.format(names=names.split()), *COMMANDS[command]]
    done = subprocess.run(line, cwd=here, capture_output=True, text=True)
    runs = [run.finished for run in pmw.Account("spent.json").runs]
    if names in REFUSED:
        assert done.returncode == 2, done.stderr
        assert f"{names} must be installed" in done.stderr
        assert (runs, names_in(here)) == ([], before)
    else:
        assert done.returncode in RELEASED, done.stderr
        assert runs == ([] if command == "demo" else [True])
        assert "unfinished" not in done.stderr


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_demo_that_fails_after_it_spent_leaves_the_release_where_it_says(
    error, tmp_path, monkeypatch, blank_pictures, capsys
):
    def fail(*_, **__):
        raise error

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("privmw.cli.outputs.write_report", fail)
        assert main(["demo", "--n", "500"]) in (2, 130)
    said = capsys.readouterr().err
    assert "in privmw-demo, out/release.npz is written" in said
    assert "in privmw-demo, privmw finish out writes the rest" in said
    monkeypatch.chdir("privmw-demo")
    assert main(["finish", "out", "--quiet"]) in RELEASED
    assert set(names_in(Path("out"))) == FILES
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(privmw.extensions.evaluation.command, "run", fail)
    assert main(["demo", "--n", "500", "-o", "second"]) in (2, 130)
    assert "in second, out is written" in capsys.readouterr().err
    assert set(names_in(Path("second/out"))) == FILES
    assert names_in(tmp_path) == ["privmw-demo", "second"]


def test_a_demo_that_fails_before_it_spent_leaves_nothing(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("privmw.cli.release.check_disk_space", fail)
    assert main(["demo", "--n", "500"]) == 2
    assert "is written" not in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_no_module_asks_pyarrow_for_what_needs_pandas_in_some_versions():
    sources = {path: path.read_text("utf-8") for path in (PYPROJECT.parent / "privmw").rglob("*.py")}
    assert len(sources) > 100
    assert [path.name for path, source in sources.items() if ".to_pandas_dtype(" in source] == []
