"""Replay windows: which numbers of a sender have come.

As in RFC 6479, a window is the greatest number that was accepted, and which of the numbers up to it were, as
bits: bit i is the number greatest - i.
"""

from __future__ import annotations

#: Numbers of a hop that are remembered: so far may the frames of a neighbour overtake each other.
WINDOW = 1024


def advanced(greatest: int, bits: int, number: int, size: int = WINDOW) -> tuple[int, int] | None:
    """The greatest number and the bits of a window that takes a number; None: it came, or is too old.

    Args:
        size: numbers that are remembered.
    """
    ahead = number - greatest
    if ahead > 0:
        return number, (bits << ahead & (1 << size) - 1 if ahead < size else 0) | 1
    if -ahead >= size or bits >> -ahead & 1:
        return None
    return greatest, bits | 1 << -ahead
