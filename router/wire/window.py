"""Replay windows: which numbers of a sender have come.

As in RFC 6479, a window is the greatest number that was accepted, and which of the `WINDOW` numbers up to it
were, as bits: bit i is the number greatest - i.
"""

from __future__ import annotations

#: Numbers that are remembered: so far may frames of a stream overtake each other.
WINDOW = 1024
_MASK = (1 << WINDOW) - 1


def advanced(greatest: int, bits: int, number: int) -> tuple[int, int] | None:
    """The greatest number and the bits of a window that takes a number; None: it came, or is too old."""
    ahead = number - greatest
    if ahead > 0:
        return number, (bits << ahead & _MASK if ahead < WINDOW else 0) | 1
    if -ahead >= WINDOW or bits >> -ahead & 1:
        return None
    return greatest, bits | 1 << -ahead
