"""`privmw inspect`: what a release would need and how noisy it would be, from public information alone."""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

from privmw.cli.console import Console
from privmw.cli.inputs import choose, read_question
from privmw.cli.options import add_budget, add_question, positive
from privmw.data.domain import Domain
from privmw.data.support import Support


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("public", metavar="PUBLIC", help="the public file: parquet or csv")
    add_question(parser)
    add_budget(parser, required=False)
    parser.add_argument(
        "--n", type=positive, help="how many private records there are (default: as many as public ones)"
    )
    parser.add_argument(
        "--method",
        choices=("auto", "mw-pub", "pep", "mwem-pub"),
        default="auto",
        help="default: auto, the recommended one",
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help="of a method other than auto")


def run(options: argparse.Namespace, console: Console) -> None:
    """Read the public file, plan, and say so."""
    asked = read_question(options, Domain.read(options.domain), console)
    records = int(asked.support.counts.sum())
    n = options.n or records
    mechanism, support = choose(options, n, asked)
    with console.step("timing one evaluation"):
        plan = mechanism.plan(support, asked.workload, n=n)
    facts = {
        "records": records,
        "rows": asked.support.size,
        "attributes": len(asked.support.domain),
        "uncommon_values_a_row": uncommon_values(asked.support),
        "marginals": len(asked.workload),
        "cells": asked.workload.cells,
        "method": repr(mechanism.algorithm),
        "n": n,
        "rho": mechanism.rho,
        "plan": {**dataclasses.asdict(plan), "noise": [dataclasses.asdict(each) for each in plan.noise]},
    }
    lines = [
        f"support    {asked.support.size:,} distinct rows of {records:,} public records, "
        f"{len(asked.support.domain)} attributes, {facts['uncommon_values_a_row']:.1f} uncommon values a row",
        f"workload   {len(asked.workload):,} marginals, {asked.workload.cells:,} cells",
        f"method     {mechanism.algorithm!r} for {n:,} private records",
        *(f"           {line}" for line in mechanism.statement().splitlines()),
        f"plan       {plan}",
    ]
    console.result(facts, "\n".join(lines))


def uncommon_values(support: Support) -> float:
    """How many attributes of a row, on average, have another value than their commonest: what sparsity is.

    >>> from privmw import Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> uncommon_values(Support.from_table(Table.from_codes([[2, 0], [0, 1], [1, 0], [2, 1]], domain)))
    1.0
    """
    commonest = sum(int(np.bincount(column).max()) for column in support.table.columns)
    return len(support.domain) - commonest / support.size
