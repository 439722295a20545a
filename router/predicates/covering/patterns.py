"""An index of the patterns of one string attribute: which member can cover which, by its suffix or substring.

A member with a suffix or substring covers another only if this text is contained in every string that the
other allows (`router.predicates.covering.values.common_texts`). Comparing each text with each other takes
time that grows with the square of their number; instead, one *gram* of each text is looked up: its last 8
characters, or its last 4, 2 or 1 if it is shorter. The time of a query grows with the length of its texts.

Answers hold for a pair of members whichever was added first: "the gram of one is in a text of the other".
"""

from __future__ import annotations

from collections.abc import Iterator

from router.predicates.covering.bitset import Bits, numbers_in, remove_from
from router.predicates.covering.values import ValueSet, common_texts

_SIZES = (8, 4, 2, 1)
#: Members whose texts have more grams are found by hashes of their grams, and then searched one by one: the
#: index of all grams of a text takes some 400 bytes for each character.
_MANY = 1_024
#: Values of these hashes. A text of 300 characters has a given one with a probability of a tenth.
_HASHES = 8_192


def gram_of(text: str) -> str:
    """The gram by which a suffix or substring (not empty) is looked up."""
    return next(text[-size:] for size in _SIZES if len(text) >= size)


class PatternIndex:
    """Members by the patterns that they require, and by the texts that all their strings contain."""

    def __init__(self) -> None:
        #: Members that require a suffix or substring, in all, and by the gram of the suffix or of the first
        #: substring: one substring is enough to exclude most members.
        self._suffixed: Bits = 0
        self._containing: Bits = 0
        self._suffixes: dict[str, Bits] = {}
        self._substrings: dict[str, Bits] = {}
        #: Members by grams of what all their strings end with, and of what all their strings contain.
        self._tails: dict[str, Bits] = {}
        self._texts: dict[str, Bits] = {}
        #: The texts of members with long ones, by number; the members by hashes of their grams.
        self._long: dict[int, tuple[str, ...]] = {}
        self._hashes: dict[int, Bits] = {}
        #: Members that `_tails` and `_texts` lack, as long as no member requires a suffix or substring.
        self._waiting: list[tuple[Bits, ValueSet]] = []

    def add(self, values: ValueSet, bit: Bits) -> None:
        """Adds a member that allows these values."""
        self._waiting.append((bit, values))
        if self._suffixed or self._containing:
            self._index_waiting()
        if values.suffix:
            self._suffixed |= bit
            _put(self._suffixes, gram_of(values.suffix), bit)
        if values.substrings:
            self._containing |= bit
            _put(self._substrings, gram_of(values.substrings[0]), bit)

    def remove(self, gone: Bits) -> Iterator[None]:
        """Removes members in steps, between which others may be added."""
        self._suffixed &= ~gone
        self._containing &= ~gone
        self._waiting = [(bit, values) for bit, values in self._waiting if not bit & gone]
        for table in (self._suffixes, self._substrings, self._tails, self._texts):
            yield from remove_from(table, gone)
        yield from remove_from(self._hashes, gone)
        # Last: a member of `_hashes` is looked up in it, also between two steps.
        self._long = {number: texts for number, texts in self._long.items() if not gone >> number & 1}

    def requiring_others(self, values: ValueSet) -> Bits:
        """Returns the members that require a suffix or substring which some of the values lack."""
        if not self._suffixed and not self._containing:
            return 0
        tail, texts = common_texts(values)
        suffixed: Bits = 0
        if self._suffixed:
            for size in _SIZES:
                suffixed |= self._suffixes.get(tail[-size:], 0)
        containing: Bits = 0
        if self._containing:
            for gram in _grams(texts):
                containing |= self._substrings.get(gram, 0)
        return self._suffixed & ~suffixed | self._containing & ~containing

    def with_patterns_of(self, values: ValueSet) -> Bits:
        """Returns the members all of whose strings have the suffix and the first substring of the values.

        Args:
            values: strings with a suffix or substring.
        """
        self._index_waiting()
        found: Bits = -1
        if values.suffix:
            found &= self._tails.get(gram_of(values.suffix), 0)
        if values.substrings:
            gram = gram_of(values.substrings[0])
            containing = self._texts.get(gram, 0)
            for number in numbers_in(self._hashes.get(hash(gram) % _HASHES, 0) & found):
                for text in self._long[number]:
                    if gram in text:
                        containing |= 1 << number
                        break
            found &= containing
        return found

    def _index_waiting(self) -> None:
        for bit, values in self._waiting:
            tail, texts = common_texts(values)
            for gram in {tail[-size:] for size in _SIZES if len(tail) >= size}:
                _put(self._tails, gram, bit)
            grams = _grams(texts)
            if len(grams) > _MANY:
                self._long[bit.bit_length() - 1] = texts
                for hashed in {hash(gram) % _HASHES for gram in grams}:
                    self._hashes[hashed] = self._hashes.get(hashed, 0) | bit
            else:
                for gram in grams:
                    _put(self._texts, gram, bit)
        self._waiting.clear()


def _grams(texts: tuple[str, ...]) -> set[str]:
    """All parts of the texts that have the size of a gram."""
    return {text[at : at + size] for text in texts for size in _SIZES for at in range(len(text) - size + 1)}


def _put(table: dict[str, Bits], key: str, bit: Bits) -> None:
    table[key] = table.get(key, 0) | bit
