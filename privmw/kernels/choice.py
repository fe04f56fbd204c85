"""Which backend runs, and on how many threads where a call does not say: the one place where it is chosen."""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType

from privmw.kernels.checks import check_integer

BACKENDS = ("native", "numba", "numpy")


def load_backend() -> tuple[str, ModuleType]:
    """The forced backend, or the best there is, by name and module."""
    forced = os.environ.get("PRIVMW_BACKEND")
    if forced:
        if forced not in BACKENDS:
            raise ValueError(f"PRIVMW_BACKEND ({forced}) must be one of {', '.join(BACKENDS)}")
        try:
            return forced, importlib.import_module(f"privmw.kernels.{forced}")
        except ImportError as error:
            raise ImportError(f"PRIVMW_BACKEND ({forced}) must be installed here: {error}") from error
    try:
        return "native", importlib.import_module("privmw.kernels.native")
    except ImportError:
        try:
            name, module = "numba", importlib.import_module("privmw.kernels.numba")
        except ImportError:  # not there, or of no use beside this numpy
            name, module = "numpy", importlib.import_module("privmw.kernels.numpy")
        warnings.warn(
            f"privmw was installed without its compiled kernels and runs on {name}, many times slower. "
            f"Reinstall where a C++20 compiler is found, or set PRIVMW_BACKEND={name} to accept this.",
            RuntimeWarning,
            stacklevel=2,
        )
        return name, module


name, kernels = load_backend()
_threads = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def backend() -> str:
    """The backend in use: "native", "numba" or "numpy".

    >>> backend() in BACKENDS
    True
    """
    return name


def threads() -> int:
    """The threads of a kernel where the call does not say: at first, the cores this process may use."""
    return _threads


def set_threads(n: int) -> None:
    """Sets the default number of threads. Results do not depend on it.

    >>> before = threads(); set_threads(1); threads()
    1
    >>> set_threads(before)
    """
    global _threads
    _threads = check_integer("n", n, 1, 1024)


def threads_of(threads: int | None) -> int:
    """The threads of a call: its own number, checked, or the default."""
    return _threads if threads is None else check_integer("threads", threads, 1, 1024)
