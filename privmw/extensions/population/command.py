"""`privmw demo`: every step once, on simulated populations: files, release, evaluation, report.

It prints the commands that it runs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager

from privmw.cli.console import Console
from privmw.cli.folder import new_folder
from privmw.cli.options import Parser, positive
from privmw.extensions.population import draw_values, population_domain

FOLDER = "privmw-demo"
ATTRIBUTES = 14
PUBLIC_SEED, PRIVATE_SEED = 2015, 2018
SHIFT = 1.0  # of the private population from the public one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "-o", "--output", default=FOLDER, metavar="FOLDER", help=f"must not exist yet (default: {FOLDER})"
    )
    parser.add_argument("--n", type=positive, default=20_000, help="records in each file (default: 20000)")


def run(options: argparse.Namespace, console: Console) -> None:
    """Simulate two populations, then inspect, release, evaluate and answer a query."""
    began = time.perf_counter()
    workload = "--domain domain.json --marginals 3"
    with new_folder(options.output, paid="out") as folder, _inside(folder):
        with console.step("simulating two populations"):
            write_populations(options.n)
        inner = Console(console.command, quiet=console.quiet or console.json)
        _run(f"inspect public.parquet {workload} --epsilon 1", inner)
        _run(
            f"release --private private.parquet --public public.parquet {workload} --epsilon 1 -o out", inner
        )
        _run("evaluate out --private private.parquet", inner)
        _run("answer out --query 'age=37,sex=F'", inner)
    where = options.output.rstrip("/")
    console.result(
        {"output": where, "seconds": round(time.perf_counter() - began, 1)},
        f"\nOpen {where}/out/report.html; with true errors, {where}/out-not-private/report.html.",
    )


def write_populations(n: int) -> None:
    """Write the private and the public file and their domain to the current folder."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    population_domain(ATTRIBUTES).write("domain.json")
    for name, shift, seed in (("public", 0.0, PUBLIC_SEED), ("private", SHIFT, PRIVATE_SEED)):
        values = draw_values(n, attributes=ATTRIBUTES, shift=shift, seed=seed)
        parquet.write_table(pa.table(values), f"{name}.parquet", compression="zstd")


def _run(line: str, console: Console) -> None:
    """Print a command line and run it."""
    from privmw.cli import COMMANDS  # which has this command as well

    if not console.quiet:
        print(f"\n$ privmw {line}", flush=True)
    name, *words = shlex.split(line)
    command = COMMANDS[name][0]
    parser = Parser(prog="privmw demo")
    command.add_arguments(parser)
    command.run(parser.parse_args(words), console)


@contextmanager
def _inside(folder: os.PathLike[str]) -> Iterator[None]:
    """Change the working directory, so that commands use plain file names."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
