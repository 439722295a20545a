"""An index of the patterns of one string attribute: which member can cover which, by its suffix or substring.

A member with a suffix or substring covers another only if this text is contained in every string that the
other allows (`router.predicates.covering.values.common_texts`). Comparing each text with each other takes
time that grows with the square of their number; instead, one *gram* of each text is looked up: its last 8
characters, or its last 4, 2 or 1 if it is shorter. The time of a query grows with the length of its texts.

Texts of more than 32 characters are not looked up: such a member counts as containing every text. It is then
compared with more others than it need be, but neither a query nor the index grows with its length.

Answers hold for a pair of members whichever was added first: "the gram of one is in a text of the other".
"""

from __future__ import annotations

from collections.abc import Iterable

from router.predicates.covering.bitset import Bits, bits_of, remove_from
from router.predicates.covering.values import ValueSet, common_texts

_SIZES = (8, 4, 2, 1)
#: Characters of the texts of one member whose grams are looked up: their index takes some 500 bytes for each.
LONGEST = 32
#: Members of a gram that are kept as numbers.
_FEW = 128


def gram_of(text: str) -> str:
    """The gram by which a suffix or substring (not empty) is looked up."""
    return next(text[-size:] for size in _SIZES if len(text) >= size)


class _Grams:
    """Members by gram.

    Most grams have few members. Their numbers take less time and memory than a set, which has a bit for each
    member of the index; a single number takes less than a list.
    """

    def __init__(self) -> None:
        self._few: dict[str, int | list[int]] = {}
        self._many: dict[str, Bits] = {}

    def add(self, grams: Iterable[str], number: int) -> None:
        """Adds a member with grams that differ."""
        for gram in grams:
            few = self._few.setdefault(gram, number)
            if few is number:
                continue
            if isinstance(few, int):
                self._few[gram] = [few, number]
            else:
                few.append(number)
                if len(few) == _FEW:
                    self._many[gram] = self._many.get(gram, 0) | bits_of(few)
                    del self._few[gram]

    def get(self, gram: str) -> Bits:
        """Returns the members with a gram."""
        few = self._few.get(gram, ())
        return self._many.get(gram, 0) | (1 << few if isinstance(few, int) else bits_of(few))

    def remove(self, gone: Bits) -> None:
        flags = gone.to_bytes(gone.bit_length() // 8 + 1, "little")
        size = 8 * len(flags)
        for gram, few in list(self._few.items()):
            numbers = [few] if isinstance(few, int) else few
            left = [each for each in numbers if each >= size or not flags[each >> 3] >> (each & 7) & 1]
            if left:
                self._few[gram] = left[0] if len(left) == 1 else left
            else:
                del self._few[gram]
        remove_from(self._many, gone)


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
        self._tails = _Grams()
        self._texts = _Grams()
        #: Members whose texts are not looked up.
        self._long: Bits = 0

    def add(self, values: ValueSet, bit: Bits) -> None:
        """Adds a member that allows these values."""
        number = bit.bit_length() - 1
        tail, texts = common_texts(values)
        self._tails.add([tail[-size:] for size in _SIZES if len(tail) >= size], number)
        if _are_long(texts):
            self._long |= bit
        else:
            self._texts.add(_grams(texts), number)
        if values.suffix:
            self._suffixed |= bit
            _put(self._suffixes, gram_of(values.suffix), bit)
        if values.substrings:
            self._containing |= bit
            _put(self._substrings, gram_of(values.substrings[0]), bit)

    def remove(self, gone: Bits) -> None:
        self._suffixed &= ~gone
        self._containing &= ~gone
        self._long &= ~gone
        for table in (self._suffixes, self._substrings):
            remove_from(table, gone)
        for grams in (self._tails, self._texts):
            grams.remove(gone)

    def requiring_others(self, values: ValueSet) -> Bits:
        """Returns members that require a suffix or substring which some of the values lack."""
        if not self._suffixed and not self._containing:
            return 0
        tail, texts = common_texts(values)
        suffixed: Bits = 0
        if self._suffixed:
            for size in _SIZES:
                suffixed |= self._suffixes.get(tail[-size:], 0)
        found = self._suffixed & ~suffixed
        if self._containing and not _are_long(texts):
            containing: Bits = 0
            for gram in _grams(texts):
                containing |= self._substrings.get(gram, 0)
            found |= self._containing & ~containing
        return found

    def with_patterns_of(self, values: ValueSet) -> Bits:
        """Returns the members all of whose strings can have the suffix and the first substring of the values.

        Args:
            values: strings with a suffix or substring.
        """
        found: Bits = -1
        if values.suffix:
            found &= self._tails.get(gram_of(values.suffix))
        if values.substrings:
            found &= self._texts.get(gram_of(values.substrings[0])) | self._long
        return found


def _are_long(texts: tuple[str, ...]) -> bool:
    return sum(map(len, texts)) > LONGEST


def _grams(texts: tuple[str, ...]) -> Iterable[str]:
    """All parts of the texts that have the size of a gram, each once, in an order that is always the same."""
    return {
        text[at : at + size]: None for text in texts for size in _SIZES for at in range(len(text) - size + 1)
    }


def _put(table: dict[str, Bits], key: str, bit: Bits) -> None:
    table[key] = table.get(key, 0) | bit
