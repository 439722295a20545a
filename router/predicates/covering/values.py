"""The set of values that constraints allow one attribute, and exact inclusion between such sets.

Integers, doubles and booleans are finite and ordered: each maps to an `int` key, doubles by their rank
among the finite doubles, so that ``x > 3 and x < 5`` on integers is ``x = 4`` and no double lies between two
neighbours. Strings map to their UTF-8 bytes; the string after s is s followed by a zero byte. Suffix and
substring constraints are no intervals and are kept beside them.

Inclusion is exact for every type, but for these cases, which are answered "no": strings whose bounds have
more than 2,000 bytes combined with suffixes or substrings. The wire format's limit on the length of a
string is not used to conclude anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from router.predicates.covering import intervals as iv
from router.predicates.covering.intervals import Intervals, Key
from router.predicates.covering.strings import TOP, Parts, after_cone, take_apart
from router.predicates.model import INTEGER_MAX, INTEGER_MIN, Constraint, Operator, Type, Value

_DOUBLE_TOP = struct.unpack(">q", struct.pack(">d", 1.7976931348623157e308))[0]
_DOMAINS: dict[Type, tuple[Key, Key]] = {
    Type.STRING: (b"", TOP),
    Type.INTEGER: (INTEGER_MIN, INTEGER_MAX + 1),
    Type.DOUBLE: (-_DOUBLE_TOP, _DOUBLE_TOP + 1),
    Type.BOOLEAN: (0, 2),
}
_MAGNITUDE = 2**63 - 1
#: A lower bound longer than this is not searched for a prefix that says the same as two bounds.
_PREFIX_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Values of one type: those in the intervals, with the suffix, with all the substrings.

    Made by `value_set` in a normal form: it is empty exactly when `intervals` is, and for sets without
    suffix and substrings, equal sets are equal objects.
    """

    type: Type
    intervals: Intervals
    suffix: str = ""
    substrings: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the intervals say all."""
        return not self.suffix and not self.substrings

    def admits(self, text: str) -> bool:
        """Whether a string has the suffix and the substrings."""
        return text.endswith(self.suffix) and all(part in text for part in self.substrings)


def value_set(kind: Type, constraints: Iterable[Constraint]) -> ValueSet:
    """The values of type `kind` that satisfy all of the constraints (which are on that type)."""
    allowed: Intervals = (_DOMAINS[kind],)
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
        else:
            allowed = iv.intersection(allowed, _allowed(constraint))
    found = ValueSet(kind, allowed, suffix, tuple(sorted(set(substrings))))
    return found if found.is_plain else tidy(found)


def includes(a: ValueSet, b: ValueSet) -> bool:
    """Whether every value of `b` is one of `a`."""
    if a.type is not b.type:
        return not b.intervals
    if a.suffix or b.suffix or a.substrings or b.substrings:
        return _includes_strings(a, b)
    return iv.includes(a.intervals, b.intervals)


@lru_cache(maxsize=65_536)
def _includes_strings(a: ValueSet, b: ValueSet) -> bool:
    for low, high in iv.difference(b.intervals, a.intervals):
        parts = take_apart(low, high)
        # A cone holds strings with any suffix and substrings: b is not empty there.
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

    In a cone with prefix u, b holds a string made of u, b's substrings and b's suffix with characters in
    between that occur nowhere else. So only what is inside one of these pieces is sure to be in all.
    """
    if any(b.admits(text) and not a.admits(text) for text in parts.points):
        return False
    if parts.stems and not b.suffix.endswith(a.suffix):
        return False
    return all(_implied(part, b) or part in stem for part in a.substrings for stem in parts.stems)


def includes_union(sets: Iterable[ValueSet], b: ValueSet) -> bool:
    """Whether every value of `b` is in at least one of the sets.

    Exact when all are unions of intervals; otherwise sound (a set counts only if all of `b` has its suffix
    and substrings).
    """
    helpful = [
        a.intervals for a in sets if a.type is b.type and (a.is_plain or includes(everything_with(a), b))
    ]
    return includes(ValueSet(b.type, iv.union(*helpful)), b)


def everything_with(values: ValueSet) -> ValueSet:
    """All values with the same suffix and substrings."""
    return _with(values, (_DOMAINS[values.type],))


def whole_domain(kind: Type) -> tuple[Key, Key]:
    """The keys of all values of a type: from the first up to, not including, the second."""
    return _DOMAINS[kind]


def common_patterns(a: ValueSet, b: ValueSet) -> tuple[str, tuple[str, ...]]:
    """The longest suffix, and the substrings, that both ask."""
    length = 0
    while length < min(len(a.suffix), len(b.suffix)) and a.suffix[-length - 1] == b.suffix[-length - 1]:
        length += 1
    asked = {part for part in a.substrings if _implied(part, b)}
    asked |= {part for part in b.substrings if _implied(part, a)}
    return a.suffix[len(a.suffix) - length :], tuple(sorted(asked))


def pattern_length(values: ValueSet) -> int:
    """The number of characters of the longest suffix or substring that is asked."""
    return max(map(len, (values.suffix, *values.substrings)))


def common_texts(values: ValueSet) -> tuple[str, tuple[str, ...]]:
    """What is sure to be in strings: a text that ends with every suffix that all of the values have, and
    texts in one of which is every substring that all of them have.

    The converse does not hold: not all that is in the texts is in all values.
    """
    for low, high in values.intervals:
        if not (high.startswith(low) and not high[len(low) :].strip(b"\0")):
            # The interval has cones, where any text can follow: `_has_patterns`.
            parts = take_apart(low, high)
            stems = parts.stems[:1] if parts else ()
            return values.suffix, (values.suffix, *values.substrings, *stems)
    text = values.intervals[0][0].decode()
    return text, (text,)


def key_of(value: Value) -> Key:
    """The key of a value."""
    return _point(value)[0]


def next_key(key: Key) -> Key:
    """The key just above; of a number or boolean, or a string's."""
    return key + b"\0" if isinstance(key, bytes) else key + 1


def previous_key(key: Key) -> Key:
    """The key just below, or the key itself where there is none just below (strings are dense)."""
    if isinstance(key, bytes):
        return key[:-1] if key.endswith(b"\0") else key
    return key - 1


def tidy(values: ValueSet) -> ValueSet:
    """The same set of strings without what the suffix and substrings make needless.

    Single strings that lack them go, single strings that are excluded and lack them anyway are no longer
    excluded, and a suffix or substring that all strings of the set have is dropped.
    """
    plain = ValueSet(values.type, values.intervals)
    filled: Intervals = values.intervals
    for low, high in iv.gaps(values.intervals):
        parts = take_apart(low, high)
        if parts and not parts.stems and not any(map(values.admits, parts.points)):
            filled = iv.union(filled, ((low, high),))
    kept: list[Intervals] = []
    for low, high in filled:
        parts = take_apart(low, high)
        if parts is None or parts.stems:
            kept.append(((low, high),))
        else:
            kept += [(_point(text),) for text in parts.points if values.admits(text)]
    plain = ValueSet(values.type, iv.union(*kept))
    substrings = list(values.substrings)
    suffix = (
        ""
        if includes(ValueSet(Type.STRING, (_DOMAINS[Type.STRING],), values.suffix), plain)
        else values.suffix
    )
    for part in sorted(values.substrings, key=lambda text: (len(text), text)):
        others = tuple(other for other in substrings if other != part)
        alone = ValueSet(Type.STRING, (_DOMAINS[Type.STRING],), "", (part,))
        if includes(alone, ValueSet(Type.STRING, plain.intervals, suffix, others)):
            substrings.remove(part)
    return ValueSet(Type.STRING, plain.intervals, suffix, tuple(substrings))


def pieces(values: ValueSet) -> list[ValueSet]:
    """A partition of the set into parts that a conjunction of few constraints can say.

    Neighbouring intervals with one value between them stay together (as ``x != v``) where that takes no
    more constraints than to write them apart.
    """
    groups: list[Intervals] = []
    for interval in values.intervals:
        if groups and _is_point(groups[-1][-1][1], interval[0]):
            joined = (*groups[-1], interval)
            apart = len(constraints_of("x", _with(values, groups[-1]))) + len(
                constraints_of("x", _with(values, (interval,)))
            )
            if len(constraints_of("x", _with(values, joined))) <= apart:
                groups[-1] = joined
                continue
        groups.append((interval,))
    return [_with(values, group) for group in groups]


def _with(values: ValueSet, intervals: Intervals) -> ValueSet:
    return ValueSet(values.type, intervals, values.suffix, values.substrings)


def constraints_of(name: str, values: ValueSet) -> tuple[Constraint, ...]:
    """Constraints on attribute `name` that allow just these values, as few as the operators permit.

    The gaps between intervals must be single values (sets made from constraints have no others). Of
    ``x < 200`` and ``x <= 199``, and their like, the one with the rounder number is taken, else the first.

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


def _allowed(constraint: Constraint) -> Intervals:
    """The values that an operator other than suffix and substring allows."""
    bottom, top = _DOMAINS[constraint.type]
    if constraint.value is None:
        return ((bottom, top),)
    low, high = _point(constraint.value)
    match constraint.operator:
        case Operator.EQ:
            chosen = [(low, high)]
        case Operator.NE:
            chosen = [(bottom, low), (high, top)]
        case Operator.LT:
            chosen = [(bottom, low)]
        case Operator.LE:
            chosen = [(bottom, high)]
        case Operator.GT:
            chosen = [(high, top)]
        case Operator.GE:
            chosen = [(low, top)]
        case _:
            assert isinstance(constraint.value, str)
            chosen = [(low, after_cone(constraint.value))]
    return tuple(interval for interval in chosen if interval[0] < interval[1])


def _point(value: Value) -> tuple[Key, Key]:
    """The interval that holds this value alone."""
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
    """The number of doubles between zero and `value`, with its sign; both zeros have rank 0."""
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
    bottom, top = _DOMAINS[kind]
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
    """The bound at `key`, written with the string just below it where there is one."""
    return (after, key[:-1].decode()) if key.endswith(b"\0") else (at, key.decode())
