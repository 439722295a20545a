"""View `traffic` against the frames that it counts."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from captures.frames.decoder import FrameDecoder
from captures.frames.identity import CaptureIdentity
from captures.frames.traffic import TRAFFIC_COLUMNS, TrafficDecoder
from captures.pcap.compiling import numba_is_there
from captures.pcap.reader import NO_TIME, Block
from router.wire.addresses import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, node_address
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
_WAYS = sorted({False, numba_is_there()})


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
        for row, length in zip(decoder.decode(block).to_pylist(), block.length.tolist(), strict=True):
            time_ns = row["time_ns"]
            bin_ns = None if time_ns is None else time_ns // _BIN_NS * _BIN_NS
            key = (*(row[name] for name in _KEYS), bin_ns)
            counts[*key, "frames"] += 1
            counts[*key, "bytes"] += length
            counts[*key, "undecodable"] += row["undecodable"] is not None
    return +counts


def _counted(blocks: list[Block], capture: CaptureIdentity, compiled: bool) -> Counter[tuple[Any, ...]]:
    counts = Counter[tuple[Any, ...]]()

    def add(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            for name in ("frames", "bytes", "undecodable"):
                counts[*(row[key] for key in (*_KEYS, "bin_ns")), name] += row[name]

    with (
        patch("captures.frames.traffic.should_compile", return_value=compiled),
        patch("captures.frames.decoder.should_compile", return_value=compiled),
    ):
        decoder = TrafficDecoder(capture, tuple(TRAFFIC_COLUMNS), _BIN_NS)
        for block in blocks:
            add(decoder.decode(block))
        add(decoder.rest())
        assert decoder.rest().num_rows == 0
    return +counts


@pytest.mark.parametrize("capture", _CAPTURES, ids=lambda capture: capture.name)
@pytest.mark.parametrize("compiled", _WAYS)
@pytest.mark.parametrize("most", [{}, {"_MOST_GROUPS": 16}, {"_MOST_EXAMPLE_BYTES": 1000}], ids=str)
def test_traffic_counts_every_frame_once(
    capture: CaptureIdentity, compiled: bool, most: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in most.items():
        monkeypatch.setattr(f"captures.frames.traffic.{name}", value)
    random = Random(f"traffic/{capture.name}")
    blocks = [_block(random, 1500, mixed) for mixed in (False, True, False)]
    expected = _counted_by_hand(blocks, capture)
    assert sum(count for key, count in expected.items() if key[-1] == "undecodable") > 100
    assert _counted(blocks, capture, compiled) == expected


@pytest.mark.skipif(not numba_is_there(), reason="numba is not installed")
def test_most_frames_of_a_good_capture_are_counted_in_compiled_code() -> None:
    from captures.frames.well_formed import WellFormedFrames

    random = Random("good")
    block = _block(random, 3000, mixed_links=False)
    good = WellFormedFrames(_CAPTURES[2], _BIN_NS, room=1000)
    odd = good.add(block)
    decodes = sum(row["undecodable"] is None for row in FrameDecoder(_CAPTURES[2]).decode(block).to_pylist())
    assert 0.5 * decodes < 3000 - len(odd) == good.frames.sum() <= decodes
    few = WellFormedFrames(_CAPTURES[2], _BIN_NS, room=3)
    left = few.add(block)
    assert few.groups == 3
    assert set(odd.tolist()) < set(left.tolist())
    assert few.frames.sum() == 3000 - len(left)
