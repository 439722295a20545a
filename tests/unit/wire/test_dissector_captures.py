"""The dissector on captures: fragments, requests, faults, hostile bytes, texts."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, Value, type_of
from router.predicates.printer import format_filter, format_predicate
from router.wire import layers
from router.wire.frames import (
    Ack,
    Commit,
    Flags,
    Frame,
    FrameType,
    Hello,
    SenderRequest,
)
from router.wire.header import (
    HEADER,
    DecodeError,
    node_address,
    port_addresses,
    sender_of,
)
from router.wire.intake import Reassembler
from tests.support.packets import read_trailer
from tests.support.paths import DOCS
from tests.support.tree_entries import table_of
from tests.support.whole_frames import encode
from tests.support.wire_conversation import MS, PORT_1, frame, of_controller, of_router, to_controller
from tests.support.wire_tshark import (
    ETHERNET,
    ethernet,
    needs_tshark,
    rows,
    write_capture,
)
from tests.vectors.wire_vectors import FRAGMENTED, WHOLE

pytestmark = needs_tshark

GUIDE = DOCS / "how-to/wireshark.md"
MIB = 1024 * 1024
LINK_FIELDS = [
    "cbcb.request_in",
    "cbcb.response_in",
    "cbcb.response_time",
    "cbcb.receipt_in",
    "cbcb.repeat_of",
]
Timed = tuple[int, bytes]


def test_links_replies_to_requests(tmp_path: Path) -> None:
    request = frame(FrameType.SR, 9, 5, SenderRequest(1000))
    reply = frame(FrameType.UR, 9, 5, WHOLE[3].frame.body)
    other = frame(FrameType.UR, 9, 6, WHOLE[3].frame.body)
    # The capture of router 2: asked by 1, asks 3 and 4, is answered by both, answers 1.
    frames = [
        (0, of_router(1, request)),
        (2 * MS, of_router(2, request)),
        (5 * MS, of_router(3, reply)),
        (7 * MS, of_router(4, reply)),
        (8 * MS, of_router(2, reply)),
        (9 * MS, of_router(3, other)),
        (9 * MS, of_router(1, frame(FrameType.SR, 9, 7, SenderRequest(1000)))),
    ]
    columns = [*LINK_FIELDS, "_ws.expert.message"]
    assert rows(write_capture(tmp_path / "links.pcap", frames), columns, "-2") == [
        {"response_in": ["5"]},
        {"response_in": ["3"]},
        {"request_in": ["2"], "response_time": ["0.003000000"]},
        {"request_in": ["2"], "response_time": ["0.005000000"]},
        {"request_in": ["1"], "response_time": ["0.008000000"]},
        {},
        {"_ws.expert.message": ["No answer in this capture"]},
    ]


def test_links_what_routers_and_controller_say(tmp_path: Path) -> None:
    table = frame(FrameType.TABLE, 4, 11, table_of((), ()))
    commit = frame(FrameType.COMMIT, 4, 12, Commit(1))
    frames = [
        (0, to_controller(4, frame(FrameType.HELLO, 4, 1, Hello(1)))),
        (1 * MS, of_controller(table)),
        (3 * MS, of_controller(table)),
        (4 * MS, to_controller(4, frame(FrameType.ACK, 4, 11, Ack(FrameType.TABLE)))),
        (6 * MS, of_controller(commit)),
        (7 * MS, to_controller(4, frame(FrameType.ACK, 4, 12, Ack(FrameType.COMMIT)))),
    ]
    found = rows(
        write_capture(tmp_path / "controller.pcap", frames), [*LINK_FIELDS, "_ws.expert.message"], "-2"
    )
    assert found[0] == {"response_in": ["2"]}
    assert found[1]["request_in"] == ["1"]
    assert found[2]["repeat_of"] == ["2"]
    assert found[2]["response_in"] == ["4"]
    assert found[2]["_ws.expert.message"] == ["Repeated: not acknowledged in time"]
    assert found[3] == {"request_in": ["3"], "response_time": ["0.001000000"]}
    assert found[5] == {"request_in": ["5"], "response_time": ["0.001000000"]}


def test_links_receipts_to_reliable_frames(tmp_path: Path) -> None:
    body = Predicate((Filter((Constraint("price", Type.INTEGER, Operator.LT, 400),)),))
    advertised = frame(FrameType.RA, 9, 5, body, Flags.RELIABLE)
    request = frame(FrameType.SR, 9, 6, SenderRequest(1000), Flags.RELIABLE)
    # The capture of router 2: it passes on the advertisement of 9, which came from 1, to 3 and 4.
    frames = [
        (0, of_router(1, advertised)),
        (1 * MS, of_router(2, frame(FrameType.RECEIPT, 9, 5, Ack(FrameType.RA)))),
        (2 * MS, of_router(2, advertised)),
        (5 * MS, of_router(3, frame(FrameType.RECEIPT, 9, 5, Ack(FrameType.RA)))),
        (102 * MS, of_router(2, advertised)),
        (106 * MS, of_router(4, frame(FrameType.RECEIPT, 9, 5, Ack(FrameType.RA)))),
        (107 * MS, of_router(2, request)),
        (108 * MS, of_router(3, frame(FrameType.UR, 9, 6, body))),
        # Not reliable: it needs no receipt. A receipt of another type is for another frame.
        (109 * MS, of_router(2, frame(FrameType.RA, 9, 7, body))),
        (110 * MS, of_router(3, frame(FrameType.RECEIPT, 9, 6, Ack(FrameType.RA)))),
        # To ports of another page, at the same time.
        (111 * MS, ethernet(node_address(2), port_addresses([33])[0], request)),
    ]
    capture = write_capture(tmp_path / "receipts.pcap", frames)
    assert rows(capture, [*LINK_FIELDS, "_ws.expert.message"], "-2", "-R", "cbcb") == [
        {"receipt_in": ["2"]},
        {"request_in": ["1"], "response_time": ["0.001000000"]},
        {"receipt_in": ["4"]},
        {"request_in": ["3"], "response_time": ["0.003000000"]},
        {
            "receipt_in": ["6"],
            "repeat_of": ["3"],
            "_ws.expert.message": ["Repeated: not acknowledged in time"],
        },
        {"request_in": ["5"], "response_time": ["0.004000000"]},
        {"response_in": ["8"], "_ws.expert.message": ["No receipt in this capture"]},
        {"request_in": ["7"], "response_time": ["0.001000000"]},
        {},
        {},
        {"_ws.expert.message": ["No answer in this capture", "No receipt in this capture"]},
    ]


def test_an_answer_counts_for_the_requests_repeated_before_it(tmp_path: Path) -> None:
    table = of_controller(frame(FrameType.TABLE, 4, 11, table_of((), ())))
    request = of_router(1, frame(FrameType.SR, 9, 5, SenderRequest(1000)))
    frames = [
        # Of an incarnation that ended; then twice of the next incarnation, numbered from 1.
        (0, to_controller(4, frame(FrameType.HELLO, 4, 9, Hello(1)))),
        (1, to_controller(4, frame(FrameType.HELLO, 4, 1, Hello(2)))),
        (2, to_controller(4, frame(FrameType.HELLO, 4, 2, Hello(2)))),
        (3, table),
        (4, table),
        (5, table),
        (6, to_controller(4, frame(FrameType.ACK, 4, 11, Ack(FrameType.TABLE)))),
        # Asked of router 2 in two frames, and by router 2 in between.
        (7, request),
        (8, of_router(2, frame(FrameType.SR, 9, 5, SenderRequest(1000)))),
        (9, request),
        (10, of_router(2, frame(FrameType.UR, 9, 5, WHOLE[3].frame.body))),
        (11, table),
    ]
    capture = write_capture(tmp_path / "repeats.pcap", frames)
    found = rows(capture, ["cbcb.request_in", "cbcb.response_in", "cbcb.note.unanswered"], "-2")
    assert found == [
        {"note.unanswered": ["1"]},
        {"response_in": ["4"]},
        {"response_in": ["4"]},
        {"request_in": ["3"], "response_in": ["7"]},
        {"response_in": ["7"]},
        {"response_in": ["7"]},
        {"request_in": ["6"]},
        {"response_in": ["11"]},
        {"note.unanswered": ["1"]},
        {"response_in": ["11"]},
        {"request_in": ["10"]},
        {"note.unanswered": ["1"]},
    ]


@pytest.mark.parametrize(
    ("asked_ns", "answered_ns", "time"),
    [
        # The difference of the two as doubles is just below 1.
        (2_300_000_000, 3_300_000_000, "1.000000000"),
        (2_300_000_000, 3_300_000_001, "1.000000001"),
        (86_400_123_456_789, 86_400_123_456_790, "0.000000001"),
        # Files of several clocks, merged.
        (3_000_000_000, 2_700_000_000, "-0.300000000"),
        (5_300_000_000, 3_000_000_000, "-2.300000000"),
    ],
)
def test_response_times_are_exact(asked_ns: int, answered_ns: int, time: str, tmp_path: Path) -> None:
    frames = [
        (1_000_000_000, of_router(1, WHOLE[0].payload)),
        (asked_ns, of_router(1, frame(FrameType.SR, 9, 5, SenderRequest(1000)))),
        (answered_ns, of_router(2, frame(FrameType.UR, 9, 5, WHOLE[3].frame.body))),
    ]
    found = rows(write_capture(tmp_path / "times.pcap", frames), ["cbcb.response_time"])
    assert found == [{}, {}, {"response_time": [time]}]


def merged(tmp_path: Path, *links: list[Timed]) -> Path:
    """One file of several captures, by the command that the document gives."""
    match = re.search(r"`(mergecap .*) all\.pcapng \.\.\.`", GUIDE.read_text(encoding="utf-8"))
    assert match
    files = [write_capture(tmp_path / f"link-{at}.pcap", frames) for at, frames in enumerate(links)]
    whole = tmp_path / "all.pcapng"
    subprocess.run([*match[1].split(), str(whole), *map(str, files)], check=True, timeout=60)
    return whole


@pytest.mark.skipif(shutil.which("mergecap") is None, reason="mergecap is not installed")
def test_tells_the_links_of_a_merged_capture(tmp_path: Path) -> None:
    vector = FRAGMENTED[0]
    request = frame(FrameType.SR, 9, 5, SenderRequest(1000))
    reply = frame(FrameType.UR, 9, 5, WHOLE[3].frame.body)
    links = [
        [
            (link, of_router(1, request)),
            ((9 - link) * MS, of_router(link + 2, reply)),
            *((10 * MS + 2 * at + link, of_router(1, one)) for at, one in enumerate(vector.payloads)),
        ]
        for link in range(2)
    ]
    capture = merged(tmp_path, *links)
    columns = ["frame.interface_id", "cbcb.request_in", "cbcb.fragments", "cbcb.note.incomplete"]
    numbers = range(5, 5 + 2 * len(vector.payloads))
    expected = [
        {"frame.interface_id": ["0"]},
        {"frame.interface_id": ["1"]},
        {"frame.interface_id": ["1"], "request_in": ["2"]},
        {"frame.interface_id": ["0"], "request_in": ["1"]},
        *({"frame.interface_id": [str(number % 2 ^ 1)]} for number in numbers),
    ]
    for link in range(2):
        expected[link - 2]["fragments"] = [str(number) for number in numbers[link::2]]
    assert rows(capture, columns) == expected
    assert rows(capture, columns, "-2", "-R", "cbcb") == expected
    # Without a filter, the first of two passes does not know the interface.
    assert not any("note.incomplete" in row for row in rows(capture, columns, "-2"))


def test_warns_of_what_every_router_drops(tmp_path: Path) -> None:
    message = Frame(FrameType.MSG, 1, 1, 1, 64, Message({"a": 1}))
    payload = encode(message)
    cases = {
        "": of_router(1, payload),
        "bad_source": ethernet(bytes(6), PORT_1, payload),
        "not_from_controller": of_router(1, frame(FrameType.COMMIT, 1, 1, Commit(1))),
        "not_from_router": of_controller(payload),
        "unknown_epoch": of_router(1, encode(Frame(FrameType.MSG, 1, 1, 0, 64, message.body))),
        "hop_limit": of_router(1, encode(replace(message, hop_limit=0))),
        "no_port": ethernet(node_address(1), bytes.fromhex("030000000000"), payload),
    }
    names = [f"cbcb.drop.{name}" for name in cases if name]
    found = rows(write_capture(tmp_path / "drops.pcap", ((0, data) for data in cases.values())), names)
    assert found == [{f"drop.{name}": ["1"]} if name else {} for name in cases]


def reassembled(frames: list[Timed]) -> list[tuple[str, int]]:
    """Returns the result of the router's reassembly for each frame: None, the whole (bytes), or the
    reason."""
    reassembler = Reassembler()
    found = []
    for at_ns, data in frames:
        try:
            whole = reassembler.add(sender_of(data), data[14:], at_ns / 1e9)
        except DecodeError as error:
            found.append((error.reason.value, 0))
        else:
            found.append(("whole", len(whole[1])) if whole else ("", 0))
    return found


def test_reassembles_as_the_routers_do(tmp_path: Path) -> None:
    """Fragments out of order, repeated, changed, late, from several routers, of several frames at once."""
    draw = random.Random(1)
    frames: list[Timed] = []
    at_ns = 0
    for _ in range(1500):
        at_ns += draw.choice([1, 1, 1, 1, 1, 29_000]) * MS
        vector = draw.choice(FRAGMENTED)
        data = bytearray(of_router(draw.randrange(3), draw.choice(vector.payloads)))
        # To some of the sender's ports: a frame that is sent again goes to fewer of them.
        data[5] = draw.randrange(256)
        if draw.random() < 0.1:
            # Epoch, or a byte of the body: what fragments of one frame have in common, or their content.
            data[draw.choice([14 + 19, 14 + 33])] ^= 1
        frames.append((at_ns, bytes(data)))
    expected = reassembled(frames)
    assert {kind for kind, _ in expected} == {"", "whole", "bad_fragment"}
    found = rows(
        write_capture(tmp_path / "fragments.pcap", frames),
        ["cbcb.decode_error", "cbcb.error.bad_fragment", "cbcb.fragments", "_ws.lua.error"],
    )
    for row, (kind, _) in zip(found, expected, strict=True):
        assert "_ws.lua.error" not in row
        assert ("error.bad_fragment" in row) == (kind == "bad_fragment")
        # A whole of changed bytes may be undecodable, and shows its fragments all the same.
        assert ("fragments" in row) == (kind == "whole")


def test_a_repeated_fragment_is_not_missing(tmp_path: Path) -> None:
    first, second, *_ = FRAGMENTED[0].payloads
    assert len(FRAGMENTED[0].payloads) == 2
    changed = bytearray(first)
    changed[-1] ^= 1
    payloads = [second, second, first, first, first, bytes(changed)]
    frames = [(at, of_router(1, payload)) for at, payload in enumerate(payloads)]
    columns = ["cbcb.fragments", "cbcb.reassembled_in", "cbcb.note.incomplete", "cbcb.decode_error"]
    found = rows(write_capture(tmp_path / "repeats.pcap", frames), columns, "-2")
    assert found == [
        {"reassembled_in": ["3"]},
        {"reassembled_in": ["3"]},
        {"fragments": ["3", "1"]},
        {"reassembled_in": ["3"]},
        {"reassembled_in": ["3"]},
        {"decode_error": ["bad_fragment"]},
    ]
    late = [(at, of_router(1, payload)) for at, payload in enumerate([first, second, second, bytes(changed)])]
    found = rows(write_capture(tmp_path / "late.pcap", late), columns[:3], "-2")
    # A router restarts the frame with the repeat, and completes it with the changed fragment.
    assert found == [
        {"reassembled_in": ["2"]},
        {"fragments": ["1", "2"]},
        {"reassembled_in": ["4"]},
        {"fragments": ["4", "3"]},
    ]


def interleaved(frames: int, length: int, chunk: int) -> Iterator[Timed]:
    """Messages of one unknown TLV, in fragments, 1 us from one to the next; each at a pace of its own."""
    draw = random.Random(3)
    body = b"\x0b" + (length - 5).to_bytes(4, "big") + bytes(length - 5)
    pieces = [body[at : at + chunk] for at in range(0, length, chunk)]
    todo = dict.fromkeys(range(frames), 0)
    at_ns = 0
    while todo:
        (issuer,) = draw.choices(list(todo), [4 + issuer % 2 for issuer in todo])
        index = todo[issuer]
        header = HEADER.pack(1, 1, 0, 64, issuer, 7, 1, length, index, len(pieces), len(pieces[index]), 0)
        at_ns += 1000
        yield at_ns, of_router(3, header + pieces[index])
        todo[issuer] += 1
        if todo[issuer] == len(pieces):
            del todo[issuer]


@pytest.mark.parametrize(
    ("frames", "length", "chunk"),
    [(5, 15 * MIB, 60_000), (5, 14 * MIB + MIB // 5, 4_000), (2000, 15, 5)],
    ids=["bytes", "overhead", "frames"],
)
def test_reassembles_in_the_memory_of_the_routers(
    frames: int, length: int, chunk: int, tmp_path: Path
) -> None:
    capture = write_capture(tmp_path / "large.pcap", interleaved(frames, length, chunk))
    reassembler = Reassembler()
    expected = [
        reassembler.add(3, data[14:], at_ns / 1e9) is not None
        for at_ns, data in interleaved(frames, length, chunk)
    ]
    found = ["fragments" in row for row in rows(capture, ["cbcb.fragments"])]
    capture.unlink()
    assert reassembler.evicted
    assert 0 < sum(expected) < frames
    assert found == expected


def test_a_body_of_too_many_items_is_checked_and_partly_shown(tmp_path: Path) -> None:
    # 700,000 filters that match everything: more items than Wireshark allows in a frame.
    body = b"\x02\0\0\0\0" * 700_000
    chunk = 65_000
    pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    frames = [
        (
            index,
            of_router(
                1,
                HEADER.pack(1, 2, 0, 64, 1, 1, 1, len(body), index, len(pieces), len(piece), 0) + piece,
            ),
        )
        for index, piece in enumerate(pieces)
    ]
    capture = write_capture(tmp_path / "many.pcap", frames, snaplen=262_144)
    # From 4.4 on, tshark makes no items below a field that nobody asked for: the predicate's.
    columns = ["cbcb.note.too_many_items", "cbcb.decode_error", "_ws.lua.error", "cbcb.predicate"]
    found = [{name: row[name] for name in row if name != "predicate"} for row in rows(capture, columns)]
    assert found == [{}] * (len(pieces) - 1) + [{"note.too_many_items": ["1"]}]


def test_tells_a_cut_capture_from_a_short_frame(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "cut.pcap", [(0, ETHERNET + WHOLE[1].payload)], snaplen=60)
    found = rows(capture, ["cbcb.decode_error", "cbcb.note.cut_by_capture"])
    assert found == [{"decode_error": ["truncated"], "note.cut_by_capture": ["1"]}]


def test_texts_are_those_of_the_printer(tmp_path: Path) -> None:
    texts = ["".join(map(chr, range(first, first + 32))) for first in range(0, 256, 32)]
    numbers = [1e15, -2.5e15, 1234567890123456.0, 9e15, 1e16, 1.2345678901234568e17, 1e-4, 1e-5, -0.0, 5e-324]
    values: list[Value] = [*texts, *numbers, 0.1, 1.7976931348623157e308, -(2**63)]
    constraints = [Constraint("x", type_of(value), Operator.EQ, value) for value in values]
    constraints += [
        Constraint(name, Type.INTEGER, Operator.ANY, None) for name in ("any", "a b", "é", "a.b-c")
    ]
    predicate = Predicate(tuple(Filter((each,)) for each in constraints))
    capture = write_capture(
        tmp_path / "texts.pcap", [(0, of_router(1, frame(FrameType.RA, 1, 1, predicate)))]
    )
    (row,) = rows(capture, ["cbcb.filter", "cbcb.predicate"])
    assert row["filter"] == [format_filter(each) for each in predicate]
    assert row["predicate"] == [format_predicate(predicate)]


@pytest.mark.parametrize("behind", [0, 29, 63])
def test_there_is_no_trailer_behind_a_signature_that_is_cut_short(tmp_path: Path, behind: int) -> None:
    payload = bytearray(WHOLE[0].payload + bytes(behind))
    payload[2] |= Flags.SIGNED | Flags.TAGGED
    assert read_trailer(bytes(payload)) is None
    assert layers.Trailer not in Ether(of_router(1, bytes(payload)))
    capture = write_capture(tmp_path / "cut.pcap", [(0, of_router(1, bytes(payload)))])
    assert rows(capture, ["cbcb.tag_count", "cbcb.decode_error"]) == [{}]
