"""The files of a release, and their checks before the budget is spent.

Everything but release.npz is post-processing of it, and can be written later (`privmw finish`).
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from privmw.algorithms.mechanism import Mechanism
from privmw.cli import quality
from privmw.cli.console import Advance, Console
from privmw.cli.options import file_format
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RELEASE_FILE, Paid, RunFolder
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.memory import available_memory
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.io.files import SEEDED_CSV
from privmw.io.whole_file import FORMATS, whole_file
from privmw.release import Release
from privmw.release.cells import write_answers, write_measurements
from privmw.report import check_installed, write_report

CONSTRAINTS = "constraints.json"
PUBLIC_VALUES = "public-values.parquet"  # the public values that later records are drawn from
# Approximate file sizes: per cell of answers with intervals, and per byte of a record's codes.
BYTES_OF_ANSWER = {"parquet": 29, "feather": 40, "csv": 120}
BYTES_OF_WRITTEN_CODE = {"parquet": 1, "feather": 2, "csv": 10}


class Synthetic(NamedTuple):
    """How synthetic records are written. records: how many, by default n. seed: of the sampling stream.

    format: of records, answers and measurements. raw_csv: as `raw` of `Table.write`. copy: a second file for
    the records, outside the folder. constraints: a file of rules that every record keeps.
    """

    records: int | None = None
    bins: str = "spread"
    public: list[str] | None = None
    seed: int | None = None
    format: str = "parquet"
    raw_csv: bool = False
    copy: str | None = None
    constraints: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Synthetic:
        """Those of the options of a run."""
        given = {name: options[name] for name in cls._fields if name in options}
        if "format" in given:
            given["format"], given["raw_csv"] = file_format(given["format"])
        given["bins"] = given.get("bins") or ("draw" if given.get("public") else "spread")
        return cls(**given)

    @property
    def drawn_from(self) -> list[str] | None:
        """The public files that values of bins are drawn from; None if they are not drawn."""
        return self.public if self.bins == "draw" else None


def file_name(stem: str, form: str, *, for_release: bool) -> str:
    """The name of a file of records or answers; csv has no other place to say that it is seeded.

    >>> file_name("answers", "csv", for_release=False), file_name("answers", "feather", for_release=False)
    ('answers.seeded.csv', 'answers.feather')
    """
    return f"{stem}{SEEDED_CSV}" if form == "csv" and not for_release else f"{stem}.{form}"


def written_file(folder: Path, stem: str) -> Path | None:
    """The file of records or answers in a folder, of whatever format; None if there is none."""
    names = (file_name(stem, form, for_release=marked) for form in FORMATS for marked in (True, False))
    return next((folder / name for name in names if (folder / name).exists()), None)


def check_outputs(synthetic: Synthetic, domain: Domain, folder: RunFolder) -> None:
    """Check, by writing one record, that no package or public value is missing."""
    check_installed()
    if synthetic.bins == "draw" and not synthetic.public:
        raise RefusalError("--bins (draw) must come with a public file, from which values are drawn")
    table = Table.from_codes([[0] * len(domain)], domain, private=False)
    bins = cast(Any, synthetic.bins)
    trial = folder.unfinished / f"trial.{synthetic.format}"
    try:
        table.write(trial, bins=bins, public=synthetic.drawn_from, seed=0, overwrite=True)
        trial.unlink()
    except (TypeError, ValueError) as error:
        why = f"--bins draw must find values in the public file: {error}"
        raise RefusalError(why, "--bins spread does without") from None


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


def check_disk_space(
    mechanism: Mechanism, support: Support, workload: Workload, records: int, folder: RunFolder, form: str
) -> None:
    """Refuse a release whose records do not fit in memory, or whose files do not fit on the disk."""
    widths = check_records(records, support.domain)
    size = mechanism.bytes_of_release(support, workload)
    folder.keep_space(size)
    rest = BYTES_OF_ANSWER[form] * workload.cells + BYTES_OF_WRITTEN_CODE[form] * records * widths
    if shutil.disk_usage(folder.path).free < size + rest:  # a checkpoint is about as large as the release
        raise RefusalError(f"{folder.path} must have about {(size + rest) / 1e6:,.0f} MB of free disk space")


def finish_release(
    release: Release,
    folder: RunFolder,
    synthetic: Synthetic,
    console: Console,
    preflight_report: quality.Preflight | None = None,
    level: float | None = None,
    title: str | None = None,
) -> int:
    """Write the missing files, print the privacy statement and the quality; returns the exit code.

    preflight_report: of `quality.preflight`. level: of intervals, if any. title: of the report.
    """
    with console.step("comparing the release with its measurements"):
        told = quality.postflight(release, preflight_report)
    writers = _writers(release, synthetic, told, level, title)
    write_files(folder, writers, console)
    if synthetic.copy is not None:
        name = file_name("synthetic", synthetic.format, for_release=release.ledger.for_release)
        copy_records(folder.path / name, synthetic.copy)
    folder.finished()
    names = sorted(file.name for file in folder.path.iterdir())
    facts = {"output": str(folder.path), "files": names, **privacy(release), "quality": told.facts}
    files = [f"  {folder.path / name}" for name in names]
    if synthetic.copy is not None:
        facts["records"] = os.path.relpath(synthetic.copy)
        files.insert(0, f"  {facts['records']}")
    console.result(facts, "\n".join([release.statement(), "", "Written:", *files, "", *told.lines]))
    if told.code and console.quiet:  # it is an error too
        console.error(" ".join(told.lines))
    return told.code


class Writer(NamedTuple):
    """The function that writes a file of a folder, and its number of rows if it shows a progress bar.

    write: takes the path, and the function to call with the number of rows that are written.
    """

    write: Callable[[Path, Advance], None]
    rows: int | None = None


def write_files(folder: RunFolder, writers: Mapping[str, Writer], console: Console) -> None:
    """Write the missing files of a folder, in this order."""
    for name, writer in writers.items():
        if not (folder.path / name).exists():
            with console.step(f"writing {name}", writer.rows) as advance:
                writer.write(folder.path / name, advance)


def _writers(
    release: Release, synthetic: Synthetic, told: quality.Postflight, level: float | None, title: str | None
) -> dict[str, Writer]:
    """The files of a release besides release.npz, in the order in which they are written."""
    domain = release.support.domain
    constraints = None  # a stored release does not hold them
    if synthetic.constraints is not None:
        constraints = Constraints.read(synthetic.constraints, domain)
    rules = "" if constraints is None else constraints.to_json()

    def write_synthetic(path: Path, advance: Advance) -> None:
        table = release.sample(synthetic.records, seed=synthetic.seed).keeping(constraints)
        public, bins = synthetic.drawn_from, cast(Any, synthetic.bins)
        table.write(
            path, bins=bins, public=public, seed=synthetic.seed, raw=synthetic.raw_csv, progress=advance
        )

    def write_all_answers(path: Path, advance: Advance) -> None:
        intervals = None if level is None else release.intervals(level)
        write_answers(release, path, intervals=intervals, raw=synthetic.raw_csv, progress=advance)

    def write_page(path: Path, advance: Advance) -> None:
        errors = None if level is None else release.expected_errors()
        write_report(path, release, errors=errors, title=title, files=[RELEASE_FILE, *writers])

    def write_public_values(path: Path, _: Advance) -> None:
        from pyarrow import parquet

        from privmw.io.public_records import public_values  # late: it imports pyarrow

        table = public_values(synthetic.drawn_from or [], release.support.domain)
        with whole_file(path) as file:
            parquet.write_table(table, file, compression="zstd")

    answers, measurements, records = (
        file_name(stem, synthetic.format, for_release=release.ledger.for_release)
        for stem in ("answers", "measurements", "synthetic")
    )
    writers = {
        "domain.json": Writer(lambda path, _: write_text(path, release.support.domain.to_json())),
        "privacy.json": Writer(lambda path, _: write_json(path, privacy(release))),
        "quality.json": Writer(lambda path, _: write_json(path, told.facts)),
        **({} if constraints is None else {CONSTRAINTS: Writer(lambda path, _: write_text(path, rules))}),
        **({PUBLIC_VALUES: Writer(write_public_values)} if synthetic.drawn_from else {}),
        measurements: Writer(lambda path, _: write_measurements(release, path, raw=synthetic.raw_csv)),
        answers: Writer(write_all_answers, release.workload.cells),
        records: Writer(write_synthetic, synthetic.records or release.n),
        "report.html": Writer(write_page),
    }
    return writers


def copy_records(records: Path, path: str) -> None:
    """Copy the records of a folder to the requested file, unless it already holds them."""
    if os.path.lexists(path):
        if os.path.isfile(path) and filecmp.cmp(records, path, shallow=False):
            return
        raise RefusalError(f"{os.path.relpath(path)} exists", "move it away: nothing is ever overwritten")
    with whole_file(path) as file, open(records, "rb") as source:
        shutil.copyfileobj(source, file, 2**20)


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts to a JSON file, atomically."""
    write_text(path, json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, atomically."""
    with whole_file(path) as file:
        file.write(text.encode())


def privacy(release: Paid) -> dict[str, Any]:
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
