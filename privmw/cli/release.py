"""`privmw release`: from two files to a private release, its privacy statement and a report.

Everything public is read and checked first. The budget is spent only after the output folder could be made
and both files were checked. With --cluster every rank of mpiexec runs this: the ranks share the public rows,
and only rank 0 reads the private file, shows progress and writes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from privmw.cli.config import record_config
from privmw.cli.console import Console
from privmw.cli.folder import check_place, new_folder
from privmw.cli.inputs import METHODS, choose, join_ranks, read_public_inputs
from privmw.cli.options import add_bins, add_budget, add_workload, positive, whole
from privmw.cli.refusal import RefusalError
from privmw.data.domain import Domain
from privmw.data.memory import physical_memory
from privmw.io.scan import Scan, scan_table
from privmw.ranks import ALONE, Communicator, on_every_rank
from privmw.release import Release
from privmw.release.cells import write_answers, write_measurements
from privmw.report import write_report

RELEASE_FILE = "release.npz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--private", required=True, metavar="FILE", help="the private file: parquet or csv")
    parser.add_argument("--public", metavar="FILE", help="the public file, with the same columns")
    add_workload(parser)
    add_budget(parser, required=True)
    parser.add_argument(
        "--method", choices=("auto", *METHODS), default="auto", help="default: auto, the recommended one"
    )
    parser.add_argument("--rounds", type=positive, help="number of rounds, for methods other than auto")
    parser.add_argument(
        "--records", type=positive, metavar="N", help="number of synthetic records (default: n)"
    )
    add_bins(parser)
    parser.add_argument("--threads", type=positive, help="default: every core")
    parser.add_argument(
        "--seed", type=whole, help="for experiments: repeatable, and marked 'not for release'"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file of these options: read if it exists, else written"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="store the run here: the same command then resumes it, and spends nothing twice",
    )
    parser.add_argument(
        "--every",
        type=positive,
        metavar="R",
        help="rounds between two checkpoints of the weights (default: 10)",
    )
    parser.add_argument(
        "--cluster",
        choices=("mpi",),
        help="share the public rows among the ranks of mpiexec; see docs/cluster.md",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist yet")


def run(options: argparse.Namespace, console: Console) -> None:
    """Read the files, make the release, write it."""
    if options.every is not None and options.checkpoint is None:
        raise RefusalError("--every must come with --checkpoint")
    comm = join_ranks(options.cluster)
    if comm.rank > 0:
        make_release(options, Console(quiet=True), comm)
        return
    release = None
    try:
        with record_config(options):
            release = make_release(options, console, comm)
            assert release is not None
            with new_folder(options.output) as folder, console.step("writing"):
                write_release(release, folder, options)
                facts = {"output": options.output, "files": sorted(file.name for file in folder.iterdir())}
    except BaseException as error:
        if release is not None:
            error.ledger = release.ledger  # type: ignore[attr-defined]
        if getattr(error, "ledger", None) is not None:
            error.checkpoint = options.checkpoint  # type: ignore[attr-defined]
        raise
    facts.update(privacy(release))
    files = "\n".join(f"  {options.output.rstrip('/')}/{name}" for name in facts["files"])
    console.result(facts, f"{release.statement()}\n\nWritten:\n{files}")


def make_release(options: argparse.Namespace, console: Console, comm: Communicator) -> Release | None:
    """Read both files and spend the budget; returns the release on rank 0, None on the others."""

    def read_domain() -> Domain:
        if comm.rank == 0:
            check_place(options.output)
        domain = Domain.read(options.domain)
        # A place and a byte an attribute; refused before the budget is spent.
        if options.records is not None and options.records * (8 + len(domain)) > physical_memory():
            raise RefusalError(f"--records ({options.records}) must fit in memory")
        return domain

    domain = on_every_rank(comm, read_domain)
    inputs = read_public_inputs(options, domain, console, comm)

    def read_private() -> Scan | None:
        if comm.rank > 0:  # these may not even have the private file
            return None
        with console.step(f"checking {options.private}"):
            return scan_table(options.private, domain, private=True)

    private = on_every_rank(comm, read_private)
    n = comm.broadcast(0 if private is None else private.n)
    mechanism, support = choose(options, n, inputs)
    rounds = mechanism.algorithm.schedule.rounds
    doing = f"releasing with {mechanism.algorithm!r}"
    with console.rounds(doing, rounds, log=comm is not ALONE) as show:
        release = mechanism(
            private,
            support,
            inputs.workload,
            rng=options.seed,
            threads=options.threads,
            progress=show,
            checkpoint=options.checkpoint,
            every=options.every or 10,
        )
    return release.gathered()


def write_release(release: Release, folder: Path, options: argparse.Namespace) -> None:
    """Write every file of a release to an unfinished folder."""
    release.save(folder / RELEASE_FILE)
    (folder / "privacy.json").write_text(
        json.dumps(privacy(release), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    write_answers(release, folder / "answers.parquet")
    write_measurements(release, folder / "measurements.parquet")
    synthetic = release.sample(options.records, seed=options.seed)
    public = options.public if options.bins == "draw" else None
    synthetic.write(folder / "synthetic.parquet", bins=options.bins, public=public, seed=options.seed)
    write_report(folder / "report.html", release)


def privacy(release: Release) -> dict[str, Any]:
    """The privacy statement and the ledger as JSON values."""
    ledger = release.ledger
    delta = ledger.budget.delta or 0.0
    epsilon = ledger.epsilon(delta)
    return {
        "statement": release.statement(),
        "for_release": ledger.for_release,
        "neighbors": ledger.neighbors.value,
        "n": ledger.n,
        "rho": ledger.rho,
        "epsilon": epsilon,
        "delta": delta,
        "settings": release.settings,
        "ledger": json.loads(ledger.to_json()),
    }
