"""What the pages of docs/ show must run as it stands, page by page, and the pages must build.

Python blocks share their names within a page; shell blocks that call privmw or mpiexec run in bash. Both run
in an empty folder, and a `cd` holds for what follows. A block with a title is a file of that name. Others are
for reading.
"""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import privmw
from extensions.cluster.mpi_jobs import MPIEXEC
from marks.slow import slow_among
from privmw.extensions import experiments
from privmw.extensions.population import population_domain

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(python|sh|yaml)(?: title=\"([\w.]+)\")?\n(.*?)^```$", re.M | re.S)
CLUSTER = ROOT / "docs" / "cluster.md"
PEERS = {
    "engines": ("duckdb",),
    "reading": ("pyarrow",),
    "reproduce": ("pyarrow",),
}  # what else a page's examples need
# A block that imports one of these is left out where it, or this version of it, is not installed.
LIBRARIES = {
    "dp_accounting": ("dp-accounting", 0),
    "duckdb": ("duckdb", 0),
    "mbi": ("mbi", 2),
    "opendp": ("opendp", 0),
    "snsynth": ("smartnoise-synth", 1),
}
APP = ("pyarrow", "narwhals", "rich", "matplotlib", "jinja2")


def blocks(page):
    for kind, title, code in BLOCK.findall(page.read_text("utf-8")):
        if not title and (kind == "python" or re.search(r"^(privmw|mpiexec) ", code, re.M)):
            yield kind, code


def wanting(code):
    """Whether a block imports a library that is not installed, or is too old: OpenDP pins an older mbi."""
    for name in set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) & LIBRARIES.keys():
        distribution, least = LIBRARIES[name]
        try:
            if int(importlib.metadata.version(distribution).split(".")[0]) < least:
                return True
        except importlib.metadata.PackageNotFoundError:
            return True
    return False


def files(page):
    return {title: code for _, title, code in BLOCK.findall(page.read_text("utf-8")) if title}


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


SLOW = {
    "asking",
    "cli",
    "cluster",
    "errors",
    "explore",
    "files",
    "growth",
    "index",
    "measure",
    "postprocess",
    "tutorial",
    "yearly",
}  # pages that make releases and reports


@pytest.mark.parametrize("name", slow_among([page.stem for page in PAGES if any(blocks(page))], SLOW))
def test_the_examples_of_a_page_run_one_after_another(name, tmp_path, monkeypatch):
    page = ROOT / "docs" / f"{name}.md"
    for library in PEERS.get(name, ()):
        pytest.importorskip(library)
    if any(kind == "sh" for kind, _ in blocks(page)):
        for library in APP:
            pytest.importorskip(library, reason="the command line needs privmw[app]")
        if shutil.which("bash") is None:
            pytest.skip("bash is not installed")
        if "mpiexec" in "".join(code for _, code in blocks(page)):
            pytest.importorskip("mpi4py", reason="several ranks need privmw[cluster]")
            if MPIEXEC is None:
                pytest.skip("mpiexec is not installed: pip install mpich")
    if any("to_frame(" in code for _, code in blocks(page)):
        pytest.importorskip("pyarrow", reason="frames need privmw[io]")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    shared = {"__name__": "__main__"}
    for kind, code in blocks(page):
        if kind == "sh":
            for title, content in files(page).items():
                Path(title).write_text(content, "utf-8")
            run_shell(code, tmp_path)
        elif not wanting(code):
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                exec(compile(code, str(page), "exec", dont_inherit=True), shared)


def test_the_pages_show_something_to_run():
    shown = {page.stem: [kind for kind, _ in blocks(page)] for page in PAGES}
    assert {"python", "sh"} <= set(shown["tutorial"])
    assert all(shown[name] for name in ("index", "cli", "files", "embedding", "privacy"))


def test_the_json_that_pages_show_is_read():
    def shown(name):
        return re.findall(r"```json\n(.*?)```", (ROOT / "docs" / name).read_text("utf-8"), re.S)

    proposed, edited = (privmw.Domain(json.loads(text)) for text in shown("tutorial.md"))
    assert proposed.names == edited.names == ("age", "sex")
    assert proposed["age"].open
    assert edited["age"] == population_domain(14)["age"]
    rules = privmw.Constraints(json.loads(shown("parameters.md")[0]), population_domain(14))
    assert "2 rules" in repr(rules)


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    told = set(re.findall(r"^::: privmw\.(?:\w+\.)*(\w+)$", reference, re.M))
    rooms = {"accounting", "engines", "kernels", "mechanisms", "postprocess", "strategies"}
    public = {name for room in rooms for name in getattr(privmw, room).__all__}
    public |= {*privmw.__all__, *experiments.__all__, "ShardedRecords", "ShardedSupport"}
    assert public - rooms - {"BACKENDS", "LARGEST_FACTOR", "MASS_BITS", "Residuals", "__version__"} <= told


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


@pytest.mark.parametrize("name", ["release.sbatch", "release.yaml"])
def test_what_runs_on_a_cluster_says_what_the_command_line_takes(name):
    from privmw.cli import parse

    words = re.sub(r"^ *- |\\\n| &$", " ", files(CLUSTER)[name], flags=re.M)
    line = re.search(r"privmw\s+release\s(.*?-o\s\S+|.*?--output=\S+)", words, re.S)
    options = parse(["release", *shlex.split(line[1], comments=True)])
    assert (options.cluster, options.method) == ("mpi", "mw-pub")
    assert options.checkpoint


def test_the_slurm_script_is_bash():
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = files(CLUSTER)["release.sbatch"]
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_manifest_shows_the_private_volume_to_rank_0_alone():
    yaml = pytest.importorskip("yaml", reason="the pages need privmw[docs]")
    job = yaml.safe_load(files(CLUSTER)["release.yaml"])["spec"]
    pods = {kind: spec["template"]["spec"] for kind, spec in job["mpiReplicaSpecs"].items()}
    mounted = {
        kind: {volume["name"] for volume in pod["containers"][0]["volumeMounts"]}
        for kind, pod in pods.items()
    }
    assert job["runLauncherAsWorker"] is True
    assert mounted == {"Launcher": {"data", "private"}, "Worker": {"data"}}
    assert {volume["name"] for volume in pods["Worker"]["volumes"]} == {"data"}
    arguments = pods["Launcher"]["containers"][0]["args"]
    assert int(arguments[arguments.index("-n") + 1]) == 1 + job["mpiReplicaSpecs"]["Worker"]["replicas"]
    assert f"--threads={pods['Launcher']['containers'][0]['resources']['limits']['cpu']}" in arguments


def test_files_that_the_pages_name_exist():
    for page in PAGES:
        for name in re.findall(r"`((?:privmw|csrc|tests|benches)/[\w./]+)`", page.read_text("utf-8")):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.slow  # several seconds, and few changes touch the pages
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
