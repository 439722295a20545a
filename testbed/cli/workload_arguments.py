"""The options of `cbcb workload match`; importing this module takes a few milliseconds."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping

from router.predicates.lexer import COMPARISONS
from router.predicates.model import SYMBOLS, Operator
from testbed.siena_ff.parameters import MatchingWorkload

FORMATS = ("driver", "jsonl")
_DEFAULTS = MatchingWorkload()


def add_arguments(parser: ArgumentParser) -> None:
    """The options of `cbcb workload match`."""
    numbers: tuple[tuple[str, type, str], ...] = (
        ("constraints", int, "constraints of the whole table, at most 5,000,000"),
        ("interfaces", int, "interfaces, numbered from 1, at most 1,000,000"),
        ("messages", int, "messages, at most 1,000,000,000"),
        ("seed", int, "seed; it does not change the dictionary"),
        ("words", int, "size of the dictionary of names and strings"),
        ("zipf", float, "exponent of Zipf's law; 0 is uniform"),
        ("strings-percent", float, "how many values are strings; the others are integers"),
        ("integers", int, "integers are 0 to N - 1"),
    )
    for name, kind, text in numbers:
        default = getattr(_DEFAULTS, name.replace("-", "_"))
        parser.add_argument(
            f"--{name}",
            type=kind,
            default=default,
            metavar="N",
            help=f"{text} ({default:,})".replace("%", "%%"),
        )
    for name, what in (
        ("filter-constraints", "constraints of a filter"),
        ("message-attributes", "attributes of a message"),
    ):
        fewest, most = default = getattr(_DEFAULTS, name.replace("-", "_"))
        parser.add_argument(
            f"--{name}", type=_range, default=default, metavar="MIN-MAX", help=f"{what} ({fewest}-{most})"
        )
    for what in ("integer", "string"):
        default = getattr(_DEFAULTS, f"{what}_operators")
        shown = ",".join(f"{SYMBOLS[operator]}:{weight:g}" for operator, weight in default.items())
        parser.add_argument(
            f"--{what}-operators",
            type=_operators,
            default=default,
            metavar="OP:WEIGHT,...",
            help=f"({shown})",
        )
    parser.add_argument("--format", choices=FORMATS, default="driver", help="(driver)")
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="where to write (-, standard output)"
    )


def _range(text: str) -> tuple[int, int]:
    fewest, _, most = text.partition("-")
    try:
        return int(fewest), int(most or fewest)
    except ValueError:
        raise ArgumentTypeError(f"expected MIN-MAX, for example 1-6, found {text!r}") from None


def _operators(text: str) -> Mapping[Operator, float]:
    operators = {symbol: operator for operator, symbol in SYMBOLS.items()}
    weights: dict[Operator, float] = {}
    for part in text.split(","):
        symbol, _, weight = part.rpartition(":")
        try:
            weights[operators[symbol.strip()]] = float(weight)
        except (KeyError, ValueError):
            known = " ".join([*COMPARISONS, "any"])
            raise ArgumentTypeError(
                f"expected OPERATOR:WEIGHT,..., operators {known}, found {part!r}"
            ) from None
    return weights
