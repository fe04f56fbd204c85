"""Options that several commands share, and the parsers of their values."""

from __future__ import annotations

import argparse
import math
from typing import Any, NoReturn

from privmw.cli.refusal import RefusalError
from privmw.release.errors.intervals import LARGEST_LEVEL, LEAST_LEVEL

MOST_EPSILON = 1_000_000


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with errors of one line, and without abbreviations: new options would change them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise a RefusalError that points to --help."""
        raise RefusalError(message, f"see {self.prog} --help")


def number(text: str) -> float:
    """Parse a finite number that is not negative; the library checks further limits."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text} must be finite and not negative")
    return value


def epsilon(text: str) -> float:
    """Parse an epsilon of at most a million: more is no protection, and a fit without noise may not end."""
    value = number(text)
    if value > MOST_EPSILON:
        raise argparse.ArgumentTypeError(f"{text} must be at most {MOST_EPSILON:,}: more protects nobody")
    return value


def positive(text: str) -> int:
    """Parse a positive integer."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be positive")
    return value


def whole(text: str) -> int:
    """Parse an integer from 0 to 2^63 - 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text} must be from 0 to 2^63 - 1")
    return value


def orders(text: str) -> list[int]:
    """Parse the orders of marginals: 3, or 1,2,3."""
    return [positive(order.strip()) for order in text.split(",")]


def names(text: str) -> list[str]:
    """Parse names with commas between them."""
    return [name.strip() for name in text.split(",")]


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the options that define the domain and the workload."""
    parser.add_argument("--domain", required=True, metavar="FILE", help="the domain, a JSON file")
    parser.add_argument(
        "--constraints", metavar="FILE", help="combinations that no record can have, a JSON file"
    )
    parser.add_argument(
        "--marginals",
        type=orders,
        default=[3],
        metavar="K[,K]",
        help="answer every marginal of K attributes (default: 3)",
    )
    parser.add_argument(
        "--sample",
        type=positive,
        metavar="N",
        help="only N of these marginals, drawn with a public seed: for domains of many attributes",
    )


def add_budget(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options of the privacy budget."""
    about = "the privacy budget" if required else "the privacy budget (default: 1)"
    parser.add_argument("--epsilon", type=epsilon, required=required, default=1.0, help=about)
    parser.add_argument("--delta", type=number, help="default: 1 / n^2; 0: pure differential privacy")


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add the options of the unit that is protected; `check_unit` checks them."""
    parser.add_argument(
        "--unit",
        metavar="COLUMN",
        help="protect all records with the same value in this column together, such as those of a household "
        "(default: every record by itself); it must not be in the domain",
    )
    parser.add_argument(
        "--at-most", type=positive, metavar="K", help="with --unit: at most K records of a unit enter"
    )


def check_unit(options: argparse.Namespace) -> None:
    """Refuse --unit without --at-most, and the reverse."""
    if (options.unit is None) != (options.at_most is None):
        raise RefusalError("--unit and --at-most must come together")


def add_bins(parser: argparse.ArgumentParser, default: str | None = "label") -> None:
    """Add the option of how synthetic records show a bin."""
    parser.add_argument(
        "--bins",
        choices=("label", "midpoint", "draw"),
        default=default,
        help="how synthetic records show a bin: its name, its middle, or a public value of the same bin",
    )


def level(text: str) -> float:
    """Parse the level of intervals."""
    value = number(text)
    if not LEAST_LEVEL <= value <= LARGEST_LEVEL:
        raise argparse.ArgumentTypeError(f"{text} must be from {LEAST_LEVEL} to {LARGEST_LEVEL}")
    return value


def add_intervals(parser: argparse.ArgumentParser) -> None:
    """Add the option of how far off answers may be."""
    parser.add_argument(
        "--intervals",
        type=level,
        metavar="LEVEL",
        help="say how far off answers are: intervals of this level, such as 0.95, in answers.parquet, and "
        "expected errors in the report; costs no privacy, but several times the time of the release",
    )
