"""Hypothesis strategies for the whole model, with edge values, and encoders for it."""

from __future__ import annotations

from hypothesis import strategies as st

from router.predicates import INTEGER_MAX, INTEGER_MIN, Filter, Message, Type, Value
from router.predicates.encoded import BloomPredicate, Suite
from router.predicates.encoded.encoder import NO_HARDENING, Encoder, Hardening
from router.predicates.encoded.encodings import ENCODINGS
from router.predicates.parser import parse_predicate
from tests.support.predicate_worlds import constraints_of, filters_of, predicates_of

KEY = bytes(range(32))
SECRET = bytes(range(32, 64))

#: Few names and values, so that messages match; among them all that is unusual.
NAMES = st.sampled_from(["a", "b", "a=b", "∃a", "", "ß" * 100]).map(lambda name: name or "=")
#: Values at the ends of types, of ranges and of buckets, and strings around the lengths of affixes and grams.
EDGES: dict[Type, list[Value]] = {
    Type.STRING: [
        *("", "a", "ab", "abc", "abcd", "bcd", "abcde", "bcde", "cde", "=bc", "ß", "ßé∃", "é∃", "\0", "𝄞x")
    ],
    Type.INTEGER: [
        *(INTEGER_MIN, INTEGER_MIN + 1, -(2**53) - 1, -1, 0, 1, 15, 16, 499, 500, 501, 999, 1000, 1001),
        *(2**53, 2**53 + 1, INTEGER_MAX - 1, INTEGER_MAX),
    ],
    Type.DOUBLE: [
        *(-1.7976931348623157e308, -1e308, -5e-324, -0.0, 0.0, 5e-324, 15.625, 499.99999999999994, 500.0),
        *(500.00000000000006, 999.9999999999999, 1000.0, 1000.0000000000001, 1.7976931348623157e308),
    ],
    Type.BOOLEAN: [False, True],
}
VALUES: dict[Type, st.SearchStrategy[Value]] = {
    Type.STRING: st.one_of(st.sampled_from(EDGES[Type.STRING]), st.text("abß", max_size=6)),
    Type.INTEGER: st.one_of(st.sampled_from(EDGES[Type.INTEGER]), st.integers(0, 1000)),
    Type.DOUBLE: st.one_of(st.sampled_from(EDGES[Type.DOUBLE]), st.floats(0, 1000)),
    Type.BOOLEAN: st.booleans(),
}
TYPES = st.sampled_from(Type)


CONSTRAINTS = constraints_of(NAMES, VALUES)
FILTERS, PREDICATES = filters_of(CONSTRAINTS), predicates_of(CONSTRAINTS)
MESSAGES = st.dictionaries(NAMES, TYPES.flatmap(VALUES.__getitem__), max_size=5).map(Message)


def encoder(
    name: str = "slides",
    bits: int = 512,
    hashes: int = 8,
    key_id: int = 1,
    hardening: Hardening = NO_HARDENING,
) -> Encoder:
    """An encoder with fixed keys."""
    encoding = ENCODINGS[name]()
    return Encoder(Suite(key_id, bits, hashes, encoding.number), KEY, encoding, hardening, SECRET)


#: Encoders of both encodings, with sets that fill up, and hardened.
ENCODERS = [
    encoder(name, bits, hashes, hardening=hardening)
    for name in ENCODINGS
    for bits, hashes in ((512, 8), (192, 10), (24, 3))
    for hardening in (NO_HARDENING, Hardening(2, 0.5))
]


def covers(first: BloomPredicate, second: BloomPredicate) -> bool:
    """Whether every encoded message that matches `second` matches `first`: exact."""
    return all(any(one.covers(other) for one in first.encoded) for other in second.encoded)


def only(text: str) -> Filter:
    (filter_,) = parse_predicate(text)
    return filter_
