"""Controlled rounding: whole numbers near fractional ones that keep their sums within one, two ways at once.

Numbers lie in a table of two nested partitions, of rows (a total, its parts, their parts) and of columns.
They and their sums are a flow on a graph: from the whole down one tree to its leaves, across by the numbers,
and up the other tree. The fractional arcs of a flow lie on cycles; along a cycle, flow is added one way and
taken the other until some arc is an integer. So every number, every sum of either tree and the total end up
rounded down or up; integers stay. This module uses numbers and a generator of the sampling stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privmw.kernels.arrays import Float64s, Int64s


def round_flow(
    values: Float64s,
    rows: Sequence[Int64s],
    columns: Sequence[Int64s],
    rng: np.random.Generator | None,
    whole: float = 1e-9,
) -> Int64s:
    """Each value rounded down or up, and so each sum over a part of rows or columns, and the total.

    rows, columns: partitions, the coarsest first, each within the one before: a part's number for each value.
    With a generator the expectation of each result is its value; without, ties go up first. whole: values
    this near to an integer count as one.

    >>> values = np.array([0.5, 0.5, 0.5, 0.5])
    >>> round_flow(values, [np.array([0, 0, 1, 1])], [np.array([0, 1, 0, 1])], None).tolist()
    [1, 0, 0, 1]
    """
    graph = _Flow(rng, whole)
    for side, partitions in (("rows", rows), ("columns", columns)):
        before = np.zeros(len(values), np.int64)
        for depth, partition in enumerate(partitions, 1):
            first = np.unique(partition, return_index=True)[1]
            sums = np.bincount(partition, values)
            for at in first.tolist():
                above, below = (side, depth - 1, int(before[at])), (side, depth, int(partition[at]))
                ends = (above, below) if side == "rows" else (below, above)
                graph.add(*ends, float(sums[partition[at]]))
            before = partition
    graph.add(("columns", 0, 0), ("rows", 0, 0), float(values.sum()))
    alone = np.zeros(len(values), np.int64)
    leaves = [(partitions[-1] if partitions else alone).tolist() for partitions in (rows, columns)]
    arcs = [
        graph.add(("rows", len(rows), a), ("columns", len(columns), b), value)
        for a, b, value in zip(*leaves, values.tolist(), strict=True)
    ]
    return np.array([round(graph.flow[arc]) for arc in arcs], np.int64)


class _Flow:
    """A circulation whose fractional arcs form a forest: a cycle closed by a new arc is cancelled."""

    def __init__(self, rng: np.random.Generator | None, whole: float) -> None:
        self.rng, self.whole = rng, whole
        self.ends: list[tuple[object, object]] = []
        self.flow: list[float] = []
        self.arcs_at: dict[object, set[int]] = {}

    def add(self, start: object, end: object, flow: float) -> int:
        """Add an arc; returns its number."""
        arc = len(self.flow)
        self.ends.append((start, end))
        self.flow.append(self._snapped(flow))
        while not self.flow[arc].is_integer():
            path = self._path(end, start)
            if path is None:
                for node in self.ends[arc]:
                    self.arcs_at.setdefault(node, set()).add(arc)
                break
            self._cancel([(arc, 1), *path])
        return arc

    def _snapped(self, flow: float) -> float:
        near = float(round(flow))
        return near if abs(flow - near) <= self.whole else flow

    def _path(self, start: object, end: object) -> list[tuple[int, int]] | None:
        """Arcs of the forest from one node to another, each with the direction it is followed in."""
        came: dict[object, tuple[int, int, object] | None] = {start: None}
        waiting = [start]
        while waiting and end not in came:
            node = waiting.pop()
            for arc in self.arcs_at.get(node, ()):
                a, b = self.ends[arc]
                onward, direction = (b, 1) if a == node else (a, -1)
                if onward not in came:
                    came[onward] = (arc, direction, node)
                    waiting.append(onward)
        if end not in came:
            return None
        path, step = [], came[end]
        while step is not None:
            path.append((step[0], step[1]))
            step = came[step[2]]
        return path

    def _cancel(self, cycle: list[tuple[int, int]]) -> None:
        """Send flow around a cycle until an arc is an integer: the nearer way, or either at random."""
        up = min(_room(self.flow[arc], direction) for arc, direction in cycle)
        down = min(_room(self.flow[arc], -direction) for arc, direction in cycle)
        # Expected change: up * down / (up + down) - down * up / (up + down) = 0.
        forward = up <= down if self.rng is None else self.rng.random() * (up + down) < down
        amount = up if forward else -down
        for arc, direction in cycle:
            self.flow[arc] = self._snapped(self.flow[arc] + amount * direction)
            if self.flow[arc].is_integer():
                for node in self.ends[arc]:
                    self.arcs_at.get(node, set()).discard(arc)


def _room(flow: float, direction: int) -> float:
    """How much an arc can take in a direction before it is an integer."""
    return math.ceil(flow) - flow if direction > 0 else flow - math.floor(flow)
