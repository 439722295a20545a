"""A set with a bound: it forgets its oldest members, and knows in what order they were added."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Recent(Generic[T]):
    """The members that were added last.

    Args:
        capacity: at most so many.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._members: dict[T, int] = {}
        #: In the order of their additions: to search a dictionary for its oldest key takes as long as it has
        #: deleted ones.
        self._order: deque[T] = deque()
        #: Additions so far.
        self.added = 0

    def __contains__(self, member: T) -> bool:
        return member in self._members

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: T) -> bool:
        """Adds a member; returns False if it is a member already."""
        if member in self._members:
            return False
        if len(self._members) >= self._capacity:
            del self._members[self._order.popleft()]
        self.added += 1
        self._members[member] = self.added
        self._order.append(member)
        return True

    def number(self, member: T) -> int | None:
        """Returns the number of the addition of a member, from 1 on; None: it is no member."""
        return self._members.get(member)
