"""What DualQuery and FEM share: rounds that draw signed cells, and an oracle that answers with records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from privmw.algorithms.configuration import Configuration
from privmw.algorithms.task import Task, make_task
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.extensions.baselines.oracle import Kind, check_oracle

MOST_SAMPLES, MOST_STARTS, MOST_RESPONSES = 1_000_000, 10_000, 100_000
SECONDS_OF_CLIMB = 5e-5
SECONDS = {"support": 2e-3, "exact": 0.1}  # of a response, as measured on thousands of rows and tens of cells


@dataclass(frozen=True, kw_only=True, repr=False)
class Responding(Configuration):
    """Options of every algorithm whose rounds draw signed cells and answer with records."""

    samples: int
    oracle: Kind = "local"
    starts: int = 20

    meanings: ClassVar[Mapping[str, str]] = {
        "samples": "how many cells a round drew, or how many records it made",
        "oracle": "how records were found: by climbing, among public rows, or by an integer program",
        "starts": "how many climbs there were for each record",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("oracle", Kind)
        for name, most in (("samples", MOST_SAMPLES), ("starts", MOST_STARTS), ("rounds", MOST_RESPONSES)):
            if name == "rounds" and self.rounds is None:
                continue
            self._positive_integer(name)
            if getattr(self, name) > most:
                raise ValueError(f"{name} ({getattr(self, name)}) must be at most {most:,}")

    @property
    def fills_missing_columns(self) -> bool:
        """Whether the model does without public rows, or with rows that lack attributes."""
        return self.oracle != "support"

    def public_rows(self, support: Support | None, workload: Workload) -> Support:
        """The support of a run: None stands for no public table, which only oracle='support' needs."""
        if support is None and self.oracle == "support":
            raise ValueError("support (None) must be a Support: oracle='support' answers with public rows")
        rows = super().public_rows(support, workload)
        if isinstance(rows, Support):  # else it is refused with the other inputs
            check_oracle(self.oracle, rows)
        return rows

    @property
    def seconds_of_response(self) -> float:
        """About how long the best responses of a round take."""
        return self.responses * (
            SECONDS_OF_CLIMB * self.starts if self.oracle == "local" else SECONDS[self.oracle]
        )

    @property
    @abstractmethod
    def responses(self) -> int:
        """How many records a round makes."""

    def task(self, workload: Workload) -> Task:
        """The cells of the workload, each of which may be drawn."""
        return make_task(workload, None, "cell")

    def _rounds(self) -> int:
        if self.rounds is None:
            raise TypeError(
                f"rounds must be given, or n to calibrate {type(self).__name__}: they follow from it"
            )
        return self.rounds
