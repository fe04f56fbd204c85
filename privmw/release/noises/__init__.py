"""Noise distributions by name: those that the curator adds, and those of counts measured elsewhere.

They describe noise and draw none. A new distribution that the curator adds takes six files: its event
(privmw/accounting/events.py), its draw (privmw/mechanisms/noise.py), the argument of `Curator.measure`, its
description here and its name in the lists below, and the schedule that chooses it (algorithms/schedule.py).
"""

from __future__ import annotations

from privmw.accounting import Event
from privmw.kernels.checks import check_number
from privmw.release.noises.distribution import LARGEST_SCALE, MeasuredNoise, NoiseDistribution
from privmw.release.noises.gaussian import DiscreteGaussianNoise, GaussianNoise
from privmw.release.noises.laplace import DiscreteLaplaceNoise, LaplaceNoise
from privmw.secrecy import shown

__all__ = [
    "MEASURED",
    "NOISES",
    "DiscreteGaussianNoise",
    "DiscreteLaplaceNoise",
    "MeasuredNoise",
    "NoiseDistribution",
    "make_noise",
    "noise_of_event",
]

LEAST_SCALE = 2.0**-62  # of counts measured elsewhere
MEASURED: dict[str, type[MeasuredNoise]] = {
    noise.name: noise for noise in (DiscreteGaussianNoise, DiscreteLaplaceNoise)
}
NOISES: dict[str, type[NoiseDistribution]] = {
    **{noise.name: noise for noise in (LaplaceNoise, GaussianNoise)},
    **MEASURED,
}


def make_noise(name: object, scale: float) -> NoiseDistribution:
    """The noise distribution of a name and a scale, in counts.

    >>> make_noise("discrete-gaussian", 3.0).variance
    9.0
    """
    if not isinstance(name, str) or name not in NOISES:
        raise ValueError(f"noise ({shown(name)}) must be one of {', '.join(NOISES)}")
    if not LEAST_SCALE <= check_number("scale", scale) <= LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be from 2^-62 to 2^62")
    return NOISES[name](scale)


def noise_of_event(event: Event) -> MeasuredNoise:
    """The noise that a measurement's event says was added.

    >>> from privmw.accounting import DiscreteGaussian
    >>> noise_of_event(DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=1, size=1))
    DiscreteGaussianNoise(scale=2.0)
    """
    return MEASURED[event.kind].of_event(event)
