"""`privmw release`: from a private file and public ones to a release, its privacy statement and a report.

The output folder is reserved, and everything possible is checked, before the budget is spent. The rounds are
stored in the folder as they are released, so that the same command resumes an interrupted run, and the
release is written before its other files. With --cluster every rank of mpiexec runs this: the ranks share the
public rows, and only rank 0 reads the private file, shows progress and writes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any, NamedTuple

from privmw.algorithms.mechanism import Mechanism
from privmw.cli import quality
from privmw.cli.config import record_config
from privmw.cli.console import Console
from privmw.cli.inputs import (
    PublicInputs,
    add_method,
    choose,
    join_ranks,
    read_private_input,
    read_public_inputs,
)
from privmw.cli.options import (
    add_bins,
    add_budget,
    add_format,
    add_intervals,
    add_private,
    add_syntax,
    add_title,
    add_unit,
    add_workload,
    check_files,
    check_unit,
    is_counts,
    positive,
    read_domain,
    whole,
)
from privmw.cli.outputs import Synthetic, check_disk_space, check_outputs, finish_release
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RunFolder
from privmw.curator.overlap import shares_records
from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.io.files import same_contents, stamp
from privmw.ranks import ALONE, Communicator, on_every_rank
from privmw.release import Release

# options that may differ when a command resumes a release
MAY_CHANGE_ON_RESUME = (
    "command",
    "output",
    "threads",
    "cluster",
    "wait",
    "checkpoint",
    "config",
    "json",
    "quiet",
    "progress",
    "yes",
    "title",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_private(parser)
    parser.add_argument(
        "--public",
        action="append",
        metavar="FILE",
        help="the public file, with the same columns or, for --method auto and gem, some of them; optional, "
        "may be repeated",
    )
    add_workload(parser)
    add_run(parser)
    add_format(parser, "synthetic records, answers and measurements")
    add_bins(parser)
    parser.add_argument(
        "--config", metavar="FILE", help="a TOML file of these options: read if it exists, else written"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FOLDER",
        help="store the rounds here instead of in the output folder; the same command resumes them, and "
        "spends nothing twice",
    )
    parser.add_argument(
        "--cluster",
        choices=("mpi",),
        help="share the public rows among the ranks of mpiexec; see docs/cluster.md",
    )
    parser.add_argument(
        "--wait",
        type=positive,
        metavar="SECONDS",
        help="with --cluster: abort, naming it, if a rank is silent for as long (default: 300)",
    )
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist yet")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that makes a release."""
    parser.add_argument(
        "--public-is-public",
        action="store_true",
        help="use a public file although it shares records with the private one: they will be published",
    )
    add_unit(parser)
    add_budget(parser, required=True)
    add_method(parser)
    parser.add_argument(
        "--records", type=positive, metavar="N", help="number of synthetic records (default: n)"
    )
    add_intervals(parser)
    add_title(parser)
    add_syntax(parser)
    parser.add_argument("--threads", type=positive, metavar="N", help="default: every core")
    parser.add_argument(
        "--seed", type=whole, metavar="N", help="for experiments: repeatable, and marked 'not for release'"
    )
    parser.add_argument(
        "--force", action="store_true", help="release even if the noise is larger than the number of records"
    )
    parser.add_argument(
        "--account",
        metavar="FILE",
        help="the account of the private table (`privmw account`), whose limit must cover the budget",
    )


class PendingRelease(NamedTuple):
    """A checked release before its budget is spent: the mechanism, the public inputs and the records."""

    mechanism: Mechanism
    inputs: PublicInputs
    private: Records


def run(options: argparse.Namespace, console: Console) -> int:
    """Reserve the output folder, make the release, write it and then its other files."""
    check_unit(options)
    comm = join_ranks(options.cluster, options.wait)
    if comm.rank > 0:
        if comm.broadcast(True):
            make_release(options, Console(quiet=True), comm, None)
        return 0
    if not RunFolder(options.output).has_release:  # else they are not needed any more
        check_files(options)
    recorded = nullcontext() if options.config is None else record_config(options)
    with recorded, reserve(options) as folder:
        return release_into(folder, options, console, comm)


def reserve(options: argparse.Namespace) -> RunFolder:
    """Make the output folder, or take over that of an interrupted run with the same options."""
    return RunFolder.reserve(options.output, run_identity(options, MAY_CHANGE_ON_RESUME), options.checkpoint)


def release_into(
    folder: RunFolder,
    options: argparse.Namespace,
    console: Console,
    comm: Communicator = ALONE,
    agree: Callable[[PendingRelease], None] | None = None,
) -> int:
    """Make the release of a folder unless it exists, then its other files; returns the exit code.

    agree: called before the budget is spent, and may refuse it; not for a run that goes on.
    """
    if comm.broadcast(not folder.has_release):
        release, preflight_report = make_release(
            options, console, comm, folder, None if folder.has_spent else agree
        )
        assert release is not None
        folder.save(release)
    else:
        release, preflight_report = folder.load(), None
    synthetic = Synthetic.of(vars(options))
    code = finish_release(
        release, folder, synthetic, console, preflight_report, options.intervals, options.title
    )
    if options.account is None:
        console.note("No --account: privmw does not remember what other releases of this table spend.")
    return code


def run_identity(options: argparse.Namespace, may_change: Collection[str]) -> dict[str, Any]:
    """The options and private files of a run, so that rounds of two runs never become one release.

    The names, sizes and times of the private files are hashed, as a killed run leaves this record behind; the
    hash is slow, so that they cannot be guessed from it.
    """
    identity = {name: value for name, value in vars(options).items() if name not in (*may_change, "private")}
    files = [file[:3] for file in stamp(options.private)] if os.path.exists(options.private) else None
    text = json.dumps([options.private, files]).encode()
    identity["private"] = hashlib.pbkdf2_hmac("sha256", text, b"privmw", 2**18).hex()
    return identity


def not_public(options: argparse.Namespace, public: str) -> RefusalError:
    """The error for a public file that holds private records: its rows would be published."""
    return RefusalError(
        f"{public} holds records of {options.private}, and public rows are published as they are",
        "name another public file; --public-is-public confirms that these records are not secret",
    )


def check_not_private(options: argparse.Namespace) -> None:
    """Refuse a public file that is the private file, or has the same bytes."""
    for path in [] if options.public_is_public else options.public or []:
        if same_contents(options.private, path):
            raise not_public(options, path)


def make_release(
    options: argparse.Namespace,
    console: Console,
    comm: Communicator,
    folder: RunFolder | None,
    agree: Callable[[PendingRelease], None] | None = None,
) -> tuple[Release | None, quality.Preflight]:
    """Read the files and spend the budget; returns the release (None on ranks above 0) and preflight.

    Everything possible is checked before the budget is spent, on rank 0 with the output folder.
    """
    synthetic = Synthetic.of(vars(options))
    compared = [] if options.public_is_public else options.public or []
    no_records = is_counts(options.private)
    if no_records:
        compared = []

    def checked_domain() -> Domain:
        domain = read_domain(options)
        if folder is not None:
            check_outputs(synthetic, domain, folder)
        if comm.rank == 0:
            check_not_private(options)
        return domain

    domain = on_every_rank(comm, checked_domain)
    inputs = read_public_inputs(options, domain, console, comm)

    def read_private() -> Records | None:
        if comm.rank > 0:  # these may not even have the private file
            return None
        return read_private_input(options, inputs.workload, console)

    private = on_every_rank(comm, read_private)
    for path, public in zip(compared, inputs.files, strict=False):  # none is compared, or every one
        with console.step(f"comparing {options.private} and {path}"):
            shared = comm.broadcast(shares_records(private, public))
        if shared:
            raise not_public(options, path)
    n = comm.broadcast(0 if private is None else private.n)
    at_most = comm.broadcast(1 if private is None else private.at_most)
    mechanism, support = choose(options, n, inputs, at_most), inputs.support
    preflight_report = quality.preflight(mechanism, support, inputs.workload, n, at_most, force=options.force)

    def check() -> None:
        if folder is not None:
            records = options.records or n
            check_disk_space(mechanism, support, inputs.workload, records, folder, synthetic.format)

    on_every_rank(comm, check)
    if no_records and options.public and not options.public_is_public:
        console.note(f"{options.private} holds no records: they were not compared with the public ones")
    for line in preflight_report.lines:
        console.note(line)
    if agree is not None and private is not None:
        agree(PendingRelease(mechanism, inputs, private))
    checkpoint = RunFolder(options.output, options.checkpoint).checkpoint
    if before := sum(1 for _ in checkpoint.glob("rounds/[0-9]*.zip")):
        console.note(f"goes on with {checkpoint}: {before:,} rounds were released before, and are paid for")
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
            checkpoint=checkpoint,
            # Not every rank may see the output folder: no weights are stored there.
            every=None if options.checkpoint is None and comm is not ALONE else 10,
            account=options.account if comm.rank == 0 else None,
            public_is_public=True,  # or compared above
        )
    return release.gathered(), preflight_report
