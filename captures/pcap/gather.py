"""Columns of many packets at once: first bytes as a table, all bytes and times as Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.pcap.compiling import Loop, should_compile
from captures.pcap.reader import NO_TIME, Block


def _gather(data: Any, start: Any, captured: Any, width: int, table: Any) -> None:
    """Writes the first `width` bytes of each packet into `table`, which holds zeros."""
    for row in range(len(start)):
        at = start[row]
        for column in range(min(width, captured[row])):
            table[row, column] = data[at + column]


def _copy(data: Any, start: Any, captured: Any, target: Any) -> None:
    """Writes all bytes of all packets into `target`, without gaps."""
    to = 0
    for row in range(len(start)):
        at = start[row]
        for number in range(captured[row]):
            target[to + number] = data[at + number]
        to += captured[row]


_GATHER, _COPY = Loop(_gather), Loop(_copy)


def gather(block: Block, width: int) -> npt.NDArray[np.uint8]:
    """The first bytes of each packet: shape (packets, width); 0 for bytes that were not captured."""
    raw = np.frombuffer(block.data, np.uint8)
    if should_compile(len(block.data)):
        table = np.zeros((len(block.start), width), np.uint8)
        _GATHER.compiled(raw, block.start, block.captured, width, table)
        return table
    if not len(raw):
        return np.zeros((len(block.start), width), np.uint8)
    offsets = np.arange(width)
    index = np.minimum(block.start[:, np.newaxis] + offsets, len(raw) - 1)
    return np.where(offsets < block.captured[:, np.newaxis], raw[index], 0).astype(np.uint8)


def gather_bytes(block: Block) -> pa.Array:
    """The captured bytes of each packet, as Arrow binary."""
    raw = np.frombuffer(block.data, np.uint8)
    offsets = np.zeros(len(block.start) + 1, np.int32)
    np.cumsum(block.captured, out=offsets[1:])
    values = np.empty(int(offsets[-1]), np.uint8)
    if should_compile(len(block.data)):
        _COPY.compiled(raw, block.start, block.captured, values)
    else:
        for start, captured, to in zip(
            block.start.tolist(), block.captured.tolist(), offsets.tolist(), strict=False
        ):
            values[to : to + captured] = raw[start : start + captured]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), len(block.start), buffers)


def timestamps(block: Block) -> pa.Array:
    """The time of each packet, rounded down to microseconds; null: the file has none."""
    missing = block.time_ns == NO_TIME
    times = pa.array(block.time_ns // 1000, mask=missing if missing.any() else None)
    return times.cast(pa.timestamp("us", "UTC"))
