"""Predicates made to be expensive, by shape and size, and messages to be matched with them."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from router.predicates import Filter, Message, Predicate
from router.predicates.covering.widening import MERGED_MAX, weight_of
from router.predicates.encoded import BloomFilter, BloomMessage, BloomPredicate, Suite, algebra
from router.predicates.parser import parse_predicate
from router.protocol.options import RouterOptions
from router.wire import private
from router.wire.predicate import encode_predicate

#: The bounds of a router.
_OPTIONS = RouterOptions()


def _text(rng: random.Random, length: int) -> str:
    return f'"{"".join(rng.choices(string.ascii_lowercase, k=length))}"'


def _ranges(rng: random.Random, names: str) -> str:
    return " and ".join(
        f"{name} >= {(low := rng.randrange(1_000_000))} and {name} < {low + rng.randrange(1, 500_000)}"
        for name in names
    )


#: Shape -> the nth filter; a bomb is as many filters as fit.
SHAPES: dict[str, Callable[[random.Random, int], str]] = {
    "substrings": lambda rng, _: f"s ** {_text(rng, 8)}",
    "nested substrings": lambda _, n: f's ** "{"a" * (n % 1000 + 1)}"',
    "ranges of 2": lambda rng, _: _ranges(rng, "xy"),
    "ranges of 5": lambda rng, _: _ranges(rng, "vwxyz"),
    "integers": lambda rng, n: "x {} {} and y {} {}".format(
        *("!=" if n % 2 else "=", rng.randrange(10_000_000)), *("=" if n % 2 else "!=", rng.randrange(1_000))
    ),
    "texts, then patterns": lambda rng, n: f"s {'**' if n % 4_000 == 3_999 else '='} {_text(rng, 8)}",
    "texts of 32, 128": lambda rng, n: f"s {'=' if n % 2 else '**'} {_text(rng, 128 if n % 4 < 2 else 32)}",
    "long substrings": lambda rng, n: f"s ** {_text(rng, 60_000 if n % 2 else 8)}",
    "substrings of 1,500 lengths": lambda _, n: f's ** "{"a" * (n % 1_500 + 1)}b" and x = {-n}',
    "affixes": lambda rng, n: " and ".join(
        (f's =* "{"a" * (n % 20)}"', f's *= "{"a" * (n // 20 % 20)}"', f's ** "aaaaaaaa{_text(rng, 4)[1:]}')
    ),
    "names": lambda _, n: f'"{n}" any integer' if n % 2 else f'"{n}" > {n}',
    "prefixes, suffixes": lambda rng, n: f"s {'*=' if n % 2 else '=*'} {_text(rng, rng.randrange(1, 10))}",
}
#: Shape -> the nth constraint of the one filter of the bomb.
SINGLE: dict[str, Callable[[random.Random, int], str]] = {
    "one attribute": lambda rng, n: f"s {'**' if n % 2 else '!='} {_text(rng, 8)}",
    "many attributes": lambda rng, n: f"a{n} > {rng.randrange(1_000_000)}",
}
#: The suite of most encoded shapes, and of messages.
_SUITE = Suite(1, 1_024, 4, 1)


def _set(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)


def _bits(bits: int, number: int, key: int = 1) -> Callable[[random.Random, int], BloomFilter]:
    """Filters of as many bits, chosen at random; without a key each has a key of its own."""
    return lambda rng, n: BloomFilter(Suite(key or 1 + n, bits, 4, 1), _set(rng.sample(range(bits), number)))


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
    "bits of many keys": _bits(1_024, 20, key=0),
}
EVERY_SHAPE = (*SHAPES, *SINGLE, *ENCODED)
#: The size of a bomb that has as many filters as a router reads: with more, it takes the bomb as ``*``.
AT_BOUNDS = 0


def bomb(shape: str, size: int) -> Predicate:
    """The predicate of a shape, whose encoded form has at most `size` bytes, or `AT_BOUNDS`."""
    rng, found, length, weight, excess = random.Random(shape), list[Filter | BloomFilter](), 0, 0, 0
    limit = _OPTIONS.filter_weight - 1 if shape in SINGLE else _OPTIONS.predicate_weight
    for number in count():
        made = ENCODED[shape](rng, number) if shape in ENCODED else (SHAPES | SINGLE)[shape](rng, number)
        each = parse_predicate(made).filters[0] if isinstance(made, str) else made
        # The constraints of a single filter are weighed without the filter.
        own = algebra.weight_of(each) if isinstance(each, BloomFilter) else weight_of(each)
        weight += own - (shape in SINGLE)
        length += len(encoded(_predicate([each])))
        excess += weight > limit or len(found) >= _OPTIONS.predicate_filters
        if length > size if size else excess > MERGED_MAX:
            break
        found.append(each)
    if shape in SINGLE:
        return Predicate(
            (Filter(tuple(constraint for each in found if isinstance(each, Filter) for constraint in each)),)
        )
    return _predicate(found)


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
