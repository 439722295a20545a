"""Values by their deadlines, earliest first.

Most subscriptions have equal lifetimes: their deadlines come nearly in order, and far ahead. So they are kept
in spans of a second, and a span is sorted when it is the next. A heap would compare each of them with many
others, spread over the memory, when it is taken.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from heapq import heappop, heappush
from math import floor
from typing import Generic, TypeVar

T = TypeVar("T")

#: `Deadlines` of so few values are not searched for those that are cancelled or gone.
FEW = 64


class Deadlines(Generic[T]):
    """Values, each with a deadline; of equal deadlines, the one that was added first is the earlier."""

    def __init__(self) -> None:
        #: The negative deadlines and numbers of the earliest span, with the values: the earliest is the last.
        self._first: list[tuple[float, int, T]] = []
        #: The second of the earliest span. All others are later.
        self._second = 0
        #: Second -> its span, not sorted; and the seconds, a heap.
        self._spans: dict[int, list[tuple[float, int, T]]] = {}
        self._seconds: list[int] = []
        self._added = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, deadline: float, value: T) -> None:
        """Adds a value; the deadline is in seconds."""
        self._added += 1
        self._count += 1
        entry = -deadline, -self._added, value
        second = floor(deadline)
        if self._first and second <= self._second:
            insort(self._first, entry)
            return
        span = self._spans.get(second)
        if span is None:
            span = self._spans[second] = []
            heappush(self._seconds, second)
        span.append(entry)

    def next(self) -> float | None:
        """Returns the earliest deadline; None: there is no value."""
        while not self._first:
            if not self._seconds:
                return None
            self._second = heappop(self._seconds)
            self._first = self._spans.pop(self._second)
            self._first.sort()
        return -self._first[-1][0]

    def peek(self) -> T:
        """Returns the value of the earliest deadline, which `next` has returned."""
        return self._first[-1][2]

    def take(self) -> T:
        """Takes the value of the earliest deadline.

        Raises:
            IndexError: there is no value.
        """
        if not self._first:
            self.next()
        value = self._first.pop()[2]
        self._count -= 1
        return value

    def keep_only(self, wanted: Callable[[T], bool]) -> None:
        """Forgets the other values."""
        for span in (self._first, *self._spans.values()):
            span[:] = [each for each in span if wanted(each[2])]
        self._count = len(self._first) + sum(map(len, self._spans.values()))
