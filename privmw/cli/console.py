"""What commands print: results on standard output, progress and errors on standard error.

They print released and public values only. With --json a result is one JSON object; with --quiet only errors
are printed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO, TypeAlias

from privmw.accounting.statement import show
from privmw.cli.refusal import RefusalError
from privmw.release.history import Round

Show: TypeAlias = Callable[[Round], None]

LOG_EVERY = 10.0  # seconds between two lines of a log


class Console:
    """What one command prints."""

    def __init__(self, command: str = "privmw", *, json: bool = False, quiet: bool = False) -> None:
        self.command = command
        self.json = json
        self.quiet = quiet

    def result(self, facts: Mapping[str, Any], text: str) -> None:
        """Print the result: facts as JSON for programs, or text for people."""
        if self.quiet and not self.json:
            return
        try:
            _print(json.dumps(facts, allow_nan=False) if self.json else text, sys.stdout)
        except BrokenPipeError:  # the reader of our output closed it: the command ends as it would
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            why = f"standard output cannot be written: {error.strerror}"
            raise RefusalError(why, "the command did its work: do not repeat a release for this") from None

    def note(self, text: str) -> None:
        """Print what the command is doing."""
        if not (self.json or self.quiet):
            with contextlib.suppress(OSError):
                _print(text, sys.stderr)

    def error(self, message: str, hint: str | None = None) -> None:
        """Print what went wrong, in one line."""
        tail = f" ({_line(hint)})" if hint else ""
        line = f"{self.command}: {_line(message)}{tail}"
        if self.json:
            line = json.dumps({"error": _line(message)} | ({"hint": _line(hint)} if hint else {}))
        with contextlib.suppress(OSError):  # the exit code shows the failure
            _print(line, sys.stderr)

    @contextlib.contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """On a terminal, show what is being done and how long it took."""
        if not self._on_terminal():
            yield
            return
        import rich.console

        began = time.perf_counter()
        with rich.console.Console(stderr=True).status(f"{_plain(doing)} ..."):
            yield
        self.note(f"{doing}: {time.perf_counter() - began:.1f} s")

    @contextlib.contextmanager
    def rounds(self, doing: str, rounds: int, *, log: bool = False) -> Iterator[Show | None]:
        """On a terminal, show a bar of the rounds done, the time left and the last release; else as `step`.

        log: without a terminal, print a line now and then. Yields the function to call after each round.
        """
        if log and not self._on_terminal():
            yield self._log(doing, rounds)
            return
        if rounds == 0 or not self._on_terminal():
            with self.step(doing):
                yield None
            return
        import rich.console
        import rich.progress as bars

        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[summary]}"),
        )
        with bars.Progress(*columns, console=rich.console.Console(stderr=True)) as progress:
            task = progress.add_task(_plain(doing), total=rounds, summary="")

            def show_round(entry: Round) -> None:
                progress.update(task, completed=entry.round, summary=_summary(entry))

            yield show_round

    def _log(self, doing: str, rounds: int) -> Show:
        self.note(doing)
        last = time.monotonic()

        def show_round(entry: Round) -> None:
            nonlocal last
            if time.monotonic() - last >= LOG_EVERY or entry.round == rounds:
                last = time.monotonic()
                self.note(
                    f"round {entry.round} of {rounds}: {_summary(entry)}" if rounds else _summary(entry)
                )

        return show_round

    def _on_terminal(self) -> bool:
        return not (self.json or self.quiet) and sys.stderr is not None and sys.stderr.isatty()


def _summary(entry: Round) -> str:
    spent = f"rho {show(entry.rho)}"
    if math.isnan(entry.discrepancy):  # nothing of the workload was measured
        return spent
    return f"off by {entry.discrepancy:.2%}, then {entry.after:.2%}; {spent}"


def _print(text: str, stream: TextIO | None) -> None:
    """Print and flush, if the stream is open: a closed pipe is noticed here, not at exit."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"  # not every terminal can show every name
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def _plain(text: str) -> str:
    """Escape [words] in brackets, which rich would read as a style."""
    import rich.markup

    return rich.markup.escape(text)


def _line(text: str) -> str:
    """Make one line without control characters, as names come from files."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
