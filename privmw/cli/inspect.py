"""`privmw inspect`: the noise, memory and time of a release, estimated from public information alone."""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np

from privmw.cli import quality
from privmw.cli.console import Console
from privmw.cli.inputs import add_method, choose, read_public_inputs
from privmw.cli.options import (
    add_budget,
    add_syntax,
    add_unit,
    add_workload,
    check_files,
    check_unit,
    positive,
    read_domain,
)
from privmw.cli.refusal import RefusalError
from privmw.data.support import Support
from privmw.data.unit import checked_unit, unit_in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "public", nargs="*", metavar="PUBLIC", help="the public file: parquet or csv; none, or several"
    )
    add_workload(parser)
    add_budget(parser, required=False)
    add_unit(parser)
    add_syntax(parser)
    parser.add_argument(
        "--n",
        type=positive,
        help="number of private records (default: that of the public records; required without them)",
    )
    add_method(parser)


def run(options: argparse.Namespace, console: Console) -> None:
    """Read the public files and print the plan of a release."""
    check_unit(options)
    check_files(options, prefix="")
    if not options.public and options.n is None:
        raise RefusalError("--n must be given", "there is no public file with as many records")
    inputs = read_public_inputs(options, read_domain(options), console)
    records = inputs.support.records if options.public else 0
    n = options.n or records
    unit, at_most = checked_unit(options.unit, options.at_most, inputs.support.domain, private=True)
    mechanism, support = choose(options, n, inputs, at_most), inputs.support
    with console.step("comparing the public rows with the domain"):
        # force: report what a release would refuse
        preflight_report = quality.preflight(mechanism, support, inputs.workload, n, at_most, force=True)
    with console.step("timing one evaluation"):
        plan = mechanism.plan(support, inputs.workload, n=n, at_most=at_most)
    rows = 0 if len(support.missing) == len(support.domain) else support.size
    facts = {
        "records": records,
        "rows": rows,
        "attributes": len(support.domain),
        "uncommon_values_a_row": uncommon_values(support) if rows else None,
        "marginals": len(inputs.workload),
        "cells": inputs.workload.cells,
        "method": repr(mechanism.algorithm),
        "n": n,
        "unit": unit,
        "at_most": at_most,
        "rho": mechanism.rho,
        "quality": preflight_report.facts,
        "plan": {**dataclasses.asdict(plan), "noise": [dataclasses.asdict(noise) for noise in plan.noise]},
    }
    described = f"{rows:,} distinct rows of {records:,} public records" if rows else "no public row"
    sparsity = f", {facts['uncommon_values_a_row']:.1f} uncommon values a row" if rows else ""
    lines = [
        f"support    {described}, {facts['attributes']} attributes{sparsity}",
        f"workload   {len(inputs.workload):,} marginals, {inputs.workload.cells:,} cells",
        f"method     {mechanism.algorithm!r} for {n:,} private records",
        *(f"           {line}" for line in mechanism.statement(unit_in_words(unit, at_most)).splitlines()),
        f"plan       {plan}; reading and writing files and drawing the report take their time beside these",
        *(f"{'quality' if place == 0 else '':11}{line}" for place, line in enumerate(preflight_report.lines)),
    ]
    console.result(facts, "\n".join(lines))


def uncommon_values(support: Support) -> float:
    """The mean number of attributes of a row that do not have their commonest value (sparsity).

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> public = Table.from_codes([[2, 0], [0, 1], [1, 0], [2, 1]], domain, private=False)
    >>> uncommon_values(Support.from_table(public))
    1.0
    """
    columns = [support.table.column(name) for name in support.domain.names if name not in support.missing]
    return len(columns) - sum(int(np.bincount(column).max()) for column in columns) / support.size
