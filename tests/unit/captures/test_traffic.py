"""View `traffic` against the frames that it counts."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from captures.frames import CaptureIdentity
from captures.frames.columns import COUNTED_COLUMNS, TRAFFIC_COLUMNS, traffic
from captures.frames.decoder import FrameDecoder
from captures.pcap.blocks import Block
from captures.pcap.walk import NO_TIME
from router.wire.header import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, node_address
from tests.support.compiled_loops import WAYS, loops
from tests.support.mutated_frames import mutated

_BIN_NS = 10
_KEYS = ("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")
_CAPTURES = [
    CaptureIdentity("link-3-5", "link", link=7, u=3, v=5),
    CaptureIdentity("host-3", "host", node=3),
    CaptureIdentity("any", None),
]
_SOURCES = [*map(node_address, (3, 3, 3, 5, 5, 8, 2**31)), CONTROLLER_SOURCE, b"\x02\xcb\xff\xff\xff\xff"]
_DESTINATIONS = [bytes.fromhex("030000000001"), CONTROLLER_DESTINATION]


def _block(random: Random, count: int, mixed_links: bool) -> Block:
    """Frames good and bad, some cut, some of none of the ends, with times in a few bins or without one."""
    frames = []
    for _ in range(count):
        head = random.choice(_DESTINATIONS) + random.choice(_SOURCES)
        frame = head + random.choice([b"\x88\xb5"] * 9 + [b"\x08\x00"]) + mutated(random)
        frames.append(frame[: random.randrange(len(frame) + 1)] if random.random() < 0.1 else frame)
    captured = np.array([len(frame) for frame in frames], np.int64)
    link_type = np.array(random.choices((1, 101), k=count), np.int64) if mixed_links else None
    return Block(
        b"".join(frames),
        np.cumsum(captured) - captured,
        captured,
        captured + np.array(random.choices((0, 2**31), k=count), np.int64),
        np.array([random.choice((NO_TIME, *range(-20, 60))) for _ in range(count)], np.int64),
        link_type=link_type,
    )


def _counted_by_hand(blocks: list[Block], capture: CaptureIdentity) -> Counter[tuple[Any, ...]]:
    decoder, counts = FrameDecoder(capture), Counter[tuple[Any, ...]]()
    for block in blocks:
        for row in decoder.decode(block).to_pylist():
            time_ns = row["time_ns"]
            bin_ns = None if time_ns is None else time_ns // _BIN_NS * _BIN_NS
            key = (*(row[name] for name in _KEYS), bin_ns)
            counts[*key, "frames"] += 1
            counts[*key, "bytes"] += row["length"]
            counts[*key, "frames_undecodable"] += row["undecodable"] is not None
    return +counts


def _counted(blocks: list[Block], capture: CaptureIdentity, compiled: bool) -> Counter[tuple[Any, ...]]:
    counts = Counter[tuple[Any, ...]]()

    decoder = FrameDecoder(capture, COUNTED_COLUMNS)
    with loops(compiled=compiled):
        batches = [traffic(decoder.decode(block), list(TRAFFIC_COLUMNS), _BIN_NS) for block in blocks]
    for row in (row for batch in batches for row in batch.to_pylist()):
        for name in ("frames", "bytes", "frames_undecodable"):
            counts[*(row[key] for key in (*_KEYS, "bin_ns")), name] += row[name]
    return +counts


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda capture: capture.name)
@pytest.mark.parametrize("compiled", WAYS)
def test_traffic_counts_every_frame_once(capture: CaptureIdentity, compiled: bool) -> None:
    random = Random(f"traffic/{capture.name}")
    blocks = [_block(random, 1500, mixed) for mixed in (False, True, False)]
    expected = _counted_by_hand(blocks, capture)
    assert sum(count for key, count in expected.items() if key[-1] == "frames_undecodable") > 100
    assert _counted(blocks, capture, compiled) == expected
