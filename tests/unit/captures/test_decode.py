"""Columns from frames, where the documents leave the answer to the decoder.

`tests/unit/accounting/test_independent_reader.py` compares the columns of the golden vectors and of runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from captures.datasource.views import FRAMES, TRAFFIC
from captures.frames import CaptureIdentity
from captures.frames.columns import COUNTED_COLUMNS, SCHEMA, TRAFFIC_COLUMNS
from captures.frames.decoder import FrameDecoder
from captures.frames.parts import FilePart
from captures.pcap.blocks import Block
from router.predicates import Message
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType
from router.wire.header import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, node_address, port_addresses
from tests.support.capture_files import enhanced, interface, made_view, section
from tests.support.compiled_loops import WAYS, loops
from tests.support.mutated_frames import mutated
from tests.support.whole_frames import encode

LINK = CaptureIdentity("link-3-5", "link", link=7, u=3, v=5)
TO_PORT_1 = port_addresses([1])[0]
MESSAGE = Frame(FrameType.MSG, 9, (0xF000_0000 << 32) | 4, 2, 63, Message({"price": 3}))


def _ethernet(
    source: int, payload: bytes, destination: bytes = TO_PORT_1, ethertype: bytes = b"\x88\xb5"
) -> bytes:
    return (destination + node_address(source) + ethertype + payload).ljust(60, b"\0")


def _rows(frames: list[bytes]) -> list[dict[str, Any]]:
    lengths = np.array([len(frame) for frame in frames], dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    times = np.arange(len(frames), dtype=np.int64) + 10
    batch = FrameDecoder(LINK).decode(Block(b"".join(frames), start, lengths, lengths, times, before=0))
    assert batch.schema == SCHEMA
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_fragments_are_put_together() -> None:
    payloads = fragment(Frame(FrameType.MSG, 9, 4, 2, 63, Message({"text": "x" * 2000})))
    # From the other end, the same fragments are another frame's.
    # A frame that is sent again goes to fewer neighbours.
    sent = [(5, [1], payloads[1]), (3, [1], payloads[0]), (5, [1, 2], payloads[0])]
    rows = _rows([_ethernet(node, payload, port_addresses(ports)[0]) for node, ports, payload in sent])
    assert [(row["fragment_index"], row["fragment"], row["undecodable"]) for row in rows] == [
        (1, "partial", None),
        (0, "partial", None),
        (0, "completing", None),
    ]
    texts = [row["attributes"] and row["attributes"][0][1]["string"] for row in rows]
    assert texts == [None, None, "x" * 2000]


def test_contradicting_fragments_are_reported() -> None:
    payloads, other = (
        fragment(Frame(FrameType.MSG, 9, 4, 2, 63, Message({"text": letter * 2000}))) for letter in "xy"
    )
    rows = _rows([_ethernet(5, payload) for payload in (payloads[0], other[0], payloads[1])])
    assert [row["undecodable"] for row in rows] == [None, "bad_fragment", None]
    assert [row["type"] for row in rows] == ["MSG"] * 3


def test_a_source_is_checked_before_the_body_as_routers_do() -> None:
    broken = encode(MESSAGE).replace(b"price", b"pri\xffe")
    rows = _rows([_ethernet(node, broken) for node in (3, 4)])
    assert [row["undecodable"] for row in rows] == ["bad_name", "bad_source"]


def test_frames_of_other_types_and_the_shortest_do_not_read_their_neighbours() -> None:
    of_ip = _ethernet(3, encode(MESSAGE), ethertype=b"\x08\x00")
    rows = _rows([b"", b"\x03", of_ip, _ethernet(3, encode(MESSAGE))])
    assert [row["undecodable"] for row in rows] == [*["bad_ethertype"] * 3, None]
    assert [row["from_node"] for row in rows] == [None, None, 3, 3]
    assert [row["type"] for row in rows] == [None, None, None, "MSG"]


_KEYS = ("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")
_CAPTURES = [LINK, CaptureIdentity("host-3", "host", node=3), CaptureIdentity("any", None)]
_SOURCES = [*map(node_address, (3, 3, 3, 5, 5, 8, 2**31)), CONTROLLER_SOURCE, b"\x02\xcb\xff\xff\xff\xff"]


def _capture(random: Random, count: int) -> bytes:
    """Frames good and bad, some cut, some of none of the ends, of two link types, some without a time."""
    content = section() + interface(tsresol=9) + interface(tsresol=9, link_type=101)
    for _ in range(count):
        head = random.choice((TO_PORT_1, CONTROLLER_DESTINATION)) + random.choice(_SOURCES)
        frame = head + random.choice([b"\x88\xb5"] * 9 + [b"\x08\x00"]) + mutated(random)
        cut = frame[: random.randrange(len(frame) + 1)] if random.random() < 0.1 else frame
        ticks = random.choice((*[2**63] * 9, *range(90)))
        content += enhanced(
            ticks, cut, number=random.randrange(8) // 7, length=len(frame) + random.choice((0, 2**31))
        )
    return content


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda capture: str(capture.name))
@pytest.mark.parametrize("compiled", WAYS)
def test_traffic_counts_every_frame_once(tmp_path: Path, capture: CaptureIdentity, compiled: bool) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(_capture(Random(f"traffic/{capture.name}"), 4500))

    def rows(view: str, columns: Iterable[str]) -> list[dict[str, Any]]:
        read = made_view(view, [*columns], {str(path): capture}, bin_seconds=1e-8)
        return [row for batch in read.read(FilePart(str(path))) for row in batch.to_pylist()]

    expected, found = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for row in rows(FRAMES, COUNTED_COLUMNS):
        time_ns = row["time_ns"]
        key = *(row[name] for name in _KEYS), None if time_ns is None else time_ns // 10 * 10
        undecodable = row["undecodable"] is not None
        for name, number in (("frames", 1), ("bytes", row["length"]), ("frames_undecodable", undecodable)):
            expected[*key, name] += number
    with loops(compiled=compiled):
        for row in rows(TRAFFIC, TRAFFIC_COLUMNS):
            for name in ("frames", "bytes", "frames_undecodable"):
                found[*(row[key] for key in (*_KEYS, "bin_ns")), name] += row[name]
    assert +found == +expected
    assert sum(count for key, count in expected.items() if key[-1] == "frames_undecodable") > 100
