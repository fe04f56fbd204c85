"""No exact count stays in the memory of a process whose curator is closed: all of it is read and searched.

Freed memory is kept as it is meanwhile (programs/keep.c), so that nothing is missed that was overwritten by
luck.
"""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.cases import load
from marks.slow import slow

PROGRAM = Path(__file__).with_name("programs") / "look_at_counts.py"
SIZES = (6, 7, 8, 6, 5, 4, 3, 4)
ROWS = 400_000

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/mem"), reason="memory is read by Linux's files"
)


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """Records whose marginals the extension counts in all of its ways, and the path they lie at."""
    rng = np.random.default_rng(3)
    columns = [rng.choice(size, ROWS, p=[0.6] + [0.4 / (size - 1)] * (size - 1)) for size in SIZES]
    path = tmp_path_factory.mktemp("codes") / "codes.npy"
    np.save(path, np.stack(columns, axis=1).astype(np.uint8))
    return path


@pytest.fixture(scope="module")
def numbers(codes):
    """The true counts above 10,000, and as many others next to them."""
    columns, counts = np.load(codes).T, []
    for order in (2, 3):
        for marginal in itertools.combinations(range(len(SIZES)), order):
            sizes = [SIZES[a] for a in marginal]
            cells = np.ravel_multi_index([columns[a] for a in marginal], sizes)
            counts.append(np.bincount(cells, minlength=np.prod(sizes)))
    counts = np.unique(np.concatenate(counts))
    free = np.setdiff1d(np.arange(10_000, ROWS), counts)
    true = counts[counts > 10_000]
    return true, free[np.searchsorted(free, true).clip(max=len(free) - 1)]


@pytest.fixture(scope="module")
def keep(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("a C compiler is needed")
    library = tmp_path_factory.mktemp("keep") / "keep.so"
    source = PROGRAM.with_name("keep.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    return str(library)


def memory_after(codes, keep, folder, backend, extension="built", bug="nothing"):
    """The memory of a process that looked at the table, as 64-bit words."""
    environment = {**os.environ, "PRIVMW_BACKEND": backend, "PYTHONWARNINGS": "ignore", "LD_PRELOAD": keep}
    command = [sys.executable, str(PROGRAM), str(codes), extension, bug]
    with open(folder / "memory", "wb") as out:
        subprocess.run(command, env=environment, stdout=out, check=True, timeout=120)
    return np.fromfile(folder / "memory", np.int64)


def found(words, numbers):
    """How many of the numbers there are in memory, as integers, scores (times 2^20) and doubles."""
    doubles = words.view(np.float64)
    whole = doubles[(doubles >= 1) & (doubles < ROWS)]
    forms = {
        "int64": words,
        "int32": words.view(np.int32),
        "score": words[words & (2**20 - 1) == 0] >> 20,
        "float64": whole[whole == np.floor(whole)].astype(np.int64),
    }
    seen = {}
    for form, values in forms.items():
        there = np.zeros(ROWS, bool)
        there[values[(values >= 0) & (values < ROWS)]] = True
        seen[form] = int(there[numbers].sum())
    return seen


def leaks(words, numbers):
    """The forms in which more true counts are found than chance allows, by five deviations of the chance."""
    true, others = (found(words, each) for each in numbers)
    return {
        form: true[form] for form in true if true[form] > others[form] + 5 * (2 * others[form] + 1) ** 0.5
    }


@pytest.mark.parametrize("case", ["native built", "numpy built", *slow("numba built", "numpy missing")])
def test_no_true_count_is_left_in_memory(codes, keep, numbers, tmp_path, case):
    backend, extension = case.split()
    if load(backend) is None:
        pytest.skip(f"{backend} is not installed")
    assert len(numbers[0]) > 500
    assert leaks(memory_after(codes, keep, tmp_path, backend, extension), numbers) == {}


@pytest.mark.parametrize("bug", ["noise", *slow("counts")])
def test_a_copy_that_is_not_erased_is_found(codes, keep, numbers, tmp_path, bug):
    left = leaks(memory_after(codes, keep, tmp_path, "numpy", bug=bug), numbers)
    assert left["int64"] > len(numbers[0]) / 2
