"""Options that several commands share, and the parsers of their values."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn, get_args

from privmw.cli.refusal import RefusalError
from privmw.data.domain import Domain
from privmw.data.records import Bins
from privmw.data.syntax import Syntax
from privmw.io.files import checked_path
from privmw.io.whole_file import FORMATS
from privmw.release.errors.intervals import LARGEST_LEVEL, LEAST_LEVEL

MOST_EPSILON = 1_000_000
RAW_CSV = "raw-csv"  # of --format
SYNTAX_SETTINGS = ("separator", "encoding", "header", "skip", "decimal", "thousands", "dates")


REWORDED = {  # messages of argparse, and those of privmw
    r"^argument ([^:]+): (?=\()": r"\1 ",
    r"^argument ([^:]+): ignored explicit argument '(.*)'$": r"\1 (\2) takes no value",
    r"^argument ([^:]+): expected (.*)$": r"\1 must have a value: expected \2",
    r"^unrecognized arguments: (.*)$": r"\1 must not be given: there is no such argument",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with one-line errors and without abbreviations (new options would break them)."""

    commands: Mapping[str, argparse.ArgumentParser] = MappingProxyType({})  # by name, of privmw itself
    named: str | None = None  # the command of the line, of privmw itself

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report an unknown option before missing arguments."""
        for word in args or ():
            if word == "--" or (self.commands and not word.startswith("-")):
                break
            option = word.partition("=")[0]
            if option.startswith("--") and option not in self._option_string_actions:
                self.error(
                    f"{option} is not an option of {self.prog}{_meant(option, self._option_string_actions)}"
                )
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            listed = f"{', '.join(known[:-1])} or {known[-1]}" if len(known) > 1 else known[0]
            raise argparse.ArgumentError(action, f"({value}) must be {listed}{_meant(str(value), known)}")

    def error(self, message: str) -> NoReturn:
        """Raise a RefusalError with the argument, its value, the rule, and a pointer to --help."""
        for theirs, ours in REWORDED.items():
            message = re.sub(theirs, ours, message)
        prog = self.prog if self.named not in self.commands else f"{self.prog} {self.named}"
        raise RefusalError(message, f"see {prog} --help")


def _meant(word: str, known: Iterable[str]) -> str:
    known = list(known)
    near = [one for one in known if one.startswith(word)] or difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def number(text: str) -> float:
    """Parse a finite, non-negative number; the library checks further limits."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"({text}) must be a number") from None
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"({text}) must be finite and not negative")
    return value


def epsilon(text: str) -> float:
    """Parse an epsilon up to a million: more protects nothing, and a fit without noise may not converge."""
    value = number(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"({text}) must be positive: 0 allows no use of the private file")
    if value > MOST_EPSILON:
        raise argparse.ArgumentTypeError(f"({text}) must be at most {MOST_EPSILON:,}: more protects nothing")
    return value


def delta(text: str) -> float:
    """Parse a delta."""
    value = number(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"({text}) must be below 1: 1 promises nothing")
    return value


def positive(text: str) -> int:
    """Parse a positive integer."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"({text}) must be positive")
    return value


def whole(text: str) -> int:
    """Parse an integer from 0 to 2^63 - 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"({text}) must be a whole number") from None
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"({text}) must be from 0 to 2^63 - 1")
    return value


def orders(text: str) -> list[int]:
    """Parse the orders of marginals: 3, or 1,2,3."""
    try:
        return [positive(order.strip()) for order in text.split(",")]
    except argparse.ArgumentTypeError:
        rule = "must be positive whole numbers, with commas between them"
        raise argparse.ArgumentTypeError(f"({text}) {rule}") from None


def names(text: str) -> list[str]:
    """Parse names with commas between them."""
    return [name.strip() for name in text.split(",")]


def add_workload(parser: argparse.ArgumentParser, *, proposed: bool = False) -> None:
    """Add the options of the domain and the workload; proposed: the domain is optional."""
    default = " (default: proposed from the public file)" if proposed else ""
    parser.add_argument(
        "--domain", required=not proposed, metavar="FILE", help=f"the domain, a JSON file{default}"
    )
    parser.add_argument(
        "--constraints", metavar="FILE", help="combinations that no record can have, a JSON file"
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="the attribute that a model will predict from the others: of the marginals of the largest order "
        "only those that hold it, and all of the order below",
    )
    parser.add_argument(
        "--marginals",
        type=orders,
        metavar="K[,K]",
        help="answer every marginal of K attributes (default: 3, or the number of attributes if smaller)",
    )
    parser.add_argument(
        "--sample",
        type=positive,
        metavar="N",
        help="only N of these marginals, sampled with a public seed: for domains of many attributes",
    )


def add_budget(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options of the privacy budget."""
    about = "the privacy budget" if required else "the privacy budget (default: 1)"
    parser.add_argument("--epsilon", type=epsilon, required=required, default=1.0, help=about)
    parser.add_argument("--delta", type=delta, help="default: 1 / n^2; 0: pure differential privacy")


SettingKinds = Mapping[
    str, Callable[[str], object] | tuple[str, ...]
]  # of settings: a parser, or the words allowed


def add_settings(parser: argparse.ArgumentParser, kinds: SettingKinds, about: str) -> None:
    """Add --setting, which may be repeated; `settings_of` reads it."""

    def setting(text: str) -> str:
        name, marked, value = text.partition("=")
        kind = kinds.get(name)
        if kind is None or not marked:
            raise argparse.ArgumentTypeError(
                f"({text}) must be NAME=VALUE, with a name of {', '.join(kinds)}"
            )
        if not isinstance(kind, tuple):
            kind(value)
        elif value not in kind:
            allowed = " or ".join(f"{name}={word}" for word in kind)
            raise argparse.ArgumentTypeError(f"({text}) must be {allowed}")
        return text  # as given: the options of a run are stored, and compared when it is resumed

    parser.add_argument("--setting", action="append", type=setting, metavar="NAME=VALUE", help=about)


def settings_of(options: argparse.Namespace, kinds: SettingKinds) -> dict[str, Any]:
    """The parsed values of --setting by name; of one that is repeated, the last.

    >>> settings_of(argparse.Namespace(setting=["slack=0.1", "rounding=randomised"]), {"slack": number})
    {'slack': 0.1, 'rounding': 'randomised'}
    """
    values: dict[str, Any] = dict(text.split("=", 1) for text in options.setting or ())
    parsers = {name: kind for name in values if callable(kind := kinds.get(name))}
    return {name: parsers[name](value) if name in parsers else value for name, value in values.items()}


def syntax_setting(text: str) -> str:
    """Check one NAME=VALUE of --syntax, and return it as it is.

    >>> syntax_setting("separator=;")
    'separator=;'
    """
    name, _, value = text.partition("=")
    if name not in SYNTAX_SETTINGS or not value:
        known = ", ".join(SYNTAX_SETTINGS)
        raise argparse.ArgumentTypeError(f"({text}) must be NAME=VALUE, with a name of {known}")
    if name == "header" and value not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"({text}) must be header=yes or header=no")
    if name == "skip":
        whole(value)
    return text


def add_syntax(parser: argparse.ArgumentParser) -> None:
    """Add the option of the syntax of text files; `syntax_of` makes a Syntax of it."""
    group = parser.add_argument_group(
        "text files",
        "syntax of csv and similar files (default: $syntax of the domain; without it, detected on a public "
        "file, while a private file, on which nothing is detected, is UTF-8 with commas, decimal points and "
        "ISO dates). If the domain has a $syntax, this option is for the private file alone.",
    )
    group.add_argument(
        "--syntax",
        action="append",
        type=syntax_setting,
        metavar="NAME=VALUE",
        help="may be repeated: separator=',' (or ';' '|' tab), encoding=latin-1, header=yes or no (then "
        "columns are 'column 1', 'column 2', ...), skip=2 (lines before the table), decimal=, (of numbers), "
        "thousands=. (allowed marks), dates=dmy (31/12/1999), mdy (12/31/1999) or ymd",
    )


def syntax_of(options: argparse.Namespace) -> Syntax | None:
    r"""The Syntax of --syntax, if it is given.

    >>> syntax_of(argparse.Namespace(syntax=["separator=tab", "header=no", "skip=2"])).to_dict()
    {'separator': '\t', 'header': False, 'skip': 2}
    """
    if options.syntax is None:
        return None
    given: dict[str, Any] = dict(setting.split("=", 1) for setting in options.syntax)
    if given.get("separator") in ("tab", "\\t"):
        given["separator"] = "\t"
    if "header" in given:
        given["header"] = given["header"] == "yes"
    if "skip" in given:
        given["skip"] = int(given["skip"])
    try:
        return Syntax(**given)
    except ValueError as error:
        raise RefusalError(f"--syntax: {error}") from None


def read_domain(options: argparse.Namespace) -> Domain:
    """Read the domain file; if it has no syntax, that of the options applies to every file."""
    domain = Domain.read(options.domain)
    syntax = syntax_of(options)
    return domain if domain.syntax is not None or syntax is None else domain.with_syntax(syntax)


def add_private(parser: argparse.ArgumentParser) -> None:
    """Add the private file, of records or of an engine's counts."""
    parser.add_argument(
        "--private",
        required=True,
        metavar="FILE",
        help="the private file: parquet, csv, ..., or an engine's .counts",
    )


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add the options of the unit of privacy; `check_unit` checks them."""
    parser.add_argument(
        "--unit",
        metavar="COLUMN",
        help="protect all records with the same value in this column together, such as those of a household "
        "(default: every record separately); must not be in the domain",
    )
    parser.add_argument(
        "--at-most", type=positive, metavar="K", help="with --unit: at most K records of a unit enter"
    )


def check_unit(options: argparse.Namespace) -> None:
    """Refuse --unit without --at-most, and the reverse."""
    if options.unit is not None and options.at_most is None:
        raise RefusalError(f"--unit ({options.unit}) must come with --at-most, the records of one that enter")
    if options.at_most is not None and options.unit is None:
        raise RefusalError(f"--at-most ({options.at_most}) must come with --unit, a column of ids")


def is_counts(path: str) -> bool:
    """True if a private file holds an engine's counts, not records.

    >>> is_counts("people.counts"), is_counts("counts.csv")
    (True, False)
    """
    return path.lower().endswith(".counts")


def check_files(options: argparse.Namespace, *, prefix: str = "--") -> None:
    """Refuse input files that do not exist or have an unknown suffix; errors name the option.

    prefix: of the private and the public file's, which may be positional. The private one may hold counts.
    """
    for name in ("private", "public", "domain", "constraints", "account"):
        given = getattr(options, name, None)
        tables = name in ("private", "public")
        flag = (f"--{name}" if prefix else name.upper()) if tables else f"--{name}"
        for path in given if isinstance(given, list) else [] if given is None else [given]:
            if not os.path.exists(path):
                hint = "privmw account new makes it" if name == "account" else None
                raise RefusalError(f"{flag} ({path}) must exist", hint)
            if name == "public" and is_counts(path):
                raise RefusalError(f"{flag} ({path}) must hold rows: counts have none to re-weight")
            if tables and not is_counts(path):
                try:
                    checked_path(path)
                except ValueError as error:
                    raise RefusalError(str(error).replace(path, f"{flag} ({path})", 1)) from None


def add_bins(
    parser: argparse.ArgumentParser,
    default: str | None = None,
    otherwise: str = "draw, or spread without a public file",
) -> None:
    """Add the option of how synthetic records show a bin; otherwise: what a default of None stands for."""
    parser.add_argument(
        "--bins",
        choices=get_args(Bins),
        default=default,
        help="how synthetic records show a bin: its name, its middle, a random value, or the value of a "
        "public record with the same codes "
        f"(default: {default or otherwise})",
    )


def add_format(
    parser: argparse.ArgumentParser,
    what: str,
    default: str | None = "parquet",
    otherwise: str = "as in the interrupted run",
) -> None:
    """Add the option of the format in which records or answers are written; otherwise: as of `add_bins`."""
    parser.add_argument(
        "--format",
        choices=(*FORMATS, RAW_CSV),
        default=default,
        help=f"of {what} (default: {default or otherwise}). csv puts a quote before texts such as =1+1, which"
        f" spreadsheet programs run as formulas; {RAW_CSV} writes them unchanged",
    )


def file_format(given: str) -> tuple[str, bool]:
    """The suffix of the files that --format asks for, and whether texts are written unchanged.

    >>> file_format("raw-csv"), file_format("parquet")
    (('csv', True), ('parquet', False))
    """
    return ("csv", True) if given == RAW_CSV else (given, False)


def level(text: str) -> float:
    """Parse the level of intervals."""
    value = number(text)
    if not LEAST_LEVEL <= value <= LARGEST_LEVEL:
        raise argparse.ArgumentTypeError(f"({text}) must be from {LEAST_LEVEL} to {LARGEST_LEVEL}")
    return value


def add_title(parser: argparse.ArgumentParser) -> None:
    """Add the option of the report's heading."""
    parser.add_argument(
        "--title", metavar="TEXT", help="the heading of the report, such as the name and the date of the data"
    )


def add_intervals(parser: argparse.ArgumentParser) -> None:
    """Add the option of intervals and expected errors."""
    parser.add_argument(
        "--intervals",
        type=level,
        metavar="LEVEL",
        help="add intervals of this level, such as 0.95, to the answers, and expected errors to the report; "
        "costs no privacy, but takes several times as long as the release",
    )
