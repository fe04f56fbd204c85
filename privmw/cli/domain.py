"""`privmw domain`: propose a domain from a public file, for a person to read and edit."""

from __future__ import annotations

import argparse
import json
import os

from privmw.cli.console import Console
from privmw.cli.extensions import propose_rules, written
from privmw.cli.options import SettingKinds, add_settings, add_syntax, names, positive, settings_of, syntax_of
from privmw.cli.refusal import RefusalError
from privmw.data.propose import propose
from privmw.io.whole_file import whole_file

PROPOSAL_SETTINGS: SettingKinds = {"most-labels": positive, "other": str, "missing": ("yes", "no")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("public", metavar="PUBLIC", help="a public file: parquet, csv, xlsx, ...")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: print it)")
    parser.add_argument(
        "--rules",
        metavar="FILE",
        help="also propose constraints, and write them here: values that never occur together, orders, equal "
        "columns and sums, each with its support; strike those that are not true of every record",
    )
    parser.add_argument("--columns", type=names, metavar="A,B", help="only these columns")
    parser.add_argument(
        "--bins",
        type=positive,
        default=10,
        help="approximate number of bins of a number or date (default: 10)",
    )
    add_settings(
        parser,
        PROPOSAL_SETTINGS,
        "may be repeated. most-labels=N: columns with more values get bins, or their commonest labels "
        "(default: 64, or up to 128 texts that are 99%% of the records); other=LABEL, of values that the "
        "public file does not contain (default: other), with nothing after =: no such label; missing=no: "
        "declare no missing value if the public file has none",
    )
    add_syntax(parser)


def run(options: argparse.Namespace, console: Console) -> None:
    """Propose a domain, print notes on what was left out, and write it."""
    for flag in ("output", "rules"):
        path = getattr(options, flag)
        if path is not None and os.path.lexists(path):
            raise RefusalError(f"--{flag} ({path}) exists", "name another file: nothing is ever overwritten")
    settings = {"other": "other", **settings_of(options, PROPOSAL_SETTINGS)}
    proposal = propose(
        options.public,
        columns=options.columns,
        bins=options.bins,
        most_labels=settings.get("most-labels"),
        other=settings["other"] or None,
        missing=None if settings.get("missing") == "no" else "missing",
        syntax=syntax_of(options),
    )
    text = proposal.domain.to_json()
    if options.rules is not None:
        rules = propose_rules(options.public, proposal.domain)
        with whole_file(options.rules) as file:
            file.write(written(rules).encode())
        console.note(
            f"{options.rules}: {len(rules)} rules that no public record breaks, each with its support. "
            "Strike those that are not true of every record; --constraints takes the file."
        )
    if options.output is None:
        facts = {"domain": json.loads(text), "notes": list(proposal.notes)}
        _say(proposal.notes, console)
        console.result(facts, text.rstrip("\n"))
        return
    with whole_file(options.output) as file:
        file.write(text.encode())
    _say(proposal.notes, console)
    facts = {"output": options.output, "attributes": len(proposal.domain), "notes": list(proposal.notes)}
    console.result(facts, f"{options.output}: {len(proposal.domain)} attributes. Read it, edit it, keep it.")


def _say(notes: tuple[str, ...], console: Console) -> None:
    for note in notes:
        console.note(note)
