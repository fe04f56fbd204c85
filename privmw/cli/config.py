"""The options of a run as a TOML file, to repeat it; options on the command line override those of the file.

Repeating a release spends its budget once more: the budgets of two releases of one table add up.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privmw.cli.refusal import RefusalError
from privmw.io.whole_file import whole_file

# Options of a single run: a recorded configuration makes another run.
NOT_RECORDED = (
    "command",
    "config",
    "json",
    "quiet",
    "progress",
    "checkpoint",
    "force",
    "public_is_public",
)


def with_config(arguments: Sequence[str], known: Mapping[str, argparse.Action]) -> list[str]:
    """Put the options of the file that --config names, if it exists, before the arguments of a command.

    known: every option of the command, such as --epsilon, with its action.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config")
    try:
        path = parser.parse_known_args(list(arguments))[0].config
    except argparse.ArgumentError:  # --config without a file: the command's parser refuses it
        return list(arguments)
    if path is None or not os.path.lexists(path):
        return list(arguments)
    recorded = []
    for name, value in _read(path).items():
        option = f"--{name.replace('_', '-')}"
        if option not in known or name in NOT_RECORDED:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0][2:].replace('-', '_')}?" if near else None
            raise RefusalError(f"{path}: {name} is not an option of a release", hint)
        if known[option].nargs is None and isinstance(known[option], argparse._AppendAction):
            if any(word.partition("=")[0] == option for word in arguments):
                continue  # the command line overrides the file
            values = value if isinstance(value, list) else [value]
            if not all(isinstance(one, str) for one in values):
                raise RefusalError(f"{path}: {name} must be text or a list of texts")
            recorded += [f"{option}={one}" for one in values]
            continue
        if isinstance(value, list):
            value = ",".join(map(str, value))
        if isinstance(value, bool) and known[option].nargs == 0:
            recorded += [option] * value
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            recorded.append(f"{option}={value}")
        else:
            raise RefusalError(f"{path}: {name} must be text, a number or a list of these")
    return [*recorded, *arguments]


@contextlib.contextmanager
def record_config(options: argparse.Namespace) -> Iterator[None]:
    """Write the options to a new file that --config names, after a successful run.

    A file that cannot be written is refused before the run; a run that is killed leaves none behind.
    """
    if os.path.lexists(options.config):
        yield
        return
    if os.path.abspath(options.config) == os.path.abspath(options.output):
        raise RefusalError(f"--config ({options.config}) must not be the output")
    recorded = {
        name: value
        for name, value in vars(options).items()
        if name not in NOT_RECORDED and value is not None and value is not False
    }
    lines = [f"{name} = {_toml(value)}\n" for name, value in recorded.items()]
    try:
        text = "".join(["# privmw release --config THIS: once more, on a new budget\n", *lines]).encode()
    except UnicodeEncodeError:
        raise RefusalError(f"--config ({options.config}) must record names that are text") from None
    try:
        with contextlib.suppress(_TriedError), whole_file(options.config):
            raise _TriedError
    except OSError as error:
        raise RefusalError(f"--config ({options.config}) must be writable: {error.strerror}") from None
    yield
    with whole_file(options.config) as file:
        file.write(text)


class _TriedError(Exception):
    """Ends a trial write: the file can be written, and is removed again."""


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
    return str(value).lower() if isinstance(value, bool) else repr(value)
