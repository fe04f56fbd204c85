"""`privmw measure`: from a private file to unbiased answers, their privacy statement and a report.

The output folder is reserved, and everything possible is checked, before the budget is spent. answers.npz,
which holds the released values, is written before any other file; the same command resumes an interrupted
run, and spends nothing twice.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
from collections.abc import Callable

from privmw.accounting import Account
from privmw.cli.console import Console
from privmw.cli.inputs import join_ranks, make_workload, read_private_input
from privmw.cli.options import (
    add_budget,
    add_format,
    add_private,
    add_settings,
    add_syntax,
    add_title,
    add_unit,
    check_files,
    check_unit,
    file_format,
    level,
    orders,
    positive,
    read_domain,
    settings_of,
    whole,
)
from privmw.cli.outputs import BYTES_OF_ANSWER, Writer, file_name, privacy, write_files, write_json
from privmw.cli.refusal import RefusalError
from privmw.cli.release import run_identity
from privmw.cli.run_folder import RunFolder
from privmw.data.strict_json import parse_json
from privmw.extensions.unbiased import UnbiasedAnswers, load_unbiased_answers, strategies
from privmw.extensions.unbiased.one_shot import OneShot, ShotPlan
from privmw.extensions.unbiased.report import write_unbiased_report
from privmw.io.extras import need
from privmw.io.whole_file import whole_file
from privmw.report import check_installed

STRATEGIES: dict[str, Callable[[], strategies.Strategy]] = {
    "largest": lambda: strategies.residual("largest"),
    "marginals": lambda: strategies.residual("marginals"),
    "cells": lambda: strategies.residual("cells"),
    "equal": strategies.equal,
    "hdmm": strategies.hdmm,
}
MEASURE_SETTINGS = {"simultaneous": ("yes", "no")}
# options that may differ when a command resumes a run
MEASURE_MAY_CHANGE_ON_RESUME = ("command", "output", "json", "quiet", "progress", "title")
BYTES_OF_SETTINGS = 2**16  # bytes: the settings, the domain and the ledger


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_private(parser)
    add_unit(parser)
    add_syntax(parser)
    parser.add_argument("--domain", required=True, metavar="FILE", help="the domain, a JSON file")
    parser.add_argument(
        "--marginals",
        type=orders,
        metavar="K[,K]",
        help="answer every marginal of K attributes, and those inside (default: 3, or all attributes "
        "if there are fewer)",
    )
    parser.add_argument(
        "--sample", type=positive, metavar="N", help="only N of these marginals, drawn with a public seed"
    )
    add_budget(parser, required=True)
    parser.add_argument(
        "--method",
        choices=tuple(STRATEGIES),
        default="largest",
        help="minimise the largest standard error (default), the mean over marginals or over cells; or use "
        "equal noise for all marginals, or HDMM",
    )
    parser.add_argument(
        "--intervals", type=level, default=0.95, metavar="LEVEL", help="their level (default: 0.95)"
    )
    add_settings(
        parser, MEASURE_SETTINGS, "simultaneous=yes: intervals that all hold together with this probability"
    )
    add_format(parser, "the answers")
    add_title(parser)
    parser.add_argument(
        "--seed", type=whole, help="for experiments: repeatable, and marked 'not for release'"
    )
    parser.add_argument("--account", metavar="FILE", help="the account of the private table")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist yet")


class AnswersFolder(RunFolder):
    """The folder of unbiased answers: if answers.npz exists, the same command writes the other files."""

    FILE = "answers.npz"
    finish = "the same command"

    def answers(self) -> UnbiasedAnswers:
        """The answers of the folder."""
        return load_unbiased_answers(self.path / self.FILE)

    def run(self) -> str:
        """The identifier of this run for an account: the same if the run is repeated before its release."""
        file = self.checkpoint / "run.json"
        if not file.exists():
            self.checkpoint.mkdir(mode=0o700, exist_ok=True)
            with whole_file(file, mode=0o600) as new:
                new.write(json.dumps({"run": secrets.token_hex(16)}).encode())
        return str(parse_json(file.read_text("utf-8"))["run"])


def run(options: argparse.Namespace, console: Console) -> None:
    """Reserve the output folder, measure, write the answers and then the other files."""
    check_unit(options)
    if not AnswersFolder(options.output).has_release:
        check_files(options)
    join_ranks(None)
    with AnswersFolder.reserve(options.output, run_identity(options, MEASURE_MAY_CHANGE_ON_RESUME)) as folder:
        if not folder.has_release:
            measure(options, console, folder)
        answers = folder.answers()
        write_files(folder, _writers(answers, options), console)
        folder.finished()
    names = sorted(file.name for file in folder.path.iterdir())
    errors = answers.standard_errors()
    facts = {
        "output": str(folder.path),
        "files": names,
        **privacy(answers),
        "standard_errors": {"least": float(errors.min()), "largest": float(errors.max())},
    }
    files = (f"  {folder.path / name}" for name in names)
    found = f"Standard errors of answers: from {errors.min():.3%} to {errors.max():.3%} of the records."
    console.result(facts, "\n".join([answers.statement(), "", "Written:", *files, "", found]))
    if options.account is None:
        console.note("No --account: privmw does not remember what other releases of this table spend.")


def measure(options: argparse.Namespace, console: Console, folder: AnswersFolder) -> None:
    """Check everything possible, then spend the budget and save the answers."""
    need("pyarrow.parquet", "write files", "app")
    check_installed()
    account = None if options.account is None else Account(options.account)
    workload = make_workload(options, read_domain(options))
    private = read_private_input(options, workload, console)
    if private.n == 0:
        raise RefusalError("private (0 records) must have at least one record")
    algorithm = OneShot(strategy=STRATEGIES[options.method]())
    mechanism = algorithm.calibrate(options.epsilon, options.delta, n=private.n)
    with console.step("spreading the budget"):
        plan = mechanism.plan(workload, n=private.n, at_most=private.at_most)
    _check_disk_space(plan, folder, file_format(options.format)[0])
    console.note(str(plan))
    with console.step("measuring"):
        mechanism(private, workload, rng=options.seed, account=account, run=folder.run(), keep=folder.save)


def _check_disk_space(plan: ShotPlan, folder: AnswersFolder, form: str) -> None:
    """Refuse files that do not fit on the disk."""
    shot = plan.shot
    size = (
        8 * (shot.measured.cells + len(shot.measured.attributes) + len(shot.workload.attributes))
        + BYTES_OF_SETTINGS
    )
    size += 32 * len(shot.looks)  # scales here, and events in the ledger
    folder.keep_space(size)
    rest = 3 * BYTES_OF_ANSWER[form] * shot.workload.cells
    if shutil.disk_usage(folder.path).free < rest:
        raise RefusalError(f"{folder.path} must have about {(size + rest) / 1e6:,.0f} MB of free disk space")


def _writers(answers: UnbiasedAnswers, options: argparse.Namespace) -> dict[str, Writer]:
    """The files besides answers.npz, in the order in which they are written."""
    simultaneous = settings_of(options, MEASURE_SETTINGS).get("simultaneous") == "yes"
    how = {"level": options.intervals, "simultaneous": simultaneous}
    form, raw = file_format(options.format)
    name = file_name("answers", form, for_release=answers.ledger.for_release)
    return {
        "privacy.json": Writer(lambda path, _: write_json(path, privacy(answers))),
        name: Writer(
            lambda path, advance: answers.write(path, **how, raw=raw, progress=advance),
            answers.workload.cells,
        ),
        "report.html": Writer(
            lambda path, _: write_unbiased_report(
                path, answers, title=options.title, files=["answers.npz", "privacy.json", name]
            )
        ),
    }
