"""Options that commands share, and how the text after one becomes a value."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from privmw.cli.refusal import RefusalError


class Parser(argparse.ArgumentParser):
    """argparse's, with errors of one line; abbreviations of options would change meaning with new ones."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Refuse it as anything else is refused, with where to read on."""
        raise RefusalError(message, f"see {self.prog} --help")


def number(text: str) -> float:
    """A finite number that is not negative; what more it must be, the library says."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text} must be finite and not negative")
    return value


def positive(text: str) -> int:
    """A positive integer."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be positive")
    return value


def whole(text: str) -> int:
    """An integer from 0 to 2^63 - 1."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text} must be from 0 to 2^63 - 1")
    return value


def orders(text: str) -> list[int]:
    """How many attributes marginals have: 3, or 1,2,3."""
    return [positive(each.strip()) for each in text.split(",")]


def names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",")]


def add_voice(parser: argparse.ArgumentParser) -> None:
    """How a command speaks."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object, for machines")
    group.add_argument("--quiet", action="store_true", help="print errors only")


def add_question(parser: argparse.ArgumentParser) -> None:
    """What is asked, on which domain."""
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
    """What may be spent."""
    said = "the privacy budget" if required else "the privacy budget (default: 1)"
    parser.add_argument("--epsilon", type=number, required=required, default=1.0, help=said)
    parser.add_argument("--delta", type=number, help="default: 1 / n^2; 0 asks for pure differential privacy")


def add_bins(parser: argparse.ArgumentParser) -> None:
    """How records are written."""
    parser.add_argument(
        "--bins",
        choices=("label", "midpoint", "draw"),
        default="label",
        help="how synthetic records show a bin: its name, its middle, or a public value of the same bin",
    )


def words(values: Sequence[object]) -> str:
    """Values with commas between them, as `names` and `orders` read them."""
    return ",".join(map(str, values))
