"""TLVs of unknown types: every reader skips them, compiled ones too, and routers send them on."""

from __future__ import annotations

import struct
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from router.matching.engines import NaiveMatcher
from router.predicates import Message, Type
from router.predicates.parser import parse_predicate
from router.wire import codec, layers
from router.wire.format import FrameType, Tlv
from router.wire.frames import EncodedMessage, Frame, SenderRequest
from router.wire.header import HEADER_LENGTH, decode_header
from router.wire.message import message_of
from tests.support.packets import payload_of, tlvs_in, to_frame
from tests.support.predicate_worlds import predicates
from tests.support.whole_frames import decode

_UNKNOWN = sorted(set(range(1, 256)) - {int(tlv) for tlv in Tlv})
_ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=12)
_NAMES = st.sampled_from(["x", "y", "dest", "a.b"])
_VALUES: st.SearchStrategy[Any] = st.one_of(
    _ASCII, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
_MESSAGES = st.dictionaries(_NAMES, _VALUES, max_size=5).map(Message)
_PREDICATES = predicates("xy", [Type.STRING, Type.INTEGER])
_BODIES: dict[FrameType, st.SearchStrategy[Any]] = {
    FrameType.MSG: _MESSAGES,
    FrameType.RA: _PREDICATES,
    FrameType.UR: _PREDICATES,
    FrameType.SR: st.builds(SenderRequest, st.integers(0, 2**32 - 1)),
}
_UNKNOWN_TLVS = st.builds(
    lambda tlv, value: struct.pack("!BI", tlv, len(value)) + value,
    st.sampled_from(_UNKNOWN),
    st.binary(max_size=12),
)
_TABLE = {
    1: parse_predicate("x any string or y < 3"),
    2: parse_predicate('dest ** "a" or x any boolean'),
    3: parse_predicate("x > 0.0 or a.b any integer"),
}


@st.composite
def _frames(draw: st.DrawFn, *types: FrameType) -> tuple[Frame, bytes]:
    """A frame, and its body with unknown TLVs between the others."""
    type_ = draw(st.sampled_from(types or tuple(_BODIES)))
    frame = Frame(type_, issuer=3, seq=17, epoch=2, hop_limit=64, body=draw(_BODIES[type_]))
    parts = tlvs_in(codec.encode_body(frame))
    for tlv in draw(st.lists(_UNKNOWN_TLVS, min_size=1, max_size=4)):
        parts.insert(draw(st.integers(0, len(parts))), tlv)
    return frame, b"".join(parts)


@given(_frames())
def test_the_codec_skips_them(case: tuple[Frame, bytes]) -> None:
    frame, body = case
    decoded = decode(payload_of(frame.type, body))
    assert decoded == frame
    assert repr(decoded) == repr(frame)


@settings(max_examples=40)
@given(_frames())
def test_scapy_keeps_them(case: tuple[Frame, bytes]) -> None:
    frame, body = case
    packet = layers.CBCB(payload_of(frame.type, body))
    assert len(packet.payload.tlvs) == len(tlvs_in(body))
    packet.clear_cache()
    assert bytes(packet) == payload_of(frame.type, body)
    assert to_frame(packet) == frame


@given(_frames(FrameType.MSG, FrameType.RA), st.integers(33, 1500))
def test_routers_send_them_on(case: tuple[Frame, bytes], mtu: int) -> None:
    frame, body = case
    header = decode_header(payload_of(frame.type, body))
    received = codec.forwarded_frame(header, body)
    if isinstance(received.body, EncodedMessage):
        assert message_of(received.body) == frame.body
    sent_on = received.one_hop_less()
    payloads = codec.fragment(sent_on, mtu)
    assert b"".join(payload[HEADER_LENGTH:] for payload in payloads) == body
    assert all(decode_header(payload).hop_limit == frame.hop_limit - 1 for payload in payloads)


@given(_frames(FrameType.MSG))
def test_the_compiled_engine_decides_such_messages_itself(case: tuple[Frame, bytes]) -> None:
    from router.matching.compiled.engine import CompiledMatcher

    frame, body = case
    compiled, naive = CompiledMatcher(), NaiveMatcher()
    for interface, predicate in _TABLE.items():
        compiled.set_predicate(interface, predicate)
        naive.set_predicate(interface, predicate)
    assert isinstance(frame.body, Message)
    # None: left to the codec.
    assert compiled.match_encoded(body) == naive.match(frame.body)


def test_the_compiled_engine_leaves_known_tlvs_and_type_0_to_the_codec() -> None:
    from router.matching.compiled.engine import CompiledMatcher

    compiled = CompiledMatcher()
    compiled.set_predicate(1, parse_predicate("x any integer"))
    attribute = bytes.fromhex("01 0000000b 01 78 02 0000000000000007")
    fallbacks = [
        tlv
        for tlv in range(256)
        if compiled.match_encoded(attribute + struct.pack("!BI", tlv, 4) + bytes(4)) is None
    ]
    assert fallbacks == [0, *Tlv]


@pytest.mark.parametrize("types", [(FrameType.MSG,), (FrameType.RA, FrameType.UR)])
@given(data=st.data())
def test_the_compiled_decoder_accepts_such_bodies_itself(
    types: tuple[FrameType, ...], data: st.DataObject
) -> None:
    bodies = [body for _, body in data.draw(st.lists(_frames(*types), min_size=1, max_size=8))]
    assert all(_accepted(bodies) if FrameType.MSG in types else _accepted_predicates(bodies))


def test_the_compiled_decoder_accepts_no_known_tlv_but_filters_in_a_predicate() -> None:
    """A TLV of unknown type alone makes a body; an attribute must not be empty."""
    bodies = [struct.pack("!BI", tlv, 0) for tlv in range(256)]
    for accepted, known in ((_accepted(bodies), ()), (_accepted_predicates(bodies), (Tlv.FILTER,))):
        assert [tlv for tlv in range(256) if accepted[tlv]] == sorted([*_UNKNOWN, *known])


def _accepted_predicates(bodies: list[bytes]) -> list[bool]:
    from captures.frames.messages import decode_predicates

    accepted: list[bool] = decode_predicates(pa.array(bodies, pa.binary()), texts=False)[0].tolist()
    return accepted


def _accepted(bodies: list[bytes]) -> list[bool]:
    from captures.frames.messages import decode_messages

    length = np.array([len(body) for body in bodies], np.int64)
    accepted, _ = decode_messages(b"".join(bodies), np.cumsum(length) - length, length, attributes=False)
    found: list[bool] = accepted.tolist()
    return found
