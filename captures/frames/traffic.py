"""Frames counted while they are decoded: a row for each capture, direction, pair of ends, type and time bin.

The rows are parts of sums: several may be of one bin. Few rows leave the reader, where the other views hand
every frame to Spark.

A compiled loop counts well-formed frames. The decoder of frames makes the columns of the others, and of one
frame of each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from captures.frames.columns import COLUMNS
from captures.frames.decoder import FrameDecoder
from captures.frames.identity import CaptureIdentity
from captures.frames.parts import FilePart
from captures.pcap.compiling import should_compile
from captures.pcap.joined import JoinedBlocks
from captures.pcap.reader import NO_TIME, Block

if TYPE_CHECKING:
    from captures.frames.well_formed import WellFormedFrames

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

_SUMS = ("frames", "bytes", "undecodable")
_SCHEMA = pa.schema([(name, column[0]) for name, column in TRAFFIC_COLUMNS.items()])
#: So many groups are held, and examples of them, before their counts are handed on.
_MOST_GROUPS = 65_536
_MOST_EXAMPLE_BYTES = 16 * 1024 * 1024

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TrafficDecoder:
    """Counts the frames of the blocks of one capture, in bins of `bin_ns`; some of `TRAFFIC_COLUMNS`."""

    def __init__(self, capture: CaptureIdentity, columns: Sequence[str], bin_ns: int) -> None:
        self._decoder = FrameDecoder(capture, (*_OF_FRAMES, "undecodable"))
        self._capture = capture
        self._bin_ns = bin_ns
        self._columns = list(columns)
        self._well_formed: WellFormedFrames | None = None
        self._held: list[pa.Table] = []

    def carry(self, part: FilePart) -> None:
        """As `FrameDecoder.carry`."""
        self._decoder.carry(part)

    def pass_over(self, block: Block) -> None:
        """As `FrameDecoder.pass_over`."""
        self._decoder.pass_over(block)

    def decode(self, block: Block) -> pa.RecordBatch:
        """Counts the frames of a block.

        Returns what has been counted so far if it is much, else no rows.
        """
        if should_compile(len(block.data)):
            if self._well_formed is None:
                from captures.frames.well_formed import WellFormedFrames

                self._well_formed = WellFormedFrames(self._capture, self._bin_ns, _MOST_GROUPS)
            block = block.take(self._well_formed.add(block))
        if len(block.start):
            self._held.append(_counted([self], JoinedBlocks([block])))
        return self.rest() if self._is_full() else _nothing(tuple(self._columns))

    @staticmethod
    def together(
        decoders: Sequence[TrafficDecoder], joined: JoinedBlocks, inside: Mask | None = None
    ) -> pa.RecordBatch:
        """Counts the frames of blocks of several captures.

        Args:
            decoders: for each block, the decoder of its capture; all have the same bins and columns.
            inside: the frames that are counted; None: all.
        """
        return _batch(_counted(decoders, joined, inside), decoders[0]._columns)

    def _is_full(self) -> bool:
        held: int = sum(table.num_rows for table in self._held)
        counted = self._well_formed
        if counted is None:
            return held >= _MOST_GROUPS
        return held + counted.groups >= _MOST_GROUPS or counted.example_bytes >= _MOST_EXAMPLE_BYTES

    def rest(self) -> pa.RecordBatch:
        """The counts that have not been returned yet."""
        if self._well_formed is not None and self._well_formed.groups:
            self._held.append(self._of_well_formed(self._well_formed))
            self._well_formed = None
        if not self._held:
            return _nothing(tuple(self._columns))
        table, self._held = pa.concat_tables(self._held), []
        return _batch(table, self._columns)

    def _of_well_formed(self, counted: WellFormedFrames) -> pa.Table:
        """The counts of the compiled loop, with the columns of one frame of each group."""
        examples = counted.examples()
        decoded = self._decoder.decode(examples)
        made = {
            "bin_ns": _bins(examples.time_ns, self._bin_ns),
            "frames": pa.array(counted.frames),
            "bytes": pa.array(counted.bytes),
            "undecodable": pa.repeat(pa.scalar(0, pa.int64()), counted.groups),
        }
        return pa.table({name: decoded.column(name) for name in _OF_FRAMES} | made, schema=_SCHEMA)


def _counted(
    decoders: Sequence[TrafficDecoder], joined: JoinedBlocks, inside: Mask | None = None
) -> pa.Table:
    """The counts of the frames of blocks, by way of their columns."""
    block = joined.block
    decoded = FrameDecoder.together([each._decoder for each in decoders], joined)
    made = {
        "bin_ns": _bins(block.time_ns, decoders[0]._bin_ns),
        "frames": pa.repeat(pa.scalar(1, pa.int64()), len(block.start)),
        "bytes": pa.array(block.length),
        "undecodable": pc.is_valid(decoded.column("undecodable")).cast(pa.int64()),
    }
    keys = [*_OF_FRAMES, "bin_ns"]
    frames = pa.table({name: decoded.column(name) for name in _OF_FRAMES} | made)
    if inside is not None:
        frames = frames.filter(pa.array(inside))
    sums = frames.group_by(keys).aggregate([(name, "sum") for name in _SUMS])
    return sums.rename_columns([*keys, *_SUMS]).select(_SCHEMA.names)


def _bins(time_ns: Int64s, bin_ns: int) -> pa.Array:
    return pa.array(time_ns // bin_ns * bin_ns, mask=time_ns == NO_TIME)


@cache
def _nothing(columns: tuple[str, ...]) -> pa.RecordBatch:
    """No rows of some columns."""
    return _batch(_SCHEMA.empty_table(), list(columns))


def _batch(table: pa.Table, columns: list[str]) -> pa.RecordBatch:
    """Some columns of a table as one batch."""
    chosen = table.select(columns).combine_chunks()
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in chosen.columns], columns)
