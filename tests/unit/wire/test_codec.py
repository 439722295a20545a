"""The struct codec against the golden vectors, and its limits."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from router.predicates import EVERYTHING, Constraint, Filter, Message, Operator, Predicate, Type, type_of
from router.wire import codec
from router.wire.format import DecodeReason
from router.wire.frames import Body, BroadcastTable, Commit, Frame, FrameType, Hello, SenderRequest
from router.wire.header import HEADER_LENGTH, DecodeError, Header, decode_header
from router.wire.tree_classes import CLASS_DTYPE, TreeClass
from tests.support.tree_entries import tree_classes_of
from tests.support.whole_frames import decode, encode
from tests.vectors.wire_vectors import (
    ALL_OPERATORS,
    FRAGMENTED,
    MALFORMED,
    WHOLE,
    Fragmented,
    Malformed,
    Whole,
    by_name,
)

NO_SOURCE = np.zeros(0, dtype=CLASS_DTYPE)


def msg(attributes: dict[str, str | int | float | bool], **header: int) -> Frame:
    fields = {"issuer": 3, "seq": 17, "epoch": 2, "hop_limit": 64, **header}
    return Frame(FrameType.MSG, body=Message(attributes), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_decodes_each_vector(vector: Whole) -> None:
    frame = decode(vector.payload)
    assert frame == vector.frame
    # 1 == 1.0 == True: equality alone does not tell types apart, nor the order of attributes.
    assert repr(frame) == repr(vector.frame)


@pytest.mark.parametrize("vector", [one for one in WHOLE if one.canonical], ids=by_name)
def test_encodes_each_vector(vector: Whole) -> None:
    assert encode(vector.frame).hex(" ") == vector.payload.hex(" ")
    assert codec.encode_body(vector.frame) == vector.payload[HEADER_LENGTH:]
    assert codec.fragment(vector.frame) == [vector.payload]


@pytest.mark.parametrize("vector", MALFORMED, ids=by_name)
def test_refuses_each_malformed_vector(vector: Malformed) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(vector.payload)
    assert caught.value.reason == vector.reason
    assert str(caught.value).startswith(f"{vector.reason}: ")


@pytest.mark.parametrize("vector", FRAGMENTED, ids=by_name)
def test_fragments_as_the_vectors_say(vector: Fragmented) -> None:
    assert codec.fragment(vector.frame, vector.mtu) == vector.payloads
    assert max(map(len, vector.payloads)) == vector.mtu


def test_vectors_leave_nothing_out() -> None:
    frames = [vector.frame for vector in WHOLE]
    assert {frame.type for frame in frames} == set(FrameType)
    messages = [frame.body for frame in frames if isinstance(frame.body, Message)]
    assert {type_of(value) for message in messages for value in message.values()} == set(Type)
    predicates = [frame.body for frame in frames if type(frame.body) is Predicate]
    constraints = [one for predicate in predicates for each in predicate for one in each]
    assert {one.operator for one in constraints} == ALL_OPERATORS
    assert {one.type for one in constraints} == set(Type)
    assert {vector.reason for vector in MALFORMED} == set(DecodeReason)


def test_body_must_have_the_length_of_the_header() -> None:
    header = decode_header(WHOLE[1].payload)
    with pytest.raises(DecodeError, match="bad_length"):
        codec.decode_body(header, WHOLE[1].payload[32:-1])


def test_a_filter_may_exceed_64_kib() -> None:
    text = "x" * 65_535
    wide = Filter(tuple(Constraint("s" * 255, Type.STRING, Operator.NE, text) for _ in range(2)))
    frame = Frame(FrameType.RA, 1, 1, 1, 64, Predicate((wide,)))
    payloads = codec.fragment(frame, 1500)
    body = b"".join(payload[32:] for payload in payloads)
    assert codec.read_frame(decode_header(payloads[0]), body) == frame


def test_longest_string_and_one_byte_more() -> None:
    def payload(size: int) -> tuple[Header, bytes]:
        body = struct.pack("!BIB", 1, size + 3, 1) + b"s\x01" + b"x" * size
        header = Header(FrameType.MSG, 0, 1, 1, 1, 1, len(body), 0, 2, 1)
        return header, body

    assert codec.decode_body(*payload(65_535)) == Message({"s": "x" * 65_535})
    with pytest.raises(DecodeError) as caught:
        codec.decode_body(*payload(65_536))
    assert caught.value.reason == "bad_value"


@pytest.mark.parametrize(
    "header",
    [{"issuer": -1}, {"issuer": 2**32}, {"seq": 2**64}, {"epoch": 2**32}, {"hop_limit": 256}],
    ids=str,
)
def test_refuses_header_fields_that_do_not_fit(header: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a field does not fit"):
        encode(msg({}, **header))


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        (FrameType.MSG, EVERYTHING, "body of type Predicate; expected Message"),
        (FrameType.SR, Hello(1), "body of type Hello; expected SenderRequest"),
        (FrameType.SR, SenderRequest(2**32), "does not fit"),
        (FrameType.COMMIT, Commit(-1), "does not fit"),
        (
            FrameType.TABLE,
            BroadcastTable(((1, 2), (1, 3)), tree_classes_of([]), NO_SOURCE),
            "interface twice",
        ),
        (
            FrameType.TABLE,
            BroadcastTable(
                (), tree_classes_of([TreeClass(1, (2, 3))]), np.array([0, 2, 1], dtype=CLASS_DTYPE)
            ),
            "a source of class 2, but 1 classes",
        ),
    ],
)
def test_refuses_bodies_outside_the_format(kind: FrameType, body: Body, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        encode(Frame(kind, 1, 1, 1, 1, body))


def test_limits_of_fragmentation() -> None:
    frame = msg({"s": "x" * 65_535, "t": "y"})
    with pytest.raises(ValueError, match="expected more than the 32 bytes"):
        codec.fragment(frame, 32)
    with pytest.raises(ValueError, match="needs 65552 fragments"):
        codec.fragment(frame, 33)
    payloads = codec.fragment(frame, 34)
    assert len(payloads) == 32_776
    assert len(codec.fragment(frame, 1_000_000)) == 2  # payload_length has 16 bits


def test_a_body_has_at_most_16_mib() -> None:
    frame = msg({str(number): "x" * 65_535 for number in range(257)})
    with pytest.raises(ValueError, match="at most 16777216"):
        codec.fragment(frame)
