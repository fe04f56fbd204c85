"""`privmw finish`: write the files that a release lacks, where its command ended early.

Post-processing of release.npz: it draws nothing from the private table and spends nothing.
"""

from __future__ import annotations

import argparse

from privmw.cli.console import Console
from privmw.cli.options import add_bins, add_intervals, positive, whole
from privmw.cli.outputs import Synthetic, check_outputs, check_records, finish_release
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("output", metavar="FOLDER", help="the folder that `privmw release` began to write")
    parser.add_argument(
        "--records", type=positive, metavar="N", help="number of synthetic records (default: as began, or n)"
    )
    add_bins(parser, default=None)
    add_intervals(parser)
    parser.add_argument(
        "--public", action="append", metavar="FILE", help="a public file, for --bins draw (default: as began)"
    )
    parser.add_argument("--seed", type=whole, help="of the synthetic records")


def run(options: argparse.Namespace, console: Console) -> int:
    """Write what is missing, as the options of the run say, or those given here."""
    with RunFolder.of_release(options.output) as folder:
        release = folder.load()
        began = folder.options() or {"records": None, "bins": "label", "public": None, "seed": None}
        given = {name: value for name, value in vars(options).items() if value is not None}
        synthetic = Synthetic.of({**began, **given})
        if (folder.path / "synthetic.parquet").exists():
            if {"records", "bins", "seed"} & set(given):
                raise RefusalError(
                    f"{folder.path / 'synthetic.parquet'} exists", "remove it to write another"
                )
        else:
            check_records(synthetic.records or release.n, release.support.domain)
        if "intervals" in given and (folder.path / "answers.parquet").exists():
            raise RefusalError(f"{folder.path / 'answers.parquet'} exists", "remove it to write another")
        check_outputs(synthetic, release.support.domain)
        level = {**began, **given}.get("intervals")
        return finish_release(release, folder, synthetic, console, level=level)
