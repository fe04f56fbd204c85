"""Looks: the planned uses of the private counts by a run, and their shares of the budget, before any data.

A run is a list of looks. Statements, plans, the rounds and the checks of checkpoints read that list; nothing
else derives what a run charges.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

from .events import Cost, Event, SelectionEvent
from .noise import LARGEST_DRAWN_SCALE, NoiseDistribution, NoiseFamily

Step: TypeAlias = Literal["shot", "select", "measure", "draw"]


@dataclass(frozen=True, slots=True, repr=False)
class Look(Event):
    """A use of the private counts, made `per_round` times in each of its rounds, with its maximum cost.

    how: the noise family, or the event type of a selection. share: of one look; the rho or epsilon of noise
    (whichever its family uses), and the epsilon of a selection. changed: how many counts one record changes
    by one. size: the number of counts or candidates; 1 until it is known. own_delta: the event's own delta.

    >>> look = Look("measure", NoiseFamily(2), Fraction(1, 4), range(1, 3), changed=2, size=6)
    >>> look.event(at_most=1), look.rho, look.variance()
    (DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=2, size=6, count=1), 0.5, 4.0)
    """

    step: Step
    how: NoiseFamily | type[SelectionEvent]
    share: Fraction
    rounds: range = range(1)
    per_round: int = 1
    changed: int = 1
    size: int = 1
    own_delta: Fraction = Fraction(0)
    count: int = field(init=False)

    kind: ClassVar[str] = "planned"
    charged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Count the looks."""
        self._set(count=(self.rounds.stop - self.rounds.start) * self.per_round)  # len overflows at 2^63

    @property
    def noise(self) -> NoiseFamily | None:
        """The noise; None for a selection."""
        return self.how if isinstance(self.how, NoiseFamily) else None

    @property
    def mechanism(self) -> str:
        """The name of the mechanism, as used by events."""
        return self.how.name if isinstance(self.how, NoiseFamily) else self.how.kind

    @property
    def cost_of_one(self) -> Cost:
        """The maximum cost of one such look."""
        return self.how.cost_of_share(self.share)._replace(delta=self.own_delta)

    def of_size(self, size: int, changed: int | None = None) -> Look:
        """The same look with other sizes."""
        return dataclasses.replace(self, size=size, changed=self.changed if changed is None else changed)

    def event(self, at_most: int = 1) -> Event:
        """The event to charge: for one measurement, or for all selections of a round.

        at_most: the maximum number of records of a unit.
        """
        if not isinstance(self.how, NoiseFamily):
            return self.how(self.share, self.size, count=self.per_round)
        return self.how.event(self.scale(at_most), self.how.sensitivity(self.changed, at_most), self.size)

    def scale(self, at_most: int = 1) -> float:
        """The scale of the noise: sigma of a Gaussian."""
        assert isinstance(self.how, NoiseFamily)
        return self.how.scale(self.share, self.how.sensitivity(self.changed, at_most))

    def distribution(self, at_most: int = 1) -> NoiseDistribution:
        """The distribution of the noise of one count."""
        assert isinstance(self.how, NoiseFamily)
        return NoiseDistribution(self.how, self.scale(at_most))

    def variance(self, at_most: int = 1) -> float:
        """The variance of one noisy count."""
        return self.distribution(at_most).variance

    def argument(self) -> dict[str, Any]:
        """The share as an argument of `Curator.measure`."""
        assert isinstance(self.how, NoiseFamily)
        return self.how.argument(self.share)

    def check_scale(self, at_most: int = 1) -> None:
        """Refuse a share so small that its noise cannot be drawn."""
        if self.noise is not None and (scale := self.scale(at_most)) > LARGEST_DRAWN_SCALE:
            raise ValueError(
                f"budget must be enough for one round: noise of scale {scale:.3g} drowns any count"
            )


def looks_of_rounds(looks: Iterable[Look]) -> dict[int, dict[Step, Look]]:
    """The looks of each round, by step in their order.

    >>> look = Look("measure", NoiseFamily(1), Fraction(1), range(1, 3))
    >>> looks_of_rounds([look])[2] == {"measure": look}
    True
    """
    by_round: dict[int, dict[Step, Look]] = {}
    for look in looks:
        for number in look.rounds:
            by_round.setdefault(number, {})[look.step] = look
    return by_round
