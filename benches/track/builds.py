"""Builds of privmw to be measured: the one that this interpreter has, and those of other commits.

Programs of this folder run in a process of the build's interpreter, in a folder without privmw's sources, and
in an environment that makes processors look alike: no instructions beyond AVX2 in numpy's loops and libc's
copies, no random hashes, one thread.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PINNED = {
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    # Processors differ in ERMS: copies and fills by `rep`, of which callgrind counts every byte or so.
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-ERMS,-FSRM:"
    "glibc.cpu.x86_rep_movsb_threshold=2048:glibc.cpu.x86_non_temporal_threshold=0xc0000",
    "PRIVMW_BACKEND": "native",
}


@dataclass(frozen=True)
class Build:
    """An interpreter that has privmw, and the sources it was built from."""

    python: str
    root: Path

    def command(self, module: str, *arguments: str) -> list[str]:
        return [self.python, "-m", f"track.{module}", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **PINNED, "PYTHONPATH": str(ROOT / "benches")}

    def run(self, module: str, *arguments: str) -> Any:
        """What a program of this folder prints, read as JSON."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                self.command(module, *arguments), env=self.environment, cwd=folder, stdout=subprocess.PIPE
            )
        if done.returncode:
            raise RuntimeError(f"track.{module} must end well on {self.root}")
        return json.loads(done.stdout)

    def work(self, *, skip: bool = False) -> dict[str, Any]:
        """What track/work.py counts of every run; skip: but of those that an old build cannot do."""
        found = {}
        for run in self.run("worker", "runs"):
            try:
                found[run] = self.run("work", run)
            except RuntimeError:
                if not skip:
                    raise
        return found


def this_build() -> Build:
    return Build(sys.executable, ROOT)


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"git {' '.join(arguments)} must work here: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def sources_of(commit: str) -> Iterator[Path]:
    """The files of a commit, in a worktree that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


@contextmanager
def build_of(commit: str) -> Iterator[Build]:
    """A commit, built and installed beside this interpreter's packages."""
    with sources_of(commit) as tree:
        home = tree.parent / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        packages = next(home.glob("lib/python*/site-packages"))
        (packages / "beside.pth").write_text("\n".join([*site.getsitepackages(), *_added_folders()]))
        # Build tools that are here are used; otherwise pip fetches them.
        isolation = ["--no-build-isolation"] if importlib.util.find_spec("scikit_build_core") else []
        launcher = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if shutil.which("ccache") else {}
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check"]
        folders = [f"-Cbuild-dir={tree.parent / 'build'}", "--target", str(packages), str(tree)]
        subprocess.run(
            [*pip, *isolation, *folders],
            env={**os.environ, **launcher, **shared_cache(tree.parent)},
            check=True,
        )
        yield Build(str(home / "bin" / "python"), tree)


def shared_cache(folder: Path) -> dict[str, str]:
    """For ccache: a file that another commit has, too, is compiled once, wherever its worktree lies."""
    return {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}


def _added_folders() -> list[str]:
    """Folders of packages that .pth files added to this interpreter."""
    return [folder for folder in sys.path if folder.endswith("site-packages")]
