"""Deadlines: times in seconds, or None where nothing is due."""

from __future__ import annotations


def earlier(a: float | None, b: float | None) -> float | None:
    """The earlier of two deadlines."""
    if a is None:
        return b
    return a if b is None or a <= b else b
