"""`privmw synthesize`: from a private file and an optional public one to synthetic records.

It proposes a domain if none is given, shows the cost and the privacy guarantee, asks, and makes a release as
`privmw release` does, in a folder beside the records; the same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from privmw.accounting import Ledger, Neighbors
from privmw.cli import release
from privmw.cli.console import Console
from privmw.cli.inputs import join_ranks
from privmw.cli.options import (
    add_bins,
    add_format,
    add_workload,
    check_files,
    check_unit,
    file_format,
    is_counts,
    syntax_of,
)
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RunFolder
from privmw.data.propose import propose
from privmw.data.syntax import Syntax
from privmw.io.whole_file import format_of, whole_file

DOMAIN_FILE = "domain.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("private", metavar="PRIVATE", help="the private file: parquet, csv, ..., or .counts")
    parser.add_argument(
        "public",
        nargs="?",
        metavar="PUBLIC",
        help="the public file, from which a domain is proposed; without it --domain must be given",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the synthetic records, .csv, .parquet or .feather; the release goes to a folder beside it",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before the budget is spent")
    add_workload(parser, proposed=True)
    release.add_run(parser)
    add_format(parser, "records, answers and measurements", default=None, otherwise="from the file's name")
    add_bins(parser)
    parser.set_defaults(checkpoint=None, cluster=None, config=None)


def run(options: argparse.Namespace, console: Console) -> int:
    """Reserve the folder, propose the domain, ask, make the release and copy its records."""
    check_unit(options)
    join_ranks(None)
    if options.public is None and options.domain is None:
        raise RefusalError(
            "PUBLIC or --domain must be given: nothing may be learned from the private file beforehand",
            "write what is public about its columns to a JSON file, such as "
            '{"age": {"edges": [0, 18, 65, 120]}, "sex": ["F", "M"]}',
        )
    if is_counts(options.private) and options.domain is None:
        raise RefusalError(
            f"PRIVATE ({options.private}) must come with --domain: it was counted on one, and no other can "
            "be proposed",
            "name the domain file that the engine counted on",
        )
    if not (options.yes or console.can_ask()):
        raise RefusalError("there is no terminal to ask on before the budget is spent", "--yes agrees to it")
    _choose_files(options)
    if not RunFolder(options.output).has_release:  # else they are not needed any more
        check_files(options, prefix="")
        release.check_not_private(options)
    with release.reserve(options) as folder:
        if options.domain is None and not folder.has_release:
            options.domain = str(_proposed_domain(options.public[0], syntax_of(options), folder, console))
        return release.release_into(
            folder, options, console, agree=lambda pending: _agree(pending, options, console)
        )


def release_folder(output: str) -> str:
    """The folder beside the records.

    >>> release_folder("out/synthetic.csv"), release_folder("synthetic")
    ('out/synthetic-release', 'synthetic-release')
    """
    form = format_of(output)
    return (output if form is None else output[: -len(form) - 1]) + "-release"


def _choose_files(options: argparse.Namespace) -> None:
    """Set the options of a release: the format, the copy of the records, the folder."""
    output, said = options.output, format_of(options.output)
    if said is None and options.format is None:
        raise RefusalError(
            f"--output ({output}) must end in .csv, .parquet or .feather", "or --format says which it is"
        )
    options.format = options.format or said
    form, _ = file_format(options.format)
    if said not in (None, form):
        raise RefusalError(f"--format ({options.format}) must be that of --output, {output}")
    if options.seed is not None and form == "csv" and "seeded" not in os.path.basename(output):
        raise RefusalError(
            f"--output ({output}) must have 'seeded' in its name with --seed: csv has no other place to say "
            "that the records are not for release"
        )
    folder = RunFolder(release_folder(output))
    if os.path.lexists(folder.path) and not folder.unfinished.is_dir():
        raise RefusalError(
            f"--output ({output}) must have no folder of a release beside it, and {folder.path} "
            f"{folder.tidied()}",
            "name another file: nothing is ever overwritten",
        )
    if os.path.lexists(output) and not folder.has_release:
        raise RefusalError(f"--output ({output}) exists", "name another file: nothing is ever overwritten")
    options.public = None if options.public is None else [options.public]
    options.copy, options.output = os.path.abspath(output), str(folder.path)


def _proposed_domain(public: str, syntax: Syntax | None, folder: RunFolder, console: Console) -> Path:
    """The domain proposed from the public file; a resumed run keeps its own."""
    file = folder.unfinished / DOMAIN_FILE
    if not file.exists():
        with console.step(f"proposing a domain from {public}"):
            proposal = propose(public, syntax=syntax)
        console.note(f"The domain, proposed from {public}; `privmw domain` writes it to a file to edit:")
        console.note(proposal.domain.to_json().rstrip("\n"))
        for note in proposal.notes:
            console.note(note)
        with whole_file(file, mode=0o600) as new:
            new.write(proposal.domain.to_json().encode())
    return file


def _promise(pending: release.PendingRelease) -> str:
    """The privacy statement of the release, without the lines about the source of its noise."""
    private, mechanism = pending.private, pending.mechanism
    ledger = Ledger(mechanism.budget, Neighbors.REPLACE_ONE, n=private.n, unit=private.protected)
    for event in mechanism.events:
        ledger.charge(event)
    lines = ledger.statement().splitlines()
    return "\n".join(line for line in lines if not line.startswith(("Numerics:", "Randomness:")))


def _agree(pending: release.PendingRelease, options: argparse.Namespace, console: Console) -> None:
    """Show the plan and the privacy statement, and ask whether to spend the budget."""
    mechanism, support, workload = pending.mechanism, pending.inputs.support, pending.inputs.workload
    with console.step("timing one evaluation"):
        plan = mechanism.plan(support, workload, n=pending.private.n, at_most=pending.private.at_most)
    console.note(f"Plan: {mechanism.algorithm!r}, {plan}, and those of files and report.")
    console.note(f"The privacy guarantee:\n{_promise(pending)}")
    if options.yes:
        return
    if not console.ask(f"Spend this on {options.private}, and write {os.path.relpath(options.copy)}?"):
        raise RefusalError("not agreed: nothing was spent, and nothing is written")
