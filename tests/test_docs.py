"""What the pages of docs/ show must run as it stands, page by page, and the pages must build.

Python blocks share their names within a page; shell blocks that call privmw run in bash. Both run in an empty
folder, and a `cd` holds for what follows. Other blocks are for reading.
"""

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import privmw

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.M | re.S)
APP = ("pyarrow", "narwhals", "rich", "matplotlib", "jinja2")


def blocks(page):
    for kind, code in BLOCK.findall(page.read_text("utf-8")):
        if kind == "python" or re.search(r"^privmw ", code, re.M):
            yield kind, code


def run_shell(code, scratch):
    where = scratch / "where"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euc", f"{code}\npwd > {where}"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, f"{code}\n{ran.stdout}{ran.stderr}"
    os.chdir(where.read_text("utf-8").strip())


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_one_after_another(page, tmp_path, monkeypatch):
    if any(kind == "sh" for kind, _ in blocks(page)):
        for name in APP:
            pytest.importorskip(name, reason="the command line needs privmw[app]")
        if shutil.which("bash") is None:
            pytest.skip("bash is not installed")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    names = {"__name__": "__main__"}
    for kind, code in blocks(page):
        if kind == "sh":
            run_shell(code, tmp_path)
        else:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                exec(compile(code, str(page), "exec", dont_inherit=True), names)


def test_the_pages_show_something_to_run():
    shown = {page.stem: [kind for kind, _ in blocks(page)] for page in PAGES}
    assert {"python", "sh"} <= set(shown["tutorial"])
    assert all(shown[name] for name in ("index", "cli", "files", "embedding", "privacy"))


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    told = set(re.findall(r"^::: privmw\.(?:\w+\.)*(\w+)$", reference, re.M))
    rooms = {"accounting", "kernels", "mechanisms", "postprocess"}
    public = {name for room in rooms for name in getattr(privmw, room).__all__} | set(privmw.__all__)
    assert public - rooms - {"BACKENDS", "__version__"} <= told


def test_every_option_of_the_command_line_is_on_its_page():
    for name in APP:
        pytest.importorskip(name, reason="the command line needs privmw[app]")
    from privmw.cli import COMMANDS

    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for command, (module, _) in COMMANDS.items():
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        assert f"## privmw {command}\n" in page
        for option in {text for action in parser._actions for text in action.option_strings} - {
            "-h",
            "--help",
        }:
            assert re.search(rf"{option}\b", page), f"{command} {option}"


def test_files_that_the_pages_name_exist():
    for page in PAGES:
        for name in re.findall(r"`((?:privmw|csrc|tests|benches)/[\w./]+)`", page.read_text("utf-8")):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_pages_build_without_a_warning(tmp_path):
    for name in ("mkdocs", "material", "mkdocstrings_handlers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip("the pages need privmw[docs]")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert build.returncode == 0, build.stderr
    assert "WARNING" not in build.stderr
    fetched = {
        link
        for page in (tmp_path / "site").rglob("*.html")
        for link in re.findall(r"<(?:script|link|img)[^>]*\"(https?://[^\"]+)", page.read_text("utf-8"))
    }
    assert not fetched
