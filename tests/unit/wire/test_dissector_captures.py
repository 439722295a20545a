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
from router.wire.frames import Ack, Commit, Flags, Frame, FrameType, Hello, SenderRequest
from router.wire.header import HEADER, DecodeError, node_address, port_addresses, sender_of
from router.wire.intake import Reassembler
from tests.support.cases import cases_beside
from tests.support.packets import read_trailer
from tests.support.paths import DOCS
from tests.support.tree_entries import table_of
from tests.support.whole_frames import encode
from tests.support.wire_conversation import MS, PORT_1, frame, of_controller, of_router, to_controller
from tests.support.wire_tshark import ETHERNET, Row, ethernet, needs_tshark, rows, write_capture
from tests.vectors.wire_vectors import FRAGMENTED, WHOLE

pytestmark = needs_tshark

GUIDE = DOCS / "how-to/wireshark.md"
MIB = 1024 * 1024
LINK_FIELDS = [
    *("cbcb.request_in", "cbcb.response_in", "cbcb.response_time", "cbcb.receipt_in", "cbcb.repeat_of"),
    "_ws.expert.message",
]
Timed = tuple[int, bytes]
#: Time of a frame, the frame, and what the dissector shows of it.
Case = tuple[int, bytes, Row]
PRICE = Predicate((Filter((Constraint("price", Type.INTEGER, Operator.LT, 400),)),))
TABLE = of_controller(frame(FrameType.TABLE, 4, 11, table_of((), ())))
COMMIT = of_controller(frame(FrameType.COMMIT, 4, 12, Commit(1)))


def request(seq: int, flags: Flags = Flags.NONE) -> bytes:
    return frame(FrameType.SR, 9, seq, SenderRequest(1000), flags)


def reply(seq: int) -> bytes:
    return frame(FrameType.UR, 9, seq, PRICE)


def receipt(seq: int) -> bytes:
    return frame(FrameType.RECEIPT, 9, seq, Ack(FrameType.RA))


def hello(number: int, incarnation: int) -> bytes:
    return to_controller(4, frame(FrameType.HELLO, 4, number, Hello(incarnation)))


def acknowledged(seq: int, kind: FrameType) -> bytes:
    return to_controller(4, frame(FrameType.ACK, 4, seq, Ack(kind)))


def answers(number: int, milliseconds: int) -> Row:
    return {"request_in": [str(number)], "response_time": [f"0.{milliseconds:03}000000"]}


def check(tmp_path: Path, columns: list[str], cases: list[Case], *options: str) -> None:
    """Compares what the dissector shows of each frame of a capture in two passes."""
    capture = write_capture(tmp_path / "checked.pcap", [(at_ns, data) for at_ns, data, _ in cases])
    assert rows(capture, columns, "-2", *options) == [row for *_, row in cases]


def test_links_replies_to_requests(tmp_path: Path) -> None:
    # The capture of router 2: asked by 1, asks 3 and 4, is answered by both, answers 1.
    cases: list[Case] = [
        (0, of_router(1, request(5)), {"response_in": ["5"]}),
        (2 * MS, of_router(2, request(5)), {"response_in": ["3"]}),
        (5 * MS, of_router(3, reply(5)), answers(2, 3)),
        (7 * MS, of_router(4, reply(5)), answers(2, 5)),
        (8 * MS, of_router(2, reply(5)), answers(1, 8)),
        (9 * MS, of_router(3, reply(6)), {}),
        (9 * MS, of_router(1, request(7)), {"_ws.expert.message": ["No answer in this capture"]}),
    ]
    check(tmp_path, LINK_FIELDS, cases)


def test_links_what_routers_and_controller_say(tmp_path: Path) -> None:
    repeated = {"repeat_of": ["2"], "_ws.expert.message": ["Repeated: not acknowledged in time"]}
    cases: list[Case] = [
        (0, hello(1, 1), {"response_in": ["2"]}),
        (1 * MS, TABLE, {"response_in": ["4"], **answers(1, 1)}),
        (3 * MS, TABLE, {"response_in": ["4"], **repeated}),
        (4 * MS, acknowledged(11, FrameType.TABLE), answers(3, 1)),
        (6 * MS, COMMIT, {"response_in": ["6"]}),
        (7 * MS, acknowledged(12, FrameType.COMMIT), answers(5, 1)),
    ]
    check(tmp_path, LINK_FIELDS, cases)


def test_links_receipts_to_reliable_frames(tmp_path: Path) -> None:
    advertised = frame(FrameType.RA, 9, 5, PRICE, Flags.RELIABLE)
    asked = request(6, Flags.RELIABLE)
    repeated = {"repeat_of": ["3"], "_ws.expert.message": ["Repeated: not acknowledged in time"]}
    lost, unanswered = "No receipt in this capture", "No answer in this capture"
    # The capture of router 2: it passes on the advertisement of 9, which came from 1, to 3 and 4.
    cases: list[Case] = [
        (0, of_router(1, advertised), {"receipt_in": ["2"]}),
        (1 * MS, of_router(2, receipt(5)), answers(1, 1)),
        (2 * MS, of_router(2, advertised), {"receipt_in": ["4"]}),
        (5 * MS, of_router(3, receipt(5)), answers(3, 3)),
        (102 * MS, of_router(2, advertised), {"receipt_in": ["6"], **repeated}),
        (106 * MS, of_router(4, receipt(5)), answers(5, 4)),
        (107 * MS, of_router(2, asked), {"response_in": ["8"], "_ws.expert.message": [lost]}),
        (108 * MS, of_router(3, reply(6)), answers(7, 1)),
        # Not reliable: it needs no receipt. A receipt of another type is for another frame.
        (109 * MS, of_router(2, frame(FrameType.RA, 9, 7, PRICE)), {}),
        (110 * MS, of_router(3, receipt(6)), {}),
        # To ports of another page, at the same time.
        (
            111 * MS,
            ethernet(node_address(2), port_addresses([33])[0], asked),
            {"_ws.expert.message": [unanswered, lost]},
        ),
    ]
    check(tmp_path, LINK_FIELDS, cases, "-R", "cbcb")


def test_an_answer_counts_for_the_requests_repeated_before_it(tmp_path: Path) -> None:
    unanswered = {"note.unanswered": ["1"]}
    cases: list[Case] = [
        # Of an incarnation that ended; then twice of the next incarnation, numbered from 1.
        (0, hello(9, 1), unanswered),
        (1, hello(1, 2), {"response_in": ["4"]}),
        (2, hello(2, 2), {"response_in": ["4"]}),
        (3, TABLE, {"request_in": ["3"], "response_in": ["7"]}),
        (4, TABLE, {"response_in": ["7"]}),
        (5, TABLE, {"response_in": ["7"]}),
        (6, acknowledged(11, FrameType.TABLE), {"request_in": ["6"]}),
        # Asked of router 2 in two frames, and by router 2 in between.
        (7, of_router(1, request(5)), {"response_in": ["11"]}),
        (8, of_router(2, request(5)), unanswered),
        (9, of_router(1, request(5)), {"response_in": ["11"]}),
        (10, of_router(2, reply(5)), {"request_in": ["10"]}),
        (11, TABLE, unanswered),
    ]
    check(tmp_path, ["cbcb.request_in", "cbcb.response_in", "cbcb.note.unanswered"], cases)


@pytest.mark.parametrize(("asked_ns", "answered_ns", "time"), cases_beside(__file__)["response_times"])
def test_response_times_are_exact(asked_ns: int, answered_ns: int, time: str, tmp_path: Path) -> None:
    cases: list[Case] = [
        (1_000_000_000, of_router(1, WHOLE[0].payload), {}),
        (asked_ns, of_router(1, request(5)), {}),
        (answered_ns, of_router(2, reply(5)), {"response_time": [time]}),
    ]
    check(tmp_path, ["cbcb.response_time"], cases)


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
    links = [
        [
            (link, of_router(1, request(5))),
            ((9 - link) * MS, of_router(link + 2, reply(5))),
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


def reassembled(frames: list[Timed]) -> list[str]:
    """The result of the router's reassembly for each frame: "whole", "" or the reason of a refusal."""
    reassembler = Reassembler()
    found = []
    for at_ns, data in frames:
        try:
            whole = reassembler.add(sender_of(data), data[14:], at_ns / 1e9)
        except DecodeError as error:
            found.append(error.reason.value)
        else:
            found.append("whole" if whole else "")
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
    assert set(expected) == {"", "whole", "bad_fragment"}
    found = rows(
        write_capture(tmp_path / "fragments.pcap", frames),
        ["cbcb.decode_error", "cbcb.error.bad_fragment", "cbcb.fragments", "_ws.lua.error"],
    )
    for row, kind in zip(found, expected, strict=True):
        assert "_ws.lua.error" not in row
        assert ("error.bad_fragment" in row) == (kind == "bad_fragment")
        # A whole of changed bytes may be undecodable, and shows its fragments all the same.
        assert ("fragments" in row) == (kind == "whole")


def test_a_repeated_fragment_is_not_missing(tmp_path: Path) -> None:
    first, second, *_ = FRAGMENTED[0].payloads
    assert len(FRAGMENTED[0].payloads) == 2
    changed = bytearray(first)
    changed[-1] ^= 1
    columns = ["cbcb.fragments", "cbcb.reassembled_in", "cbcb.note.incomplete", "cbcb.decode_error"]

    def shows(*cases: tuple[bytes, Row]) -> None:
        check(
            tmp_path, columns, [(at, of_router(1, payload), row) for at, (payload, row) in enumerate(cases)]
        )

    shows(
        (second, {"reassembled_in": ["3"]}),
        (second, {"reassembled_in": ["3"]}),
        (first, {"fragments": ["3", "1"]}),
        (first, {"reassembled_in": ["3"]}),
        (first, {"reassembled_in": ["3"]}),
        (bytes(changed), {"decode_error": ["bad_fragment"]}),
    )
    # A router restarts the frame with the repeat, and completes it with the changed fragment.
    shows(
        (first, {"reassembled_in": ["2"]}),
        (second, {"fragments": ["1", "2"]}),
        (second, {"reassembled_in": ["4"]}),
        (bytes(changed), {"fragments": ["4", "3"], "decode_error": ["bad_tlv"]}),
    )


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
def test_reassembles_in_the_memory_of_routers(frames: int, length: int, chunk: int, tmp_path: Path) -> None:
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
    heads = [
        HEADER.pack(1, 2, 0, 64, 1, 1, 1, len(body), index, len(pieces), len(piece), 0)
        for index, piece in enumerate(pieces)
    ]
    frames = [(0, of_router(1, head + piece)) for head, piece in zip(heads, pieces, strict=True)]
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
