"""Round trips, equality with Scapy, and decoding of hostile bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from router.predicates import Message, Type
from router.predicates.encoded import ANY_FILTER, BloomFilter, BloomMessage, BloomPredicate, Suite
from router.wire import codec, layers
from router.wire.frames import (
    Ack,
    AddressedMessage,
    BroadcastTable,
    ClassifiedPredicate,
    Commit,
    Flags,
    Frame,
    FrameType,
    Hello,
    Overload,
    Publication,
    PublicationFlags,
    SenderRequest,
    Subscription,
    SubscriptionFlags,
)
from router.wire.header import MAX_INTERFACE, DecodeError, port_addresses, ports_of
from router.wire.intake import Reassembler
from router.wire.tree_classes import CHILD_MAX, CLASS_DTYPE, TreeClass
from tests.fuzz.inputs import mutated
from tests.support.packets import crafted, to_frame
from tests.support.predicate_worlds import constraints_of, predicates_of
from tests.support.tree_entries import tree_classes_of
from tests.support.whole_frames import decode, encode

U16, U32 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: st.text(st.characters(codec="utf-8"), max_size=30),
    Type.INTEGER: st.integers(-(2**63), 2**63 - 1),
    Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Type.BOOLEAN: st.booleans(),
}
MESSAGES = st.dictionaries(NAMES, st.one_of(*VALUES.values()), max_size=6).map(Message)
PREDICATES = predicates_of(constraints_of(NAMES, VALUES))


@st.composite
def tree_classes(draw: st.DrawFn) -> TreeClass:
    children = tuple(draw(st.lists(st.integers(0, CHILD_MAX), max_size=5, unique=True)))
    reusable, off_tree = (
        tuple(child for child in children if draw(st.booleans())) for _ in ("reusable", "off_tree")
    )
    return TreeClass(draw(U16), children, reusable, off_tree)


@st.composite
def tables(draw: st.DrawFn) -> BroadcastTable:
    neighbours = draw(st.dictionaries(U16, U32, max_size=5))
    classes = draw(st.lists(tree_classes(), max_size=10))
    class_of = draw(st.lists(st.integers(0, len(classes)), max_size=8))
    subtrees = None
    if draw(st.booleans()):
        bits = draw(st.lists(st.booleans(), min_size=len(classes) ** 2, max_size=len(classes) ** 2))
        subtrees = np.array(bits, dtype=np.bool_).reshape(len(classes), len(classes))
    return BroadcastTable(
        tuple(neighbours.items()), tree_classes_of(classes), np.array(class_of, dtype=CLASS_DTYPE), subtrees
    )


#: Close together, so that they are sent as a map as well as one by one.
DESTINATIONS = st.sets(st.integers(0, 40) | U32, min_size=1, max_size=30).map(
    lambda each: tuple(sorted(each))
)
SUITES = st.builds(
    Suite,
    st.integers(1, 2**32 - 1),
    st.integers(1, 20).map(lambda n: 8 * n),
    st.integers(1, 16),
    st.integers(1, 255),
)


def bits_of(suite: Suite) -> st.SearchStrategy[int]:
    return st.integers(0, 2**suite.bits - 1)


PRIVATE_PREDICATES = st.lists(
    st.just(ANY_FILTER)
    | SUITES.flatmap(lambda suite: st.builds(BloomFilter, st.just(suite), bits_of(suite))),
    max_size=5,
).map(BloomPredicate)
PRIVATE_MESSAGES = SUITES.flatmap(
    lambda suite: st.builds(BloomMessage, st.just(suite), bits_of(suite), st.binary(min_size=12, max_size=40))
)


@st.composite
def classified(draw: st.DrawFn) -> ClassifiedPredicate:
    filters = draw(PREDICATES).filters
    nodes = draw(st.lists(U32, min_size=1, max_size=4))
    places = st.lists(st.integers(0, len(filters)), min_size=len(nodes), max_size=len(nodes))
    return ClassifiedPredicate(filters, tuple(zip(nodes, sorted(draw(places)), strict=True)))


def publications(homes: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[Publication]:
    return st.builds(Publication, U32, U64, U64, MESSAGES, st.sampled_from(PublicationFlags), homes)


TABLES = tables()
BODIES: dict[FrameType, st.SearchStrategy[Any]] = {
    FrameType.MSG: MESSAGES | st.builds(AddressedMessage, DESTINATIONS, MESSAGES),
    FrameType.RA: PREDICATES,
    FrameType.SR: st.builds(SenderRequest, U32),
    FrameType.UR: PREDICATES | classified(),
    FrameType.SUB: st.builds(
        Subscription,
        *(U32, U32, U32, U64, U64),
        PREDICATES,
        st.sampled_from(SubscriptionFlags),
        st.lists(st.tuples(U32, U64), max_size=4).map(tuple),
    ),
    FrameType.PUB: publications(DESTINATIONS),
    FrameType.OVERLOAD: st.builds(Overload, U32),
    FrameType.FLUSH: publications(st.just(())),
    FrameType.XMSG: PRIVATE_MESSAGES | st.builds(AddressedMessage, DESTINATIONS, PRIVATE_MESSAGES),
    FrameType.XRA: PRIVATE_PREDICATES,
    FrameType.XUR: PRIVATE_PREDICATES,
    FrameType.HELLO: st.builds(Hello, U32),
    FrameType.TABLE: TABLES,
    FrameType.COMMIT: st.builds(Commit, U32),
    FrameType.ACK: st.builds(Ack, st.sampled_from(FrameType)),
    FrameType.RECEIPT: st.builds(Ack, st.sampled_from(FrameType)),
}


def frames_of(kind: FrameType) -> st.SearchStrategy[Frame]:
    return st.builds(
        Frame,
        st.just(kind),
        U32,
        st.integers(0, 2**64 - 1),
        U32,
        st.integers(0, 255),
        BODIES[kind],
        st.sampled_from([Flags.NONE, Flags.PARTIAL, Flags.IDENTIFIED, Flags.RELIABLE]),
    )


FRAMES = st.sampled_from(FrameType).flatmap(frames_of)


@given(FRAMES, st.binary(max_size=20))
def test_decode_undoes_encode(frame: Frame, padding: bytes) -> None:
    decoded = decode(encode(frame) + padding)
    assert decoded == frame
    assert repr(decoded) == repr(frame)  # types, order and the sign of zero too


@given(FRAMES, st.integers(33, 200), st.randoms(use_true_random=False))
def test_reassembly_undoes_fragmentation(frame: Frame, mtu: int, order: Any) -> None:
    payloads = codec.fragment(frame, mtu)
    assert all(len(payload) <= mtu for payload in payloads)
    arriving = payloads + payloads[:-1]
    order.shuffle(arriving)
    reassembler = Reassembler()
    whole = [
        found for payload in arriving if (found := reassembler.add(1, payload + b"padding", 0.0)) is not None
    ]
    assert whole
    assert all(codec.read_frame(*found) == frame for found in whole)


@settings(max_examples=60)
@given(FRAMES)
def test_scapy_and_the_codec_agree(frame: Frame) -> None:
    payload = encode(frame)
    dissected = layers.CBCB(payload)
    assert to_frame(dissected) == frame
    assert bytes(crafted(dissected)) == payload


@settings(max_examples=200)
@given(st.lists(st.tuples(FRAMES, st.integers(33, 60)), min_size=1, max_size=4), st.integers(0, 2**32))
def test_reassembly_of_damaged_fragments_stays_bounded(sent: list[tuple[Frame, int]], seed: int) -> None:
    random, payloads = Random(seed), []
    for frame, mtu in sent:
        fragments = codec.fragment(frame, mtu)
        payloads += fragments + [mutated(random, [fragment]) for fragment in fragments]
    random.shuffle(payloads)
    reassembler = Reassembler(max_bytes=20_000, max_partial=3)
    for now, payload in enumerate(payloads):
        try:
            whole = reassembler.add(0, payload, now / 100)
        except DecodeError:
            whole = None
        if whole is not None:
            assert len(whole[1]) == whole[0].total_length
        assert reassembler.used_bytes <= 20_000
        assert len(reassembler) <= 3
    reassembler.expire(1e9)
    assert (len(reassembler), reassembler.used_bytes) == (0, 0)


@given(st.sets(st.integers(1, MAX_INTERFACE), max_size=40))
def test_addresses_name_exactly_their_ports(ports: set[int]) -> None:
    addresses = port_addresses(ports)
    named = [ports_of(address) for address in addresses]
    assert set().union(*named) == ports
    assert sum(map(len, named)) == len(ports)
    assert all(named)
