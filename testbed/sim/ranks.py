"""Value sets of filters for compiled code: the keys of each attribute, by their rank.

Compiled code compares keys of an attribute, which are numbers of any size or texts, as their ranks among all
keys at which some interval begins or ends. A filter is a record of numbers (int64): how many attributes it
constrains, and of each attribute its number, the address of its pattern (0: it has neither suffix nor
substrings), the number of intervals, and the ranks of their ends.

A pattern is a suffix with substrings. From each rank on, until the next, there is a text of the pattern, if
the key of the rank followed by substrings and suffix is such a text; a separator between them keeps other
patterns from matching across. A pattern is a row of numbers: `testbed.sim.layout.NUMBER_OF_PATTERN` and the
columns that follow.
"""

from __future__ import annotations

from itertools import chain
from typing import TypeAlias

import numpy as np

from router.native.memory import address_of
from router.predicates.covering.bitset import Bits, numbers_in
from router.predicates.covering.intervals import Key
from router.predicates.covering.normal import Attribute, NormalFilter
from router.predicates.covering.pool import FilterPool
from testbed.sim.growth import doubled
from testbed.sim.layout import EVERY_TEXT, NO_RECORD, NO_TEXT, SOME_TEXTS

#: A suffix and substrings.
_Parts: TypeAlias = tuple[str, tuple[str, ...]]
#: All ranks are computed a second time if one of so many filters has a key without a rank.
_UNRANKED = 4
_SEPARATOR = "\x01"


class Ranks:
    """The records of the filters of a pool.

    Args:
        pool: of the filters.

    Attributes:
        places: int32 by number of a filter: where its record begins in `records`; `NO_RECORD`: it has none.
        records: int64.
    """

    def __init__(self, pool: FilterPool) -> None:
        self._pool = pool
        self.places = np.zeros(0, np.int32)
        self.records = np.zeros(1 << 12, np.int64)
        self._length = 0
        self._ranks: dict[Attribute, dict[Key, int]] = {}
        self._numbers: dict[Attribute, int] = {}
        self._patterns: dict[tuple[Attribute, _Parts], _Pattern] = {}
        self._ranked: Bits = 0
        self._unranked: Bits = 0

    @property
    def attributes(self) -> int:
        """The number of attributes."""
        return len(self._numbers)

    def fit(self, filters: int) -> None:
        """Makes room for so many filters."""
        places = np.full(filters, NO_RECORD, np.int32)
        places[: len(self.places)] = self.places
        self.places = places

    def clear(self) -> None:
        """Forgets all records: numbers belong to other filters."""
        self._ranked = self._unranked = 0
        self._length = 0
        self.places[:] = NO_RECORD

    def take(self, members: Bits) -> bool:
        """Records filters, for which there is room.

        Returns:
            Whether there was any without a record.
        """
        if not (new := members & ~(self._ranked | self._unranked)):
            return False
        self._record(new)
        if self._unranked.bit_count() > self._ranked.bit_count() // _UNRANKED:
            self._rank(self._ranked | self._unranked)
        return True

    def _rank(self, members: Bits) -> None:
        """Computes the ranks of all keys of some filters, and their records."""
        keys: dict[Attribute, set[Key]] = {}
        parts: dict[Attribute, set[_Parts]] = {}
        for number in numbers_in(members):
            for attribute, values in self._pool.filter(number).items():
                keys.setdefault(attribute, set()).update(chain.from_iterable(values.intervals))
                if not values.is_plain:
                    parts.setdefault(attribute, set()).add((values.suffix, values.substrings))
        self.clear()
        self._ranks = {
            attribute: {key: rank for rank, key in enumerate(sorted(known))}
            for attribute, known in keys.items()
        }
        for attribute in keys:
            self._numbers.setdefault(attribute, len(self._numbers))
        self._patterns = {
            (attribute, each): _Pattern(number, each, list(self._ranks[attribute]), sorted(known))
            for attribute, known in parts.items()
            for number, each in enumerate(sorted(known))
        }
        self._record(members)

    def _record(self, members: Bits) -> None:
        for number in numbers_in(members):
            record = self._of(self._pool.filter(number))
            if record is None:
                self._unranked |= 1 << number
                continue
            self._ranked |= 1 << number
            end = self._length + len(record)
            while end > len(self.records):
                self.records = doubled(self.records)
            self.records[self._length : end] = record
            self.places[number] = self._length
            self._length = end

    def _of(self, filter_: NormalFilter) -> list[int] | None:
        """The record of a filter; None: a key has no rank, or a pattern is not known."""
        record = [len(filter_.attributes)]
        for attribute, values in filter_.items():
            ranks, address = self._ranks.get(attribute), 0
            if ranks is None:
                return None
            if not values.is_plain:
                pattern = self._patterns.get((attribute, (values.suffix, values.substrings)))
                if pattern is None:
                    return None
                address = address_of(pattern.row)
            record += self._numbers[attribute], address, len(values.intervals)
            for key in chain.from_iterable(values.intervals):
                end = ranks.get(key)
                if end is None:
                    return None
                record.append(end)
        return record


class _Pattern:
    """A suffix and substrings, beside the keys and the other patterns of an attribute.

    Args:
        number: among the patterns of the attribute.
        parts: the suffix and the substrings.
        keys: of the attribute, in order.
        others: all patterns of the attribute, by number.

    Attributes:
        row: int64, see `testbed.sim.layout.NUMBER_OF_PATTERN`.
    """

    def __init__(self, number: int, parts: _Parts, keys: list[bytes], others: list[_Parts]) -> None:
        suffix, substrings = parts
        texts = [_decoded(key) for key in keys]
        ends = _SEPARATOR.join(("", *substrings, suffix))
        encoded = ends.encode()
        has_text = [
            text is not None and key + encoded < after
            for text, key, after in zip(texts, keys, (*keys[1:], keys[-1]), strict=True)
        ]
        matches = [text is None or _has(text, parts) for text in texts]
        with_part = [text is None or any(part in text for part in substrings) for text in texts]
        found = [_found_in(ends, each) for each in others]
        self._bytes = [np.array(each, np.uint8) for each in (has_text, matches, with_part, found)]
        self.row = np.array([number, *map(address_of, self._bytes)], np.int64)


def _found_in(ends: str, parts: _Parts) -> int:
    """Whether texts that end so have the suffix and the substrings of a pattern."""
    suffix, substrings = parts
    if _SEPARATOR in suffix or any(_SEPARATOR in part for part in substrings):
        # It may match across the separator: such texts count as its own.
        return EVERY_TEXT
    if not ends.endswith(suffix):
        return NO_TEXT
    return EVERY_TEXT if all(part in ends for part in substrings) else SOME_TEXTS


def _has(text: str, parts: _Parts) -> bool:
    suffix, substrings = parts
    return text.endswith(suffix) and all(part in text for part in substrings)


def _decoded(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
