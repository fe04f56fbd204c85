"""Thresholded counts: noise on all counts, a delta for cells that appear; small noisy counts become 0.

A cell without records is never shown, whatever its noise, and a cell with few records rarely. So the released
histogram of very many cells is as sparse as the true one, which is impossible without a delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privmw.accounting import ThresholdedLaplace, threshold_for_delta
from privmw.accounting.noise import DISCRETE_LAPLACE, NoiseFamily
from privmw.accounting.rounding import Real, positive, positive_integer, probability
from privmw.mechanisms.noise import Counts, Noise, size_of
from privmw.random import Rng, Stream, privacy_stream
from privmw.secrecy import erased_on_failure, erasing, sealed


@dataclass(frozen=True, slots=True)
class Threshold:
    """Thresholded noise and its cost, before any count is seen: prepare it, charge its event, apply it.

    >>> Threshold.prepare(size=6, l1_sensitivity=2, epsilon=1, delta=1e-6).event.threshold
    28
    """

    family: ClassVar[NoiseFamily] = DISCRETE_LAPLACE

    noise: Noise
    event: ThresholdedLaplace

    @classmethod
    def prepare(
        cls, *, size: int, l1_sensitivity: Real, epsilon: Real, delta: Real, records: int = 1
    ) -> Threshold:
        """Return noise of scale l1_sensitivity / epsilon with the smallest threshold that delta allows."""
        sensitivity = positive("l1_sensitivity", l1_sensitivity)
        noise = Noise.prepare(cls.family, size=size, sensitivity=sensitivity, share=epsilon)
        scale, records = noise.event.scale, positive_integer("records", records)
        threshold = threshold_for_delta(probability("delta", delta), scale, records)
        return cls(noise, ThresholdedLaplace(scale, l1_sensitivity, threshold, records, size))

    @sealed
    def apply(self, counts: Counts, stream: Stream) -> Counts:
        """Return noisy counts of at least the threshold, and 0 for all others and for counts of 0."""
        noisy = self.noise.add(counts, stream)  # for every cell: the time does not depend on the zeros
        with erased_on_failure(noisy), erasing() as erased:
            low = erased(noisy < self.event.threshold)
            low |= erased(counts <= 0)
            noisy[low] = 0
        return noisy


@sealed
def add_thresholded_laplace(
    counts: Counts, *, l1_sensitivity: Real, epsilon: Real, delta: Real, records: int = 1, rng: Rng = None
) -> tuple[Counts, ThresholdedLaplace]:
    """Add discrete Laplace noise, and release nonzero counts that reach the threshold, with the event
    charged.

    Requires: int64 counts of disjoint cells; one record (unit) moves them by at most l1_sensitivity in total,
        and at most `records` of its records lie in cells that would be empty without it; rng None.
    Ensures: count + noise where that is at least the threshold and the count is not 0; else 0. P(noise = x) ~
        exp(-|x| / scale); the threshold is the least at which new cells appear with probability <= delta.
    Privacy: delta-approximately (l1_sensitivity / scale)-DP, so (epsilon, delta)-DP, both in the event.
    Numerics: exact sampling; the event's delta is its closed form, rounded up. Noise is drawn for every cell.
    Checked by: tests/mechanisms/test_threshold.py::test_laws_of_neighbours_are_within_epsilon_and_delta,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> import numpy as np
    >>> noisy, event = add_thresholded_laplace(np.array([900, 0]), l1_sensitivity=2, epsilon=1, delta=1e-6)
    >>> int(noisy[1]), bool(noisy[0] > 800), event.epsilon, event.delta <= 1e-6
    (0, True, 1.0, True)
    """
    threshold = Threshold.prepare(
        size=size_of(counts), l1_sensitivity=l1_sensitivity, epsilon=epsilon, delta=delta, records=records
    )
    return threshold.apply(counts, privacy_stream(rng)), threshold.event
