"""Received Ethernet frames: counts, drops and reassembly, for routers and for the controller."""

from __future__ import annotations

from typing import Any

from router.predicates.model import Message
from router.predicates.parser import parse_predicate
from router.wire.codec import encode, forwarded_frame, fragment, read_frame
from router.wire.frames import Commit, EncodedMessage, Frame, FrameType
from router.wire.header import (
    CONTROLLER,
    CONTROLLER_SOURCE,
    ETHERNET_HEADER_LENGTH,
    HEADER_LENGTH,
    ROUTER_DESTINATION,
    node_address,
)
from router.wire.intake import FrameIntake
from tests.support.wire_tshark import ethernet

_PORT_1 = bytes.fromhex("030000000001")
_MSG = Frame(FrameType.MSG, 5, 7, 1, 9, Message({"x": 1}))
_COMMIT = Frame(FrameType.COMMIT, 3, 1, 2, 1, Commit(1))


def test_a_frame_comes_with_its_sender_and_its_bytes() -> None:
    intake = FrameIntake(forwarded_frame)
    data = ethernet(node_address(5), _PORT_1, encode(_MSG) + bytes(20))
    taken = intake.take(data, 0.0)
    assert taken is not None
    assert taken[0] == 5
    assert isinstance(taken[1].body, EncodedMessage)
    assert b"".join(taken[2]) == encode(_MSG)
    assert (intake.frames, intake.bytes, intake.dropped) == ({"MSG": 1}, len(data), {})


def test_the_controller_is_a_sender_only_where_it_sends_to() -> None:
    intake = FrameIntake(read_frame)
    taken = intake.take(ethernet(CONTROLLER_SOURCE, ROUTER_DESTINATION, encode(_COMMIT)), 0.0)
    assert taken is not None
    assert taken[:2] == (CONTROLLER, _COMMIT)
    assert intake.take(ethernet(CONTROLLER_SOURCE, _PORT_1, encode(_COMMIT)), 0.0) is None
    assert intake.dropped == {"bad_source": 1}
    assert intake.frames == {"COMMIT": 2}


def test_an_expected_sender_is_the_only_one() -> None:
    log: list[tuple[str, dict[str, Any]]] = []
    intake = FrameIntake(read_frame, lambda reason, fields: log.append((reason, fields)))
    data = ethernet(node_address(5), _PORT_1, encode(_MSG))
    assert intake.take(data, 0.0, expected=4) is None
    assert (
        intake.take(ethernet(CONTROLLER_SOURCE, ROUTER_DESTINATION, encode(_COMMIT)), 0.0, expected=4) is None
    )
    taken = intake.take(data, 0.0, expected=5)
    assert taken is not None
    assert taken[1] == _MSG
    assert intake.dropped == {"bad_source": 2}
    assert log[0] == ("bad_source", {"source": "02:cb:00:00:00:05", "type": "MSG"})


def test_every_undecodable_frame_is_counted_by_type_and_reason() -> None:
    log: list[tuple[str, dict[str, Any]]] = []
    intake = FrameIntake(read_frame, lambda reason, fields: log.append((reason, fields)))
    payload = encode(_MSG)
    for broken in (
        b"",
        b"\x09" + payload[1:],
        payload[:1] + b"\x06" + payload[2:],
        payload[:32] + bytes(len(payload) - 32),
    ):
        assert intake.take(ethernet(node_address(5), _PORT_1, broken), 0.0) is None
    assert intake.dropped == {"truncated": 1, "bad_version": 1, "bad_type": 1, "bad_tlv": 1}
    assert intake.frames == {"undecodable": 3, "MSG": 1}
    assert log[1] == (
        "bad_version",
        {"source": "02:cb:00:00:00:05", "error": "bad_version: version 9; expected 1"},
    )


def test_fragments_of_two_senders_do_not_mix() -> None:
    intake = FrameIntake(forwarded_frame)
    predicate = parse_predicate(" or ".join(f'a{number} = "{"x" * 60}"' for number in range(40)))
    frame = Frame(FrameType.RA, 5, 7, 1, 9, predicate)
    payloads = fragment(frame, 500)
    assert len(payloads) > 3
    for payload in payloads[:-1]:
        assert intake.take(ethernet(node_address(5), _PORT_1, payload), 0.0) is None
    assert intake.take(ethernet(node_address(6), _PORT_1, payloads[-1]), 0.0) is None
    taken = intake.take(ethernet(node_address(5), _PORT_1, payloads[-1]), 0.0)
    assert taken is not None
    assert taken[:2] == (5, frame)
    whole = b"".join(taken[2])
    assert whole[:HEADER_LENGTH] == payloads[-1][:HEADER_LENGTH]
    assert whole[HEADER_LENGTH:] == b"".join(payload[HEADER_LENGTH:] for payload in payloads)
    assert intake.frames["RA"] == len(payloads) + 1
    assert len(intake.reassembler) == 1
    assert (
        intake.bytes
        == sum(map(len, payloads)) + len(payloads[-1]) + (len(payloads) + 1) * ETHERNET_HEADER_LENGTH
    )
