"""View `files`: the format, contents and defects of capture files, one row for each file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from captures.frames.parts import FilePart
from captures.pcap.formats import LINKTYPE_ETHERNET, PcapError
from captures.pcap.opening import is_compressed
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME

#: Column -> (Arrow type, Spark SQL type, meaning).
FILE_COLUMNS: dict[str, tuple[pa.DataType, str, str]] = {
    "file": (pa.string(), "string", "path or URI"),
    "size": (pa.int64(), "bigint", "bytes of the file"),
    "compressed": (pa.bool_(), "boolean", "whether the file is compressed (gzip, zstd)"),
    "packets": (pa.int64(), "bigint", "whole packets in the file"),
    "bytes": (pa.int64(), "bigint", "bytes of the packets on the wire"),
    "cut": (pa.int64(), "bigint", "packets cut by the snapshot length"),
    "untimed": (pa.int64(), "bigint", "packets without a time, such as a fraction of more than two seconds"),
    "link_types": (pa.list_(pa.int32()), "array<int>", "link types of the packets"),
    "first_ns": (pa.int64(), "bigint", "least time, ns since 1970 UTC; null: no packet has one"),
    "last_ns": (pa.int64(), "bigint", "greatest time, ns since 1970 UTC; null: no packet has one"),
    "defect": (
        pa.string(),
        "string",
        "how the file ends inside a record, or where it is damaged; null: it is whole",
    ),
    "error": (pa.string(), "string", "why the file is no capture, or cannot be read; null: it is a capture"),
}


def file_health(part: FilePart, columns: Sequence[str]) -> pa.RecordBatch:
    """The row of a file, which is read from start to end."""
    reader = PcapReader(part.path, link_type=None)
    row: dict[str, Any] = {"file": part.path, "size": part.size}
    row |= dict.fromkeys(("packets", "bytes", "cut", "untimed"), 0)
    link_types: set[int] = set()
    first: list[int] = []
    last: list[int] = []
    try:
        row["compressed"] = is_compressed(part.path)
        for block in reader.blocks():
            row["packets"] += len(block.start)
            row["bytes"] += int(block.length.sum())
            row["cut"] += int(np.count_nonzero(block.captured < block.length))
            types = [LINKTYPE_ETHERNET] if block.link_type is None else np.unique(block.link_type).tolist()
            link_types.update(types)
            times = block.time_ns[block.time_ns != NO_TIME]
            row["untimed"] += len(block.time_ns) - len(times)
            if len(times):
                first.append(int(times.min()))
                last.append(int(times.max()))
    except (PcapError, OSError) as error:
        row["error"] = str(error)
    row["link_types"] = sorted(link_types)
    row["first_ns"], row["last_ns"] = min(first, default=None), max(last, default=None)
    row["defect"] = reader.defect
    schema = pa.schema([(name, FILE_COLUMNS[name][0]) for name in columns])
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in columns}], schema)
