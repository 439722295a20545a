"""Predicates made to be expensive, by shape and size, and messages to be matched with them."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.covering.widening import MERGED_MAX, weight_of
from router.predicates.encoded import (
    BloomFilter,
    BloomMessage,
    BloomPredicate,
    Suite,
    algebra as bloom_budget,
)
from router.protocol.options import RouterOptions
from router.wire import private
from router.wire.predicate import encode_predicate

#: The bounds of a router.
_OPTIONS = RouterOptions()
_SUBSTRING, _PREFIX, _SUFFIX = Operator.SUBSTRING, Operator.PREFIX, Operator.SUFFIX


def _text(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=length))


def _string(operator: Operator, text: str) -> Constraint:
    return Constraint("s", Type.STRING, operator, text)


def _integer(name: str, operator: Operator, value: int) -> Constraint:
    return Constraint(name, Type.INTEGER, operator, value)


def _ranges(rng: random.Random, names: str) -> Iterator[Constraint]:
    for name in names:
        low = rng.randrange(1_000_000)
        yield _integer(name, Operator.GE, low)
        yield _integer(name, Operator.LT, low + rng.randrange(1, 500_000))


#: Shape -> the constraints of the nth filter; a bomb is as many filters as fit.
SHAPES: dict[str, Callable[[random.Random, int], Iterable[Constraint]]] = {
    "substrings": lambda rng, _: [_string(_SUBSTRING, _text(rng, 8))],
    "nested substrings": lambda _, n: [_string(_SUBSTRING, "a" * (n % 1000 + 1))],
    "ranges of 2": lambda rng, _: _ranges(rng, "xy"),
    "ranges of 5": lambda rng, _: _ranges(rng, "vwxyz"),
    "integers": lambda rng, n: [
        _integer("x", Operator.NE if n % 2 else Operator.EQ, rng.randrange(10_000_000)),
        _integer("y", Operator.EQ if n % 2 else Operator.NE, rng.randrange(1_000)),
    ],
    "texts, then patterns": lambda rng, n: [
        _string(_SUBSTRING if n % 4_000 == 3_999 else Operator.EQ, _text(rng, 8))
    ],
    "texts of 32, 128": lambda rng, n: [
        _string(Operator.EQ if n % 2 else _SUBSTRING, _text(rng, 128 if n % 4 < 2 else 32))
    ],
    "long substrings": lambda rng, n: [_string(_SUBSTRING, _text(rng, 60_000 if n % 2 else 8))],
    "substrings of 1,500 lengths": lambda _, n: [
        _string(_SUBSTRING, "a" * (n % 1_500 + 1) + "b"),
        _integer("x", Operator.EQ, -n),
    ],
    "affixes": lambda rng, n: [
        _string(_PREFIX, "a" * (n % 20)),
        _string(_SUFFIX, "a" * (n // 20 % 20)),
        _string(_SUBSTRING, "a" * 8 + _text(rng, 4)),
    ],
    "names": lambda _, n: [
        Constraint(f"{n}", Type.INTEGER, Operator.ANY, None) if n % 2 else _integer(f"{n}", Operator.GT, n)
    ],
    "prefixes, suffixes": lambda rng, n: [
        _string(_SUFFIX if n % 2 else _PREFIX, _text(rng, rng.randrange(1, 10)))
    ],
}
#: Shape -> the nth constraint of the one filter of the bomb.
SINGLE: dict[str, Callable[[random.Random, int], Constraint]] = {
    "one attribute": lambda rng, n: _string(_SUBSTRING if n % 2 else Operator.NE, _text(rng, 8)),
    "many attributes": lambda rng, n: _integer(f"a{n}", Operator.GT, rng.randrange(1_000_000)),
}
#: The suite of most encoded shapes, and of messages.
_SUITE = Suite(1, 1_024, 4, 1)


def _set(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)


def _bits(bits: int, number: int) -> Callable[[random.Random, int], BloomFilter]:
    """Filters of as many bits, chosen at random."""
    suite = Suite(1, bits, 4, 1)
    return lambda rng, _: BloomFilter(suite, _set(rng.sample(range(bits), number)))


def _covered(rng: random.Random, n: int) -> BloomFilter:
    """Filters with bit 0 and 20 others; each 1,000th has bit 0 and one other."""
    return BloomFilter(_SUITE, 1 | _set(rng.sample(range(1, 1_024), 20 if (n + 1) % 1_000 else 1)))


#: Shape -> the nth encoded filter.
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
EVERY_SHAPE = (*SHAPES, *SINGLE, *ENCODED)
#: The size of a bomb that has as many filters as a router reads: with more, it takes the bomb as ``*``.
AT_BOUNDS = 0


def bomb(shape: str, size: int) -> Predicate:
    """The predicate of a shape, whose encoded form has at most `size` bytes, or `AT_BOUNDS`."""
    found: list[Filter | BloomFilter] = []
    limit = _OPTIONS.filter_weight - 1 if shape in SINGLE else _OPTIONS.predicate_weight
    length = weight = excess = 0
    for each in _filters(shape):
        # The constraints of a single filter are weighed without the filter.
        weight += _weight(each) - (shape in SINGLE)
        length += len(encoded(_predicate([each])))
        excess += weight > limit or len(found) >= _OPTIONS.predicate_filters
        if length > size if size else excess > MERGED_MAX:
            break
        found.append(each)
    if shape in SINGLE:
        plain = (each for each in found if isinstance(each, Filter))
        found = [Filter(tuple(constraint for each in plain for constraint in each))]
    return _predicate(found)


def _filters(shape: str) -> Iterator[Filter | BloomFilter]:
    """Filters without end; of a shape with a single filter, a filter for each of its constraints."""
    rng = random.Random(shape)
    for number in count():
        if shape in SHAPES:
            yield Filter(tuple(SHAPES[shape](rng, number)))
        elif shape in SINGLE:
            yield Filter((SINGLE[shape](rng, number),))
        else:
            yield ENCODED[shape](rng, number)


def _weight(filter_: Filter | BloomFilter) -> int:
    return bloom_budget.weight_of(filter_) if isinstance(filter_, BloomFilter) else weight_of(filter_)


def _predicate(filters: Sequence[Filter | BloomFilter]) -> Predicate:
    encoded_filters = [each for each in filters if isinstance(each, BloomFilter)]
    if encoded_filters:
        return BloomPredicate(encoded_filters)
    return Predicate(tuple(each for each in filters if isinstance(each, Filter)))


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


def encoded(predicate: Predicate) -> bytes:
    """The body of an RA with a predicate."""
    if isinstance(predicate, BloomPredicate):
        return private.encode_predicate(predicate)
    return encode_predicate(predicate)
