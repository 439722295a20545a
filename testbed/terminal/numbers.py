"""Text of numbers and verdicts, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

#: Text of a value that a summary does not have.
ABSENT = "–"
_RECONCILED = {
    "tshark": "captures, counted by tshark's reader",
    "captures": "captures' own counters",
    "tunnel": "sending ends of links between machines",
    "routers": "routers' own counters",
    "ovs": "Open vSwitch port counters",
    "applications": "records of applications",
}


def count(value: Any) -> str:
    """Formats a number, rounded to an integer, with spaces between thousands."""
    return ABSENT if value is None else f"{value:,.0f}".replace(",", " ")


def significant(value: Any, digits: int = 3) -> str:
    """Formats with `digits` significant digits, with all digits before the point and without an exponent."""
    if value is None:
        return ABSENT
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    return count(value) if abs(value) >= 1 else f"{Decimal(text):f}"


def message(source: int, seq: int) -> str:
    """Formats the name of a message, such as 3:17: the source and its router's count from 1.

    The count is the low half of the sequence number, the incarnation of the router the high half
    (`router.protocol.core.router.Router`).
    """
    return f"{source}:{seq & 0xFFFFFFFF}"


def clock(now_s: float, duration_s: float) -> str:
    """Formats the progress of an experiment, such as "12 of 30 s"; an experiment of 2.5 s ends at "2.5 of 2.5
    s"."""
    places = 0 if float(duration_s).is_integer() else 1
    return f"{now_s:.{places}f} of {plain(duration_s)} s"


def counted(number: int, name: str) -> str:
    """Formats a number of things: "1 sender", "2 senders"."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def plain(value: Any) -> str:
    """Formats a number of the configuration, such as a time scale, with up to six digits."""
    return significant(value, 6)


def seconds(value: Any) -> str:
    return ABSENT if value is None else f"{significant(value)} s"


def milliseconds(value: Any) -> str:
    return ABSENT if value is None else f"{significant(1000 * value)} ms"


def ratio(value: Any) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def share(part: Any, whole: Any) -> str:
    """Formats `part` of `whole` in per cent with two digits, or as the dash if undefined."""
    return ABSENT if part is None or not whole else f"{significant(100 * part / whole, 2)} %"


def verdict(summary: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns "holds", "fails", "invalid" or "not judged", and the reasons."""
    return str(summary.get("verdict") or "not judged"), [str(r) for r in summary.get("verdict_reasons") or []]


def undecided(summary: Mapping[str, Any]) -> str:
    """Returns a sentence on the expected deliveries that the verdict leaves out, and why; empty: none."""
    expected, certain = summary.get("deliveries_expected"), summary.get("deliveries_decided")
    if not expected or certain is None or expected == certain:
        return ""
    text = f"{share(expected - certain, expected)} of the {count(expected)} expected deliveries are undecided"
    text += ": sent before convergence, or within oracle.in_flight_window_s"
    if (window_s := summary.get("in_flight_window_s")) is not None:
        scaled = window_s * (summary.get("time_scale") or 1)
        text += f" ({seconds(window_s)} of wall time, {seconds(scaled)} of the experiment)"
    return f"{text} of a change"


def frames_not_taken(summary: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each receiver, sender and reason of frames that were dropped for what they are,
    and do not fail the verdict; those that a link which duplicates frames makes come last."""
    keys = ("frames_dropped_by_switches", "frames_rejected", "frames_replayed")
    texts = [str(text) for key in keys for text in summary.get(key) or []]
    return sorted(texts, key=lambda text: text.endswith(": replayed"))


def by_type(numbers: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Formats numbers by frame type, most frequent type first."""
    return sorted((numbers or {}).items(), key=lambda pair: -pair[1])


def reconciliations(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each reconciliation: its source, its total, the accounting's total, and
    the differences.

    `expected` is the other source's total, `found` the accounting's; `agrees` is None for a reconciliation
    that was not made or has no data (a run without captures).
    """
    made: Mapping[str, Any] = summary.get("reconciliation") or {}
    no_tshark = (summary.get("rests_on") or {}).get("no_tshark")
    rows: list[dict[str, Any]] = []
    for name, meaning in _RECONCILED.items():
        if name == "tunnel" and name not in made:
            continue  # of one machine
        entry = made.get(name) or {}
        known = any(entry.values())
        expected, found = (entry.get(key) if known else None for key in ("expected", "found"))
        differences = [
            f"{each['where']}: {each['expected']} there, {each['found']} accounted"
            for each in entry.get("differences") or []
        ]
        agrees = expected == found and not differences if known else None
        row = {"name": meaning, "expected": expected, "found": found, "agrees": agrees}
        row["why"] = f": {no_tshark}" if no_tshark and name == "tshark" else ""
        rows.append(row | {"differences": differences})
    return rows
