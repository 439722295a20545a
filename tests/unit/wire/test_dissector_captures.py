"""The dissector on captures: fragments, requests, faults, hostile bytes, statistics, the profile."""

from __future__ import annotations

import ctypes.util
import os
import random
import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether

from router.predicates.encoded.model import BloomFilter, BloomPredicate, Suite
from router.predicates.model import Constraint, Filter, Message, Operator, Predicate, Type, Value, type_of
from router.predicates.printer import format_filter, format_predicate
from router.wire import codec, layers
from router.wire.addresses import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ROUTER_DESTINATION,
    node_address,
    port_addresses,
    sender_of,
)
from router.wire.format import DecodeReason
from router.wire.fragments import Reassembler
from router.wire.frames import (
    Ack,
    Body,
    Commit,
    Flags,
    Frame,
    FrameType,
    Hello,
    Publication,
    PublicationFlags,
    SenderRequest,
    Subscription,
    SubscriptionFlags,
)
from router.wire.header import HEADER, DecodeError, decode_header
from testbed.cli.wireshark import Folders, Installation, read_sources
from tests.support.packets import read_trailer
from tests.support.paths import DOCS, ROOT
from tests.support.tree_entries import table_of
from tests.support.wire_tshark import (
    DISSECTOR,
    ETHERNET,
    STATISTICS,
    ethernet,
    needs_tshark,
    rows,
    tshark,
    unescaped,
    write_capture,
)
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, WHOLE
from topos.build import LinkSpec, build
from topos.loaders import to_json
from topos.model import Node

pytestmark = needs_tshark

GUIDE = DOCS / "how-to/wireshark.md"
MS = 10**6
MIB = 1024 * 1024
COMMA = "de_DE.UTF-8"
PORT_1 = port_addresses([1])[0]
LINK_FIELDS = [
    "cbcb.request_in",
    "cbcb.response_in",
    "cbcb.response_time",
    "cbcb.receipt_in",
    "cbcb.repeat_of",
]
Timed = tuple[int, bytes]


def frame(kind: FrameType, issuer: int, seq: int, body: Body, flags: Flags = Flags.NONE) -> bytes:
    return codec.encode(Frame(kind, issuer, seq, 1, 64, body, flags))


def of_router(node: int, payload: bytes) -> bytes:
    return ethernet(node_address(node), PORT_1, payload)


def to_controller(node: int, payload: bytes) -> bytes:
    return ethernet(node_address(node), CONTROLLER_DESTINATION, payload)


def of_controller(payload: bytes) -> bytes:
    return ethernet(CONTROLLER_SOURCE, ROUTER_DESTINATION, payload)


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
    payload = codec.encode(message)
    cases = {
        "": of_router(1, payload),
        "bad_source": ethernet(bytes(6), PORT_1, payload),
        "not_from_controller": of_router(1, frame(FrameType.COMMIT, 1, 1, Commit(1))),
        "not_from_router": of_controller(payload),
        "unknown_epoch": of_router(1, codec.encode(Frame(FrameType.MSG, 1, 1, 0, 64, message.body))),
        "hop_limit": of_router(1, codec.encode(replace(message, hop_limit=0))),
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


def decode_reason(payload: bytes) -> str | None:
    try:
        header = decode_header(payload)
        if header.fragment_count == 1:
            codec.decode(payload)
    except DecodeError as error:
        return error.reason.value
    return None


def mutated(draw: random.Random, payload: bytes) -> bytes:
    data = bytearray(payload)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data)) if draw.random() < 0.7 else draw.randrange(min(len(data), 32))
        if draw.random() < 0.8:
            data[at] = draw.choice([0, 1, 2, 3, 4, 9, 10, 11, 127, 128, 255, draw.randrange(256)])
        elif draw.random() < 0.5:
            del data[at:]
        else:
            data[at:at] = draw.randbytes(draw.randint(1, 4))
        if not data:
            return b"\1"
    return bytes(data)


def test_agrees_with_the_codec_on_hostile_bytes(tmp_path: Path) -> None:
    draw = random.Random(2)
    good = [vector.payload for vector in WHOLE] + [vector.payload for vector in MALFORMED if vector.payload]
    payloads = [mutated(draw, draw.choice(good)) for _ in range(6000)]
    payloads += [draw.randbytes(draw.randint(1, 200)) for _ in range(200)]
    # Each from a node of its own, so that fragments do not meet.
    frames = ((0, ethernet(node_address(node), PORT_1, payload)) for node, payload in enumerate(payloads))
    columns = ["cbcb.decode_error", "_ws.lua.error"]
    found = rows(write_capture(tmp_path / "hostile.pcap", frames), columns)
    expected = [decode_reason(payload) for payload in payloads]
    assert {None, *DecodeReason} <= {*expected} | {"bad_fragment"}
    differences = [
        (payload.hex(), reason, row)
        for payload, reason, row in zip(payloads, expected, found, strict=True)
        if row != ({"decode_error": [reason]} if reason else {})
    ]
    assert not differences, differences[:3]


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
    found = rows(capture, ["cbcb.note.too_many_items", "cbcb.decode_error", "_ws.lua.error"])
    assert found == [{}] * (len(pieces) - 1) + [{"note.too_many_items": ["1"]}]


def test_tells_a_cut_capture_from_a_short_frame(tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "cut.pcap", [(0, ETHERNET + WHOLE[1].payload)], snaplen=60)
    found = rows(capture, ["cbcb.decode_error", "cbcb.note.cut_by_capture"])
    assert found == [{"decode_error": ["truncated"], "note.cut_by_capture": ["1"]}]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    payloads = [vector.payload for vector in WHOLE] + [MALFORMED[3].payload]
    return write_capture(tmp_path / "vectors.pcap", ((0, ETHERNET + payload) for payload in payloads))


def test_statistics_count_by_type_and_issuer(vectors: Path) -> None:
    printed = tshark(vectors, "-q", "-z", "cbcb,frames").splitlines()
    types = {kind.name for kind in FrameType}
    counted = {words[0]: int(words[1]) for line in printed if (words := line.split()) and words[0] in types}
    frames = [vector.frame for vector in WHOLE]
    assert counted == Counter(frame.type.name for frame in frames)
    assert any(line.startswith("bad_version") and "undecodable" in line for line in printed)
    issuers = {line.split()[0] for line in printed[printed.index("") + 2 :]}
    assert issuers == {str(frame.issuer) for frame in frames}
    only = tshark(vectors, "-q", "-z", "cbcb,frames,cbcb.type == 2").splitlines()
    assert [line.split()[0] for line in only[1:3]] == ["RA", "all"]


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a locale that writes 1,5."""
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed (apt-get install locales)")
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / COMMA)]
    if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("no sources of locales (apt-get install locales)")
    return folder


@pytest.fixture
def decimal_comma(locales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chooses that locale in the environment."""
    monkeypatch.setenv("LOCPATH", str(locales))
    monkeypatch.setenv("LC_ALL", COMMA)


@pytest.mark.usefixtures("decimal_comma")
def test_writes_decimals_with_a_point_in_every_locale(tmp_path: Path) -> None:
    body = Message({"a": 1.5, "b": 0.1, "c": 2.0, "d": 5e-324, "e": -1.25e300})
    data = of_router(1, frame(FrameType.MSG, 1, 1, body))
    capture = write_capture(tmp_path / "doubles.pcap", [(0, data)])
    (row,) = rows(capture, ["cbcb.value"], "-Y", 'cbcb.attribute == "a=1.5"')
    assert row["value"] == ["1.5", "0.1", "2.0", "5e-324", "-1.25e+300"]
    counted = tshark(capture, "-q", "-z", "cbcb,frames").splitlines()[1].split()
    assert counted == ["MSG", "1", "100.00%", str(len(data)), f"{len(data)}.0"]


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
    assert row["filter"] == [unescaped(format_filter(each)) for each in predicate]
    assert row["predicate"] == [unescaped(format_predicate(predicate))]


@pytest.mark.parametrize("behind", [0, 29, 63])
def test_there_is_no_trailer_behind_a_signature_that_is_cut_short(tmp_path: Path, behind: int) -> None:
    payload = bytearray(WHOLE[0].payload + bytes(behind))
    payload[2] |= Flags.SIGNED | Flags.TAGGED
    assert read_trailer(bytes(payload)) is None
    assert layers.Trailer not in Ether(of_router(1, bytes(payload)))
    capture = write_capture(tmp_path / "cut.pcap", [(0, of_router(1, bytes(payload)))])
    assert rows(capture, ["cbcb.tag_count", "cbcb.decode_error"]) == [{}]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        # Numbers are compared as numbers: as texts, "9" > "50".
        ("cbcb.value.integer > 50", [2]),
        ("cbcb.value.integer < 0", [3]),
        ("cbcb.value.double >= 9.5", [2]),
        ('cbcb.value.string == "ORD"', [1]),
        ('cbcb.value.string == ""', [3]),
        ("cbcb.value.boolean == 1", [3]),
        ('cbcb.message == "12:1"', [1, 4]),
        ('cbcb.message == "12:2"', [2]),
        ("cbcb.seq.number == 1", [1, 3, 4]),
        ("cbcb.seq.incarnation == 2 && cbcb.seq.number == 2", [2]),
        ("cbcb.publication_flags.pending == 1", [4]),
        ("cbcb.publication_flags.custody == 1", []),
        ("cbcb.subscription_flags.refreshed == 1 && !cbcb.subscription_flags.top_up == 1", [5]),
        ('cbcb.encoding == "ranges"', [6]),
        ('cbcb.filter contains "price"', [5]),
    ],
)
def test_display_filters_compare_values_of_their_type(
    tmp_path: Path, wanted: str, numbers: list[int]
) -> None:
    price = Predicate((Filter((Constraint("price", Type.STRING, Operator.PREFIX, "4"),)),))
    frames = [
        frame(FrameType.MSG, 12, 1, Message({"dest": "ORD", "stops": 9})),
        frame(FrameType.MSG, 12, 2 << 32 | 2, Message({"stops": 51, "price": 9.5})),
        frame(FrameType.MSG, 13, 1, Message({"stops": -(2**62), "dest": "", "late": True})),
        frame(
            FrameType.PUB, 3, 1, Publication(12, 1 << 32 | 1, 7, Message({}), PublicationFlags.PENDING, (4,))
        ),
        frame(FrameType.SUB, 3, 9, Subscription(1, 2, 3, 4, 5, price, SubscriptionFlags.REFRESHED)),
        frame(FrameType.XRA, 3, 9, BloomPredicate([BloomFilter(Suite(7, 64, 3, 2), 5)])),
    ]
    capture = write_capture(tmp_path / "typed.pcap", [(0, of_router(3, payload)) for payload in frames])
    assert rows(capture, ["frame.number"], "-Y", wanted) == [{"frame.number": [str(n)]} for n in numbers]


def test_the_capture_filters_of_the_profile_select_frames() -> None:
    library = ctypes.CDLL(ctypes.util.find_library("pcap"))
    library.pcap_open_dead.restype = ctypes.c_void_p
    dead = ctypes.c_void_p(library.pcap_open_dead(1, 65_535))

    def selects(expression: str, data: bytes) -> bool:
        program = (ctypes.c_uint64 * 2)()
        assert library.pcap_compile(dead, program, expression.encode(), 1, 0xFFFFFFFF) == 0, expression
        # struct pcap_pkthdr: two words of time, and the lengths captured and sent.
        head = struct.pack("llII", 0, 0, len(data), len(data))
        return bool(library.pcap_offline_filter(program, head, data))

    lines = read_sources().profile["cfilters"].decode().splitlines()
    named = {line.split('"')[1]: line.split('"')[2].strip() for line in lines}
    frames = {
        "message": of_router(1, frame(FrameType.MSG, 1, 1, Message({}))),
        "private message": of_router(1, b"\1\15" + bytes(30)),
        "advertisement": of_router(1, frame(FrameType.RA, 1, 1, Predicate(()))),
        "hello": to_controller(4, frame(FrameType.HELLO, 4, 1, Hello(1))),
        "commit": of_controller(frame(FrameType.COMMIT, 4, 12, Commit(1))),
        "IPv4": ETHERNET[:12] + b"\x08\0" + bytes(40),
    }
    assert {
        name: [key for key, data in frames.items() if selects(text, data)] for name, text in named.items()
    } == {
        "CBCB frames": ["message", "private message", "advertisement", "hello", "commit"],
        "CBCB messages": ["message", "private message"],
        "CBCB without messages": ["advertisement", "hello", "commit"],
        "CBCB of the controller": ["hello", "commit"],
    }


def test_the_buttons_of_the_profile_are_filters(vectors: Path) -> None:
    lines = read_sources().profile["dfilter_buttons"].decode().splitlines()[1:]
    buttons = [re.fullmatch(r'"TRUE","(.+)","(.+)","(.+)"', line) for line in lines]
    selected = {
        each[1]: len(rows(vectors, ["frame.number"], "-2", "-R", "cbcb", "-Y", each[2]))
        for each in buttons
        if each
    }
    assert len(selected) == len(lines)
    assert all(selected.values()), selected


def test_the_profile_colours_and_names_columns(vectors: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    where = Folders(home / ".local/lib/wireshark/plugins", home / ".config/wireshark/profiles/CBCB")
    Installation(read_sources(), where).install(lambda _target: False)
    environment = {**os.environ, "HOME": str(home), "COLORTERM": "truecolor"}
    environment.pop("XDG_CONFIG_HOME", None)
    command = ["tshark", "-C", "CBCB", "-n", "-r", str(vectors), "--color"]
    done = subprocess.run(
        [
            *command,
            "-T",
            "fields",
            "-e",
            "cbcb.type",
            "-e",
            "frame.coloring_rule.name",
            "-e",
            "_ws.col.Router",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    # No complaint about a preference, a colour rule or a plugin.
    assert [line for line in done.stderr.splitlines() if "superuser" not in line and "root" not in line] == []
    colours: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        kind, colour, *_ = line.split("\t")
        colours.setdefault(kind, set()).add(colour)
    assert "CBCB receiver advertisement" in colours["2"]
    assert colours[""] == {"CBCB undecodable"}
    shown = subprocess.run(
        command[:-1], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert " 3 1 " in shown.stdout  # router 3, to its port 1


@pytest.mark.parametrize("version", ["5.2", "5.3", "5.4"])
@pytest.mark.parametrize("script", [DISSECTOR, STATISTICS], ids=lambda path: path.name)
def test_is_valid_in_every_lua(version: str, script: Path) -> None:
    compiler = shutil.which(f"luac{version}")
    if compiler is None:
        pytest.skip(f"luac{version} is not installed (apt-get install lua{version})")
    subprocess.run([compiler, "-p", str(script)], check=True)


def infos_in_lua(version: str, tmp_path: Path, *options: str) -> list[str]:
    """The Info column of each vector, in a plain Lua with a stand-in for Wireshark's classes."""
    lua = shutil.which(f"lua{version}")
    if lua is None:
        pytest.skip(f"lua{version} is not installed (apt-get install lua{version})")
    payloads = [vector.payload for vector in WHOLE] + [one.payload for one in MALFORMED if one.payload]
    listing = tmp_path / "payloads"
    listing.write_text("".join(payload.hex() + "\n" for payload in payloads))
    stand_in = ROOT / "tests" / "support" / "wire_wireshark.lua"
    command = [lua, *options, str(stand_in), str(DISSECTOR), str(listing)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("version", ["5.2", "5.3", "5.4"])
def test_decodes_the_vectors_in_every_lua(version: str, tmp_path: Path) -> None:
    infos = infos_in_lua(version, tmp_path)
    expected = [vector.info for vector in WHOLE]
    assert infos[: len(expected)] == expected
    reasons = [info.removeprefix("Undecodable: ").partition(":")[0] for info in infos[len(expected) :]]
    assert reasons == [one.reason for one in MALFORMED if one.payload]


@pytest.mark.usefixtures("decimal_comma")
@pytest.mark.parametrize("version", ["5.2", "5.3", "5.4"])
def test_every_lua_decodes_alike_in_a_locale_with_a_decimal_comma(version: str, tmp_path: Path) -> None:
    infos = infos_in_lua(version, tmp_path, "-e", f'assert(os.setlocale("{COMMA}"))')
    expected = [vector.info for vector in WHOLE]
    assert infos[: len(expected)] == expected


def test_names_of_nodes_come_from_the_topology_of_the_run(tmp_path: Path) -> None:
    names = {3: 'a "b" ] }\\', 7: "Zürich"}
    nodes = [Node(number, 1.0, 2.0, names.get(number)) for number in range(9)]
    network = build("nodes", nodes, [LinkSpec(number, number + 1) for number in range(8)])
    topology = tmp_path / "topology.json"
    topology.write_text(to_json(network), encoding="utf-8")
    frames = [of_router(3, frame(FrameType.SR, issuer, 1, SenderRequest(1000))) for issuer in (7, 3, 5)]
    capture = write_capture(tmp_path / "named.pcap", [(at * MS, data) for at, data in enumerate(frames)])
    columns = ["cbcb.sender_name", "cbcb.issuer_name"]
    preference = ("-o", f"cbcb.topology:{topology}")
    home = tmp_path / "home"
    where = Folders(home / ".local/lib/wireshark/plugins", home / ".config/wireshark/profiles/CBCB")
    Installation(read_sources(network), where).install(lambda _target: False)
    shown = subprocess.run(
        f"tshark -C CBCB -N m -r {capture} -T fields -e eth.src_resolved -e cbcb.sender_name".split(),
        env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert unescaped(shown.stdout).splitlines() == [f'a_"b"_]_}}\\\t{names[3]}'] * 3
    assert rows(capture, columns, *preference) == [
        {"sender_name": [names[3]], "issuer_name": [names[7]]},
        {"sender_name": [names[3]], "issuer_name": [names[3]]},
        {"sender_name": [names[3]]},
    ]
    assert rows(capture, columns) == [{}, {}, {}]
    assert rows(capture, columns, "-o", f"cbcb.topology:{tmp_path / 'nowhere'}") == [{}, {}, {}]
