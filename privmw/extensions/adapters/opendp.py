"""OpenDP: our exact noise and selection as its measurements, and our counting behind its contingency tables.

Whose data: OpenDP calls a measurement with what its own caller gave it, private and not behind a `Curator`.
OpenDP keeps the budget and decides who may call; no ledger of ours knows of it. So this file alone, of all
adapters, hands private values to `privmw.mechanisms`: they come from OpenDP, and only what a mechanism
returns goes back. Each privacy map states the exact cost of our events, rounded up. Errors carry sizes and
parameters, no values. Users must enable OpenDP's features "contrib" and "honest-but-curious": it cannot check
the functions that it is given.

OpenDP's neighbours add or remove records, so that their number is private; our algorithms replace one and
publish n. `CountedMarginals` therefore measures a fixed workload, which holds under both: no algorithm of
ours that selects by n is offered here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
from opendp.extras.mbi import Fixed

from privmw.accounting import DiscreteGaussian, DiscreteLaplace, square_l2_sensitivity
from privmw.accounting.noise import (
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    NoiseEvent,
    NoiseFamily,
    family_of_event,
    noise_of_event,
)
from privmw.accounting.rounding import Real, float_up, positive, positive_integer
from privmw.data.domain import Domain
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.kernels.arrays import Int64s
from privmw.mechanisms import Noise, Selection
from privmw.random import privacy_stream
from privmw.secrecy import sealed, shown


def make_discrete_gaussian(size: int, *, sigma: Real) -> Any:
    """Return a measurement that adds discrete Gaussian noise to `size` integers, drawn exactly.

    From vectors of i64 and their L2 distance to zero-concentrated divergence: rho = d_in^2 / (2 sigma^2). A
    d_in of math.sqrt(2) is read as the root of 2.

    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> measurement = make_discrete_gaussian(3, sigma=2)
    >>> measurement.map(2**0.5), len(measurement([120, 30, 7]))
    (0.25, 3)
    """
    size = positive_integer("size", size)
    noise = Noise(DISCRETE_GAUSSIAN.event(positive("sigma", sigma), 1, 1))
    return dp.m.make_user_measurement(
        _integers(size),
        dp.l2_distance(T="f64"),
        dp.zero_concentrated_divergence(),
        _adds(noise, size),
        _map(lambda d_in: DiscreteGaussian(sigma, square_l2_sensitivity(d_in)).rho),
    )


def make_discrete_laplace(size: int, *, scale: Real) -> Any:
    """Return a measurement that adds discrete Laplace noise to `size` integers, drawn exactly.

    From vectors of i64 and their L1 distance to max divergence: epsilon = d_in / scale.

    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> make_discrete_laplace(3, scale=4).map(2)
    0.5
    """
    size = positive_integer("size", size)
    noise = Noise(DISCRETE_LAPLACE.event(positive("scale", scale), 1, 1))
    return dp.m.make_user_measurement(
        _integers(size),
        dp.l1_distance(T="i64"),
        dp.max_divergence(),
        _adds(noise, size),
        _map(lambda d_in: DiscreteLaplace(scale, d_in).epsilon),
    )


def make_selection(
    candidates: int, *, epsilon: Real, mechanism: str = "permute-and-flip", zcdp: bool = False
) -> Any:
    """Return a measurement that selects a high score out of `candidates`, with coins that are exact.

    From vectors of i64 and their L-infinity distance to max divergence, or to zero-concentrated divergence.
    epsilon: the cost where a record moves each score by at most 1. mechanism: "permute-and-flip",
    "exponential" or "report-noisy-max".

    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> make_selection(3, epsilon=0.5).map(2)
    1.0
    >>> make_selection(3, epsilon=1, mechanism="exponential", zcdp=True).map(1)
    0.125
    """
    if mechanism == "exponential-draws":  # with replacement: another question
        raise ValueError(f"mechanism ({shown(mechanism)}) must select one candidate")
    selection = Selection.prepare(mechanism, candidates=candidates, sensitivity=1, epsilon=epsilon)

    def cost(d_in: int) -> float:
        event = type(selection.event)(Fraction(epsilon) * d_in, candidates=candidates)
        return event.rho if zcdp else event.epsilon

    @sealed
    def select(scores: Sequence[int]) -> int:
        return selection.draw(_array(scores, candidates), privacy_stream())[0]

    return dp.m.make_user_measurement(
        _integers(candidates),
        dp.linf_distance(T="i64"),
        dp.zero_concentrated_divergence() if zcdp else dp.max_divergence(),
        select,
        _map(cost),
        TO="i32",
    )


@dataclass(kw_only=True, frozen=True)
class CountedMarginals(Fixed):  # type: ignore[misc]  # opendp's classes are untyped here
    """OpenDP's algorithm `Fixed` with our kernel for its counts, in one pass over the columns, and our noise.

    For `contingency_table(algorithm=...)`. It replaces a GROUP BY of polars for every marginal. Each query's
    share of the budget follows its weight. A unit that adds or removes c records moves a marginal by at most
    c, in either norm: bounds for single columns are not used.

    >>> CountedMarginals(queries=[dp.mbi.Count(by=("age", "sex"))]).needs_model
    False
    """

    def make_marginals(
        self,
        input_domain: Any,
        input_metric: Any,
        output_measure: Any,
        d_in: Any,
        d_out: float,
        *,
        marginals: Any,
        model: Any,
    ) -> Any:
        """Return the measurement of all queries; for OpenDP to call."""
        if input_metric != dp.frame_distance(dp.symmetric_distance()):
            raise ValueError("input_metric must be frame_distance(symmetric_distance())")
        zcdp = output_measure == dp.zero_concentrated_divergence()
        if not zcdp and output_measure != dp.max_divergence():
            raise ValueError("output_measure must be max_divergence or zero_concentrated_divergence")
        domain = Domain({name: _cardinality(input_domain, name) for name in input_domain.columns})
        workload = Workload(
            domain, list(dict.fromkeys(tuple(sorted(query.by, key=domain.index)) for query in self.queries))
        )
        places = [workload.index(query.by) for query in self.queries]
        noises = _noises(
            [workload.offsets[j + 1] - workload.offsets[j] for j in places],
            [Fraction(query.weight) for query in self.queries],
            _records(d_in),
            Fraction(d_out),
            DISCRETE_GAUSSIAN if zcdp else DISCRETE_LAPLACE,
        )

        def cost(bounds: Any) -> float:
            return float_up(sum((_cost(noise.event, _records(bounds)) for noise in noises), Fraction(0)))

        @sealed
        def measure(frame: Any) -> list[Int64s]:
            counts = _counts(frame.select(domain.names).collect(), workload)
            stream = privacy_stream()
            return [
                noise.add(counts[workload.offsets[j] : workload.offsets[j + 1]], stream)
                for j, noise in zip(places, noises, strict=True)
            ]

        def release(frame: Any) -> Any:
            noisy = measure(frame)
            import mbi  # OpenDP's own version

            new = []
            for query, j, values, noise in zip(self.queries, places, noisy, noises, strict=True):
                ordered, shape = workload.marginal(j), workload.shape(j)
                turned = np.transpose(values.reshape(shape), [ordered.index(name) for name in query.by])
                stddev = noise_of_event(noise.event).variance ** 0.5
                new.append(mbi.LinearMeasurement(turned.ravel().astype(float), query.by, stddev))
            every = marginals.add(*new)
            start = {"potentials": None if model is None else model.potentials}
            theirs = mbi.Domain(domain.names, domain.sizes) if model is None else model.domain
            return every, self.estimator(theirs, every.flatten(), **start)

        return dp.m.make_user_measurement(input_domain, input_metric, output_measure, release, cost)


def _integers(size: int) -> Any:
    return dp.vector_domain(dp.atom_domain(T="i64"), size)


def _array(values: Sequence[int], size: int) -> Int64s:
    array = np.array(values, np.int64)
    if array.shape != (size,):  # the domain's size: public
        raise ValueError(f"values ({len(array)}) must be {size}, as the domain of the measurement says")
    return array


def _adds(noise: Noise, size: int) -> Callable[[Sequence[int]], Int64s]:
    @sealed
    def add(values: Sequence[int]) -> Int64s:
        return noise.add(_array(values, size), privacy_stream())

    return add


def _map(cost: Callable[[Any], float]) -> Callable[[Any], float]:
    return lambda d_in: 0.0 if d_in == 0 else cost(d_in)


def _cardinality(input_domain: Any, name: str) -> int:
    bounds = input_domain.get_series_domain(name).element_domain.bounds
    if bounds is None or bounds[0] != 0:
        raise ValueError(f"column ({shown(name)}) must have codes from 0 to a bound")
    return int(bounds[1]) + 1


def _records(bounds: Any) -> int:
    """How many records one unit adds or removes, of the whole table."""
    for bound in bounds:
        if not bound.by and bound.per_group is not None:
            return positive_integer("per_group", bound.per_group)
    raise ValueError("d_in must bound how many records of the whole table a unit has")


def _cost(event: NoiseEvent, records: int) -> Fraction:
    """What noise costs that is added to counts of which a unit of some records changes one."""
    family = family_of_event(event)
    cost = family.event(event.scale, family.sensitivity(1, records), event.size).cost
    return getattr(cost, family.unit) or Fraction(0)


def _noises(
    sizes: list[int], weights: list[Fraction], records: int, budget: Fraction, family: NoiseFamily
) -> list[Noise]:
    """Each query's noise: the scale over its weight, as Fixed has it, so that all cost at most the budget."""
    if not all(weight > 0 for weight in weights):
        raise ValueError("weights (one of them) must be positive")
    parts = [weight**family.order for weight in weights]
    sensitivity, total = family.sensitivity(1, records), sum(parts)
    return [
        Noise.prepare(family, size=int(size), sensitivity=sensitivity, share=budget * part / total)
        for size, part in zip(sizes, parts, strict=True)
    ]


def _counts(frame: Any, workload: Workload) -> Int64s:
    columns = {name: frame[name].to_numpy() for name in workload.domain.names}
    return Table(columns, workload.domain, private=True).counts(workload)
