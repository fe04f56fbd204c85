"""The command line: privmw domain | inspect | release | postprocess | evaluate | answer | demo.

One file a command, each with its arguments and what it does; this one puts them together and ends them well.
Commands read files and call the library; what they print is public or released.
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

from privmw.cli import answer, demo, domain, evaluate, inspect, postprocess, release
from privmw.cli.config import with_config
from privmw.cli.console import Console
from privmw.cli.options import Parser, add_voice
from privmw.cli.refusal import explain
from privmw.cluster import abort_job, mpi, wait_to_report
from privmw.version import __version__

COMMANDS = {
    "domain": (domain, "propose a domain from a public file"),
    "inspect": (inspect, "what a release would need, and its noise, from public information"),
    "release": (release, "make a private release from a private and a public file"),
    "postprocess": (postprocess, "fit noisy answers: consistent, not negative, with a certificate"),
    "evaluate": (evaluate, "the true errors of a release (NOT PRIVATE: for experiments)"),
    "answer": (answer, "answer queries from a release"),
    "demo": (demo, "a generated pair of populations, a release, its evaluation and report"),
}

PATIENCE = 2.0  # seconds in which signals after the first are the same wish


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (privmw/cli/refusal.py says which).

    >>> main(["--version"])
    privmw 0.1.0
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = " ".join(["privmw", *(word for word in given[:1] if word in COMMANDS)])
    console = Console(command, json="--json" in given)
    with _interruptible(alone=arguments is None) as heard:
        try:
            _join_early(given)
            options = parse(given)
            console = Console(command, json=options.json, quiet=options.quiet)
            COMMANDS[options.command][0].run(options, console)
            return 0
        except SystemExit as ended:  # --help and --version
            return ended.code if isinstance(ended.code, int) else 1
        except BrokenPipeError:  # whoever read our output has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except BaseException as error:
            if os.environ.get("PRIVMW_DEBUG"):
                raise
            ending = explain(error, interrupted=bool(heard))
            wait_to_report(error)
            console.error(ending.message, ending.hint)
            abort_job(ending.code)
            return ending.code


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line asks for; --config is followed here."""
    parser = Parser(
        prog="privmw",
        description="Private answers and synthetic records about a sensitive table, helped by a public one.",
        epilog="Exit codes: 0 done, 1 a fault of privmw, 2 something to mend, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"privmw {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, said) in COMMANDS.items():
        command = commands.add_parser(name, help=said, description=f"{said[0].upper()}{said[1:]}.")
        module.add_arguments(command)
        add_voice(command)
    if arguments and arguments[0] == "release":
        known = commands.choices["release"]._option_string_actions
        arguments = ["release", *with_config(arguments[1:], known)]
    return parser.parse_args(arguments)


def _join_early(given: Sequence[str]) -> None:
    """Meet the other ranks before anything can be refused: then it is said once, not by each of them."""
    if any(word.partition("=")[0] == "--cluster" for word in given):
        with suppress(ImportError):  # told where the ranks are needed
            mpi()


@contextmanager
def _interruptible(*, alone: bool) -> Iterator[list[float]]:
    """End by KeyboardInterrupt on Ctrl-C, SIGTERM and SIGHUP; yields when that happened.

    Once: a second signal soon after would stop unfinished files from being taken away. alone: the process is
    about to end too, and ignores what comes after the first.
    """
    heard: list[float] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not heard or now - heard[-1] > PATIENCE:
            heard.append(now)
            raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
                before[number] = signal.signal(number, interrupt)
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if heard and alone else handler)
