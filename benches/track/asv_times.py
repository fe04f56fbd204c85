"""The fixed runs as airspeed velocity wants them (asv.conf.json): times, and the rows x marginals."""

from __future__ import annotations

from .runs import RUNS
from .work import count_run


class Runs:
    params = tuple(RUNS)
    param_names = ("run",)

    def setup(self, run: str) -> None:
        self.timed = RUNS[run]()

    def time_run(self, run: str) -> None:
        self.timed()

    def track_rows_x_marginals(self, run: str) -> int:
        return int(count_run(RUNS[run])["rows x marginals"])
