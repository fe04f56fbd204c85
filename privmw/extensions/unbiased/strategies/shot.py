"""A shot: which tables are measured with which noise, what it costs, and how well it answers; before data.

Whatever is measured, plain marginals or residuals, tells about the interaction of a set S of attributes with
one precision w_S, as interactions of different sets are orthogonal and the noise of a table is the same in
every cell. So with p_S = prod (1 - 1/n_i) and rest = prod of n_j over j in A but not in S, least squares has

    answer of A  = n / N_A + sum over S in A of  r_S / rest        (r_S broadcast to the cells of A)
    variance     =           sum over S in A of  p_S / (w_S rest^2)

and covariances the same way. Answers are unbiased, and agree with each other. n is public: neighbours replace
one record. This module receives noisy values only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from privmw.accounting import Composition, Event
from privmw.accounting.noise import NoiseFamily
from privmw.accounting.rounding import float_up, positive_integer
from privmw.data.domain import Domain, positions_of
from privmw.data.workload import Workload
from privmw.extensions.unbiased.strategies.closure import Closure
from privmw.kernels.arrays import Float64s, Int64s
from privmw.secrecy import expect, shown

Residuals: TypeAlias = tuple[Float64s, ...]  # the estimate of every interaction, in the order of the closure
Term: TypeAlias = tuple[Sequence[str], Sequence[int], float]  # a cell's attributes, its codes, a coefficient


class TableLook(NamedTuple):
    """One measured table: its attributes, and the scale of its noise (sigma, or the scale of a Laplace law).

    share: what it costs in the budget's unit; None where all looks are charged jointly.
    """

    attributes: tuple[str, ...]
    scale: float
    share: Fraction | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shot:
    """One shot at a private table, before it happens.

    workload: what can be answered, with every marginal inside. kind: whether looks are plain "marginals" or
    "residuals". measured: the marginals that the curator must count; of plain looks, in their order.
    events: what is charged. precision: w_S of every set of the closure of the workload.

    >>> from privmw import Budget, Domain, strategies
    >>> workload = Workload.all(Domain({"a": 2, "b": 3}), k=2)
    >>> shot = strategies.equal().calibrate(workload, Budget.zcdp(0.01))
    >>> shot
    <Shot of 1 look at marginals, discrete-gaussian noise, rho 0.01, at_most=1>
    >>> round(shot.variance(["a"]), 6)  # least squares: 100 in each of six cells, and the total is public
    150.0
    """

    workload: Workload
    kind: Literal["marginals", "residuals"]
    family: NoiseFamily
    at_most: int
    measured: Workload
    looks: tuple[TableLook, ...]
    events: tuple[Event, ...]
    closure: Closure
    precision: Float64s

    @property
    def noise(self) -> str:
        """The name of the noise, as in files."""
        return self.family.name

    @property
    def domain(self) -> Domain:
        """The domain of the workload."""
        return self.workload.domain

    @property
    def cost(self) -> Composition:
        """The exact total of the events."""
        return Composition.of(self.events)

    def variances(self) -> Float64s:
        """The variance of a cell, for every marginal of the workload."""
        return self.closure.onto_marginals(self.closure.shrink / self.precision)

    def variance(self, attributes: Sequence[str]) -> float:
        """The variance of one cell of the marginal of some attributes, in counts squared."""
        return math.fsum(
            self.closure.shrink[s] / self.precision[s] / rest**2
            for s, _, rest in self._inside(self._positions(attributes))
        )

    def covariance(self, functions: Sequence[Sequence[Term]]) -> Float64s:
        """The covariances of a few linear functions of cells: lists of (attributes, codes, coefficient).

        >>> from privmw import Budget, Domain, strategies
        >>> workload = Workload.all(Domain({"a": 2, "b": 3}), k=2)
        >>> shot = strategies.equal().calibrate(workload, Budget.zcdp(0.01))
        >>> shot.covariance([[(["a"], [0], 1.0)], [(["a"], [0], 1.0), (["a"], [1], 1.0)]]).round(6).tolist()
        [[150.0, 0.0], [0.0, 0.0]]
        """
        sizes = self.domain.sizes
        cells: dict[
            int, list[tuple[int, float, tuple[int, ...]]]
        ] = {}  # by set: function, weight, codes in it
        for number, function in enumerate(functions):
            for attributes, codes, coefficient in function:
                positions, values = self._cell(attributes, codes)
                for s, inside, rest in self._inside(positions):
                    part = tuple(values[positions.index(a)] for a in inside)
                    cells.setdefault(s, []).append((number, float(coefficient) / rest, part))
        total = np.zeros((len(functions), len(functions)))
        for s, entries in cells.items():
            among = [a for a in self.closure.members[s].tolist() if a < len(sizes)]
            values_in = np.array([part for _, _, part in entries])
            spread = np.zeros((len(functions), len(entries)))
            for column, (number, weight, _) in enumerate(entries):
                spread[number, column] = weight
            # <P_S e_x, e_y> = prod over i in S of ([x_i = y_i] - 1 / n_i)
            kernel = np.ones((len(entries), len(entries)))
            for axis, a in enumerate(among):
                kernel *= (values_in[:, None, axis] == values_in[None, :, axis]) - 1 / sizes[a]
            total += spread @ kernel @ spread.T / self.precision[s]
        return total

    def residuals(self, noisy: Sequence[Int64s]) -> Residuals:
        """The least-squares estimate of every interaction, from the noisy values of all looks, in order."""
        if len(noisy) != len(self.looks):
            raise ValueError(f"noisy ({len(noisy)} arrays) must be one for each of {len(self.looks)} looks")
        sizes = self.domain.sizes
        shapes = [tuple(sizes[a] for a in row if a < len(sizes)) for row in self.closure.members.tolist()]
        if self.kind == "residuals":
            return tuple(
                _interaction(_embedded(contrasts, shape))
                for contrasts, shape in zip(noisy, shapes, strict=True)
            )
        sums = [np.zeros(shape) for shape in shapes]
        for j, (look, values) in enumerate(zip(self.looks, noisy, strict=True)):
            positions = [self.domain.index(name) for name in look.attributes]
            table = np.asarray(values, np.float64).reshape(self.measured.shape(j))
            precision = 1 / noise_variance(self.family, look.scale)
            for s, inside, rest in self._inside(positions, missing=True):
                away = tuple(axis for axis, a in enumerate(positions) if a not in inside)
                sums[s] += table.sum(axis=away).reshape(shapes[s]) * (precision / rest)
        return tuple(_interaction(table) / w for table, w in zip(sums, self.precision.tolist(), strict=True))

    def reconstruct(self, residuals: Residuals, n: int, attributes: Sequence[str]) -> Float64s:
        """The unbiased counts of a marginal, in the order of a workload's cells, from `residuals`."""
        positions, sizes = self._positions(attributes), self.domain.sizes
        shape = tuple(sizes[a] for a in positions)
        table = np.full(shape, positive_integer("n", n) / math.prod(shape))
        for s, inside, rest in self._inside(positions):
            broadcast = tuple(sizes[a] if a in inside else 1 for a in positions)
            table += residuals[s].reshape(broadcast) / rest
        return table.ravel()

    def reconstruct_workload(self, residuals: Residuals, n: int) -> Float64s:
        """The same for every marginal of the workload in turn; the closure knows what lies inside."""
        workload, sizes, sets_in_all = self.workload, self.domain.sizes, len(self.closure)
        counts = np.empty(workload.cells)
        attributes, starts = workload.attributes.tolist(), workload.starts.tolist()
        offsets, positive_n = workload.offsets.tolist(), positive_integer("n", n)
        for group in self.closure.groups:
            order = starts[group.marginals[0] + 1] - starts[group.marginals[0]]
            bits = [[column >> i & 1 for i in range(order)] for column in range(1, 2**order)]
            # As `_inside` has them: the same sums in the same order, and so the same bits.
            columns = sorted(range(len(bits)), key=lambda c: (sum(bits[c]), [-bit for bit in bits[c]]))
            rows = zip(group.marginals.tolist(), group.sets.tolist(), group.rest.tolist(), strict=True)
            for j, sets, rests in rows:
                shape = [sizes[a] for a in attributes[starts[j] : starts[j + 1]]]
                table = counts[offsets[j] : offsets[j + 1]].reshape(shape)
                table[...] = positive_n / math.prod(shape)
                for column in columns:
                    if sets[column] < sets_in_all:  # else an attribute of one value is in it
                        broadcast = [
                            size if bit else 1 for size, bit in zip(shape, bits[column], strict=True)
                        ]
                        table += residuals[sets[column]].reshape(broadcast) / rests[column]
        return counts

    def _inside(
        self, positions: Sequence[int], missing: bool = False
    ) -> Iterator[tuple[int, tuple[int, ...], float]]:
        """Every set inside a marginal that has an interaction: its number, attributes and rest.

        missing: leave out sets that are not in the closure, instead of refusing the marginal.
        """
        sizes = self.domain.sizes
        several = [a for a in positions if sizes[a] > 1]
        cells = math.prod(sizes[a] for a in several)
        for order in range(1, len(several) + 1):
            for inside in combinations(several, order):
                s = self.closure.find(inside)
                if s >= 0:
                    yield s, inside, cells / math.prod(sizes[a] for a in inside)
                elif not missing:
                    names = tuple(self.domain.names[a] for a in positions)
                    raise ValueError(f"marginal {names} must lie inside a marginal of the shot")

    def _positions(self, attributes: Sequence[str]) -> list[int]:
        right = isinstance(attributes, Sequence) and not isinstance(attributes, str)
        expect("marginal", attributes, right, "a tuple of names")
        positions = sorted(set(positions_of(self.domain, attributes, "marginal")))
        if len(positions) < len(attributes):
            names = tuple(self.domain.names[a] for a in positions)
            raise ValueError(f"marginal {names} must not name an attribute twice")
        return positions

    def _cell(self, attributes: Sequence[str], codes: Sequence[int]) -> tuple[list[int], list[int]]:
        positions = self._positions(attributes)
        if len(codes) != len(positions):
            raise ValueError(f"codes ({len(codes)}) must be {len(positions)}, one for each attribute")
        given = {self.domain.index(name): code for name, code in zip(attributes, codes, strict=True)}
        for a in positions:
            if not 0 <= given[a] < self.domain.sizes[a]:
                raise ValueError(
                    f"code of {shown(self.domain.names[a])} must be from 0 to {self.domain.sizes[a] - 1}"
                )
        return positions, [int(given[a]) for a in positions]

    def __repr__(self) -> str:
        looks = f"{len(self.looks):,} look{'s' * (len(self.looks) != 1)} at {self.kind}"
        spent = getattr(self.cost, self.family.unit)
        price = f"{self.family.unit} {float_up(spent or Fraction(0)):.6g}"
        return f"<Shot of {looks}, {self.noise} noise, {price}, at_most={self.at_most}>"


def noise_variance(family: NoiseFamily, scale: float) -> float:
    """The variance of one draw, not bounded below as `NoiseDistribution.variance` is.

    >>> from privmw.accounting.noise import DISCRETE_LAPLACE
    >>> round(noise_variance(DISCRETE_LAPLACE, 10.0), 3)
    199.833
    """
    if family.order == 2:
        return scale**2
    # 2 q / (1 - q)^2 with q = exp(-1 / scale)
    return 1 / (2 * math.sinh(1 / (2 * scale)) ** 2)


def _embedded(contrasts: Int64s, shape: tuple[int, ...]) -> Float64s:
    """A table with these contrasts against the last value of each attribute: zero at the last values."""
    table = np.zeros(shape)
    table[tuple(slice(0, size - 1) for size in shape)] = contrasts.reshape([size - 1 for size in shape])
    return table


def _interaction(table: Float64s) -> Float64s:
    """P_S of a table: what no smaller table has."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
