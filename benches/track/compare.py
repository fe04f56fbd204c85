"""Times of two builds, paired: fresh processes side by side, runs in turn, ratios with their intervals.

A sample of a run is the ratio of its fastest times in one pair of processes. Processes differ by where their
memory lies, and that can be worth percents for as long as they live; so each pair gives one sample only.
Pairs are started until every interval is narrow, or to the limit. What is flagged is surely slower: the whole
interval is above the threshold.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .builds import Build
from .intervals import Interval, median_interval

CLOCKS = ("wall", "processor")
LEAST_SECONDS = 0.01  # of what is timed at once: shorter runs are repeated
TURNS = 15  # of each build in a pair: the shorter and the more, the likelier one is undisturbed


class Rule(NamedTuple):
    """When to stop, and what to flag."""

    clock: str = "wall"
    threshold: float = 0.02  # slower by more than this, surely
    width: float = 0.02  # of an interval, to be narrow
    fewest: int = 10
    most: int = 40  # pairs of processes
    level: float = 0.99

    def flags(self, interval: Interval) -> bool:
        return interval.low > 1 + self.threshold


class Worker:
    """A process of a build that times runs."""

    def __init__(self, build: Build, slower: float, folder: str) -> None:
        self._process = subprocess.Popen(
            build.command("worker", "times", str(slower)),
            env=build.environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._asked, self._answered = self._process.stdin, self._process.stdout

    def time(self, run: str, loops: int) -> list[float] | None:
        self._asked.write(f"{loops} {run}\n")
        self._asked.flush()
        answer = self._answered.readline()
        if not answer:
            raise RuntimeError(f"the run '{run}' must end well")
        seconds: list[float] | None = json.loads(answer)
        return seconds

    def end(self) -> None:
        self._asked.close()
        self._process.wait()
        self._answered.close()


def sample_pair(
    base: Build, head: Build, runs: Sequence[str], clock: str, pair: int, loops: dict[str, int], slower: float
) -> dict[str, float]:
    """One ratio, head over base, for each run that both builds have."""
    ratios = {}
    place = CLOCKS.index(clock)
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(base, 0.0, folder), Worker(head, slower, folder)]
        try:
            for run in runs:
                warm = [worker.time(run, 1) for worker in workers]
                if None in warm:
                    continue
                if run not in loops:
                    once = min(worker.time(run, 1)[0] for worker in workers)  # type: ignore[index]
                    loops[run] = max(1, round(LEAST_SECONDS / max(once, 1e-6)))
                fastest = [float("inf")] * 2
                for turn in range(TURNS):
                    for who in (0, 1) if (pair + turn) % 2 == 0 else (1, 0):
                        seconds = workers[who].time(run, loops[run])
                        assert seconds is not None
                        fastest[who] = min(fastest[who], seconds[place])
                ratios[run] = fastest[1] / fastest[0]
        finally:
            for worker in workers:
                worker.end()
    return ratios


def paired_intervals(
    sample: Callable[[int, Sequence[str]], dict[str, float]], runs: Sequence[str], rule: Rule
) -> dict[str, tuple[Interval, int]]:
    """The interval of each run's ratio, and its number of pairs. sample: ratios of these runs in a new pair.

    Sampling ends by the width alone: ending as soon as an interval excludes 1 would flag what is not there.
    """
    ratios: dict[str, list[float]] = {}
    left = list(runs)
    for pair in range(rule.most):
        for run, ratio in sample(pair, left).items():
            ratios.setdefault(run, []).append(ratio)
        left = [run for run in left if run in ratios]
        if pair + 1 >= rule.fewest:
            left = [run for run in left if median_interval(ratios[run], rule.level).width > rule.width]
        if not left:
            break
    return {run: (median_interval(found, rule.level), len(found)) for run, found in ratios.items()}


def compare(
    base: Build, head: Build, runs: Sequence[str], rule: Rule, slower: float = 0.0
) -> dict[str, tuple[Interval, int]]:
    loops: dict[str, int] = {}
    return paired_intervals(
        lambda pair, left: sample_pair(base, head, left, rule.clock, pair, loops, slower), runs, rule
    )


def table(intervals: dict[str, tuple[Interval, int]], rule: Rule) -> str:
    lines = [
        f"{'run':24} ratio   {100 * rule.level:g} % interval  pairs   ({rule.clock} time, head over base)"
    ]
    for run, (interval, pairs) in intervals.items():
        verdict = "SLOWER" if rule.flags(interval) else "faster" if interval.high < 1 - rule.threshold else ""
        enclosed = f"{interval.low:.3f} to {interval.high:.3f}"
        lines.append(f"{run:24} {interval.median:.3f}   {enclosed}  {pairs:5d}   {verdict}".rstrip())
    return "\n".join(lines)
