"""Output of commands: results on standard output, progress and errors on standard error.

Prints released and public values only. With --json a result is one JSON object; with --quiet only errors are
printed. Progress is animated on a terminal; with --progress, a line every few seconds is printed without one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from privmw.accounting.statement import show
from privmw.cli.refusal import RefusalError
from privmw.release.history import Round

if TYPE_CHECKING:
    from typing_extensions import Self

Show: TypeAlias = Callable[[Round], None]
Advance: TypeAlias = Callable[[int], None]  # called with the amount of a step that is done

LOG_EVERY = 10.0  # seconds between two lines of a log
NO_TIME = 0.05  # seconds: shorter steps get no line


class Console:
    """The output of one command."""

    def __init__(
        self, command: str = "privmw", *, json: bool = False, quiet: bool = False, progress: bool = False
    ) -> None:
        self.command = command
        self.json = json
        self.quiet = quiet
        self.progress = progress

    def result(self, facts: Mapping[str, Any], text: str) -> None:
        """Print the result: facts as JSON for programs, or text for people."""
        if self.quiet and not self.json:
            return
        try:
            _print(json.dumps(facts, allow_nan=False) if self.json else text, sys.stdout)
        except BrokenPipeError:  # the reader closed our output
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            why = f"standard output cannot be written: {error.strerror}"
            raise RefusalError(why, "the command is complete: do not repeat a release for this") from None

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

    def ask(self, question: str) -> bool:
        """Ask a yes/no question on the terminal; anything but yes is no."""
        if not self.can_ask():
            raise RefusalError("there is no terminal to ask on", "--yes answers yes")
        if sys.stderr is not None:
            print(f"{_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def can_ask(self) -> bool:
        """True if there is a terminal to ask on."""
        return self._on_terminal() and sys.stdin is not None and sys.stdin.isatty()

    @contextlib.contextmanager
    def step(self, doing: str, total: int | None = None) -> Iterator[Advance]:
        """Show the progress of a step, and how long it took.

        total: how much there is to do. Yields the function to call with how much is done.
        """
        began = time.perf_counter()
        if self._on_terminal():
            with _bar(doing, total) as update:
                yield lambda done: update(done, "")
        elif self._logs():
            with _Heartbeat(self, doing, total) as heartbeat:
                yield heartbeat.advance
        else:
            yield lambda done: None
            return
        self._took(doing, began)

    @contextlib.contextmanager
    def rounds(self, doing: str, rounds: int, *, log: bool = False) -> Iterator[Show | None]:
        """Show the rounds done, the time left and the last round; without rounds as `step`.

        log: as with --progress. Yields the function to call after each round.
        """
        if not self._on_terminal() and self._logs(log):
            self.note(doing)
            with _Heartbeat(self, doing, rounds or None, "round ") as heartbeat:
                yield lambda entry: heartbeat.advance(entry.round, _summary(entry))
            return
        if rounds == 0 or not self._on_terminal():
            with self.step(doing):
                yield None
            return
        began = time.perf_counter()
        with _bar(doing, rounds) as update:
            yield lambda entry: update(entry.round, _summary(entry))
        self._took(doing, began)

    def _took(self, doing: str, began: float) -> None:
        """Print how long a step took, unless it was shorter than NO_TIME."""
        seconds = time.perf_counter() - began
        if seconds >= NO_TIME:
            self.note(f"{doing}: {seconds:.1f} s")

    def _logs(self, log: bool = False) -> bool:
        return (self.progress or log) and not (self.json or self.quiet)

    def _on_terminal(self) -> bool:
        return not (self.json or self.quiet) and sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def _bar(doing: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """A line that a thread animates: a spinner, a bar if there is a total, and the time."""
    import rich.console
    import rich.progress as bars

    columns: list[bars.ProgressColumn] = [bars.SpinnerColumn(), bars.TextColumn("{task.description}")]
    if total:
        columns += [bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn()]
    columns += [bars.TimeElapsedColumn(), bars.TextColumn("{task.fields[summary]}")]
    with bars.Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as progress:
        task = progress.add_task(_plain(doing), total=total or None, summary="")
        yield lambda done, summary: progress.update(task, completed=done, summary=_plain(summary))


class _Heartbeat:
    """Prints a line every LOG_EVERY seconds during a step, even without progress."""

    def __init__(self, console: Console, doing: str, total: int | None, unit: str = "") -> None:
        self._console, self._doing, self._total, self._unit = console, doing, total, unit
        self._done, self._summary = 0, ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def advance(self, done: int, summary: str = "") -> None:
        """Set the amount done, for the next line; the last amount is printed at once."""
        self._done, self._summary = done, summary
        if done == self._total and summary:
            self._say()

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(LOG_EVERY):
            self._say()

    def _say(self) -> None:
        done = f", {self._unit}{self._done:,} of {self._total:,}" if self._total and self._done else ""
        summary = f": {self._summary}" if self._summary else ""
        self._console.note(f"{self._doing}: {time.monotonic() - self._began:.0f} s{done}{summary}")


def _summary(entry: Round) -> str:
    spent = f"rho {show(entry.rho)}"
    if math.isnan(entry.discrepancy):  # nothing of the workload was measured
        return spent
    return f"off by {entry.discrepancy:.2%}, then {entry.after:.2%}; {spent}"


def _print(text: str, stream: TextIO | None) -> None:
    """Print and flush, if the stream is open: a closed pipe is noticed here, not at exit."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"  # names may have characters that the terminal lacks
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def _plain(text: str) -> str:
    """Escape [words] in brackets, which rich would read as a style."""
    import rich.markup

    return rich.markup.escape(text)


def _line(text: str) -> str:
    """Make one line without control characters, as names come from files."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
