"""The last number of each issuer, which distinguishes old frames from new frames.

A number is compared with the last one only for as long as an older frame can still be under way. One frame
with the greatest of all numbers, forged or by a defect, hence shuts its issuer out for that time, and not for
ever.
"""

from __future__ import annotations

#: Seconds in which every frame has arrived or was lost.
LIFETIME_S = 60.0


class LastNumbers:
    """The last number of each issuer.

    Args:
        lifetime_s: how long a number counts.
    """

    def __init__(self, lifetime_s: float = LIFETIME_S) -> None:
        self._lifetime_s = lifetime_s
        #: Issuer -> its last number, and until when it counts.
        self._last: dict[int, tuple[int, float]] = {}

    def is_new(self, issuer: int, number: int, now: float) -> bool:
        """Whether the number is above the last one, or the last one is too old to count."""
        last, until = self._last.get(issuer, (-1, now))
        return number > last or now >= until

    def take(self, issuer: int, number: int, now: float) -> None:
        """Makes a number the last one."""
        self._last[issuer] = number, now + self._lifetime_s

    def last(self, issuer: int) -> int:
        """The last number of an issuer, whatever its age; -1: none."""
        return self._last.get(issuer, (-1, 0.0))[0]

    def forget(self, issuer: int) -> None:
        self._last.pop(issuer, None)
