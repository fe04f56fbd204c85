"""What every model is made from, as one object."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from privmw.data.support import Support
from privmw.data.workload import Workload


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
