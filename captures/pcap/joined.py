"""Blocks of several capture files as one block.

Most of the time for a small file goes into the calls that decode a block, not into its packets: small files
are decoded together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from captures.pcap.reader import LINKTYPE_ETHERNET, Block, Int64s


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
        """The number of each packet in its file, from 1; null: unknown."""
        known = self.spread([each.before is not None for each in self._blocks]) != 0
        numbers = np.concatenate(
            [np.arange(len(each.start)) + (each.before or 0) + 1 for each in self._blocks]
        )
        return pa.array(
            numbers, pa.int64(), mask=None if known.all() else np.broadcast_to(~known, numbers.shape)
        )


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
