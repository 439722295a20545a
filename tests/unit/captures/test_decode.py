"""Columns from frames: fields, directions, and reasons for what does not decode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from captures.frames import CaptureIdentity
from captures.frames.columns import BODY_COLUMNS, SCHEMA
from captures.frames.decoder import FrameDecoder
from captures.pcap.blocks import Block
from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from router.wire.codec import fragment
from router.wire.frames import (
    Ack,
    AddressedMessage,
    Body,
    Commit,
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
from router.wire.header import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, node_address, port_addresses
from tests.support.tree_entries import table_of
from tests.support.whole_frames import encode
from tests.vectors.wire_vectors import WHOLE

LINK = CaptureIdentity("link-3-5", "link", link=7, u=3, v=5)
HOST = CaptureIdentity("host-3", "host", node=3)
TO_PORT_1 = bytes.fromhex("030000000001")
MESSAGE = Frame(FrameType.MSG, 9, (0xF000_0000 << 32) | 4, 2, 63, Message({"price": 3}))


def _ethernet(destination: bytes, source: bytes, payload: bytes, ethertype: bytes = b"\x88\xb5") -> bytes:
    return (destination + source + ethertype + payload).ljust(60, b"\0")


def _rows(frames: list[bytes], capture: CaptureIdentity) -> list[dict[str, Any]]:
    lengths = np.array([len(frame) for frame in frames], dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    times = np.arange(len(frames), dtype=np.int64) + 10
    batch = FrameDecoder(capture).decode(Block(b"".join(frames), start, lengths, lengths, times, before=0))
    assert batch.schema == SCHEMA
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_every_field_of_a_message_on_a_link() -> None:
    (row,) = _rows([_ethernet(TO_PORT_1, node_address(5), encode(MESSAGE))], LINK)
    assert row == {
        "capture": "link-3-5",
        "kind": "link",
        "link": 7,
        "node": None,
        "direction": None,
        "from_node": 5,
        "to_node": 3,
        "packet": 1,
        "time": datetime(1970, 1, 1, tzinfo=UTC),
        "time_ns": 10,
        "length": 14 + len(encode(MESSAGE)),
        "captured": 14 + len(encode(MESSAGE)),
        "destination": 0x0300_0000_0001,
        "source_address": 0x02CB_0000_0005,
        "ethertype": 0x88B5,
        "version": 1,
        "type": "MSG",
        "encoded": False,
        "flags": 0,
        "hop_limit": 63,
        "issuer": 9,
        "seq": ((0xF000_0000 << 32) | 4) - 2**64,
        "epoch": 2,
        "total_length": len(encode(MESSAGE)) - 32,
        "fragment_index": 0,
        "fragment_count": 1,
        "payload_length": len(encode(MESSAGE)) - 32,
        "fragment": "whole",
        "destinations": None,
        "attributes": [
            ("price", {"string": None, "integer": 3, "double": None, "boolean": None, "number": 3.0})
        ],
        "predicate": None,
        "timeout_us": None,
        "incarnation": None,
        "oldest_epoch": None,
        "acknowledged": None,
        "attention": None,
        "undecodable": None,
    }


def test_directions_on_a_host_link() -> None:
    hello = encode(Frame(FrameType.HELLO, 3, 1, 0, 1, Hello(1)))
    commit = encode(Frame(FrameType.COMMIT, 3, 1, 1, 1, Commit(1)))
    rows = _rows(
        [
            _ethernet(CONTROLLER_DESTINATION, node_address(3), hello),
            _ethernet(bytes.fromhex("03fe00000000"), CONTROLLER_SOURCE, commit),
            _ethernet(TO_PORT_1, node_address(3), encode(MESSAGE)),
            _ethernet(TO_PORT_1, node_address(5), encode(MESSAGE)),
        ],
        HOST,
    )
    assert [(row["direction"], row["from_node"], row["to_node"]) for row in rows] == [
        ("from_router", 3, -1),
        ("to_router", -1, 3),
        ("from_router", 3, None),
        ("to_router", 5, 3),
    ]
    assert [row["undecodable"] for row in rows] == [None] * 4


def test_fragments_are_put_together() -> None:
    long = Frame(FrameType.MSG, 9, 4, 2, 63, Message({"text": "x" * 2000}))
    payloads = fragment(long)
    assert len(payloads) == 2
    # From the other end, the same fragments are another frame's.
    # A frame that is sent again goes to fewer neighbours.
    sent = [(5, [1], payloads[1]), (3, [1], payloads[0]), (5, [1, 2], payloads[0])]
    rows = _rows(
        [_ethernet(port_addresses(ports)[0], node_address(node), payload) for node, ports, payload in sent],
        LINK,
    )
    assert [(row["fragment_index"], row["fragment"], row["undecodable"]) for row in rows] == [
        (1, "partial", None),
        (0, "partial", None),
        (0, "completing", None),
    ]
    assert [row["attributes"] and row["attributes"][0][1]["string"] for row in rows] == [
        None,
        None,
        "x" * 2000,
    ]


def test_contradicting_fragments_are_told() -> None:
    payloads = fragment(Frame(FrameType.MSG, 9, 4, 2, 63, Message({"text": "x" * 2000})))
    other = fragment(Frame(FrameType.MSG, 9, 4, 2, 63, Message({"text": "y" * 2000})))
    frames = [payloads[0], other[0], payloads[1]]
    rows = _rows([_ethernet(TO_PORT_1, node_address(5), payload) for payload in frames], LINK)
    assert [row["undecodable"] for row in rows] == [None, "bad_fragment", None]
    assert [row["type"] for row in rows] == ["MSG"] * 3


def test_the_columns_of_each_body() -> None:
    values = Message({"s": "ä", "i": -(2**63), "d": 0.1, "b": False})
    predicate = parse_predicate('s = "x" and i < 3 or b any boolean')
    bodies: dict[FrameType, Body] = {
        FrameType.MSG: values,
        FrameType.RA: predicate,
        FrameType.SR: SenderRequest(250_000),
        FrameType.UR: predicate,
        FrameType.HELLO: Hello(7),
        FrameType.TABLE: table_of(((1, 5),), ()),
        FrameType.COMMIT: Commit(3),
        FrameType.ACK: Ack(FrameType.TABLE),
    }
    frames = [
        _ethernet(TO_PORT_1, node_address(5), encode(Frame(kind, 5, 1, 1, 1, body)))
        for kind, body in bodies.items()
    ]
    rows = dict(zip(bodies, _rows(frames, LINK), strict=True))
    expected: dict[FrameType, tuple[str, Any]] = {
        FrameType.RA: ("predicate", format_predicate(predicate)),
        FrameType.UR: ("predicate", format_predicate(predicate)),
        FrameType.SR: ("timeout_us", 250_000),
        FrameType.HELLO: ("incarnation", 7),
        FrameType.COMMIT: ("oldest_epoch", 3),
        FrameType.ACK: ("acknowledged", "TABLE"),
    }
    attributes = rows[FrameType.MSG]["attributes"]
    assert [(name, {k: v for k, v in value.items() if v is not None}) for name, value in attributes] == [
        ("s", {"string": "ä"}),
        ("i", {"integer": -(2**63), "number": -(2.0**63)}),
        ("d", {"double": 0.1, "number": 0.1}),
        ("b", {"boolean": False}),
    ]
    for kind, row in rows.items():
        assert row["undecodable"] is None
        found = {name: row[name] for name in BODY_COLUMNS if row[name] is not None}
        if kind is not FrameType.MSG:
            assert found == dict([expected[kind]] if kind in expected else [])


def test_an_encoded_frame_has_the_type_of_the_frame_in_whose_place_it_is() -> None:
    rows = _rows([_ethernet(TO_PORT_1, node_address(5), vector.payload) for vector in WHOLE], LINK)
    stand_ins = {FrameType.XMSG: "MSG", FrameType.XRA: "RA", FrameType.XUR: "UR"}
    sent = [vector.frame.type for vector in WHOLE]
    assert set(stand_ins) < set(sent)
    assert [(row["type"], row["encoded"]) for row in rows] == [
        (stand_ins.get(type_, type_.name), type_ in stand_ins) for type_ in sent
    ]


def test_the_columns_of_the_attention_limited_service() -> None:
    predicate = parse_predicate("x = 1")
    message, flags = Message({"x": 1}), PublicationFlags.PENDING
    bodies: dict[FrameType, Body] = {
        FrameType.SUB: Subscription(
            *(2, 9, 5, 1_500_000, 2**64 - 1, predicate, SubscriptionFlags.REFRESHED),
            ((3, 2**63 - 1), (4, 2**63)),
        ),
        FrameType.PUB: Publication(3, 2**64 - 1, 2**64 - 1, message, flags, (4, 9)),
        FrameType.FLUSH: Publication(3, 7, 20, message),
        FrameType.OVERLOAD: Overload(2),
    }
    frames = [
        _ethernet(TO_PORT_1, node_address(5), encode(Frame(kind, 5, 1, 1, 1, body)))
        for kind, body in bodies.items()
    ]
    rows = dict(zip(bodies, _rows(frames, LINK), strict=True))
    assert {row["undecodable"] for row in rows.values()} == {None}
    assert {
        kind: {name: value for name, value in row["attention"].items() if value is not None}
        for kind, row in rows.items()
    } == {
        FrameType.SUB: {
            "round": 2,
            "nonce": 9,
            "remaining": 5,
            "lifetime_left_us": 1_500_000,
            "freshness_us": 2**63 - 1,
            "offered": [{"source": 3, "seq": 2**63 - 1}, {"source": 4, "seq": -(2**63)}],
            "flags": int(SubscriptionFlags.REFRESHED),
        },
        # The number as a signed one with the same bits; an age that is no such number is the greatest one.
        FrameType.PUB: {
            "source": 3,
            "seq": -1,
            "age_us": 2**63 - 1,
            "flags": int(PublicationFlags.PENDING),
        },
        FrameType.FLUSH: {"source": 3, "seq": 7, "age_us": 20, "flags": 0},
        FrameType.OVERLOAD: {"round": 2},
    }
    assert {kind: row["destinations"] for kind, row in rows.items() if row["destinations"]} == {
        FrameType.PUB: [4, 9]
    }
    assert rows[FrameType.SUB]["predicate"] == format_predicate(predicate)
    assert [rows[kind]["attributes"][0][0] for kind in (FrameType.PUB, FrameType.FLUSH)] == ["x", "x"]


def test_a_message_names_its_destinations() -> None:
    content = Message({"x": 1})
    bodies: list[Body] = [
        content,
        AddressedMessage((4, 9), content),
        AddressedMessage(tuple(range(3, 90)), content),
    ]
    frames = [
        _ethernet(TO_PORT_1, node_address(5), encode(Frame(FrameType.MSG, 5, 1, 1, 1, body)))
        for body in bodies
    ]
    rows = _rows(frames, LINK)
    assert [row["destinations"] for row in rows] == [None, [4, 9], list(range(3, 90))]
    assert {row["attributes"][0][0] for row in rows} == {"x"}


def test_what_does_not_decode_is_kept_with_its_reason() -> None:
    good = encode(MESSAGE)
    frames = {
        "bad_version": _ethernet(TO_PORT_1, node_address(5), b"\x09" + good[1:]),
        "bad_type": _ethernet(TO_PORT_1, node_address(5), good[:1] + b"\x63" + good[2:]),
        "bad_reserved": _ethernet(TO_PORT_1, node_address(5), good[:30] + b"\1\1" + good[32:]),
        "bad_fragment": _ethernet(TO_PORT_1, node_address(5), good[:24] + b"\0\1" + good[26:]),
        "truncated": (TO_PORT_1 + node_address(5) + b"\x88\xb5" + good)[:40],
        "bad_ethertype": _ethernet(TO_PORT_1, node_address(5), good, b"\x08\x00"),
        # Of neither end of the link.
        "bad_source": _ethernet(TO_PORT_1, node_address(4), good),
    }
    rows = _rows(list(frames.values()), LINK)
    assert [row["undecodable"] for row in rows] == list(frames)
    assert [row["type"] for row in rows] == [None] * 6 + ["MSG"]
    assert [row["issuer"] for row in rows] == [None] * 6 + [9]
    assert [row["from_node"] for row in rows] == [5] * 6 + [None]


def test_bad_body_keeps_its_header() -> None:
    broken = encode(MESSAGE)[:-1] + b"\xff"
    # The last byte of the value may be anything; the type of the value may not.
    position = broken.index(b"price") + len(b"price")
    broken = broken[:position] + b"\x77" + broken[position + 1 :]
    (row,) = _rows([_ethernet(TO_PORT_1, node_address(3), broken)], LINK)
    assert row["undecodable"] == "bad_value"
    assert (row["type"], row["from_node"], row["to_node"]) == ("MSG", 3, 5)


def test_a_source_is_checked_before_the_body_as_routers_do() -> None:
    broken = encode(MESSAGE).replace(b"price", b"pri\xffe")
    rows = _rows([_ethernet(TO_PORT_1, node_address(node), broken) for node in (3, 4)], LINK)
    assert [row["undecodable"] for row in rows] == ["bad_name", "bad_source"]


def test_shortest_frames_do_not_read_their_neighbours() -> None:
    rows = _rows([b"", b"\x03", _ethernet(TO_PORT_1, node_address(3), encode(MESSAGE))], LINK)
    assert [row["undecodable"] for row in rows] == ["bad_ethertype", "bad_ethertype", None]
    assert [row["from_node"] for row in rows] == [None, None, 3]
