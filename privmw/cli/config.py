"""A run's options as a TOML file: read back they repeat the run, with what the command line says instead.

Repeating a release spends its budget once more: two releases of one table add up.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from privmw.cli.options import words
from privmw.cli.refusal import RefusalError
from privmw.io.whole_file import whole_file

# A checkpoint is of one run; what is recorded makes another.
NOT_RECORDED = ("command", "config", "json", "quiet", "checkpoint", "every")


def with_config(arguments: Sequence[str], known: Collection[str]) -> list[str]:
    """The arguments of a command behind those of the file that its --config names, if that file exists.

    known: every option there is, such as --epsilon.
    """
    before = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    before.add_argument("--config")
    try:
        path = before.parse_known_args(list(arguments))[0].config
    except argparse.ArgumentError:  # --config without a file: the command's own parser says so
        return list(arguments)
    if path is None or not os.path.lexists(path):
        return list(arguments)
    recorded = []
    for name, value in _read(path).items():
        option = f"--{name.replace('_', '-')}"
        if option not in known or name in NOT_RECORDED:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0][2:].replace('-', '_')}?" if near else None
            raise RefusalError(f"{path}: {name} is no option of a release", hint)
        if isinstance(value, list):
            value = words(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise RefusalError(f"{path}: {name} must be text, a number or a list of these")
        recorded.append(f"{option}={value}")
    return [*recorded, *arguments]


@contextlib.contextmanager
def record_config(options: argparse.Namespace) -> Iterator[None]:
    """Write the options to the file that --config names, at the end, if there is no such file yet.

    Where it cannot be written is found at once, and a run that is killed leaves nothing of it.
    """
    if options.config is None or os.path.lexists(options.config):
        yield
        return
    if os.path.abspath(options.config) == os.path.abspath(options.output):
        raise RefusalError(f"--config ({options.config}) must not be the output")
    with contextlib.suppress(_TriedError), whole_file(options.config):
        raise _TriedError
    yield
    with whole_file(options.config) as file:
        kept = {
            name: value
            for name, value in vars(options).items()
            if name not in NOT_RECORDED and value is not None and not callable(value)
        }
        lines = [f"{name} = {_toml(value)}\n" for name, value in kept.items()]
        file.write("".join(["# privmw release --config THIS: once more, on a new budget\n", *lines]).encode())


class _TriedError(Exception):
    """The file could be made: it is not wanted yet."""


def _read(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with open(path, "rb") as file:
        try:
            options: dict[str, Any] = tomllib.load(file)
            return options
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RefusalError(f"{path} must be a TOML file: {error}") from None


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else "\\" + c if c in '"\\' else c
            for c in value
        )
        return f'"{escaped}"'
    return repr(value)
