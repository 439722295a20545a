"""Frames counted by the tasks that decode them, so that few rows reach Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from captures.frames.columns import COLUMNS

#: Columns with one value for all frames of a group.
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
#: The columns of frames of which `traffic` makes its rows.
COUNTED_COLUMNS = (*_OF_FRAMES, "time_ns", "length", "undecodable")


def traffic(frames: pa.RecordBatch, columns: Sequence[str], bin_ns: int) -> pa.RecordBatch:
    """Some of `TRAFFIC_COLUMNS`, a row for each group of frames with equal `_OF_FRAMES` in a bin of `bin_ns`.

    The rows of a file are parts of sums: each batch of frames may have rows of the same bin.

    Args:
        frames: with the columns `COUNTED_COLUMNS`.
    """
    time_ns = frames.column("time_ns")
    bins = time_ns.fill_null(0).to_numpy() // bin_ns * bin_ns
    table = pa.table(frames).append_column("bin_ns", pa.array(bins, mask=time_ns.is_null().to_numpy(False)))
    counts = (
        table.group_by([*_OF_FRAMES, "bin_ns"])
        .aggregate([([], "count_all"), ("length", "sum"), ("undecodable", "count")])
        .rename_columns({"count_all": "frames", "length_sum": "bytes", "undecodable_count": "undecodable"})
    )
    return counts.select(list(columns)).combine_chunks().to_batches()[0]
