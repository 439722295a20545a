"""Predicates made to be expensive, by shape and size, and messages to be matched with them."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TypeVar

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.covering.widening import MERGED_MAX, weight_of, widen
from router.predicates.encoded import BloomFilter, BloomMessage, BloomPredicate, Suite
from router.predicates.encoded import algebra as bloom_budget
from router.predicates.printer import format_predicate
from router.protocol.options import RouterOptions
from router.runtime.lines import REQUEST_LIMIT
from router.wire import private
from router.wire.frames import FrameType
from router.wire.predicate import encode_predicate, filters_of

#: Constraints of the filter of an application, in a shape of one filter of many.
_FEW_CONSTRAINTS = 10
#: Weight of the predicate of each of many applications.
_SMALL_WEIGHT = 400
#: The bounds of a router.
_OPTIONS = RouterOptions()
_F = TypeVar("_F", Filter, BloomFilter)
_Draw = Callable[[random.Random, int], Filter]


def _text(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=length))


def _string(name: str, operator: Operator, text: str) -> Constraint:
    return Constraint(name, Type.STRING, operator, text)


def _integer(name: str, operator: Operator, value: int) -> Constraint:
    return Constraint(name, Type.INTEGER, operator, value)


def _range(rng: random.Random, name: str) -> tuple[Constraint, Constraint]:
    low = rng.randrange(1_000_000)
    high = low + rng.randrange(1, 500_000)
    return _integer(name, Operator.GE, low), _integer(name, Operator.LT, high)


def _ranges(rng: random.Random, names: str) -> Filter:
    return Filter(tuple(constraint for name in names for constraint in _range(rng, name)))


def _many(draw: _Draw) -> Callable[[random.Random], Iterator[Filter]]:
    def filters(rng: random.Random) -> Iterator[Filter]:
        number = 0
        while True:
            yield draw(rng, number)
            number += 1

    return filters


#: Shape -> filters without end; a bomb is as many of them as fit.
SHAPES: dict[str, Callable[[random.Random], Iterator[Filter]]] = {
    "substrings": _many(lambda rng, _: Filter((_string("s", Operator.SUBSTRING, _text(rng, 8)),))),
    "nested substrings": _many(
        lambda _, n: Filter((_string("s", Operator.SUBSTRING, "a" * (n % 1000 + 1)),))
    ),
    "ranges of 2": _many(lambda rng, _: _ranges(rng, "xy")),
    "ranges of 5": _many(lambda rng, _: _ranges(rng, "vwxyz")),
    "integers": _many(
        lambda rng, n: Filter(
            (
                _integer("x", Operator.NE if n % 2 else Operator.EQ, rng.randrange(10_000_000)),
                _integer("y", Operator.EQ if n % 2 else Operator.NE, rng.randrange(1_000)),
            )
        )
    ),
    "texts, then patterns": _many(
        lambda rng, n: Filter(
            (_string("s", Operator.SUBSTRING if n % 4_000 == 3_999 else Operator.EQ, _text(rng, 8)),)
        )
    ),
    "texts of 32, 128": _many(
        lambda rng, n: Filter(
            (
                _string(
                    "s", Operator.EQ if n % 2 else Operator.SUBSTRING, _text(rng, 128 if n % 4 < 2 else 32)
                ),
            )
        )
    ),
    "long substrings": _many(
        lambda rng, n: Filter((_string("s", Operator.SUBSTRING, _text(rng, 60_000 if n % 2 else 8)),))
    ),
    "substrings of 1,500 lengths": _many(
        lambda _, n: Filter(
            (
                _string("s", Operator.SUBSTRING, "a" * (n % 1_500 + 1) + "b"),
                _integer("x", Operator.EQ, -n),
            )
        )
    ),
    "affixes": _many(
        lambda rng, n: Filter(
            (
                _string("s", Operator.PREFIX, "a" * (n % 20)),
                _string("s", Operator.SUFFIX, "a" * (n // 20 % 20)),
                _string("s", Operator.SUBSTRING, "a" * 8 + _text(rng, 4)),
            )
        )
    ),
    "names": _many(
        lambda _, n: Filter(
            (
                Constraint(f"{n}", Type.INTEGER, Operator.ANY, None)
                if n % 2
                else _integer(f"{n}", Operator.GT, n),
            )
        )
    ),
    "prefixes, suffixes": _many(
        lambda rng, n: Filter(
            (_string("s", Operator.SUFFIX if n % 2 else Operator.PREFIX, _text(rng, rng.randrange(1, 10))),)
        )
    ),
}


def _bits(bits: int, number: int) -> Callable[[random.Random, int], BloomFilter]:
    """Filters of as many bits, chosen at random."""
    suite = Suite(1, bits, 4, 1)
    return lambda rng, _: BloomFilter(suite, _set(rng.sample(range(bits), number)))


def _set(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)


def _covered(rng: random.Random, n: int) -> BloomFilter:
    """Filters with bit 0 and 20 others; each 1,000th has bit 0 and one other."""
    return BloomFilter(_SUITE, 1 | _set(rng.sample(range(1, 1_024), 20 if (n + 1) % 1_000 else 1)))


#: The suite of most encoded shapes, and of messages.
_SUITE = Suite(1, 1_024, 4, 1)
#: Shape -> encoded filters.
ENCODED: dict[str, Callable[[random.Random, int], BloomFilter]] = {
    "bits": _bits(1_024, 20),
    "bits, few of 64": _bits(64, 4),
    "bits, many of 4,096": _bits(4_096, 400),
    "bits, covered": _covered,
    "bits, nested": lambda _, n: BloomFilter(Suite(1, 4_096, 4, 1), (2 << (4_095 - n % 4_096)) - 1),
    "bits of many keys": lambda rng, n: BloomFilter(
        Suite(1 + n, 1_024, 4, 1), _set(rng.sample(range(1_024), 20))
    ),
}
#: Shape -> constraints without end, of one filter.
SINGLE: dict[str, Callable[[random.Random, int], Constraint]] = {
    "one attribute": lambda rng, n: (
        _string("s", Operator.SUBSTRING, _text(rng, 8)) if n % 2 else _string("s", Operator.NE, _text(rng, 8))
    ),
    "many attributes": lambda rng, n: _integer(f"a{n}", Operator.GT, rng.randrange(1_000_000)),
}


#: The size of a bomb that has as many filters as a router reads: with more, it takes the bomb as ``*``.
AT_BOUNDS = 0


def bomb(shape: str, size: int) -> bytes:
    """The encoded predicate of this shape, of at most `size` bytes, or `AT_BOUNDS`."""
    rng = random.Random(shape)
    if shape in SINGLE:
        constraints: list[Constraint] = []
        draw = SINGLE[shape]
        single = (Filter((draw(rng, number),)) for number in count())
        limit = _OPTIONS.filter_weight - 1
        for filter_, _ in _cut(single, size - 50 if size else 0, lambda each: weight_of(each) - 1, limit):
            constraints += filter_
        return encode_predicate(Predicate((Filter(tuple(constraints)),)))
    limit = _OPTIONS.predicate_weight
    if shape in ENCODED:
        bits = (ENCODED[shape](rng, number) for number in count())
        filters = [each for each, _ in _cut(bits, size, bloom_budget.weight_of, limit)]
        return private.encode_predicate(BloomPredicate(filters))
    return b"".join(part for _, part in _cut(SHAPES[shape](rng), size, weight_of, limit))


def _cut(
    filters: Iterator[_F], size: int, weigh: Callable[[_F], int], limit: int
) -> Iterator[tuple[_F, bytes]]:
    """The leading filters of at most so many bytes, or at the bounds, each with its encoded form."""
    length = weight = number = excess = 0
    for filter_ in filters:
        alone = BloomPredicate((filter_,)) if isinstance(filter_, BloomFilter) else Predicate((filter_,))
        part = encoded(alone)
        length, weight, number = length + len(part), weight + weigh(filter_), number + 1
        excess += weight > limit or number > _OPTIONS.predicate_filters
        if length > size if size else excess > MERGED_MAX:
            return
        yield filter_, part


def messages(shape: str) -> Iterator[Message]:
    """Short and long messages, or encoded ones with many bits and with most, for predicates of a shape."""
    if shape in ENCODED:
        rng = random.Random("messages")
        for suite in (_SUITE, Suite(1, 64, 4, 1), Suite(1, 4_096, 4, 1)) * 2:
            for share in (0.5, 0.89):
                bits = _set(rng.sample(range(suite.bits), int(share * suite.bits)))
                yield BloomMessage(suite, bits, bytes(100))
        return
    for text in ("abcdefgh" * 4, "a" * 60_000) * 3:
        yield Message({"s": text, "x": 5, "y": 6, "v": 1, "w": 2, "z": 3, "a1": 7})


def declared(shape: str, size: int) -> Iterator[Predicate]:
    """The predicates that one application sets: as many filters of the bomb as a router takes in a request.

    A single filter that is too heavy is refused; then its leading constraints are set.
    """
    body, limits = bomb(shape, size), _OPTIONS
    if shape in ENCODED:
        sets = tuple(private.filters_of(FrameType.XRA, body))[: limits.predicate_filters]
        while (
            len(private.encode_predicate(BloomPredicate(sets))) * 2 > REQUEST_LIMIT - 1_000
            or len(sets) * bloom_budget.weight_of(sets[0]) > limits.predicate_weight
        ):
            sets = sets[: len(sets) * 9 // 10]
        yield BloomPredicate(sets)
        return
    filters = tuple(filters_of(FrameType.RA, body))
    if len(filters) == 1 and weight_of(filters[0]) > limits.filter_weight:
        yield Predicate(filters)
        yield Predicate(tuple(widen(filters, limits.filter_weight, limits.predicate_weight, 1)[0]))
        return
    most = limits.predicate_weight // max(map(weight_of, filters))
    filters = filters[: min(limits.predicate_filters, max(most, 1))]
    while len(text := format_predicate(Predicate(filters))) > REQUEST_LIMIT - 1_000 and len(filters) > 1:
        filters = filters[: len(filters) * (REQUEST_LIMIT - 2_000) // len(text)]
    yield Predicate(filters)


def small(shape: str, size: int, most: int) -> list[Predicate]:
    """The predicates of many applications: each is set in one turn, and all together have about `size` bytes.

    Args:
        most: predicates at most.
    """
    rng = random.Random(f"small {shape}")
    predicates: Iterator[Predicate]
    if shape in ENCODED:
        bits = (ENCODED[shape](rng, number) for number in count())
        predicates = map(BloomPredicate, _groups(bits, bloom_budget.weight_of))
    elif shape in SINGLE:
        draw = SINGLE[shape]
        single = (
            Filter(tuple(draw(rng, _FEW_CONSTRAINTS * number + each) for each in range(_FEW_CONSTRAINTS)))
            for number in count()
        )
        predicates = (Predicate(tuple(group)) for group in _groups(single, weight_of))
    else:
        predicates = (Predicate(tuple(group)) for group in _groups(SHAPES[shape](rng), weight_of))
    found: list[Predicate] = []
    length = 0
    while len(found) < most and (length < size or size == AT_BOUNDS):
        found.append(next(predicates))
        length += len(encoded(found[-1]))
    return found


def narrower(predicate: Predicate) -> Predicate:
    """The first filter of a predicate."""
    if isinstance(predicate, BloomPredicate):
        return BloomPredicate(tuple(private.filters_of(FrameType.XRA, encoded(predicate)))[:1])
    return Predicate(predicate.filters[:1])


def encoded(predicate: Predicate) -> bytes:
    """The body of an RA with a predicate."""
    if isinstance(predicate, BloomPredicate):
        return private.encode_predicate(predicate)
    return encode_predicate(predicate)


def _groups(filters: Iterator[_F], weigh: Callable[[_F], int]) -> Iterator[list[_F]]:
    """Filters in groups of at most a small weight, or of one filter."""
    group, weight = [next(filters)], 0
    for filter_ in filters:
        weight += weigh(group[-1])
        if weight + weigh(filter_) > _SMALL_WEIGHT:
            yield group
            group, weight = [], 0
        group.append(filter_)
