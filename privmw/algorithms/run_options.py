"""The options of a run, which every algorithm takes and none keeps, as one object."""

from __future__ import annotations

import os
from dataclasses import dataclass

from privmw.algorithms.accounted import AccountPath
from privmw.algorithms.loop import Progress
from privmw.random import Rng


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """Options of one run, as documented by `Configuration.release`; some are None on ranks above 0."""

    rng: Rng = None
    threads: int | None = None
    progress: Progress | None = None
    checkpoint: str | os.PathLike[str] | None = None
    every: int | None = 10
    account: AccountPath = None
    public_is_public: bool = False
