"""What the command line says, and where: results on standard output, progress and errors on standard error.

Released and public values only. With --json a result is one JSON object; with --quiet there is nothing but
errors.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO, TypeAlias

from privmw.cli.refusal import RefusalError
from privmw.release.history import Round

Show: TypeAlias = Callable[[Round], None]

LOG_EVERY = 10.0  # seconds between two lines of a log


class Console:
    """One command's voice."""

    def __init__(self, command: str = "privmw", *, json: bool = False, quiet: bool = False) -> None:
        self.command = command
        self.json = json
        self.quiet = quiet

    def result(self, facts: Mapping[str, Any], text: str) -> None:
        """Say what came out: facts for machines, or text for people."""
        if self.quiet and not self.json:
            return
        try:
            _print(json.dumps(facts, allow_nan=False) if self.json else text, sys.stdout)
        except BrokenPipeError:
            raise
        except OSError as error:
            why = f"standard output cannot be written: {error.strerror}"
            raise RefusalError(
                why, "the command has done its work: do not repeat a release for this"
            ) from None

    def note(self, text: str) -> None:
        """Say what is going on."""
        if not (self.json or self.quiet):
            with contextlib.suppress(OSError):
                _print(text, sys.stderr)

    def error(self, message: str, hint: str | None = None) -> None:
        """Say what went wrong, in one line."""
        tail = f" ({_line(hint)})" if hint else ""
        said = f"{self.command}: {_line(message)}{tail}"
        if self.json:
            said = json.dumps({"error": _line(message)} | ({"hint": _line(hint)} if hint else {}))
        with contextlib.suppress(OSError):  # the exit code says it too
            _print(said, sys.stderr)

    @contextlib.contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Show what is being done, and how long it took, to whoever watches."""
        if not self._watched():
            yield
            return
        import rich.console

        began = time.perf_counter()
        with rich.console.Console(stderr=True).status(f"{_plain(doing)} ..."):
            yield
        self.note(f"{doing}: {time.perf_counter() - began:.1f} s")

    @contextlib.contextmanager
    def rounds(self, doing: str, rounds: int, *, log: bool = False) -> Iterator[Show | None]:
        """A bar with rounds done, time left and what was last released; without rounds, a plain step.

        log: where nobody watches, a line now and then.
        """
        if log and not self._watched():
            yield self._log(doing, rounds)
            return
        if rounds == 0 or not self._watched():
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
            bars.TextColumn("{task.fields[said]}"),
        )
        with bars.Progress(*columns, console=rich.console.Console(stderr=True)) as progress:
            task = progress.add_task(_plain(doing), total=rounds, said="")

            def show(entry: Round) -> None:
                progress.update(task, completed=entry.round, said=_said(entry))

            yield show

    def _log(self, doing: str, rounds: int) -> Show:
        self.note(doing)
        last = time.monotonic()

        def show(entry: Round) -> None:
            nonlocal last
            if time.monotonic() - last >= LOG_EVERY or entry.round == rounds:
                last = time.monotonic()
                self.note(f"round {entry.round} of {rounds}: {_said(entry)}" if rounds else _said(entry))

        return show

    def _watched(self) -> bool:
        return not (self.json or self.quiet) and sys.stderr is not None and sys.stderr.isatty()


def _said(entry: Round) -> str:
    spent = f"rho {entry.rho:.3g}"
    if math.isnan(entry.discrepancy):  # nothing that was asked was measured
        return spent
    return f"off by {entry.discrepancy:.2%}, then {entry.after:.2%}; {spent}"


def _print(text: str, stream: TextIO | None) -> None:
    """Print at once, if the stream is open: a reader that went away is noticed here, not at exit."""
    if stream is not None:
        encoding = stream.encoding or "utf-8"  # not every terminal can show every name
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def _plain(text: str) -> str:
    """The same for rich, which would read [words] in brackets as a style."""
    import rich.markup

    return rich.markup.escape(text)


def _line(text: str) -> str:
    """One line that a terminal cannot be tricked by: names come from files."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
