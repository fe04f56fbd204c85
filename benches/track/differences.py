"""What changed between two sets of counts, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def changed(before: int, after: int) -> str:
    """How a count moved.

    >>> changed(200, 150)
    '200 -> 150 (-25.0 %)'
    >>> changed(0, 7)
    '0 -> 7'
    """
    share = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    return f"{before:,} -> {after:,}{share}"


def work_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each run whose work is another: the totals first, then the kernels.

    >>> one = {"passes": 3, "calls": {"Marginals.sums": 3}, "touched": {"Marginals.sums": 30}}
    >>> two = {"passes": 4, "calls": {"Marginals.sums": 4}, "touched": {"Marginals.sums": 40}}
    >>> print(*work_differences({"pep": one, "old": one}, {"pep": two, "new": one}), sep="\\n")
    pep: passes 3 -> 4 (+33.3 %); Marginals.sums called 3 -> 4 (+33.3 %), touched 30 -> 40 (+33.3 %)
    old: no longer run
    new: not run before
    """
    lines = []
    for run in [*before, *(name for name in after if name not in before)]:
        if run not in after:
            lines.append(f"{run}: no longer run")
        elif run not in before:
            lines.append(f"{run}: not run before")
        elif before[run] != after[run]:
            lines.append(f"{run}: {'; '.join(_of_run(before[run], after[run]))}")
    return lines


def _of_run(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    texts = [
        f"{what} {changed(number, after.get(what, 0))}"
        for what, number in before.items()
        if isinstance(number, int) and number != after.get(what, 0)
    ]
    for kernel in sorted({*before["calls"], *after["calls"]}):
        moved = [
            f"{verb} {changed(before[what].get(kernel, 0), after[what].get(kernel, 0))}"
            for what, verb in (("calls", "called"), ("touched", "touched"))
            if before[what].get(kernel, 0) != after[what].get(kernel, 0)
        ]
        if moved:
            texts.append(f"{kernel} {', '.join(moved)}")
    return texts


def instruction_differences(
    before: Mapping[str, int], after: Mapping[str, int], threshold: float
) -> tuple[list[str], list[str]]:
    """Lines of what needs more instructions than the threshold allows, and of everything else that moved.

    >>> instruction_differences({"tilt": 1000, "nnls": 1000}, {"tilt": 1030, "nnls": 990}, 0.02)
    (['tilt: 1,000 -> 1,030 (+3.0 %)'], ['nnls: 1,000 -> 990 (-1.0 %)'])
    """
    worse: list[str] = []
    moved: list[str] = []
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            worse.append(f"{name}: no longer counted")
        elif name not in before:
            worse.append(f"{name}: {after[name]:,}, not counted before")
        elif after[name] != before[name]:
            line = f"{name}: {changed(before[name], after[name])}"
            (worse if after[name] > before[name] * (1 + threshold) else moved).append(line)
    return worse, moved
