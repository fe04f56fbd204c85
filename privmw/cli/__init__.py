"""The command line: one file for each command of `privmw`, with its arguments and a function `run`.

This file parses the command line, runs the command and turns errors into messages and exit codes. Commands
read files and call the library; they print public and released values only.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from privmw.cli import (
    account,
    answer,
    completion,
    domain,
    finish,
    inspect,
    release,
    synthesize,
)
from privmw.cli.config import with_config
from privmw.cli.console import Console
from privmw.cli.options import Parser
from privmw.cli.refusal import explain
from privmw.extensions.cluster import abort_job, mpi, wait_to_report
from privmw.extensions.evaluation import command as evaluate
from privmw.extensions.explorer import command as explore
from privmw.extensions.population import command as demo
from privmw.extensions.postprocess import command as postprocess
from privmw.extensions.unbiased import command as measure
from privmw.version import __version__

COMMANDS = {
    "synthesize": (
        synthesize,
        "make synthetic records from a private file and an optional public one",
    ),
    "domain": (domain, "propose a domain from a public file"),
    "inspect": (inspect, "estimate the noise, memory and time of a release, from public information"),
    "release": (release, "make a private release from a private file and optional public ones"),
    "measure": (measure, "measure marginals of a private file, for unbiased answers with standard errors"),
    "finish": (finish, "write the missing files of a release whose command ended early"),
    "postprocess": (postprocess, "fit consistent, non-negative data to noisy counts, with a certificate"),
    "evaluate": (evaluate, "compute the true errors of a release (NOT PRIVATE: for experiments)"),
    "answer": (answer, "answer queries from a release"),
    "explore": (
        explore,
        "write one HTML page to query a release in any browser",
    ),
    "account": (account, "make or show the account of all budget spent on a private table"),
    "completion": (completion, "print the shell script that completes commands and options"),
    "demo": (demo, "simulate two populations, then release, evaluate and report on them"),
}

SECONDS_OF_ONE_INTERRUPTION = 2.0  # seconds: signals that follow within it are the same interruption


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; privmw/cli/refusal.py lists the codes.

    >>> main(["--version"])
    privmw 0.1.0
    0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = " ".join(["privmw", *(word for word in words[:1] if word in COMMANDS)])
    console = Console(command, json="--json" in words)
    with _interruptible(process=arguments is None) as interruptions:
        try:
            if any(word.partition("=")[0] == "--cluster" for word in words):
                # Join the ranks before anything can be refused: then one rank reports it, not all of them.
                with suppress(ImportError):  # refused later, where the ranks are needed
                    mpi()
            options = parse(words)
            console = Console(command, json=options.json, quiet=options.quiet, progress=options.progress)
            return COMMANDS[options.command][0].run(options, console) or 0
        except SystemExit as ended:  # --help and --version
            return ended.code if isinstance(ended.code, int) else 1
        except BrokenPipeError:  # the reader of our output closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except BaseException as error:
            if os.environ.get("PRIVMW_DEBUG"):
                raise
            ending = explain(error, interrupted=bool(interruptions))
            wait_to_report(error)
            console.error(ending.message, ending.hint)
            abort_job(ending.code)
            return ending.code


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, with the options of the file that --config names."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    parser = make_parser(named)
    names_file = any(word.partition("=")[0] == "--config" for word in arguments)
    if names_file and arguments[0] == "release":
        known = parser.commands["release"]._option_string_actions
        arguments = ["release", *with_config(arguments[1:], known)]
    return parser.parse_args(arguments)


def make_parser(named: str | None = None) -> Parser:
    """The parser of all commands; named: the only one whose arguments are needed."""
    parser = Parser(
        prog="privmw",
        description="Private answers and synthetic records about a sensitive table, helped by a public one.",
        epilog="Exit codes: 0 success, 1 a bug in privmw, 2 something to correct, 3 a release that disagrees "
        "with what was measured, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"privmw {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, about) in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        if named in (None, name):  # --help lists the others, which need no arguments for that
            module.add_arguments(command)
            output = command.add_argument_group("output")
            output.add_argument("--json", action="store_true", help="print one JSON object, for programs")
            output.add_argument("--quiet", action="store_true", help="print errors only")
            output.add_argument(
                "--progress",
                action="store_true",
                help="print progress every few seconds, also without a terminal",
            )
    parser.commands, parser.named = commands.choices, named
    return parser


@contextmanager
def _interruptible(*, process: bool) -> Iterator[list[float]]:
    """Raise KeyboardInterrupt on Ctrl-C, SIGTERM and SIGHUP; yields the times when this happened.

    A second signal soon after the first is ignored: it would stop the removal of unfinished files.
    process: the process ends with the command, and ignores all signals after the first.
    """
    times: list[float] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not times or now - times[-1] > SECONDS_OF_ONE_INTERRUPTION:
            times.append(now)
            raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                before[number] = signal.signal(number, interrupt)
    try:
        yield times
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if times and process else handler)
