"""`privmw explore`: one HTML page to query a release. It sees no private data.

The page counts the released rows in the browser, and loads nothing from the network.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from privmw.cli.console import Console
from privmw.cli.options import level, positive
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import release_of
from privmw.extensions.explorer import marginals_with_intervals, write_explorer
from privmw.report import check_installed

PAGE = "explore.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("release", metavar="RELEASE", help="the folder that `privmw release` wrote")
    parser.add_argument("--title", metavar="TEXT", help="the heading of the page, such as the data's name")
    parser.add_argument(
        "--intervals",
        type=level,
        metavar="LEVEL",
        help="level of intervals by refits of the release, such as 0.95: narrower, but takes several times "
        "as long as the release (default: quick ones of level 0.95, by the noisy counts alone)",
    )
    parser.add_argument(
        "--sample",
        type=positive,
        metavar="N",
        help="at most N rows in the page, by a sample (default: all, or a sample that makes at most 6 MB)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"must not exist yet (default: RELEASE/{PAGE})"
    )


def run(options: argparse.Namespace, console: Console) -> None:
    """Load the release and write its page."""
    check_installed()
    folder = Path(options.release)
    path = Path(options.output or folder / PAGE)
    if os.path.lexists(path):
        raise RefusalError(
            f"--output ({path}) exists", "name another file with --output: nothing is ever overwritten"
        )
    release = release_of(options.release)
    with console.step(f"writing {path}"):
        fitted = None
        if options.intervals is not None:
            asked = marginals_with_intervals(release.support.domain)
            fitted = release.intervals(options.intervals, workload=asked)
        name = str(options.release).rstrip("/") or "/"
        write_explorer(path, release, title=options.title, folder=name, intervals=fitted, rows=options.sample)
    if fitted is not None and fitted.reason:
        console.note(f"No intervals by refits: {fitted.reason}. The page has those of the noisy counts.")
    size = path.stat().st_size
    facts = {"output": str(path), "bytes": size, "for_release": release.ledger.for_release}
    console.result(
        facts, f"Written: {path} ({size / 1e6:.1f} MB). It opens in any browser, and needs no network."
    )
