"""The files that are published: the sdist of a clone in use is that of a clean clone."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_BEHIND = [
    "build/cp311/CMakeFiles/_native.dir/csrc/bind/rows.cpp.o",
    "build/cp311/tests/x.bin",
    "csrc/core/__pycache__/x.pyc",
    "dist/privmw-0.1.0.tar.gz",
    "privmw-demo/out/records.parquet",
    "out/answers.parquet",
    "domain.json",
    "private.csv",
    "privmw/kernels/_native.cpython-311-x86_64-linux-gnu.so",
    "privmw/data/__pycache__/table.cpython-311.pyc",
    "tests/.hypothesis/examples/1",
    ".mypy_cache/3.11/cache.db",
    ".venv/lib/python3.11/site-packages/privmw/version.py",
]


def tracked_files():
    git = shutil.which("git")
    listed = git and subprocess.run([git, "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if not listed or listed.returncode:
        pytest.skip("not in a git clone")
    return [file for file in listed.stdout.splitlines() if (ROOT / file).exists()]


def sdist_of(clone):
    """The names within the sdist of this folder, and its bytes."""
    build = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    out = clone.parent / f"sdist of {clone.name}"
    subprocess.run([sys.executable, "-c", build, str(out)], cwd=clone, check=True, capture_output=True)
    (archive,) = out.iterdir()
    with tarfile.open(archive) as members:
        names = [Path(*Path(name).parts[1:]).as_posix() for name in members.getnames()]
    return sorted(names), archive.stat().st_size


def test_a_clone_in_use_publishes_what_a_clean_clone_does(tmp_path):
    pytest.importorskip("scikit_build_core")
    files = tracked_files()
    for clone in ("clean", "used"):
        for file in files:
            (tmp_path / clone / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, tmp_path / clone / file)
    for file in LEFT_BEHIND:
        (tmp_path / "used" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "used" / file).write_bytes(b"left behind" * 1000)

    clean, size = sdist_of(tmp_path / "clean")
    assert sdist_of(tmp_path / "used") == (clean, size)
    built = [file for file in files if file.startswith(("privmw/", "csrc/"))]
    assert set(built) <= set(clean) <= {*files, "PKG-INFO"}
    assert size <= 800_000
