"""Types of arguments. What is wrong is said in words: argparse itself would name the function."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError

#: Seconds that `cbcb sub` may wait, and the farthest moment that `cbcb replay --at` takes.
TIMEOUT_MAX_S = 1_000_000
MOMENT_MAX_S = 1_000_000_000

_PLACE = r"[^\s,/]+:[0-9]+"
#: What Spark takes (`SparkContext.createTaskScheduler`).
_MASTER = re.compile(
    r"local(\[([1-9][0-9]*|\*)(\s*,\s*[0-9]+)?\])?"
    r"|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]"
    rf"|spark://{_PLACE}(,{_PLACE})*"
    r"|yarn|k8s://\S+"
)


def not_negative(text: str) -> int:
    """A whole number, 0 or more."""
    return _whole(text, 0, "0 or a positive number")


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    return _whole(text, 1, "a positive number")


def port(text: str) -> int:
    """A port of TCP; 0 lets the system choose."""
    expected = "a port, 0 to 65535"
    number = _whole(text, 0, expected)
    if number > 65535:
        raise ArgumentTypeError(f"{text}: expected {expected}")
    return number


def timeout_s(text: str) -> float:
    """Seconds to wait."""
    return _number(text, 0, TIMEOUT_MAX_S, f"seconds, 0 to {TIMEOUT_MAX_S:,}")


def moment_s(text: str) -> float:
    """A moment in experiment seconds; before 0 the network is being set up."""
    return _number(
        text, -MOMENT_MAX_S, MOMENT_MAX_S, f"experiment seconds, {-MOMENT_MAX_S:,} to {MOMENT_MAX_S:,}"
    )


def master(text: str) -> str:
    """A master URL that Spark could use; whether anybody answers there shows when it starts."""
    if _MASTER.fullmatch(text) is None:
        raise ArgumentTypeError(f"{text}: expected local[N] or spark://HOST:PORT")
    return text


def _whole(text: str, least: int, expected: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ArgumentTypeError(f"{text}: expected {expected}")
    return number


def _number(text: str, least: float, most: float, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:  # nor is NaN
        raise ArgumentTypeError(f"{text}: expected {expected}")
    return number
