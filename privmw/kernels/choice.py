"""The choice of the backend and of the default number of threads.

A backend is a package with one module per noun (`numba_/weights.py`), or one module (`native.py`). Its
kernels have the names and arguments of `_native.pyi`. A kernel that it lacks comes from the first of
FALLBACKS that has it: a backend without draws uses the native ones if they are built.

Callers use `choice.kernels.multiply(...)`, looked up at the call, so that a test can set `choice.kernels`.
"""

from __future__ import annotations

import importlib
import itertools
import os
import warnings
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from privmw.kernels.checks import check_integer

BACKENDS = ("native", "numba", "numpy")
FALLBACKS = ("numpy", "native", "python")


class Backend(ModuleType):
    """The kernels of a backend and of its fallbacks, as attributes.

    >>> Backend("numpy").matching_rows.__module__
    'privmw.kernels.numpy_.rows'
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._modules = modules_of(name)

    def __getattr__(self, kernel: str) -> Any:
        # Called once per kernel, which then is a plain attribute.
        if not kernel.startswith("_"):
            for modules in itertools.chain([self._modules], map(_built_modules_of, FALLBACKS)):
                for module in modules:
                    if kernel in vars(module):
                        setattr(self, kernel, vars(module)[kernel])
                        return vars(module)[kernel]
        raise AttributeError(f"no backend has a kernel of the name {kernel}")


@cache
def modules_of(name: str) -> tuple[ModuleType, ...]:
    """The modules of a backend; raises ImportError if it is not installed."""
    if name == "native":
        return (importlib.import_module("privmw.kernels.native"),)
    import pkgutil  # the native backend does not need it

    package = importlib.import_module(f"privmw.kernels.{name}_")
    nouns = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return tuple(importlib.import_module(f"{package.__name__}.{noun}") for noun in nouns)


def _built_modules_of(name: str) -> tuple[ModuleType, ...]:
    try:
        return modules_of(name)
    except ImportError:
        return ()


def choose_backend() -> Backend:
    """The backend that PRIVMW_BACKEND forces, or the best that is installed."""
    forced = os.environ.get("PRIVMW_BACKEND")
    if forced:
        if forced not in BACKENDS:
            raise ValueError(f"PRIVMW_BACKEND ({forced}) must be one of {', '.join(BACKENDS)}")
        try:
            return Backend(forced)
        except ImportError as error:
            raise ImportError(f"PRIVMW_BACKEND ({forced}) must be installed here: {error}") from error
    name = next(name for name in BACKENDS if _built_modules_of(name))
    if name != "native":
        warnings.warn(
            f"privmw was installed without its compiled kernels and runs on {name}, many times slower. "
            f"Reinstall where a C++20 compiler is found, or set PRIVMW_BACKEND={name} to accept this.",
            RuntimeWarning,
            stacklevel=2,
        )
    return Backend(name)


if TYPE_CHECKING:  # callers are type-checked against the stub
    from privmw.kernels import _native

    kernels = _native
else:
    kernels = choose_backend()
_threads = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def backend() -> str:
    """The backend in use: "native", "numba" or "numpy".

    >>> backend() in BACKENDS
    True
    """
    return kernels.__name__


def threads() -> int:
    """The default number of threads of a kernel: initially the cores this process may use."""
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
    """The number of threads of a call: its argument, checked, or the default."""
    return _threads if threads is None else check_integer("threads", threads, 1, 1024)
