"""The filters that a value of an attribute satisfies, remembered by value.

Messages of a workload have few different values: most are asked about again before the filters of their
attribute change.
"""

from __future__ import annotations

from router.predicates.covering.bitset import Bits
from router.predicates.covering.intervals import Key
from router.predicates.covering.normal import Attribute

#: Bytes that remembered sets take at most, and bytes beyond the set itself.
_BYTES_MAX, _ENTRY_BYTES = 1 << 24, 160
#: Longer texts are not remembered.
_KEY_MAX = 64


class ValueMatches:
    """Sets of members by attribute and key of a value; they take a bounded amount of memory."""

    def __init__(self) -> None:
        self._known: dict[Attribute, dict[Key, Bits]] = {}
        self._bytes = 0

    def get(self, attribute: Attribute, key: Key) -> Bits | None:
        """Returns the members, if they are remembered."""
        known = self._known.get(attribute)
        return None if known is None else known.get(key)

    def keep(self, attribute: Attribute, key: Key, members: Bits) -> None:
        """Remembers the members that constrain an attribute and allow a value."""
        if isinstance(key, bytes) and len(key) > _KEY_MAX:
            return
        self._bytes += _ENTRY_BYTES + members.bit_length() // 8
        if self._bytes > _BYTES_MAX:
            self._known.clear()
            self._bytes = _ENTRY_BYTES + members.bit_length() // 8
        self._known.setdefault(attribute, {})[key] = members

    def forget(self, attribute: Attribute) -> None:
        """Forgets an attribute: a further member constrains it."""
        if (known := self._known.pop(attribute, None)) is not None:
            self._bytes -= sum(_ENTRY_BYTES + members.bit_length() // 8 for members in known.values())
