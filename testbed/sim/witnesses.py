"""Messages of a filter that sets of other filters leave out.

If several filters do not cover a filter together, it matches some message that none of them matches. No
set of filters that do not match this message covers the filter: an intersection of sets answers for it.
Messages are found by the removal of boxes (`router.predicates.covering.boxes`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TypeAlias

from router.predicates.covering import intervals as iv
from router.predicates.covering.bitset import Bits, numbers_in
from router.predicates.covering.intervals import Intervals, Key
from router.predicates.covering.normal import NormalFilter
from router.predicates.covering.pool import FilterPool

#: A key for each attribute; its text, if it is that of a string.
_Point: TypeAlias = dict[str, tuple[Key, str | None]]
#: Boxes that the search for a message removes at most.
_BOXES_MAX = 256
_SEPARATOR = "\x01"


@dataclass(slots=True)
class _Witness:
    """A message of a filter.

    Attributes:
        compared: the filters that were compared with the message.
        members: those of them that match it.
    """

    point: _Point
    compared: Bits = 0
    members: Bits = 0


class Witnesses:
    """The messages of each filter that were found last.

    Args:
        pool: of the filters.
        most: messages of a filter.
    """

    def __init__(self, pool: FilterPool, most: int) -> None:
        self._pool, self._most = pool, most
        self._witnesses: dict[int, list[_Witness]] = defaultdict(list)
        self._found = 0

    def clear(self) -> None:
        """Forgets all messages: numbers belong to other filters."""
        self._witnesses.clear()

    def rows(self, number: int) -> list[Bits]:
        """Returns for each message of a filter the filters that match it, of those that can cover the
        filter."""
        return [self._matching(number, witness) for witness in self._witnesses.get(number, ())]

    def find(self, number: int, others: Bits) -> tuple[int, int, Bits] | None:
        """Looks for a message of a filter that matches none of some others.

        Returns:
            The place of the message, the number of messages of the filter then, and the filters that match
            it. None: no message was found.
        """
        point = _left_out(self._pool.filter(number), [self._pool.filter(each) for each in numbers_in(others)])
        if point is None:
            return None
        known, witness = self._witnesses[number], _Witness(point)
        place = len(known)
        if place < self._most:
            known.append(witness)
        else:
            place = self._found % self._most
            known[place] = witness
            self._found += 1
        return place, len(known), self._matching(number, witness)

    def _matching(self, number: int, witness: _Witness) -> Bits:
        pool = self._pool
        possible = pool.compared(number).possible_covers
        if new := possible & ~witness.compared:
            items = pool.filter(number).items()
            matching, near = pool.containing(
                [(attribute, witness.point[attribute[0]][0]) for attribute, _ in items], new
            )
            witness.members |= matching
            for other in numbers_in(near):
                if _matches(pool.filter(other), witness.point):
                    witness.members |= 1 << other
            witness.compared |= possible
        return witness.members


def _matches(filter_: NormalFilter, point: _Point) -> bool:
    for name, values in filter_.attributes.items():
        key, text = point[name]
        if not iv.contains(values.intervals, key):
            return False
        if text is not None and not values.admits(text):
            return False
    return True


def _left_out(filter_: NormalFilter, others: list[NormalFilter]) -> _Point | None:
    """A message of a filter that matches none of the others, which constrain only its attributes."""
    waiting: list[dict[str, Intervals]] = [
        {name: values.intervals for name, values in filter_.attributes.items()}
    ]
    for _ in range(_BOXES_MAX):
        if not waiting:
            return None
        box = waiting.pop()
        point = _lowest(filter_, box)
        if point is None:
            continue
        other = next((other for other in others if _matches(other, point)), None)
        if other is None:
            return point
        for name, values in other.attributes.items():
            if outside := iv.difference(box[name], values.intervals):
                waiting.append({**box, name: outside})
                box[name] = iv.intersection(box[name], values.intervals)
    return None


def _lowest(filter_: NormalFilter, box: dict[str, Intervals]) -> _Point | None:
    """A message of the filter at the lowest corner of a box, or close to it; None: none was found."""
    point: _Point = {}
    for name, values in filter_.attributes.items():
        low, _ = box[name][0]
        if not isinstance(low, bytes):
            point[name] = low, None
            continue
        try:
            text: str | None = low.decode()
        except UnicodeDecodeError:
            text = None
        if not values.is_plain:
            if text is None:
                return None
            if not values.admits(text):
                # The separator occurs in hardly any filter.
                text = _SEPARATOR.join((text, *values.substrings, values.suffix))
            low = text.encode()
            if not iv.contains(box[name], low):
                return None
        point[name] = low, text
    return point
