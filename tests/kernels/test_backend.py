import os
import subprocess
import sys

import pytest

from kernels.cases import BACKENDS, load
from privmw import kernels

RUN = """
import sys, warnings
for name in {blocked}:
    sys.modules[name] = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import privmw as pmw
    import privmw.kernels
    domain = pmw.Domain({{"age": 3, "sex": 2}})
    table = pmw.Table.from_codes([[2, 0], [0, 1], [2, 0]], domain)
    workload = pmw.Workload.all(domain, 2)
    assert table.counts(workload).tolist() == [0, 1, 0, 0, 2, 0]
    assert pmw.Support.from_table(table).answers(workload)[4] == 2 / 3
print(pmw.kernels.backend())
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


def run(directory, forced=None, blocked=()):
    environment = {name: value for name, value in os.environ.items() if name != "PRIVMW_BACKEND"}
    if forced is not None:
        environment["PRIVMW_BACKEND"] = forced
    program = RUN.format(blocked=list(blocked))
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_backend_that_runs_is_the_one_that_was_forced():
    forced = os.environ.get("PRIVMW_BACKEND")
    assert kernels.backend() in BACKENDS
    assert kernels._kernels is load(kernels.backend())
    if forced:
        assert kernels.backend() == forced
    else:
        assert kernels.backend() == "native" or load("native") is None


def test_backends_offer_the_same_names():
    names = load("numpy").__all__
    assert names == sorted(names)
    for backend in BACKENDS:
        assert load(backend) is None or load(backend).__all__ == names
        assert load(backend) is None or all(hasattr(load(backend), name) for name in names)


@pytest.mark.parametrize("forced", BACKENDS)
def test_a_forced_backend_runs_without_a_word(forced, tmp_path):
    if load(forced) is None:
        pytest.skip(f"{forced} is not installed")
    done = run(tmp_path, forced)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [forced]


@pytest.mark.parametrize("forced", ["cuda", "Native", "numpy ", "privmw"])
def test_an_unknown_backend_is_an_error(forced, tmp_path):
    done = run(tmp_path, forced)
    assert done.returncode != 0
    said = done.stderr.strip().splitlines()[-1]
    assert said == f"ValueError: PRIVMW_BACKEND ({forced}) must be one of native, numba, numpy"


@pytest.mark.parametrize(("forced", "missing"), [("native", "privmw.kernels._native"), ("numba", "numba")])
def test_a_forced_backend_that_is_missing_is_an_error(forced, missing, tmp_path):
    done = run(tmp_path, forced, [missing])
    assert done.returncode != 0
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(f"ImportError: PRIVMW_BACKEND ({forced}) must be installed here: ")
    assert missing in said


@pytest.mark.parametrize(
    ("blocked", "fallback"),
    [(["privmw.kernels._native"], "numba"), (["privmw.kernels._native", "numba"], "numpy")],
)
def test_without_the_extension_the_next_best_runs_and_says_so_once(blocked, fallback, tmp_path):
    if load(fallback) is None:
        pytest.skip(f"{fallback} is not installed")
    done = run(tmp_path, blocked=blocked)
    assert done.returncode == 0, done.stderr
    backend, *warned = done.stdout.strip().splitlines()
    assert backend == fallback
    assert len(warned) == 1
    assert warned[0].startswith("RuntimeWarning privmw was installed without its compiled kernels")
    assert f"PRIVMW_BACKEND={fallback}" in warned[0]


def test_a_numba_that_cannot_be_imported_falls_back_to_numpy(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('numba wants another numpy')")
    done = run(tmp_path, blocked=["privmw.kernels._native"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("numpy\nRuntimeWarning")


def test_an_empty_variable_forces_nothing(tmp_path):
    if load("native") is None:
        pytest.skip("native is not installed")
    assert run(tmp_path, "").stdout.split() == ["native"]


def test_the_default_number_of_threads_is_kept_and_checked():
    before = kernels.threads()
    assert 1 <= before <= (os.cpu_count() or 1)
    try:
        kernels.set_threads(3)
        assert kernels.threads() == 3
        for bad in (0, -1, 1025, 2**70):
            with pytest.raises(ValueError, match=r"n \(.*\) must be from 1 to 1024"):
                kernels.set_threads(bad)
        for bad in (1.0, "1", None, True, [1]):
            with pytest.raises(TypeError, match=r"n \(.*\) must be an integer"):
                kernels.set_threads(bad)
        assert kernels.threads() == 3
    finally:
        kernels.set_threads(before)
