"""Received Ethernet frames: counts, drops, and the reassembly of fragments in bounded memory."""

from __future__ import annotations

from typing import Any

import pytest

from router.predicates import Message
from router.wire import codec
from router.wire.codec import forwarded_frame, read_frame
from router.wire.frames import Commit, EncodedMessage, Frame, FrameType
from router.wire.header import (
    CONTROLLER,
    CONTROLLER_SOURCE,
    HEADER,
    ROUTER_DESTINATION,
    DecodeError,
    decode_header,
    node_address,
)
from router.wire.intake import FrameIntake, Reassembler, frame_key
from tests.support.whole_frames import encode
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
    payloads = (
        b"",
        b"\x09" + payload[1:],
        payload[:1] + b"\x06" + payload[2:],
        payload[:32] + bytes(len(payload) - 32),
    )
    for broken in payloads:
        assert intake.take(ethernet(node_address(5), _PORT_1, broken), 0.0) is None
    assert intake.dropped == {"truncated": 1, "bad_version": 1, "bad_type": 1, "bad_tlv": 1}
    assert intake.frames == {"undecodable": 3, "MSG": 1}
    assert intake.bytes == sum(len(ethernet(node_address(5), _PORT_1, broken)) for broken in payloads)
    assert log[1] == (
        "bad_version",
        {"source": "02:cb:00:00:00:05", "error": "bad_version: version 9; expected 1"},
    )


def long_message(seq: int = 1, text: str = "x", hop_limit: int = 9) -> Frame:
    return Frame(FrameType.MSG, 3, seq, 1, hop_limit, Message({"text": text * 500}))


def test_senders_and_frames_do_not_mix() -> None:
    frames = [long_message(1, "a"), long_message(2, "b"), long_message(1, "c")]
    senders = [5, 5, 6]
    intake, done = FrameIntake(read_frame), []
    for payloads in zip(*(codec.fragment(frame, 132) for frame in frames), strict=True):
        for sender, payload in zip(senders, payloads, strict=True):
            taken = intake.take(ethernet(node_address(sender), _PORT_1, payload), 0.0)
            done += [taken[:2]] if taken is not None else []
    assert done == list(zip(senders, frames, strict=True))
    assert intake.frames == {"MSG": 3 * len(codec.fragment(frames[0], 132))}


@pytest.mark.parametrize(
    "other", [long_message(text="y"), long_message(hop_limit=8)], ids=["bytes", "header"]
)
def test_contradiction_destroys_the_frame(other: Frame) -> None:
    payloads = codec.fragment(long_message(), 132)
    reassembler = Reassembler()
    reassembler.add("n", payloads[1], 0.0)
    with pytest.raises(DecodeError, match="bad_fragment: "):
        reassembler.add("n", codec.fragment(other, 132)[1], 0.0)
    assert (len(reassembler), reassembler.used_bytes) == (0, 0)


@pytest.mark.parametrize("sizes", [(9, 9), (12, 9), (19, 2)], ids=str)
def test_fragments_must_add_up(sizes: tuple[int, int]) -> None:
    reassembler = Reassembler()
    total = 20
    payloads = [
        HEADER.pack(1, 1, 0, 9, 3, 1, 1, total, index, 2, size, 0) + bytes(size)
        for index, size in enumerate(sizes)
    ]
    with pytest.raises(DecodeError, match="bad_fragment: "):
        for payload in payloads:
            assert reassembler.add("n", payload, 0.0) is None
    assert (len(reassembler), reassembler.used_bytes) == (0, 0)


def test_partial_frames_expire() -> None:
    reassembler = Reassembler(timeout_s=2.0)
    one, two = (codec.fragment(long_message(seq), 132) for seq in (1, 2))
    reassembler.add("n", one[0], 10.0)
    reassembler.add("n", two[0], 11.0)
    assert reassembler.next_deadline() == 12.0
    reassembler.add("n", one[1], 11.5)
    reassembler.add("n", two[0], 12.5)  # is not new
    assert reassembler.next_deadline() == 13.0
    reassembler.expire(12.9)
    assert reassembler.expired == 0
    reassembler.expire(13.0)
    assert reassembler.expired == 1
    assert reassembler.next_deadline() == 13.5
    # A fragment that comes too late begins a new partial frame, it does not complete the old one.
    for payload in one[2:]:
        assert reassembler.add("n", payload, 13.5) is None
    assert reassembler.expired == 2
    assert reassembler.next_deadline() == 15.5


@pytest.mark.parametrize("limits", [{"max_partial": 5}, {"max_bytes": 2000}])
def test_a_sender_that_floods_loses_its_own_frames(limits: dict[str, int]) -> None:
    reassembler = Reassembler(**limits)
    first, *rest = codec.fragment(long_message(), 132)[:3]
    reassembler.add("honest", first, 0.0)
    for seq in range(100):
        reassembler.add("rogue", codec.fragment(long_message(seq), 132)[0], 0.0)
    assert reassembler.evicted > 90
    assert all(reassembler.add("honest", payload, 0.0) is None for payload in rest)
    honest = frame_key("honest", decode_header(first))
    assert reassembler.held(honest) == {0, 1, 2}


def test_the_partial_frame_that_has_waited_longest_makes_room() -> None:
    reassembler = Reassembler(max_partial=2)
    one, two, three = (codec.fragment(long_message(seq), 132) for seq in range(3))
    for payload in one[0], two[0], one[1], three[0]:
        reassembler.add("n", payload, 0.0)
    assert [bool(reassembler.held(("n", FrameType.MSG, 3, seq))) for seq in range(3)] == [True, False, True]


def test_a_frame_that_could_never_fit_is_refused() -> None:
    reassembler = Reassembler(max_bytes=1000)
    with pytest.raises(DecodeError, match="too_large: "):
        reassembler.add("n", codec.fragment(long_message(), 132)[0], 0.0)
