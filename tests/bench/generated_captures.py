"""A run folder with captures of many small frames, made up fast: a line of routers, one capture a link.

Frames are MSG (17 of 20), RA (2) and SR (1), 82 bytes each, in a pattern; times run over one minute. A
message is seen in up to `COPIES` frames, as if it had crossed so many links, and a predicate in two. Values
are drawn with a seed.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.wire.frames import Body, Frame, FrameType, SenderRequest
from router.wire.header import node_address
from tests.support.whole_frames import encode

LINKS = 8
COPIES = 4
START_NS = 1_700_000_000_000_000_000
SPAN_NS = 60_000_000_000
FRAME_BYTES = 82
_CHUNK = 200_000
_RECORD = np.dtype(
    [("seconds", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4"), ("frame", "u1", FRAME_BYTES)]
)
_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)


def write_captures(folder: Path, frames: int, seed: int = 1, links: int = LINKS) -> list[Path]:
    """Writes about `frames` frames in all (a multiple of `links`); the capture files."""
    (folder / "pcap").mkdir(parents=True)
    random = np.random.default_rng(seed)
    files = []
    for link in range(links):
        files.append(folder / "pcap" / f"link-{link}-{link + 1}.pcap")
        with files[-1].open("wb") as file:
            file.write(_PCAP_HEADER)
            written, of_link = 0, frames // links
            while written < of_link:
                count = min(_CHUNK, of_link - written)
                file.write(_records(random, link, written, count, of_link).tobytes())
                written += count
    _write_folder(folder, links)
    return files


def _records(random: np.random.Generator, link: int, first: int, count: int, of_link: int) -> Any:
    records = np.zeros(count, _RECORD)
    number = np.arange(first, first + count)
    time_ns = START_NS + number * (SPAN_NS // of_link)
    records["seconds"], records["ns"] = time_ns // 10**9, time_ns % 10**9
    records["captured"] = records["length"] = FRAME_BYTES
    templates, fields = _templates(link)
    kind = np.array([0] * 17 + [1] * 2 + [2])[number % 20]
    frame = templates[kind]
    drawn = random.integers(0, 2**40, (count + COPIES - 1) // COPIES).repeat(COPIES)[:count]
    # Sequence numbers are those of the issuers, values those of messages and predicates.
    _put(frame, slice(22, 30), number // COPIES)
    for index, place in fields.items():
        _put(frame, place, drawn, kind == index)
    # Every other frame runs the other way.
    frame[number % 2 == 1, 11] = link + 1
    records["frame"] = frame
    return records


def _put(frame: Any, place: slice, values: Any, rows: Any = slice(None)) -> None:
    frame[rows, place] = values.astype(">i8").view("u1").reshape(-1, 8)[rows]


def _templates(link: int) -> tuple[Any, dict[int, slice]]:
    """A frame of each kind, and where a 64-bit integer lies in those of a message or predicate."""
    marked = 0x0102030405060708
    bodies: dict[FrameType, Body] = {
        FrameType.MSG: Message({"n": marked, "price": 0.25}),
        FrameType.RA: Predicate((Filter((Constraint("n", Type.INTEGER, Operator.LT, marked),)),)),
        FrameType.SR: SenderRequest(250_000),
    }
    head = bytes.fromhex("030000000001") + node_address(link) + b"\x88\xb5"
    frames = [
        (head + encode(Frame(kind, link, 0, 1, 64, body))).ljust(FRAME_BYTES, b"\0")
        for kind, body in bodies.items()
    ]
    assert {len(frame) for frame in frames} == {FRAME_BYTES}
    found = {index: frame.find(marked.to_bytes(8, "big")) for index, frame in enumerate(frames)}
    fields = {index: slice(at, at + 8) for index, at in found.items() if at >= 0}
    return np.array([list(frame) for frame in frames], np.uint8), fields


def _write_folder(folder: Path, count: int) -> None:
    links = [
        {"index": i, "u": i, "v": i + 1, "u_port": min(i, 1) + 1, "v_port": 1, "loss_percent": 0}
        for i in range(count)
    ]
    nodes = [{"id": node} for node in range(count + 1)]
    (folder / "topology.json").write_text(json.dumps({"name": "line", "nodes": nodes, "links": links}))
