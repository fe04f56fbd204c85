"""`privmw finish`: write the missing files of a release whose command ended early.

Post-processing of release.npz: it does not use the private table and spends nothing.
"""

from __future__ import annotations

import argparse

from privmw.cli.console import Console
from privmw.cli.options import add_bins, add_format, add_intervals, add_title, positive, whole
from privmw.cli.outputs import (
    CONSTRAINTS,
    PUBLIC_VALUES,
    Synthetic,
    check_outputs,
    check_records,
    finish_release,
    written_file,
)
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RunFolder

# The options that decide how a file is written; an existing file is never written again.
DECIDED_BY = {
    "synthetic": {"records", "bins", "seed", "format"},
    "answers": {"intervals", "format"},
    "measurements": {"format"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("output", metavar="FOLDER", help="the folder that `privmw release` began to write")
    parser.add_argument(
        "--records",
        type=positive,
        metavar="N",
        help="number of synthetic records (default: as in the interrupted run, or n)",
    )
    add_format(parser, "synthetic records, answers and measurements", default=None)
    add_bins(parser, otherwise="as in the interrupted run")
    add_intervals(parser)
    add_title(parser)
    parser.add_argument(
        "--public",
        action="append",
        metavar="FILE",
        help="a public file, for --bins draw (default: the public values in FOLDER)",
    )
    parser.add_argument("--seed", type=whole, help="of the synthetic records")


def run(options: argparse.Namespace, console: Console) -> int:
    """Write the missing files, by the options of the run, overridden by those given here."""
    with RunFolder.of_release(options.output) as folder:
        release = folder.load()
        began = folder.options() or _format_of(folder)
        given = {name: value for name, value in vars(options).items() if value is not None}
        values = folder.path / PUBLIC_VALUES
        drawn_from = {"public": [str(values)]} if values.exists() else {}
        rules = folder.path / CONSTRAINTS
        kept = {"constraints": str(rules)} if rules.exists() else {}
        synthetic = Synthetic.of({**began, **drawn_from, **kept, **given})
        for stem, names in DECIDED_BY.items():
            file = written_file(folder.path, stem)
            if file is not None and names & set(given):
                raise RefusalError(f"{file} exists", "remove it to write another")
        if written_file(folder.path, "synthetic") is None:
            check_records(synthetic.records or release.n, release.support.domain)
        check_outputs(synthetic, release.support.domain, folder)
        level, title = ({**began, **given}.get(name) for name in ("intervals", "title"))
        return finish_release(release, folder, synthetic, console, level=level, title=title)


def _format_of(folder: RunFolder) -> dict[str, str]:
    """The format of the existing files, if any, which the others get too."""
    files = (written_file(folder.path, stem) for stem in DECIDED_BY)
    form = next((file.suffix[1:] for file in files if file is not None), None)
    return {} if form is None else {"format": form}
