"""The head of an iterator, without taking it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lookahead(Generic[T]):
    """Values in their order, one at a time.

    Attributes:
        head: the next value; None: there is none. No value may be None.
    """

    __slots__ = ("_rest", "head")

    def __init__(self, values: Iterable[T]) -> None:
        self._rest = iter(values)
        self.head: T | None = next(self._rest, None)

    def take(self) -> T:
        """Returns the next value and moves on.

        Raises:
            LookupError: there is none.
        """
        head = self.head
        if head is None:
            raise LookupError("no value is left")
        self.head = next(self._rest, None)
        return head
