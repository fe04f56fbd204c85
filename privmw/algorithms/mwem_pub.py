"""MWEM+PUB (2020): MWEM started at the public frequencies, with pure mechanisms and advanced composition.

Exponential mechanism and Laplace noise. The paper composes T rounds of epsilon0, half of it for each of the
two; the same theorem over the 2 T looks themselves allows an epsilon0 larger by up to sqrt(2), so that is
what is done here. Under zCDP (`configure`) it is MWPub with another default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from privmw.algorithms.algorithm import Select
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.shorthand import release_by
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.release import Release


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEMPub(MWPub):
    """Multiplicative weights from a public start, by advanced composition; options as for MWPub.

    >>> MWEMPub(rounds=100).calibrate(epsilon=1.0, delta=1e-9).events[1].mechanism
    'discrete-laplace'
    """

    select: Select = "exponential"

    advanced: ClassVar[bool] = True


def release_mwem_pub(
    private: Records | None, support: Support, workload: Workload, **options: Any
) -> Release:
    """Release by MWEM+PUB; options as for `release_mw_pub`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support = Support.from_table(Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain))
    >>> release_mwem_pub(private, support, Workload.all(domain, k=2), epsilon=1.0, rounds=5).ledger.rho < 1
    True
    """
    return release_by(MWEMPub, private, support, workload, options)
