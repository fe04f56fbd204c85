"""What the command line says, and where: results on standard output, progress and errors on standard error.

Released and public values only. With --json a result is one JSON object; with --quiet there is nothing but
errors.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from privmw.history import Round

Show: TypeAlias = Callable[[Round], None]


class Console:
    """One command's voice."""

    def __init__(self, command: str = "privmw", *, json: bool = False, quiet: bool = False) -> None:
        self.command = command
        self.json = json
        self.quiet = quiet

    def result(self, facts: Mapping[str, Any], text: str) -> None:
        """Say what came out: facts for machines, or text for people."""
        if self.json:
            print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        elif not self.quiet:
            print(text)
        sys.stdout.flush()  # a reader that went away is noticed here, not at exit

    def note(self, text: str) -> None:
        """Say what is going on."""
        if not (self.json or self.quiet):
            print(text, file=sys.stderr, flush=True)

    def error(self, message: str, hint: str | None = None) -> None:
        """Say what went wrong, in one line."""
        if self.json:
            said: dict[str, str] = {"error": _line(message)} | ({"hint": _line(hint)} if hint else {})
            print(json.dumps(said, ensure_ascii=False), file=sys.stderr)
        else:
            tail = f" ({_line(hint)})" if hint else ""
            print(f"{self.command}: {_line(message)}{tail}", file=sys.stderr)

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
    def rounds(self, doing: str, rounds: int) -> Iterator[Show | None]:
        """A bar with rounds done, time left and what was last released; without rounds, a plain step."""
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
                said = f"off by {entry.discrepancy:.2%}, then {entry.after:.2%}; rho {entry.rho:.3g}"
                progress.update(task, completed=entry.round, said=said)

            yield show

    def _watched(self) -> bool:
        return not (self.json or self.quiet) and sys.stderr.isatty()


def _plain(text: str) -> str:
    """The same for rich, which would read [words] in brackets as a style."""
    import rich.markup

    return rich.markup.escape(text)


def _line(text: str) -> str:
    """One line that a terminal cannot be tricked by: names come from files."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
