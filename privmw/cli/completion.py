"""`privmw completion`: the shell script that completes commands, options, their values and files.

shtab (extra `app`) makes it from the parsers of all commands. The script runs in the shell, without Python.
"""

from __future__ import annotations

import argparse

from privmw.cli.console import Console
from privmw.cli.options import Parser
from privmw.io.extras import need

SHELLS = ("bash", "zsh", "fish")
FILE_METAVARS = ("FILE", "PRIVATE", "PUBLIC", "MEASUREMENTS")  # the metavars of arguments that are files
FOLDERS = ("FOLDER", "RELEASE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(options: argparse.Namespace, console: Console) -> None:
    """Print the script."""
    from privmw.cli import make_parser  # here: it knows this command too

    script = completion_script(make_parser(), options.shell)
    console.result({"shell": options.shell, "script": script}, script.rstrip("\n"))


def completion_script(parser: Parser, shell: str) -> str:
    """The script of a shell for a parser and its commands."""
    shtab = need("shtab", "make completions", "app")
    pending: list[argparse.ArgumentParser] = [parser]
    while pending:
        for action in pending.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                pending += action.choices.values()
            elif action.metavar in FILE_METAVARS:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    script: str = shtab.complete(parser, shell=shell)
    return script
