"""Encodings: how filters and messages become sets of strings, with p(m) => S_p is a subset of S_m.

Source: slides, part IV, "Predicate Encoding" and "Message Encoding". An encoding is known by name in
experiment and key files, and by number in frames.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import ClassVar

from router.predicates import (
    INTEGER_MAX,
    INTEGER_MIN,
    Constraint,
    Filter,
    Message,
    Operator,
    Type,
    Value,
    type_of,
)
from router.registry import Registry

_INTEGER = struct.Struct("!q")
_DOUBLE = struct.Struct("!d")

# The first byte of a canonical string: unambiguous bytes for a statement about an attribute. The slides
# write `name=value` and `∃name`. A canonical string also has the type (an integer never matches a
# constraint on a double) and the length of the name, so that no two statements have equal strings: u8 kind,
# u8 type, u8 length of the name, name, and a part that depends on the kind.
EQUAL, EXISTS, BUCKET, PREFIX, SUFFIX, GRAM = b"=EBPSG"


def statement(kind: int, type_: Type, name: str, rest: bytes = b"") -> bytes:
    """The canonical string of a statement of this kind about the attribute of this name and type."""
    return _head(kind, type_, name) + rest


@lru_cache(4096)
def _head(kind: int, type_: Type, name: str) -> bytes:
    encoded = name.encode()
    return bytes((kind, type_, len(encoded))) + encoded


def equal(name: str, value: Value) -> bytes:
    """The attribute has this value (the slides' `name=value`)."""
    return statement(EQUAL, type_of(value), name, value_bytes(value))


def exists(name: str, type_: Type) -> bytes:
    """The attribute exists, with this type (the slides' `∃name`)."""
    return statement(EXISTS, type_, name)


def value_bytes(value: Value) -> bytes:
    """The bytes of a value, as on the wire; equal values have the same bytes: -0.0 is written as 0.0."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, int):
        return _INTEGER.pack(value)
    return _DOUBLE.pack(value + 0.0)


class Encoding(ABC):
    """Sets of strings of filters and messages.

    Attributes:
        number: its number in frames, 1 to 255.
        doc: a sentence about it.
    """

    number: ClassVar[int]
    doc: ClassVar[str]

    @abstractmethod
    def filter_strings(self, filter_: Filter) -> frozenset[bytes]:
        """S_f: a subset of the strings of every message that matches the filter."""

    @abstractmethod
    def message_strings(self, message: Message) -> frozenset[bytes]:
        """S_m."""


class Slides(Encoding):
    """Equality and existence, as on the slides.

    `name = value` is the statement of equality; every other operator is the statement that the attribute
    exists. An attribute of a message adds both.
    """

    number = 1
    doc = "Equality and existence: every operator but `=` becomes the existence of the attribute."

    def filter_strings(self, filter_: Filter) -> frozenset[bytes]:
        return frozenset(map(_slides_string, filter_))

    def message_strings(self, message: Message) -> frozenset[bytes]:
        equalities = {equal(name, value) for name, value in message.items()}
        return frozenset(equalities | {exists(name, type_) for name, type_, _ in message.typed()})


def _slides_string(constraint: Constraint) -> bytes:
    if constraint.operator is Operator.EQ:
        assert constraint.value is not None
        return equal(constraint.name, constraint.value)
    return exists(constraint.name, constraint.type)


#: Levels of buckets: 2, 4, ... 2^6 buckets of the range.
LEVELS = 6
#: Longest prefix and suffix, bytes, and the length of a gram.
AFFIX_MAX = 4
GRAM_BYTES = 3
#: The range whose buckets the levels divide; values beyond an end are in the bucket at that end.
RANGE_LOW, RANGE_HIGH = 0.0, 1000.0

_LESS = frozenset({Operator.LT, Operator.LE})
_GREATER = frozenset({Operator.GT, Operator.GE})


class Ranges(Encoding):
    """Equality and existence, and weaker statements for order and patterns.

    - Integers and doubles: the range is divided into 2, 4, ... 2^levels buckets. A message adds the bucket of
      its value at each level. The constraints of order on one attribute add the smallest bucket that contains
      every value that satisfies all of them; existence, if only the whole range does.
    - Prefix and suffix: a message adds the first and the last q bytes of a string, for each q up to `affix`;
      a constraint adds those of its greatest q.
    - Substring: a message adds each 3 bytes in a row; a constraint adds those of its own value.
    - `!=`, `any`, order on strings and booleans, and a pattern too short for a statement: existence.

    Args:
        low, high: the range of the values of numbers that constraints divide.
        levels: levels of buckets.
        affix: longest prefix and suffix, bytes of UTF-8.

    Raises:
        ValueError: the range is empty or not finite, or a number of levels or bytes is not positive.
    """

    number = 2
    doc = "Also buckets of the range of numbers, prefixes, suffixes, and substrings of three bytes."

    def __init__(
        self, low: float = RANGE_LOW, high: float = RANGE_HIGH, levels: int = LEVELS, affix: int = AFFIX_MAX
    ) -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
            raise ValueError(f"range {low} to {high}; expected two finite numbers, the lower first")
        if not 1 <= levels <= 32 or not 1 <= affix <= 255:
            raise ValueError(f"{levels} levels and affixes of {affix} bytes; expected 1 to 32 and 1 to 255")
        self._low, self._width = low, high - low
        self._levels = levels
        self._affix = affix

    def filter_strings(self, filter_: Filter) -> frozenset[bytes]:
        found: set[bytes] = set()
        bounds: dict[tuple[str, Type], tuple[float, float]] = {}
        for constraint in filter_:
            attribute = constraint.name, constraint.type
            if constraint.type in (Type.INTEGER, Type.DOUBLE) and constraint.operator in _LESS | _GREATER:
                low, high = bounds.get(attribute, (-math.inf, math.inf))
                bound = _closed(constraint)
                if constraint.operator in _LESS:
                    high = min(high, bound)
                else:
                    low = max(low, bound)
                bounds[attribute] = low, high
            else:
                found.update(self._constraint_strings(constraint))
        for (name, type_), (low, high) in bounds.items():
            found.add(self._bucket_of_interval(name, type_, low, high))
        return frozenset(found)

    def message_strings(self, message: Message) -> frozenset[bytes]:
        found: set[bytes] = set()
        for name, type_, value in message.typed():
            found.update((equal(name, value), exists(name, type_)))
            if type_ is Type.STRING:
                assert isinstance(value, str)
                found.update(self._patterns(name, value.encode()))
            elif type_ is not Type.BOOLEAN:
                found.update(self._buckets(name, type_, self._cell(float(value))))
        return frozenset(found)

    def _constraint_strings(self, constraint: Constraint) -> Iterable[bytes]:
        name, operator, value = constraint.name, constraint.operator, constraint.value
        if isinstance(value, str) and value:
            pattern = value.encode()
            if operator is Operator.PREFIX:
                return (statement(PREFIX, Type.STRING, name, pattern[: self._affix]),)
            if operator is Operator.SUFFIX:
                return (statement(SUFFIX, Type.STRING, name, pattern[-self._affix :]),)
            if operator is Operator.SUBSTRING and len(pattern) >= GRAM_BYTES:
                return _grams(name, pattern)
        return (_slides_string(constraint),)

    def _patterns(self, name: str, value: bytes) -> Iterator[bytes]:
        for length in range(1, min(self._affix, len(value)) + 1):
            yield statement(PREFIX, Type.STRING, name, value[:length])
            yield statement(SUFFIX, Type.STRING, name, value[-length:])
        yield from _grams(name, value)

    def _cell(self, value: float) -> int:
        """The bucket of a value at the last level; it never decreases as the value grows."""
        cells = 1 << self._levels
        share = (value - self._low) / self._width
        if share <= 0.0:
            return 0
        return cells - 1 if share >= 1.0 else min(int(share * cells), cells - 1)

    def _buckets(self, name: str, type_: Type, cell: int) -> Iterator[bytes]:
        for level in range(1, self._levels + 1):
            yield _bucket(name, type_, level, cell >> (self._levels - level))

    def _bucket_of_interval(self, name: str, type_: Type, low: float, high: float) -> bytes:
        first, last = self._cell(low), self._cell(high)
        if first > last:
            # No value satisfies the constraints; any statement will do.
            last = first
        shared = self._levels - (first ^ last).bit_length()
        if not shared:
            return exists(name, type_)
        return _bucket(name, type_, shared, first >> (self._levels - shared))


def _closed(constraint: Constraint) -> float:
    """The end of the values that satisfy a constraint of order, which belongs to them or lies beyond them."""
    value: Value | None = constraint.value
    assert isinstance(value, int | float)
    step = {Operator.LT: -1, Operator.GT: 1}.get(constraint.operator, 0)
    if constraint.type is Type.INTEGER:
        return float(min(max(int(value) + step, INTEGER_MIN), INTEGER_MAX))
    return math.nextafter(value, step * math.inf) if step else float(value)


def _bucket(name: str, type_: Type, level: int, index: int) -> bytes:
    return statement(BUCKET, type_, name, bytes((level,)) + index.to_bytes(4, "big"))


def _grams(name: str, value: bytes) -> list[bytes]:
    return [
        statement(GRAM, Type.STRING, name, value[start : start + GRAM_BYTES])
        for start in range(len(value) - GRAM_BYTES + 1)
    ]


ENCODINGS: Registry[type[Encoding]] = Registry("encoding")
ENCODINGS.register("slides", Slides, Slides.doc)
ENCODINGS.register("ranges", Ranges, Ranges.doc)
DEFAULT_ENCODING = "slides"
