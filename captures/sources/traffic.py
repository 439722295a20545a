"""Frames counted while they are decoded: one row for each capture, direction, type and time bin of a block.

The rows are parts of sums: several may be of one bin. Few rows leave the reader, where the other views hand
every frame to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.columns import COLUMNS
from captures.decode import CaptureIdentity, FrameDecoder
from captures.packets.compiling import Loop, worth_compiling
from captures.packets.splitting import FilePart
from captures.pcap import NO_TIME, Block

#: Columns of a group of frames that are those of each of them.
_OF_FRAMES = ("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")
#: Column -> (Arrow type, Spark SQL type, meaning).
TRAFFIC_COLUMNS: dict[str, tuple[pa.DataType, str, str]] = {
    **{name: COLUMNS[name] for name in _OF_FRAMES},
    "bin_ns": (
        pa.int64(),
        "bigint",
        "start of the time bin, ns since 1970 UTC; null: the file gives no time",
    ),
    "frames": (pa.int64(), "bigint", "frames; sum over the rows of a bin"),
    "bytes": (pa.int64(), "bigint", "their bytes on the wire; sum over the rows of a bin"),
    "undecodable": (
        pa.int64(),
        "bigint",
        "those of the frames that do not decode; sum over the rows of a bin",
    ),
}

Int64s = npt.NDArray[np.int64]


def _group_rows(keys: Any, group: Any, first: Any) -> int:
    """group[i]: number of row i's keys among the distinct ones; first[g]: a row that has keys g."""
    rows, width = keys.shape
    size = 16
    while size < 2 * rows:
        size *= 2
    slots = np.full(size, -1, np.int64)
    groups = 0
    for row in range(rows):
        code = np.uint64(0)
        for column in range(width):
            # Fibonacci hashing: the multiplier is 2^64 over the golden ratio.
            code = (code ^ np.uint64(keys[row, column])) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(code >> np.uint64(32)) & (size - 1)
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = groups
                first[groups] = row
                group[row] = groups
                groups += 1
                break
            same = True
            for column in range(width):
                same = same and keys[first[found], column] == keys[row, column]
            if same:
                group[row] = found
                break
            slot = (slot + 1) & (size - 1)
    return groups


_GROUP_ROWS = Loop(_group_rows)


class TrafficDecoder:
    """Counts the frames of the blocks of one capture, in bins of `bin_ns`; some of `TRAFFIC_COLUMNS`."""

    def __init__(self, capture: CaptureIdentity, columns: Sequence[str], bin_ns: int) -> None:
        self._decoder = FrameDecoder(capture, _OF_FRAMES)
        self._bin_ns = bin_ns
        self._columns = columns

    def carry(self, part: FilePart) -> None:
        """As `FrameDecoder.carry`."""
        self._decoder.carry(part)

    def pass_over(self, block: Block) -> None:
        """As `FrameDecoder.pass_over`."""
        self._decoder.pass_over(block)

    def decode(self, block: Block) -> pa.RecordBatch:
        """The counts of a block."""
        examined = self._decoder.examine(block)
        bins = block.time_ns // self._bin_ns * self._bin_ns
        group, first = _groups(np.stack([*examined.keys(), bins], axis=1), len(block.data))
        batch = examined.take(first).batch(_OF_FRAMES)
        count = len(first)
        made = {
            "bin_ns": pa.array(bins[first], mask=block.time_ns[first] == NO_TIME),
            "frames": pa.array(np.bincount(group, minlength=count)),
            # Sums of doubles are exact up to 2^53.
            "bytes": pa.array(np.bincount(group, block.length, count).astype(np.int64)),
            "undecodable": pa.array(np.bincount(group, examined.reason != 0, count).astype(np.int64)),
        }
        schema = pa.schema([(name, TRAFFIC_COLUMNS[name][0]) for name in self._columns])
        arrays = [made[name] if name in made else batch.column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _groups(keys: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """The number of each row's keys among the distinct ones, and for each of these a row that has them."""
    if worth_compiling(size):
        group, first = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        groups = _GROUP_ROWS.compiled(keys, group, first)
        return group, first[:groups]
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return group.reshape(-1), first
