"""`privmw inspect`: the noise, memory and time of a release, estimated from public information alone."""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

from privmw.cli import quality
from privmw.cli.console import Console
from privmw.cli.inputs import METHODS, choose, read_public_inputs
from privmw.cli.options import add_budget, add_unit, add_workload, check_unit, positive
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.unit import checked_unit, unit_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("public", metavar="PUBLIC", help="the public file: parquet or csv")
    add_workload(parser)
    add_budget(parser, required=False)
    add_unit(parser)
    parser.add_argument(
        "--n", type=positive, help="number of private records (default: as many as public ones)"
    )
    parser.add_argument(
        "--method",
        choices=("auto", *(method for method in METHODS if method != "mwem")),  # which has no public file
        default="auto",
        help="default: auto, the recommended one",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help="number of rounds, for methods other than auto"
    )


def run(options: argparse.Namespace, console: Console) -> None:
    """Read the public file and print the plan of a release."""
    check_unit(options)
    inputs = read_public_inputs(options, Domain.read(options.domain), console)
    records = int(inputs.support.counts.sum())
    n = options.n or records
    unit, at_most = checked_unit(options.unit, options.at_most, inputs.support.domain, private=True)
    mechanism, support = choose(options, n, inputs, at_most)
    with console.step("comparing the public rows with the domain"):
        # Forced: a release would refuse what this reports.
        known = quality.before(
            mechanism, support, inputs.workload, n, at_most, public=inputs.support, force=True
        )
    with console.step("timing one evaluation"):
        plan = mechanism.plan(support, inputs.workload, n=n, at_most=at_most)
    facts = {
        "records": records,
        "rows": inputs.support.size,
        "attributes": len(inputs.support.domain),
        "uncommon_values_a_row": uncommon_values(inputs.support),
        "marginals": len(inputs.workload),
        "cells": inputs.workload.cells,
        "method": repr(mechanism.algorithm),
        "n": n,
        "unit": unit,
        "at_most": at_most,
        "rho": mechanism.rho,
        "quality": known.facts,
        "plan": {**dataclasses.asdict(plan), "noise": [dataclasses.asdict(noise) for noise in plan.noise]},
    }
    lines = [
        f"support    {inputs.support.size:,} distinct rows of {records:,} public records, "
        f"{facts['attributes']} attributes, {facts['uncommon_values_a_row']:.1f} uncommon values a row",
        f"workload   {len(inputs.workload):,} marginals, {inputs.workload.cells:,} cells",
        f"method     {mechanism.algorithm!r} for {n:,} private records",
        *(f"           {line}" for line in mechanism.statement(unit_in_words(unit, at_most)).splitlines()),
        f"plan       {plan}",
        *(f"{'quality' if place == 0 else '':11}{line}" for place, line in enumerate(known.lines)),
    ]
    console.result(facts, "\n".join(lines))


def uncommon_values(support: Support) -> float:
    """How many attributes of a row, on average, have another value than their commonest: the sparsity.

    >>> from privmw import Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> public = Table.from_codes([[2, 0], [0, 1], [1, 0], [2, 1]], domain, private=False)
    >>> uncommon_values(Support.from_table(public))
    1.0
    """
    commonest = sum(int(np.bincount(column).max()) for column in support.table.columns)
    return len(support.domain) - commonest / support.size
