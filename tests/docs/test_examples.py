"""Every example in a docstring of privmw runs."""

import doctest
import importlib
from pathlib import Path

import pytest

import privmw

HOUSE = Path(privmw.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(HOUSE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in HOUSE.rglob("*.py")
    if "\n    >>> " in path.read_text() or "\n        >>> " in path.read_text()
)
NEEDS = {  # by module or package: what its examples import
    "io": ("pyarrow", "narwhals"),
    "cli": ("pyarrow", "rich"),
    "report": ("matplotlib", "jinja2"),
    "extensions.postprocess.report": ("matplotlib", "jinja2"),
    "extensions.explorer": ("matplotlib", "jinja2"),
    "extensions.unbiased.report": ("matplotlib", "jinja2"),
    "release.release": ("pyarrow", "pandas"),
    "extensions.synthesizer.synthesizer": ("pyarrow", "narwhals", "pandas"),
    "data.propose": ("pyarrow",),
    "data.table": ("pyarrow", "pandas"),
    "extensions.rules": ("pyarrow", "pandas"),
    "extensions.experiments.readers": ("pyarrow",),
    "extensions.postprocess.noisy_file": ("pyarrow",),
    "extensions.postprocess.max_fit": ("scipy",),
    "extensions.evaluation": ("scipy",),
    "kernels.numba_": ("numba",),
    "extensions.adapters.dp_accounting": ("dp_accounting",),
    "extensions.adapters.mbi": ("mbi",),
    "extensions.adapters.opendp": ("opendp", "mbi"),
    "extensions.synthesizer.smartnoise": ("snsynth",),
    "kernels.c_interface": ("privmw.kernels._native",),
}
STARTS_MPI = "privmw.extensions.cluster.mpi"  # test_mpi.py runs its examples in a process of their own


def test_the_search_finds_the_examples():
    assert {"privmw.data.table", "privmw.accounting.noise", "privmw.algorithms.pep"} <= set(MODULES)


@pytest.mark.parametrize("name", [name for name in MODULES if name != STARTS_MPI])
def test_the_examples_of_a_module_run(name):
    for room, packages in NEEDS.items():
        if f"{name}.".startswith(f"privmw.{room}."):
            for package in packages:
                pytest.importorskip(package)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
