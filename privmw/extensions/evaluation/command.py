"""`privmw evaluate`: the true errors of a release. NOT PRIVATE: for experiments only.

It writes to a separate folder, so that the release's folder holds only what may be published.
"""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from privmw.cli.console import Console
from privmw.cli.folder import new_folder
from privmw.cli.inputs import make_workload, read_counts
from privmw.cli.options import add_private, add_syntax, check_files, is_counts, orders, positive, syntax_of
from privmw.cli.outputs import CONSTRAINTS, written_file
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import release_of
from privmw.data.constraints import Constraints
from privmw.data.records import Records
from privmw.data.workload import Workload
from privmw.extensions.evaluation import evaluate
from privmw.io.scan import read_table, scan_table
from privmw.release import Release
from privmw.release.errors.true_errors import Evaluation
from privmw.report import write_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("release", metavar="RELEASE", help="the folder that `privmw release` wrote")
    add_private(parser)
    add_syntax(parser)
    parser.add_argument(
        "--marginals",
        type=orders,
        metavar="K[,K]",
        help="errors of every marginal of K attributes (default: the marginals of the release)",
    )
    parser.add_argument(
        "--sample", type=positive, metavar="N", help="only N of these marginals, drawn with a public seed"
    )
    parser.add_argument("--target", metavar="NAME", help="score a classifier of this attribute")
    parser.add_argument("--by", metavar="NAME", help="also score each group of this attribute's values")
    parser.add_argument(
        "--held-out",
        metavar="FILE",
        help="private records that were not released, to compare apparent matches with",
    )
    parser.add_argument("--constraints", metavar="FILE", help="count records that break one of these rules")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="where to write (default: RELEASE-not-private)"
    )


def run(options: argparse.Namespace, console: Console) -> None:
    """Compare the release, its synthetic records and its public start with the truth."""
    source = Path(options.release)
    output = options.output or f"{str(source).rstrip('/')}-not-private"
    check_files(options)
    release = release_of(options.release)
    if options.sample is not None and options.marginals is None:
        raise RefusalError(f"--sample ({options.sample}) must come with --marginals, of which it draws some")
    asked = release.workload
    if options.marginals is not None:
        asked = make_workload(options, release.support.domain)
    drawn = written_file(source, "synthetic")
    if drawn is None:
        raise RefusalError(f"{source} must hold synthetic records", f"privmw finish {source} writes them")
    with new_folder(output, mode=0o700) as folder:
        with console.step("counting the private file"):
            private = true_records(options, asked, console)
            released = evaluate(release, private, asked)
            start = at_start(release)
            before = None if start is None else evaluate(start, private, asked)
            records = read_table(drawn, release.support.domain, private=False)
            synthetic = evaluate(records, private, asked, **_scored(options, asked, source, console))
        facts = {
            "for_release": False,
            "warning": "NOT PRIVATE: true errors, covered by no privacy statement; do not publish",
            "marginals": len(asked),
            "cells": asked.cells,
            "release": errors(released),
            "synthetic": errors(synthetic),
            **({} if before is None else {"public_start": errors(before)}),
            **({"records": [scores._asdict() for scores in synthetic.records]} if synthetic.records else {}),
        }
        (folder / "evaluation.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        write_report(folder / "report.html", release, evaluation=replace(released, records=synthetic.records))
    rows = [("release", released), ("synthetic records", synthetic)]
    if before is not None:
        rows.insert(0, ("public start", before))
    lines = [
        "NOT PRIVATE: true errors, covered by no privacy statement. Do not publish them.",
        f"{len(asked):,} marginals, {asked.cells:,} cells:",
        f"{'':20} {'largest':>9} {'mean':>9} {'rmse':>9}",
        *(
            f"{name:20} {evaluation.max_error:9.5f} {evaluation.mean_error:9.5f} {evaluation.rmse:9.5f}"
            for name, evaluation in rows
        ),
        *map(str, synthetic.records),
        f"Written: {output}/evaluation.json, {output}/report.html",
    ]
    console.result({"output": output, **facts}, "\n".join(lines))


def _can_classify() -> bool:
    """True if scikit-learn is installed, with what it needs itself."""
    try:
        importlib.import_module("sklearn.ensemble")
    except ModuleNotFoundError:
        return False
    return True


def _scored(options: argparse.Namespace, asked: Workload, source: Path, console: Console) -> dict[str, Any]:
    """What the records are scored by; nothing for an engine's counts, or without scikit-learn."""
    given = {name: getattr(options, name) for name in ("target", "by")}
    for name, attribute in given.items():
        if attribute is not None and attribute not in asked.domain:
            raise RefusalError(f"--{name} ({attribute}) must be an attribute of the domain")
    asking = ("target", "by", "held_out", "constraints")
    named = [name for name in asking if getattr(options, name) is not None]
    if is_counts(options.private) or (not named and not _can_classify()):
        if named:
            raise RefusalError(f"--{named[0].replace('_', '-')} must come with private records, not counts")
        return {}
    kept = options.constraints or source / CONSTRAINTS
    if Path(kept).exists():
        given["constraints"] = Constraints.read(kept, asked.domain)
    if options.held_out is not None:
        syntax = syntax_of(options)
        given["held_out"] = scan_table(
            options.held_out, asked.domain, private=True, syntax=syntax, on_note=console.note
        )
    return {"records": True, **given}


def true_records(options: argparse.Namespace, asked: Workload, console: Console) -> Records:
    """The private records, or an engine's counts of them."""
    if is_counts(options.private):
        return read_counts(options.private, asked)
    syntax = syntax_of(options)
    return scan_table(options.private, asked.domain, private=True, syntax=syntax, on_note=console.note)


def at_start(release: Release) -> Release | None:
    """The same rows with the initial weights of the release; None without a public record."""
    if not release.support.records:
        return None
    kind = release.settings.get("start", "public")
    weights = release.support.start("uniform" if kind == "uniform" else "public")
    return Release(release.support, release.workload, weights, ledger=release.ledger, settings={})


def errors(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON values."""
    return {
        "max_error": evaluation.max_error,
        "mean_error": evaluation.mean_error,
        "rmse": evaluation.rmse,
        "mean_total_variation": evaluation.mean_total_variation,
        "max_total_variation": evaluation.max_total_variation,
        "worst": evaluation.worst._asdict(),
    }
