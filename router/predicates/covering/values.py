"""The set of values that constraints allow for one attribute, and exact inclusion between such sets.

Integers, doubles and booleans are finite and ordered: each value maps to an `int` key. Doubles map to their
rank among the finite doubles, so ``x > 3 and x < 5`` on integers is ``x = 4``, and no double lies between
two neighbours. Strings map to their UTF-8 bytes; the string after s is s followed by a zero byte. Suffix and
substring constraints are not intervals and are stored beside the intervals.

Inclusion is exact for every type, with one exception: if a string's bounds have more than 2,000 bytes and
suffixes or substrings are involved, the answer is "no". No conclusion is drawn from the wire format's limit
on the length of a string.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from router.predicates import INTEGER_MAX, INTEGER_MIN, Constraint, Operator, Type, Value
from router.predicates.covering import intervals as iv
from router.predicates.covering.intervals import TOP, Intervals, Key, Parts, after_cone, take_apart

_DOUBLE_TOP = struct.unpack(">q", struct.pack(">d", 1.7976931348623157e308))[0]
DOMAINS: dict[Type, tuple[Key, Key]] = {
    Type.STRING: (b"", TOP),
    Type.INTEGER: (INTEGER_MIN, INTEGER_MAX + 1),
    Type.DOUBLE: (-_DOUBLE_TOP, _DOUBLE_TOP + 1),
    Type.BOOLEAN: (0, 2),
}
_MAGNITUDE = 2**63 - 1
#: A lower bound with more characters is not searched for a prefix that is equivalent to two bounds.
_PREFIX_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Values of one type: those in the intervals that have the suffix and all of the substrings.

    `value_set` makes sets in a normal form: a set is empty exactly when `intervals` is empty, and two sets
    without suffix and substrings are equal exactly when they contain the same values.
    """

    type: Type
    intervals: Intervals
    suffix: str = ""
    substrings: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the set has neither suffix nor substrings."""
        return not self.suffix and not self.substrings

    def contains(self, value: Value, key: Key) -> bool:
        """Whether a value of this type, whose key is `key`, is in the set."""
        for low, high in self.intervals:
            if low <= key < high:
                return not isinstance(value, str) or self.admits(value)
        return False

    def admits(self, text: str) -> bool:
        """Whether a string has the suffix and the substrings."""
        return text.endswith(self.suffix) and all(part in text for part in self.substrings)


def value_set(kind: Type, constraints: Iterable[Constraint]) -> ValueSet:
    """Returns the values of type `kind` that satisfy all of the constraints.

    Takes n log n steps for n constraints, apart from substrings (`_without_implied`).

    Args:
        constraints: constraints on values of this type.
    """
    low, high = DOMAINS[kind]
    excluded: list[iv.Interval] = []
    suffix = ""
    substrings = []
    for constraint in constraints:
        value = constraint.value
        if constraint.operator is Operator.SUFFIX:
            assert isinstance(value, str)
            shorter, longer = sorted((suffix, value), key=len)
            if not longer.endswith(shorter):
                return ValueSet(kind, ())
            suffix = longer
        elif constraint.operator is Operator.SUBSTRING:
            assert isinstance(value, str)
            substrings.append(value)
        elif constraint.operator is Operator.NE:
            assert value is not None
            excluded.append(_point(value))
        else:
            start, end = _allowed(constraint)
            low, high = max(low, start), min(high, end)
            if low >= high:
                return ValueSet(kind, ())
    allowed: Intervals = ((low, high),)
    if excluded:
        allowed = iv.difference(allowed, iv.union(excluded))
    found = ValueSet(kind, allowed, suffix, tuple(sorted(set(substrings))))
    return found if found.is_plain else tidy(found)


def includes(a: ValueSet, b: ValueSet) -> bool:
    """Whether every value of `b` is a value of `a`."""
    if a.type is not b.type:
        return not b.intervals
    if a.suffix or b.suffix or a.substrings or b.substrings:
        if a.intervals and b.intervals and a.intervals[-1][1] < TOP == b.intervals[-1][1]:
            # Above every bound there are strings with any suffix and substrings.
            return False
        return _includes_strings(a, b)
    return iv.includes(a.intervals, b.intervals)


@lru_cache(maxsize=65_536)
def _includes_strings(a: ValueSet, b: ValueSet) -> bool:
    for low, high in iv.difference(b.intervals, a.intervals):
        parts = take_apart(low, high)
        # A cone contains strings with any suffix and substrings, so b has a value in it.
        if parts is None or parts.stems or any(b.admits(text) for text in parts.points):
            return False
    if b.suffix.endswith(a.suffix) and all(_implied(part, b) for part in a.substrings):
        return True
    for low, high in b.intervals:
        parts = take_apart(low, high)
        if parts is None or not _has_patterns(a, b, parts):
            return False
    return True


def _implied(part: str, b: ValueSet) -> bool:
    return part in b.suffix or any(part in other for other in b.substrings)


def _has_patterns(a: ValueSet, b: ValueSet, parts: Parts) -> bool:
    """Whether the strings of `b` in these parts have the suffix and the substrings of `a`.

    In a cone with prefix u, b contains a string made of u, b's substrings and b's suffix, separated by
    characters that occur nowhere else. So a text is contained in all of these strings only if it is
    contained in u, in b's suffix or in one of b's substrings.
    """
    if any(b.admits(text) and not a.admits(text) for text in parts.points):
        return False
    if parts.stems and not b.suffix.endswith(a.suffix):
        return False
    return all(_implied(part, b) or part in stem for part in a.substrings for stem in parts.stems)


def includes_union(sets: Iterable[ValueSet], b: ValueSet) -> bool:
    """Whether every value of `b` is in at least one of the sets.

    Exact if all sets are unions of intervals. A set with a suffix or substrings is considered only if all
    values of `b` have them, so True is always right.
    """
    considered = [
        a.intervals for a in sets if a.type is b.type and (a.is_plain or includes(everything_with(a), b))
    ]
    return includes(ValueSet(b.type, iv.union(*considered)), b)


def everything_with(values: ValueSet) -> ValueSet:
    """Returns the set of all values that have the suffix and the substrings of `values`."""
    return _with(values, (DOMAINS[values.type],))


def common_patterns(a: ValueSet, b: ValueSet) -> tuple[str, tuple[str, ...]]:
    """Returns the longest suffix, and the substrings, that all values of both sets have."""
    length = 0
    while length < min(len(a.suffix), len(b.suffix)) and a.suffix[-length - 1] == b.suffix[-length - 1]:
        length += 1
    asked = {part for part in a.substrings if _implied(part, b)}
    asked |= {part for part in b.substrings if _implied(part, a)}
    return a.suffix[len(a.suffix) - length :], tuple(sorted(asked))


def common_texts(values: ValueSet) -> tuple[str, tuple[str, ...]]:
    """Returns a tail and texts that bound what all strings of the set have in common.

    Every suffix that all values have is a suffix of the tail, and every substring that all values have is
    contained in one of the texts. The converse does not hold: a part of a text need not be in all values.
    """
    if values.intervals[0] == DOMAINS[Type.STRING]:
        return values.suffix, (values.suffix, *values.substrings)
    for low, high in values.intervals:
        if not (high.startswith(low) and not high[len(low) :].strip(b"\0")):
            # The interval has cones, in which any text can follow the prefix: see `_has_patterns`.
            parts = take_apart(low, high) if high.startswith(low) else Parts((), (low.decode(),))
            stems = parts.stems[:1] if parts else ()
            return values.suffix, (values.suffix, *values.substrings, *stems)
    text = values.intervals[0][0].decode()
    return text, (text,)


def key_of(value: Value) -> Key:
    return _point(value)[0]


def next_key(key: Key) -> Key:
    """Returns the next key; defined for the keys of all types."""
    return key + b"\0" if isinstance(key, bytes) else key + 1


def previous_key(key: Key) -> Key:
    """Returns the previous key, or the key itself if it has no predecessor (strings are dense)."""
    if isinstance(key, bytes):
        return key[:-1] if key.endswith(b"\0") else key
    return key - 1


def tidy(values: ValueSet) -> ValueSet:
    """Returns the normal form of a set of strings with a suffix or substrings.

    Single strings that lack the suffix or a substring are removed from the intervals; a gap between
    intervals is closed if its strings lack them; a suffix or substring that all strings of the set have in
    any case is removed.
    """
    if values.intervals == (DOMAINS[Type.STRING],):
        substrings = _without_implied(values.intervals, values.suffix, values.substrings)
        return ValueSet(Type.STRING, values.intervals, values.suffix, substrings)
    gaps: list[iv.Interval] = []
    for low, high in iv.gaps(values.intervals):
        parts = take_apart(low, high)
        if parts and not parts.stems and not any(map(values.admits, parts.points)):
            gaps.append((low, high))
    kept: list[Intervals] = []
    for low, high in iv.union(values.intervals, gaps):
        parts = take_apart(low, high)
        if parts is None or parts.stems:
            kept.append(((low, high),))
        else:
            kept += [(_point(text),) for text in parts.points if values.admits(text)]
    plain = ValueSet(values.type, iv.union(*kept))
    suffix = (
        ""
        if includes(ValueSet(Type.STRING, (DOMAINS[Type.STRING],), values.suffix), plain)
        else values.suffix
    )
    return ValueSet(
        Type.STRING, plain.intervals, suffix, _without_implied(plain.intervals, suffix, values.substrings)
    )


def _without_implied(intervals: Intervals, suffix: str, substrings: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the substrings without those that all strings in the intervals with the other patterns have.

    The n substrings are searched for in one text of all: n passes over it, in compiled code.
    """
    # A lone surrogate is in no string of the model, so no match extends over it.
    together = "\ud800".join((suffix, *substrings))
    place = len(suffix) + 1
    candidates = []
    for part in substrings:
        if together.find(part) == place and together.find(part, place + 1) < 0:
            candidates.append(part)
        place += len(part) + 1
    if intervals == (DOMAINS[Type.STRING],):
        # The empty string is in it, and a cone without a prefix.
        return tuple(candidates)
    intervals_parts = [take_apart(low, high) for low, high in intervals]
    if None in intervals_parts:
        return tuple(candidates)
    kept = list(candidates)
    for part in sorted(candidates, key=lambda text: (len(text), text)):
        if all(part in stem for parts in intervals_parts if parts for stem in parts.stems):
            others = ValueSet(Type.STRING, (), suffix, tuple(other for other in kept if other != part))
            points = (text for parts in intervals_parts if parts for text in parts.points)
            if all(part in text or not others.admits(text) for text in points):
                kept.remove(part)
    return tuple(kept)


def pieces(values: ValueSet) -> list[ValueSet]:
    """Partitions the set into parts, each of which a conjunction of few constraints describes.

    Two neighbouring intervals with one value between them stay together (as ``x != v``) if this takes no
    more constraints than to describe them separately.
    """
    groups: list[list[iv.Interval]] = []
    for interval in values.intervals:
        if groups and _is_point(groups[-1][-1][1], interval[0]):
            group = groups[-1]
            low, high, gaps = group[0][0], interval[1], len(group)
            apart = _length(values, low, group[-1][1], gaps - 1) + _length(values, *interval, 0)
            if _length(values, low, high, gaps) <= apart:
                group.append(interval)
                continue
        groups.append([interval])
    return [_with(values, tuple(group)) for group in groups]


def _length(values: ValueSet, low: Key, high: Key, gaps: int) -> int:
    """The number of constraints for [low, high) without `gaps` single values, with the set's patterns."""
    bounds = 1 if _is_point(low, high) else len(_bounds(values.type, low, high))
    return max(1, bounds + gaps + len(values.substrings) + bool(values.suffix))


def _with(values: ValueSet, intervals: Intervals) -> ValueSet:
    return ValueSet(values.type, intervals, values.suffix, values.substrings)


def constraints_of(name: str, values: ValueSet) -> tuple[Constraint, ...]:
    """Returns the fewest constraints on attribute `name` that allow exactly these values.

    The gaps between intervals must be single values, as in every set made from constraints. Of two
    equivalent bounds, such as ``x < 200`` and ``x <= 199``, the one with the rounder number is returned, or
    the first if neither is rounder.

    Raises:
        ValueError: the set is empty.
    """
    if not values.intervals:
        raise ValueError(f"{name}: no constraints allow an empty set of values")
    kind = values.type
    low, high = values.intervals[0][0], values.intervals[-1][1]

    def build(operator: Operator, value: Value | None = None) -> Constraint:
        return Constraint(name, kind, operator, value)

    if _is_point(low, high):
        bounds = [build(Operator.EQ, _value(kind, low))]
    else:
        bounds = [build(operator, value) for operator, value in _bounds(kind, low, high)]
    excluded = [
        build(Operator.NE, value) for gap in iv.gaps(values.intervals) for value in _members(kind, *gap)
    ]
    patterns = [build(Operator.SUBSTRING, part) for part in values.substrings]
    if values.suffix:
        patterns.insert(0, build(Operator.SUFFIX, values.suffix))
    return (*bounds, *excluded, *patterns) or (build(Operator.ANY),)


def _allowed(constraint: Constraint) -> iv.Interval:
    """The interval (it may be empty) of values that an operator allows; not for `!=`, `*=` and `**`."""
    bottom, top = DOMAINS[constraint.type]
    if constraint.value is None:
        return bottom, top
    low, high = _point(constraint.value)
    match constraint.operator:
        case Operator.EQ:
            return low, high
        case Operator.LT:
            return bottom, low
        case Operator.LE:
            return bottom, high
        case Operator.GT:
            return high, top
        case Operator.GE:
            return low, top
        case _:
            assert isinstance(constraint.value, str)
            return low, after_cone(constraint.value)


def _point(value: Value) -> tuple[Key, Key]:
    """The interval that contains this value alone."""
    if isinstance(value, str):
        key = value.encode()
        return key, key + b"\0"
    rank = _rank(value) if isinstance(value, float) else int(value)
    return rank, rank + 1


def _is_point(low: Key, high: Key) -> bool:
    return bool(high == next_key(low))


def _members(kind: Type, low: Key, high: Key) -> list[Value]:
    """The values of a finite interval."""
    if kind is not Type.STRING:
        return [_value(kind, key) for key in range(low, high)]
    return [(low + b"\0" * i).decode() for i in range(len(high) - len(low))]


def _rank(value: float) -> int:
    """The number of doubles from zero to `value`, with its sign; both zeros have rank 0."""
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else -(bits & _MAGNITUDE)


def _value(kind: Type, key: Key) -> Value:
    match kind:
        case Type.STRING:
            text: str = key.decode()
            return text
        case Type.DOUBLE:
            double: float = struct.unpack(">d", struct.pack(">q", abs(key)))[0]
            return -double if key < 0 else double
        case Type.BOOLEAN:
            return bool(key)
        case _:
            return int(key)


def _bounds(kind: Type, low: Key, high: Key) -> list[tuple[Operator, Value]]:
    bottom, top = DOMAINS[kind]
    bounds: list[tuple[Operator, Value]] = []
    if kind is Type.STRING:
        return _string_bounds(low, high)
    if low != bottom:
        bounds.append(_rounder((Operator.GT, _value(kind, low - 1)), (Operator.GE, _value(kind, low))))
    if high != top:
        bounds.append(_rounder((Operator.LT, _value(kind, high)), (Operator.LE, _value(kind, high - 1))))
    return bounds


def _rounder(a: tuple[Operator, Value], b: tuple[Operator, Value]) -> tuple[Operator, Value]:
    return min(a, b, key=lambda bound: len(repr(bound[1]).rstrip("0")))


def _string_bounds(low: bytes, high: bytes) -> list[tuple[Operator, Value]]:
    start = low.decode()
    while start and after_cone(start) < high:
        start = start[:-1] if len(start) <= _PREFIX_LIMIT else ""
    if start and after_cone(start) == high:
        bounds: list[tuple[Operator, Value]] = [(Operator.PREFIX, start)]
        return bounds if start.encode() == low else [*bounds, _string_bound(Operator.GT, Operator.GE, low)]
    bounds = [_string_bound(Operator.GT, Operator.GE, low)] if low else []
    return bounds if high == TOP else [*bounds, _string_bound(Operator.LE, Operator.LT, high)]


def _string_bound(after: Operator, at: Operator, key: bytes) -> tuple[Operator, Value]:
    """The bound at `key`, written with the predecessor of `key` if it has one."""
    return (after, key[:-1].decode()) if key.endswith(b"\0") else (at, key.decode())
