"""The work of the fixed runs, counted at the door of the kernels: exact, and the same on every machine.

`choice.kernels`, the object that every door asks for its kernels, is replaced by one that counts and passes
on; the library knows nothing of it. `python -m track.work RUN` prints the counts of one run as JSON: in a
process of its own, since fits remember problems.

calls: how often each kernel was called. touched: rows x marginals for kernels over marginals, else the
numbers in the arrays given and returned. passes: calls that go over all rows of a matrix of queries. Newton
steps: those that releases and fits report. bytes: what the kernels' objects held at their largest, and the
arrays that kernels returned, added up over the run.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

OF_MARGINALS = ("Marginals", "Tallies", "Moves")  # made of attributes and starts
OF_CELLS = ("MarginalCells", "GramProduct")  # made of one of these; their methods are given the rows
OVER_MARGINALS = (*OF_MARGINALS, *OF_CELLS)
MATRICES = (*OVER_MARGINALS, "Incidence")
# Of some rows, of one attribute, or of none; how often `newton` goes over the rows is not seen from here.
NOT_PASSES = ("add_changes", "keep", "redraw", "set_values", "newton")
NOT_OF_ROWS = ("keep", "set_values", "newton")


class Work:
    """What kernels did since the last reset."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.calls: Counter[str] = Counter()
        self.touched: Counter[str] = Counter()
        self.bytes = 0

    def summary(self, newton_steps: int) -> dict[str, Any]:
        return {
            # To spread masses is two passes: their sums, and the potentials of these.
            "passes": total(self.calls, MATRICES, NOT_PASSES) + self.calls["GramProduct.spread"],
            "rows x marginals": total(self.touched, OVER_MARGINALS, NOT_OF_ROWS),
            "Newton steps": newton_steps,
            "kernel bytes": self.bytes,
            "calls": dict(sorted(self.calls.items())),
            "touched": dict(sorted(self.touched.items())),
        }


def total(counts: Counter[str], kinds: tuple[str, ...], without: tuple[str, ...]) -> int:
    """Over the methods of these kinds of objects, some left out: a method that is new counts."""
    methods = {kernel: kernel.split(".") for kernel in counts if "." in kernel}
    return sum(
        counts[kernel] for kernel, (kind, name) in methods.items() if kind in kinds and name not in without
    )


class CountedKernels(ModuleType):
    """A backend that counts: its functions, and the methods of the objects it makes."""

    def __init__(self, kernels: Any, work: Work) -> None:
        super().__init__(kernels.__name__)
        self._kernels, self._work = kernels, work

    def __getattr__(self, name: str) -> Any:
        kernel, work = getattr(self._kernels, name), self._work

        def counted(*given: Any, **named: Any) -> Any:
            if isinstance(kernel, type):
                return CountedObject(name, kernel, work, given, named)
            result = call(kernel, given, named)
            count(work, name, sizes((given, named, result)), result)
            return result

        setattr(self, name, counted)
        return counted


class CountedObject:
    """A kernel's object that counts the calls of its methods."""

    def __init__(self, name: str, kind: type, work: Work, given: tuple[Any, ...], named: Any) -> None:
        self._name, self._work, self._bytes = name, work, 0
        self._inner = call(kind, given, named)
        self._rows = rows_of(name, given)
        # The second and third argument of all three are attributes and starts.
        self._attributes = given[1] if name in OF_MARGINALS else ()
        self._marginals = len(given[2]) - 1 if name in OF_MARGINALS else 0
        if name in OF_CELLS:
            self._marginals = given[0]._marginals
        count(work, name, sizes((given, named)))
        self._see_bytes()

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, method: str) -> Any:
        inner = getattr(self._inner, method)
        if method in ("nbytes", "ways"):
            return inner

        def counted(*given: Any, **named: Any) -> Any:
            result = call(inner, given, named)
            count(self._work, f"{self._name}.{method}", self._touched(method, given, named, result), result)
            self._see_bytes()
            return result

        return counted

    def _touched(self, method: str, given: tuple[Any, ...], named: Any, result: Any) -> int:
        if self._name == "Moves" and method == "redraw":
            codes, drawn = given[:2]
            return len(codes) * sum(int((np.asarray(self._attributes) == a).sum()) for a in drawn)
        if self._name == "Moves" and method == "potentials":
            return len(given[0]) * self._marginals
        if self._name in OF_CELLS:
            return len(given[0]) * self._marginals * (2 if method == "spread" else 1)
        if self._name in ("Marginals", "Tallies") and method not in NOT_OF_ROWS:
            rows = len(given[0]) if method in ("add_changes", "descend") else self._rows
            return rows * self._marginals
        return sizes((given, named, result))

    def _see_bytes(self) -> None:
        if hasattr(self._inner, "nbytes"):
            largest = max(self._bytes, int(self._inner.nbytes()))
            self._work.bytes += largest - self._bytes
            self._bytes = largest


def rows_of(name: str, given: tuple[Any, ...]) -> int:
    if name == "Columns":
        return len(given[0][0])
    if name == "Marginals":
        return int(given[0]._rows)
    if name == "Tallies":
        return int(given[3]._rows) if given[3] is not None else int(np.prod(given[0]))
    return 0


def call(kernel: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The kernels see their own objects."""
    inner = [each._inner if isinstance(each, CountedObject) else each for each in given]
    return kernel(*inner, **named)


def count(work: Work, kernel: str, touched: int, result: Any = None) -> None:
    work.calls[kernel] += 1
    work.touched[kernel] += touched
    work.bytes += sum(array.nbytes for array in arrays(result))


def sizes(given: Any) -> int:
    return sum(array.size for array in arrays(given))


def arrays(given: Any) -> Iterator[np.ndarray]:
    if isinstance(given, np.ndarray):
        yield given
    elif isinstance(given, (tuple, list)):
        for each in given:
            yield from arrays(each)
    elif isinstance(given, dict):
        yield from arrays(list(given.values()))


def newton_steps(result: Any) -> int:
    """Of a release's rounds, or of a fit's stages."""
    rounds = getattr(result, "history", ())
    stages = getattr(getattr(result, "certificate", None), "stages", ())
    return int(sum(r.details.get("steps", 0) for r in rounds)) + sum(stage.steps for stage in stages)


def count_run(make: Any) -> dict[str, Any]:
    """The work of one run, its preparation left out of the counts."""
    import privmw as pmw
    from privmw.kernels import choice

    before, threads, work = choice.kernels, pmw.kernels.threads(), Work()
    pmw.kernels.set_threads(1)
    try:
        choice.kernels = CountedKernels(before, work)
        run = make()
        work.reset()
        result = run()
    finally:
        choice.kernels = before
        pmw.kernels.set_threads(threads)
    return work.summary(newton_steps(result))


if __name__ == "__main__":
    from .runs import RUNS

    print(json.dumps(count_run(RUNS[sys.argv[1]])))
