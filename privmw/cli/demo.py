"""`privmw demo`: the whole way once, on populations that were generated: files, release, evaluation, report.

It runs the commands that it shows, as a person would type them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privmw.cli import answer, evaluate, inspect, release
from privmw.cli.console import Console
from privmw.cli.folder import new_folder
from privmw.cli.options import Parser, add_voice, positive
from privmw.population import Population

SEED_PUBLIC, SEED_PRIVATE = 2015, 2018
SHIFT = 1.0  # from the public population to the private one
SAMPLED = 4096  # marginals, where there are too many for a demonstration
FOLDER = "privmw-demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "-o", "--output", default=FOLDER, metavar="FOLDER", help=f"must not exist yet (default: {FOLDER})"
    )
    parser.add_argument("--attributes", type=int, choices=(14, 67), default=14, help="default: 14")
    parser.add_argument("--n", type=positive, default=20_000, help="records of each (default: 20000)")


def run(options: argparse.Namespace, console: Console) -> None:
    """Generate, release, evaluate."""
    began = time.perf_counter()
    with new_folder(options.output) as folder, _inside(folder):
        with console.step("generating two populations"):
            write_populations(options.attributes, options.n)
        question = "--domain domain.json --marginals 3"
        if options.attributes == 67:
            question += f" --sample {SAMPLED}"
        for module, line in (
            (inspect, f"public.parquet {question} --epsilon 1"),
            (release, f"--private private.parquet --public public.parquet {question} --epsilon 1 -o out"),
            (evaluate, "out --private private.parquet"),
            (answer, "out --query 'sex=F,region=North'"),
        ):
            _type(module, line, console)
    facts = {"output": options.output, "seconds": round(time.perf_counter() - began, 1)}
    said = f"Open {options.output}/out/report.html, and {options.output}/out-not-private/report.html for the errors."
    console.result(facts, f"\n{said}")
