"""A run's options as a TOML file: read back they repeat the run, with what the command line says instead.

Repeating a release spends its budget once more: two releases of one table add up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from privmw.cli.options import words
from privmw.cli.refusal import RefusalError
from privmw.whole_file import new_file

NOT_RECORDED = ("command", "config", "json", "quiet")


def with_config(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command behind those of the file that its --config names, if that file exists."""
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
        if isinstance(value, list):
            value = words(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise RefusalError(f"{path}: {name} must be text, a number or a list of these")
        recorded.append(f"--{name.replace('_', '-')}={value}")
    return [*recorded, *arguments]


@contextlib.contextmanager
def record_config(options: argparse.Namespace) -> Iterator[None]:
    """Write the options to the file that --config names, at the end, if there is no such file yet."""
    if options.config is None or os.path.lexists(options.config):
        yield
        return
    with new_file(options.config) as unfinished:
        kept = {
            name: value
            for name, value in vars(options).items()
            if name not in NOT_RECORDED and value is not None and not callable(value)
        }
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write("# privmw release --config THIS repeats the run, and spends its budget again.\n")
            file.writelines(f"{name} = {_toml(value)}\n" for name, value in kept.items())
        yield


def _read(path: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
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
