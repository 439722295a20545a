"""The tables of the format: complete, without contradictions; codec and Scapy against the golden vectors."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from scapy.layers.l2 import Ether

from router.predicates import EVERYTHING, Constraint, Filter, Message, Operator, Predicate, Type, type_of
from router.predicates.parser import parse_predicate
from router.wire import codec, format, layers
from router.wire.bodies import BODIES
from router.wire.format import HEADER, DecodeReason, Occurs, Tlv
from router.wire.frames import Body, BroadcastTable, Commit, Frame, FrameType, Hello, SenderRequest
from router.wire.header import (
    ETHERTYPE,
    HEADER_LENGTH,
    HEADER_OFFSETS,
    SIZES,
    DecodeError,
    Header,
    decode_header,
)
from router.wire.tree_classes import CLASS_DTYPE, TreeClass
from tests.support.packets import crafted, payload_of, tlvs_in, to_frame
from tests.support.tree_entries import TreeEntry, table_of, tree_classes_of
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


def test_every_number_has_one_row() -> None:
    assert [row.type for row in format.FRAMES] == list(FrameType) == list(BODIES)
    assert [row.type for row in format.TLVS] == list(Tlv)
    assert {row.reason for row in format.REASONS} == set(DecodeReason)
    assert len(format.REASONS) == len(DecodeReason)
    assert list(format.VALUES) == list(Type)
    assert list(format.OPERATORS) == list(Operator)
    assert all(list(bits) == list(type(next(iter(bits)))) for bits in format.BITS.values())


def test_the_header_is_that_of_the_codec() -> None:
    names = [field.name for field in HEADER]
    assert [name for name in names if name not in ("version", "reserved")] == list(Header._fields)
    last = HEADER[-1]
    assert HEADER_OFFSETS[last.name] + SIZES[last.layout] == HEADER_LENGTH == 32


def _reason(payload: bytes) -> str | None:
    try:
        decode(payload)
    except DecodeError as error:
        return error.reason.value
    return None


def _tlvs(payload: bytes) -> list[bytes]:
    return tlvs_in(payload[32 : 32 + int.from_bytes(payload[28:30], "big")])


#: The shortest TLV of each type in the golden vectors.
_EXAMPLES = {
    part[0]: part
    for part in sorted((part for vector in WHOLE for part in _tlvs(vector.payload)), key=len, reverse=True)
}


@pytest.mark.parametrize("row", format.FRAMES, ids=lambda row: row.type.name)
def test_the_codec_takes_the_tlvs_of_the_table(row: format.FrameFormat) -> None:
    for tlv in Tlv:
        occurs = dict(row.tlvs).get(tlv)
        before, after = b"", b""
        for other, each in row.tlvs:
            if each is Occurs.ONCE and other is not tlv:
                if tlv is Tlv.KEY:
                    after += _EXAMPLES[other]
                else:
                    before += _EXAMPLES[other]
        if tlv is Tlv.SUBTREES and occurs:
            # It has a row for each of three classes.
            before += _EXAMPLES[Tlv.TREE_CLASS] * 3
        if tlv is Tlv.BLOOM and occurs is Occurs.ANY_NUMBER:
            before += _EXAMPLES[Tlv.KEY]
        destinations = tlv in (Tlv.DESTINATIONS, Tlv.DESTINATION_MAP)
        if destinations:
            before, after = b"", before
        elif row.type is FrameType.PUB:
            before = _EXAMPLES[Tlv.DESTINATIONS] + before
        once, twice = before + _EXAMPLES[tlv] + after, before + _EXAMPLES[tlv] * 2 + after
        assert _reason(payload_of(row.type, once)) == (None if occurs else "bad_tlv")
        if occurs in (Occurs.ONCE, Occurs.OPTIONAL):
            assert _reason(payload_of(row.type, twice)) == "bad_tlv"
        elif occurs is Occurs.ANY_NUMBER:
            # A second attribute, neighbour or entry is refused for its content, not for its place.
            assert _reason(payload_of(row.type, twice)) in (None, "duplicate_attribute", "duplicate_entry")
    required = any(occurs is Occurs.ONCE for _, occurs in row.tlvs)
    # A PUB must have one of two TLVs.
    assert _reason(payload_of(row.type, b"")) == ("bad_tlv" if required else None)
    assert _reason(payload_of(row.type, b"\xff\0\0\0\0")) == ("bad_tlv" if required else None)
    # Of a TLV the first byte alone.
    assert _reason(payload_of(row.type, b"\xff")) == "bad_tlv"


def test_reasons_of_the_header_are_found_in_the_header() -> None:
    """`decode_header` refuses a frame exactly when the reason is one of the header."""
    in_header = {row.reason.value for row in format.REASONS if row.part == "header"}
    for vector in MALFORMED:
        try:
            decode_header(vector.payload)
        except DecodeError as error:
            assert error.reason.value == vector.reason
            assert vector.reason in in_header
        else:
            assert vector.reason not in in_header


# Scapy layers have the bytes and fields of the codec, on the golden vectors.


ETHERNET = bytes.fromhex("03000000000102cb0000000388b5")


def parts(packet: Any) -> list[Any]:
    """The known TLVs of a dissected packet."""
    body = packet[layers.CBCB].payload
    return [tlv for tlv in getattr(body, "tlvs", []) if not isinstance(tlv, layers.UnknownTlv)]


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_the_fields_of_each_vector_are_those_of_its_frame(vector: Whole) -> None:
    packet, body = layers.CBCB(vector.payload), vector.frame.body
    for name, value in decode_header(vector.payload)._asdict().items():
        assert packet.getfieldval(name) == value, name
    assert (packet.version, packet.reserved) == (1, 0)
    for part in parts(packet):
        for field in part.fields_desc:
            name = field.name.removeprefix("publication_").removeprefix("subscription_")
            if isinstance(getattr(body, name, None), int):
                assert part.getfieldval(field.name) == getattr(body, name), name


@pytest.mark.parametrize("vector", WHOLE, ids=by_name)
def test_builds_each_vector_from_its_fields_alone(vector: Whole) -> None:
    packet = Ether(ETHERNET + vector.payload)
    assert packet.type == ETHERTYPE
    assert to_frame(packet) == vector.frame
    assert bytes(crafted(packet)) == ETHERNET + vector.payload


@pytest.mark.parametrize("vector", FRAGMENTED, ids=by_name)
def test_fragments_carry_a_part_of_the_body(vector: Fragmented) -> None:
    packets = [Ether(ETHERNET + payload) for payload in vector.payloads]
    assert [packet[layers.CBCB].fragment_index for packet in packets] == list(range(len(packets)))
    body = b"".join(packet[layers.Fragment].load for packet in packets)
    assert body == codec.encode_body(vector.frame)
    with pytest.raises(DecodeError, match="bad_fragment"):
        to_frame(packets[0])


@pytest.mark.parametrize("vector", MALFORMED, ids=by_name)
def test_shows_malformed_frames_and_keeps_their_bytes(vector: Malformed) -> None:
    packet = Ether(ETHERNET + vector.payload)
    assert packet.show(dump=True)
    assert bytes(packet) == ETHERNET + vector.payload
    if len(vector.payload) >= HEADER_LENGTH:
        with pytest.raises(DecodeError) as caught:
            to_frame(packet)
        assert caught.value.reason == vector.reason


def test_crafted_packet_takes_type_and_lengths_from_its_parts() -> None:
    price = layers.Constraint(attribute_name=b"price", value_type=2, operator=3, value=400)
    packet = (
        Ether(dst="03:00:00:00:00:01", src="02:cb:00:00:00:03")
        / layers.CBCB(issuer=3, seq=17, epoch=2)
        / layers.RA(tlvs=[layers.Filter(constraints=[price])])
    )
    assert bytes(packet)[:14] == ETHERNET
    assert to_frame(packet).body == parse_predicate("price < 400")


def test_long_lists_are_dissected_to_the_end() -> None:
    many = range(1, 302)
    price = [Constraint(f"a{number}", Type.INTEGER, Operator.EQ, number) for number in many]
    children = tuple(many)
    table = table_of(tuple((n, n) for n in many), (TreeEntry(0, 0, children, 301), TreeEntry(1, 1, (), 0)))
    for kind, body in (
        (FrameType.RA, Predicate((Filter(tuple(price)),))),
        (FrameType.TABLE, table),
        (FrameType.MSG, Message({f"a{number}": number for number in many})),
    ):
        frame = Frame(kind, 0, 1, 1, 1, body)
        packet = layers.CBCB(encode(frame))
        assert to_frame(packet) == frame
        packet.clear_cache()
        assert bytes(packet) == encode(frame)


def test_a_whole_number_is_a_double_where_the_type_says_so() -> None:
    for value_type, value in ((int(Type.DOUBLE), 300.0), (int(Type.INTEGER), 300)):
        attribute = layers.Attribute(attribute_name=b"p", value_type=value_type, value=300)
        frame = to_frame(layers.CBCB(issuer=1, seq=1, epoch=1) / layers.MSG(tlvs=[attribute]))
        assert repr(frame.body) == repr(Message({"p": value}))


# The codec, and its limits.


def _table_of(
    neighbours: tuple[tuple[int, int], ...], classes: list[TreeClass], of_sources: list[int]
) -> BroadcastTable:
    return BroadcastTable(neighbours, tree_classes_of(classes), np.array(of_sources, dtype=CLASS_DTYPE))


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
        (FrameType.TABLE, _table_of(((1, 2), (1, 3)), [], []), "interface twice"),
        (FrameType.TABLE, _table_of((), [TreeClass(1, (2, 3))], [0, 2, 1]), "a source of class 2, but 1 "),
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
