"""MWEM+PUB (2020): MWEM started at the public frequencies, with pure mechanisms and advanced composition.

Exponential mechanism and Laplace noise. The paper composes T rounds of epsilon0, half of it for each of the
two; the same theorem over the 2 T looks themselves allows an epsilon0 larger by up to sqrt(2), which is used
here. Under zCDP (`calibrate(rho=...)`) it is MWPub with another default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Select
from privmw.algorithms.mw_pub import MWPub


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEMPub(MWPub):
    """Multiplicative weights from a public start, by advanced composition; options as for MWPub.

    >>> MWEMPub(rounds=100).calibrate(epsilon=1.0, delta=1e-9).events[1].mechanism
    'discrete-laplace'
    """

    select: Select = "exponential"

    advanced: ClassVar[bool] = True
