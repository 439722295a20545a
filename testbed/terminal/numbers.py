"""Numbers and verdicts in words, the same on the page and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

#: What a summary does not hold.
ABSENT = "–"
_RECONCILED = {
    "tshark": "captures, counted by tshark",
    "routers": "routers' own counters",
    "ovs": "Open vSwitch port counters",
}


def count(value: Any) -> str:
    """A whole number with spaces between thousands; what is not whole is rounded."""
    return ABSENT if value is None else f"{value:,.0f}".replace(",", " ")


def significant(value: Any, digits: int = 3) -> str:
    """To so many significant digits, all of those before the point, and never with an exponent."""
    if value is None:
        return ABSENT
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    return count(value) if abs(value) >= 1 else f"{Decimal(text):f}"


def clock(now_s: float, duration_s: float) -> str:
    """How far an experiment has come, such as "12 of 30 s"; at its end one of 2.5 s is at 2.5 s."""
    places = 0 if float(duration_s).is_integer() else 1
    return f"{now_s:.{places}f} of {plain(duration_s)} s"


def plain(value: Any) -> str:
    """A number that somebody chose, such as a time scale: as it is, to six digits."""
    return significant(value, 6)


def seconds(value: Any) -> str:
    """A time in seconds, to about three digits."""
    return ABSENT if value is None else f"{significant(value)} s"


def milliseconds(value: Any) -> str:
    """A time in seconds as milliseconds, to three digits."""
    return ABSENT if value is None else f"{significant(1000 * value)} ms"


def ratio(value: Any) -> str:
    """A ratio such as a stretch, to three digits behind the point."""
    return ABSENT if value is None else f"{value:.3f}"


def share(part: Any, whole: Any) -> str:
    """`part` of `whole` in per cent, to two digits, or the dash if that means nothing."""
    return ABSENT if part is None or not whole else f"{significant(100 * part / whole, 2)} %"


def verdict(summary: Mapping[str, Any]) -> tuple[str, list[str]]:
    """ "holds", "fails" or "not judged", and the reasons given."""
    return str(summary.get("verdict") or "not judged"), [str(r) for r in summary.get("verdict_reasons") or []]


def by_type(numbers: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Numbers by frame type, most frequent type first."""
    return sorted((numbers or {}).items(), key=lambda pair: -pair[1])


def reconciliations(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each of the three: with what it compares, its total, the accounting's, and the differences.

    `expected` is the other source's total, `found` the accounting's; `agrees` is None for one not made, or
    made of nothing: a run without captures.
    """
    made: Mapping[str, Any] = summary.get("reconciliation") or {}
    rows: list[dict[str, Any]] = []
    for name, meaning in _RECONCILED.items():
        entry = made.get(name)
        if entry is None or not any(entry.values()):
            rows.append({"name": meaning, "expected": None, "found": None, "agrees": None, "differences": []})
            continue
        differences = list(entry.get("differences") or [])
        expected, found = entry.get("expected"), entry.get("found")
        rows.append(
            {
                "name": meaning,
                "expected": expected,
                "found": found,
                "agrees": expected == found and not differences,
                "differences": [_in_words(difference) for difference in differences],
            }
        )
    return rows


def _in_words(difference: Any) -> str:
    if isinstance(difference, Mapping):
        return f"{difference['where']}: {difference['expected']} there, {difference['found']} accounted"
    return str(difference)
