"""Blocks of packets: consecutive packets of a file, blocks of several files as one, and columns of packets.

Most of the time for a small file goes into the calls that decode a block, not into its packets: blocks of
small files are collected, joined, and decoded together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.pcap import LINKTYPE_ETHERNET
from captures.pcap.compiling import Loop
from captures.pcap.walk import NO_TIME

#: Files of at most this size are read together.
SMALL_BYTES = 256 * 1024
#: Blocks of small files are decoded when they have this size together, or so many packets.
_MOST_BYTES, _MOST_PACKETS = 4 * 1024 * 1024, 50_000

Int64s = npt.NDArray[np.int64]
_Decoder = TypeVar("_Decoder")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive packets of a file.

    Attributes:
        data: the bytes of the file with the packets; of a compressed file, of its content.
        start: offset of each packet's first byte in `data`.
        captured, length: bytes of each packet in the file, and on the wire.
        time_ns: time of capture, ns since 1970 UTC; `NO_TIME`: the file has none.
        offset: offset in the file of the first byte of `data`.
        interface: index of each packet's interface in its section; None: all 0 (pcap).
        link_type: link type of each packet; None: all Ethernet.
        before: packets of the file before the block.
    """

    data: bytes | memoryview
    start: Int64s
    captured: Int64s
    length: Int64s
    time_ns: Int64s
    offset: int = 0
    interface: Int64s | None = None
    link_type: Int64s | None = None
    before: int = 0

    def packet(self, row: int) -> tuple[bytes, tuple[int, int, int]]:
        """The bytes of a packet, and its place: offset in the file, captured bytes, time."""
        at, captured = int(self.start[row]), int(self.captured[row])
        return bytes(self.data[at : at + captured]), (self.offset + at, captured, int(self.time_ns[row]))


class JoinedBlocks:
    """Blocks of one or more files, at least one, with their packets in order.

    Attributes:
        block: the packets of all blocks. Its `offset` and `before` are those of the first block.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._counts = [len(each.start) for each in blocks]
        self.block = blocks[0] if len(blocks) == 1 else _joined(blocks)

    @cached_property
    def _ends(self) -> Int64s:
        """Behind the last row of each block."""
        return np.cumsum(self._counts)

    def packet(self, row: int) -> tuple[int, bytes, tuple[int, int, int]]:
        """The number of the block that has a row, then as `Block.packet`."""
        number = int(np.searchsorted(self._ends, row, side="right"))
        before = int(self._ends[number - 1]) if number else 0
        return number, *self._blocks[number].packet(row - before)

    def spread(self, values: Sequence[int]) -> Int64s:
        """A number for each block, repeated for its rows; for one block, an array of one number."""
        column: Int64s = np.array(values, np.int64)
        return column if len(values) == 1 else np.repeat(column, self._counts)

    def repeated(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        """A column with a value for each block, None for null."""
        if len(values) == 1:
            return pa.repeat(pa.scalar(values[0], kind), self._counts[0])
        index = np.repeat(np.arange(len(values), dtype=np.int32), self._counts)
        return pa.array(values, kind).take(pa.array(index))

    def offsets(self) -> pa.Array:
        """The offset of each packet's first byte in its file."""
        return pa.array(np.concatenate([each.start + each.offset for each in self._blocks]))

    def numbers(self) -> pa.Array:
        """The number of each packet in its file, from 1."""
        numbers = [np.arange(len(each.start)) + each.before + 1 for each in self._blocks]
        return pa.array(np.concatenate(numbers), pa.int64())


def _joined(blocks: Sequence[Block]) -> Block:
    base = np.cumsum([0, *(len(each.data) for each in blocks)])
    start = [each.start + at for each, at in zip(blocks, base.tolist(), strict=False)]

    def joined(name: str, constant: int) -> Int64s | None:
        """A column that blocks may leave out, where each row has the constant."""
        columns = [getattr(each, name) for each in blocks]
        if all(column is None for column in columns):
            return None
        return np.concatenate(
            [
                np.full(len(each.start), constant, np.int64) if column is None else column
                for each, column in zip(blocks, columns, strict=True)
            ]
        )

    return Block(
        b"".join(each.data for each in blocks),
        np.concatenate(start),
        np.concatenate([each.captured for each in blocks]),
        np.concatenate([each.length for each in blocks]),
        np.concatenate([each.time_ns for each in blocks]),
        blocks[0].offset,
        joined("interface", 0),
        joined("link_type", LINKTYPE_ETHERNET),
        blocks[0].before,
    )


def in_batches(blocks: Iterable[tuple[_Decoder, Block]]) -> Iterator[tuple[list[_Decoder], JoinedBlocks]]:
    """Joins blocks of small files: yields the decoders of some blocks, and these blocks, in their order.

    Args:
        blocks: each with the decoder of its file.
    """
    decoders, waiting, size, packets = list[_Decoder](), list[Block](), 0, 0
    for decoder, block in blocks:
        first, end = int(block.start[0]), int(block.start[-1] + block.captured[-1])
        # A copy: the reader's buffer, of some MB for each file, is not held.
        data = bytes(block.data[first:end])
        decoders.append(decoder)
        waiting.append(replace(block, data=data, start=block.start - first, offset=block.offset + first))
        size += len(data)
        packets += len(block.start)
        if size >= _MOST_BYTES or packets >= _MOST_PACKETS:
            yield decoders, JoinedBlocks(waiting)
            decoders, waiting, size, packets = [], [], 0, 0
    if waiting:
        yield decoders, JoinedBlocks(waiting)


def _gather(data: Any, start: Any, captured: Any, width: int, table: Any) -> None:
    """Writes the first `width` bytes of each packet into `table`, which holds zeros."""
    for row in range(len(start)):
        at = start[row]
        count = min(width, captured[row])
        table[row, :count] = data[at : at + count]


def _copy(data: Any, start: Any, length: Any, target: Any) -> None:
    """Writes pieces of the data into `target`, without gaps."""
    to = 0
    for row in range(len(start)):
        at, count = start[row], length[row]
        target[to : to + count] = data[at : at + count]
        to += count


_GATHER, _COPY = Loop(_gather), Loop(_copy)


def gather(block: Block, width: int) -> npt.NDArray[np.uint8]:
    """The first bytes of each packet: shape (packets, width); 0 for bytes that were not captured."""
    table = np.zeros((len(block.start), width), np.uint8)
    _GATHER(block.data, (block.start, block.captured), width, table)
    return table


def gather_bytes(data: bytes | memoryview, start: Int64s, length: Int64s) -> pa.Array:
    """The pieces data[start:start+length], as Arrow binary."""
    offsets = np.zeros(len(start) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    values = np.empty(int(offsets[-1]), np.uint8)
    _COPY(data, (start, length), values)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), len(start), buffers)


def timestamps(block: Block) -> pa.Array:
    """The time of each packet, rounded down to microseconds; null: the file has none."""
    missing = block.time_ns == NO_TIME
    times = pa.array(block.time_ns // 1000, mask=missing if missing.any() else None)
    return times.cast(pa.timestamp("us", "UTC"))
