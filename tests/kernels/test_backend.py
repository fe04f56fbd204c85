import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.cases import BACKENDS, door_of, installed, load
from privmw import kernels
from privmw.kernels import choice

STUB = Path(kernels.__file__).with_name("_native.pyi")

RUN = """
import sys, warnings
for name in {blocked}:
    sys.modules[name] = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import privmw as pmw
    import privmw.kernels
    domain = pmw.Domain({{"age": 3, "sex": 2}})
    table = pmw.Table.from_codes([[2, 0], [0, 1], [2, 0]], domain, private=False)
    workload = pmw.Workload.all(domain, 2)
    assert table.counts(workload).tolist() == [0, 1, 0, 0, 2, 0]
    assert pmw.Support.from_table(table).answers(workload)[4] == 2 / 3
    options = {{"l2_sensitivity": 1, "rho": 0.001, "rng": 5}}
    noisy, _ = pmw.mechanisms.add_discrete_gaussian(table.counts(workload), **options)
    assert noisy.tolist() == {noisy}
    assert type(pmw.kernels.choice.kernels.coin_exp).__name__ == {kind!r}
print(pmw.kernels.backend())
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


NATIVE = "privmw.kernels._native"
NOISY = [-3, 56, 27, 60, 20, -29]  # of the seed above, drawn by the extension or in Python


def run(directory, forced=None, blocked=()):
    environment = {name: value for name, value in os.environ.items() if name != "PRIVMW_BACKEND"}
    if forced is not None:
        environment["PRIVMW_BACKEND"] = forced
    kind = "function" if NATIVE in blocked or not load("native") else "builtin_function_or_method"
    program = RUN.format(blocked=list(blocked), kind=kind, noisy=NOISY)
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
    assert choice.kernels.multiply is load(kernels.backend()).multiply
    if forced:
        assert kernels.backend() == forced
    else:
        assert kernels.backend() == "native" or load("native") is None


def definitions(body):
    """The classes and functions of a stub, by name, without its own helpers."""
    nodes = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return {node.name: node for node in nodes if node.name != "_BoundType"}


KERNELS = definitions(ast.parse(STUB.read_text()).body)
FIRST_DRAW = STUB.read_text().splitlines().index("# csrc/bind/draws.cpp")  # the last noun
DRAWS = {name for name, node in KERNELS.items() if node.lineno > FIRST_DRAW}
LACKS = {
    "native": set(),
    "numba": {
        "Columns",
        "MarginalCells",
        "GramProduct",
        "Products",
        "distinct_rows",
        "incidence_of_groups",
        "matching_bitmap",
        "matching_rows",
        *DRAWS,
    },
    "numpy": DRAWS,
    "python": set(KERNELS) - DRAWS,
}


def package_of(kernel):
    return kernel.__module__.split(".")[2].strip("_")


@pytest.mark.parametrize("name", LACKS)
def test_a_backend_lacks_these_kernels_and_no_others(name):
    if name in BACKENDS and load(name) is None:
        pytest.skip(f"{name} is not installed")
    offered = [vars(module).get(kernel) for module in choice.modules_of(name) for kernel in KERNELS]
    own = {kernel.__name__ for kernel in offered if kernel and package_of(kernel) == name}
    assert set(KERNELS) - own == LACKS[name]


def test_what_a_backend_lacks_comes_from_numpy_and_the_draws_from_the_extension_if_it_is_built():
    for backend in installed():
        for kernel in LACKS[backend.__name__]:
            source = "numpy" if kernel not in DRAWS else "native" if load("native") else "python"
            assert package_of(getattr(backend, kernel)) == source
        with pytest.raises(AttributeError, match="no backend has a kernel"):
            backend.unknown  # noqa: B018


def arguments(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_kernels_in_python_take_the_arguments_of_the_stub():
    def check(kernel, node):
        if isinstance(node, ast.ClassDef):
            for name, method in definitions(node.body).items():
                check(getattr(kernel, name), method)
        elif arguments(kernel) != ["problem"]:  # passed on as it is
            assert arguments(kernel) == [a.arg for a in node.args.args if a.arg != "self"], kernel

    for name in (name for name in ("numba", "numpy", "python") if name == "python" or load(name)):
        for kernel in set(KERNELS) - LACKS[name]:
            check(getattr(choice.Backend(name), kernel), KERNELS[kernel])


def test_the_backend_is_looked_up_at_the_call():
    for backend in installed():
        with door_of(backend):
            columns = kernels.Columns([np.zeros(2, np.uint8)], [1])
            assert repr(columns) == f"Columns(2 rows x 1 attributes, {backend.__name__})"
            assert type(columns._core) is backend.Columns


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
