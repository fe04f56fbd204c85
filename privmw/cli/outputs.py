"""The files of a release, and what can be checked of them before the budget is spent.

Everything but release.npz is post-processing of it: it can be written later, or again (`privmw finish`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privmw.algorithms.mechanism import Mechanism
from privmw.cli import quality
from privmw.cli.console import Console
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RunFolder
from privmw.data.domain import Domain
from privmw.data.memory import available_memory
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.io.extras import need
from privmw.io.whole_file import whole_file
from privmw.release import Release
from privmw.release.cells import write_answers, write_measurements
from privmw.release.unbiased import UnbiasedAnswers
from privmw.report import check_installed, write_report

BYTES_OF_ANSWER = 29  # of a cell in answers.parquet with its interval, about


class Synthetic(NamedTuple):
    """How synthetic records are written. records: how many, by default n. seed: of the sampling stream."""

    records: int | None
    bins: str
    public: list[str] | None
    seed: int | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Synthetic:
        """Those of the options of a run."""
        return cls(*(options[name] for name in cls._fields))


def check_outputs(synthetic: Synthetic, domain: Domain) -> None:
    """Refuse outputs that could not be written: packages, and the public values that bins are drawn from."""
    need("pyarrow.parquet", "write files", "app")
    check_installed()
    if synthetic.bins == "draw":
        if not synthetic.public:
            raise RefusalError("--bins draw must come with --public, from which values are drawn")
        Table.from_codes([[0] * len(domain)], domain, private=False).to_frame(
            bins="draw", public=synthetic.public, seed=0
        )


def check_records(records: int, domain: Domain) -> int:
    """Refuse synthetic records that do not fit in memory; returns the bytes of the codes of one."""
    widths = sum(np.min_scalar_type(size - 1).itemsize for size in domain.sizes)
    # A record's row twice, as it is drawn and as a position, and its codes.
    needed = records * (12 + widths)
    if needed > available_memory():
        raise RefusalError(
            f"{records:,} synthetic records must fit in memory, and need {needed / 1e9:,.1f} GB",
            "--records asks for fewer",
        )
    return widths


def check_room(
    mechanism: Mechanism, support: Support, workload: Workload, records: int, folder: RunFolder
) -> None:
    """Refuse a release whose records do not fit in memory, or whose files do not fit on the disk."""
    widths = check_records(records, support.domain)
    size = mechanism.bytes_of_release(support, workload)
    folder.keep_space(size)
    rest = BYTES_OF_ANSWER * workload.cells + records * widths
    if shutil.disk_usage(folder.path).free < size + rest:  # a checkpoint is about as large as the release
        raise RefusalError(f"{folder.path} must have about {(size + rest) / 1e6:,.0f} MB of free disk space")


def finish_release(
    release: Release,
    folder: RunFolder,
    synthetic: Synthetic,
    console: Console,
    known: quality.Before | None = None,
    level: float | None = None,
) -> int:
    """Write the files that the folder lacks, print the promise and the quality; returns the exit code.

    known: what was known of the quality before the release. level: of intervals, if they are to be written.
    """
    with console.step("writing"):
        told = quality.after(release, known)
        for name, write in _writers(release, synthetic, told, level).items():
            if not (folder.path / name).exists():
                write(folder.path / name)
    folder.finished()
    names = sorted(file.name for file in folder.path.iterdir())
    facts = {"output": str(folder.path), "files": names, **privacy(release), "quality": told.facts}
    files = (f"  {folder.path / name}" for name in names)
    console.result(facts, "\n".join([release.statement(), "", "Written:", *files, "", *told.lines]))
    if told.code and console.quiet:  # it is an error too
        console.error(" ".join(told.lines))
    return told.code


def _writers(
    release: Release, synthetic: Synthetic, told: quality.After, level: float | None
) -> dict[str, Callable[[Path], None]]:
    """The files of a release besides release.npz, in the order in which they are written."""

    def write_synthetic(path: Path) -> None:
        table = release.sample(synthetic.records, seed=synthetic.seed)
        public = synthetic.public if synthetic.bins == "draw" else None
        table.write(path, bins=synthetic.bins, public=public, seed=synthetic.seed)  # type: ignore[arg-type]

    def write_all_answers(path: Path) -> None:
        write_answers(release, path, intervals=None if level is None else release.intervals(level))

    def write_page(path: Path) -> None:
        write_report(path, release, errors=None if level is None else release.expected_errors())

    return {
        "privacy.json": lambda path: write_json(path, privacy(release)),
        "quality.json": lambda path: write_json(path, told.facts),
        "measurements.parquet": lambda path: write_measurements(release, path),
        "answers.parquet": write_all_answers,
        "synthetic.parquet": write_synthetic,
        "report.html": write_page,
    }


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts to a JSON file, whole or not at all."""
    with whole_file(path) as file:
        file.write((json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def privacy(release: Release | UnbiasedAnswers) -> dict[str, Any]:
    """The privacy statement and the ledger as JSON values."""
    ledger = release.ledger
    delta = ledger.budget.delta or 0.0
    return {
        "statement": release.statement(),
        "for_release": ledger.for_release,
        "neighbors": ledger.neighbors.value,
        "n": ledger.n,
        "rho": ledger.rho,
        "epsilon": ledger.epsilon(delta),
        "delta": delta,
        "settings": release.settings,
        "ledger": json.loads(ledger.to_json()),
    }
