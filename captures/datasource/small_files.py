"""Packets of many small files, decoded together.

Most of the time for a small file goes into the calls that decode a block, not into its packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from captures.datasource.packet_view import PACKET_COLUMNS, PacketDecoder
from captures.pcap.reader import LINKTYPE_ETHERNET, Block, Int64s

#: Files of at most this size are read together.
SMALL_BYTES = 256 * 1024
#: Blocks are decoded when they have this size together, or so many packets.
_MOST_BYTES, _MOST_PACKETS = 4 * 1024 * 1024, 50_000


class SmallFiles:
    """Collects blocks of packets of several files, for one batch of `PACKET_COLUMNS`.

    Args:
        columns: names of `PACKET_COLUMNS`, in order.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._decoder = PacketDecoder("", self._columns)
        self._paths: list[str] = []
        self._blocks: list[Block] = []
        self._bytes = self._packets = 0

    def add(self, path: str, block: Block) -> bool:
        """Adds the next block of a file.

        Returns whether the blocks should be decoded now.
        """
        self._paths.append(path)
        # A copy: the reader's buffer, of some MB for each file, is not held.
        self._blocks.append(replace(block, data=bytes(block.data)))
        self._bytes += len(block.data)
        self._packets += len(block.start)
        return self._bytes >= _MOST_BYTES or self._packets >= _MOST_PACKETS

    def take(self) -> tuple[Block, pa.RecordBatch] | None:
        """The blocks as one, and its packets in order; None: there is none.

        The next block that is added is the first of the next batch.
        """
        if not self._blocks:
            return None
        blocks, paths = self._blocks, self._paths
        block = _together(blocks)
        batch = self._decoder.decode(block)
        for name in {"file", "offset", "number"}.intersection(self._columns):
            if name == "file":
                column = _repeated(paths, [len(each.start) for each in blocks])
            elif name == "offset":
                column = pa.array(np.concatenate([each.start + each.offset for each in blocks]))
            else:
                column = _numbers(blocks)
            field = pa.field(name, PACKET_COLUMNS[name][0])
            batch = batch.set_column(self._columns.index(name), field, column)
        self._paths, self._blocks, self._bytes, self._packets = [], [], 0, 0
        return block, batch


def _together(blocks: Sequence[Block]) -> Block:
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
        interface=joined("interface", 0),
        link_type=joined("link_type", LINKTYPE_ETHERNET),
    )


def _repeated(paths: Sequence[str], counts: Sequence[int]) -> pa.Array:
    index = np.repeat(np.arange(len(paths), dtype=np.int32), counts)
    return pa.array(paths, pa.string()).take(pa.array(index))


def _numbers(blocks: Sequence[Block]) -> pa.Array:
    """The number of each packet in its file, from 1; null: unknown."""
    known = np.repeat([each.before is not None for each in blocks], [len(each.start) for each in blocks])
    numbers = np.concatenate([np.arange(len(each.start)) + (each.before or 0) + 1 for each in blocks])
    return pa.array(numbers, pa.int64(), mask=None if known.all() else ~known)
