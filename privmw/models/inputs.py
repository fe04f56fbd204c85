"""What every model is made from, as one object, and the type of its state."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s

# The state of a model: arrays with one number per row of this rank, then arrays equal on every rank.
State: TypeAlias = tuple[Mapping[str, Float64s], Mapping[str, Float64s]]


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """The rows that a model starts from, what it answers and what is measured.

    workload: the marginals to be answered; they are the first of `measured`, whose cells measurements number.
    n: the number of private records. threads: of the kernels; None is all.
    """

    support: Support
    workload: Workload
    measured: Workload
    n: int
    threads: int | None = None

    def with_support(self, support: Support) -> ModelInputs:
        """The same with other rows."""
        return dataclasses.replace(self, support=support)
