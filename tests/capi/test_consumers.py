"""The programs of docs/embedding.md, built against the installed package in the four ways it offers."""

import os
import pickle
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import privmw
from privmw.kernels.python_ import draws as python_draws

pytest.importorskip("privmw.kernels._native", reason="privmw was installed without a compiler")

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "embedding.md").read_text("utf-8")
PROGRAMS = dict(re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```$', PAGE, re.M | re.S))
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
ENTROPY = """
#include <privmw.h>
namespace privmw::draw { void fail_entropy(bool fail); }  // for tests
int main() {
    privmw_chacha20 *made = nullptr, *other = nullptr;
    if (privmw_chacha20_new(&made) != PRIVMW_OK) return 1;
    privmw::draw::fail_entropy(true);
    const bool refused = privmw_chacha20_new(&other) == PRIVMW_ENTROPY && other == nullptr;
    privmw_chacha20_free(made);
    return refused ? 0 : 2;
}
"""


@pytest.fixture
def shell(tmp_path):
    """Runs a command of the page beside the programs of the page, and returns what it prints."""
    for name, program in PROGRAMS.items():
        (tmp_path / name).write_text(program, "utf-8")

    def run(command, **environment):
        variables = {**os.environ, "PATH": PATH, **environment}
        done = subprocess.run(
            ["bash", "-euc", command], cwd=tmp_path, env=variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def need(*programs):
    for program in programs:
        if (
            shutil.which(program, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
            is None
        ):
            pytest.skip(f"{program} is not installed")


def command_with(text):
    (command,) = [command for command in COMMANDS if text in command]
    return command


def expected_sums():
    sums = np.zeros((10, 2), np.int64)
    np.add.at(sums, ([3, 9, 3, 3], [0, 1, 1, 0]), [5, 7, 1, 2])
    return [*sums.ravel(), *sums.sum(0)]


def expected_weights():
    weights = np.array([1, 3, 4]) * np.exp(np.array([0.5, 1000, 1001]) - 1001)
    return weights / weights.sum()


def numbers(text, kind=float):
    return [kind(number) for number in text.split()]


def test_every_program_of_the_page_is_short():
    assert set(PROGRAMS) == {"sums.c", "tilt.cpp", "CMakeLists.txt", "noise.pyx", "scale.py"}
    assert all(len(program.splitlines()) <= 15 for program in PROGRAMS.values())


def test_ctypes_calls_the_capsules(shell):
    *weights, total = shell(f"{sys.executable} scale.py").split()
    assert [float(weight) for weight in weights] == [0.125, 0, 0.875]
    assert int(total) == 2**60


@pytest.mark.slow
def test_c_finds_the_library_by_pkg_config(shell):
    need("cc", "pkg-config")
    assert numbers(shell(command_with("pkg-config")), int) == expected_sums()
    flags = "-std=c11 -Wall -Wextra -Werror"
    shell(command_with("pkg-config").replace("cc sums.c", f"cc {flags} sums.c"))


@pytest.mark.slow
def test_cpp_finds_the_library_by_cmake(shell):
    need("cmake", "g++")
    printed = shell(command_with("privmw_DIR")).splitlines()[-1]
    np.testing.assert_allclose(numbers(printed), expected_weights(), rtol=1e-13)


@pytest.mark.slow
def test_scikit_build_core_finds_the_library_by_itself(shell, tmp_path):
    pytest.importorskip("scikit_build_core")
    need("cmake", "ninja", "g++")
    (found,) = entry_points(group="cmake.prefix", name="privmw")
    assert found.load() is privmw
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'
        '[project]\nname = "tilt"\nversion = "1"\n'
    )
    build = "import scikit_build_core.build as b; b.build_wheel('dist')"
    shell(f'{sys.executable} -c "{build}" && {sys.executable} -m zipfile -e dist/*.whl out')
    printed = shell("chmod +x out/tilt && out/tilt")
    np.testing.assert_allclose(numbers(printed), expected_weights(), rtol=1e-13)


@pytest.mark.slow
def test_cython_takes_the_capsules_and_any_numpy_generator(shell, tmp_path):
    pytest.importorskip("Cython")
    need("cc")
    shell(command_with("cython"))
    (tmp_path / "draw.py").write_text(
        "import pickle, numpy as np, noise\n"
        "out = np.empty(300, np.int64)\n"
        "assert noise.fill_with_noise(out, pickle.load(open('generator', 'rb'))) == 0\n"
        "print(*out)"
    )
    for make in (np.random.PCG64, privmw.ChaCha20):
        (tmp_path / "generator").write_bytes(pickle.dumps(make(5)))
        drawn = numbers(shell(f"{sys.executable} draw.py"), int)
        assert drawn == python_draws.discrete_gaussian(make(5), 100, 3, 300).tolist()


@pytest.mark.slow
def test_the_library_builds_without_python(shell, tmp_path):
    need("cmake", "ninja", "cc", "pkg-config")
    options = "-G Ninja -DPRIVMW_PYTHON=OFF -DPython_EXECUTABLE=/nonexistent -DCMAKE_BUILD_TYPE=Release"
    if shutil.which("ccache"):
        options += " -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
    shell(f"cmake -S {ROOT} -B alone {options} && cmake --build alone && cmake --install alone --prefix home")
    (tmp_path / "entropy.cpp").write_text(ENTROPY)
    home = {"PKG_CONFIG_PATH": str(tmp_path / "home" / "lib" / "pkgconfig")}
    build = "cc sums.c -o sums $(pkg-config --cflags --libs privmw) && ./sums"
    assert numbers(shell(build, **home), int) == expected_sums()
    shell("g++ -std=c++20 entropy.cpp -o entropy $(pkg-config --cflags --libs privmw) && ./entropy", **home)
    assert not list((tmp_path / "home").rglob("*.so"))
