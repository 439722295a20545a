"""The broadcast trees that routers were told, from the TABLE frames in the captures of their host links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from captures.decode import ETHERNET_LENGTH
from captures.pcap import PcapReader
from captures.rundir import CapturedFile
from router.wire.addresses import CONTROLLER_SOURCE, ETHERTYPE
from router.wire.codec import decode_body
from router.wire.fragments import Reassembler
from router.wire.frames import BroadcastTable, FrameType
from router.wire.header import DecodeError

TREES = pa.schema(
    [
        ("epoch", pa.int64()),
        ("node", pa.int32()),
        ("source", pa.int64()),
        ("parent", pa.int32()),
        ("parent_interface", pa.int32()),
        ("children", pa.list_(pa.int32())),
        ("child_interfaces", pa.list_(pa.int32())),
        ("off_tree", pa.list_(pa.int32())),
        ("told_ns", pa.int64()),
    ]
)
_ETHERTYPE = ETHERTYPE.to_bytes(2, "big")


def read_trees(captures: Iterable[CapturedFile], run: Path) -> pa.Table:
    """The tables of all epochs, with the columns of `TREES`: one row a router and source.

    A table that was sent again is there once. Nodes that the table does not name, as the source's own parent,
    are null. Frames that do not decode are passed over here; the accounting counts them.

    Raises:
        captures.pcap.PcapError, OSError: as `PcapReader`.
    """
    rows: list[tuple[Any, ...]] = []
    for capture in captures:
        if capture.identity.kind == "host":
            known: set[int] = set()
            for epoch, told_ns, table in _tables(run / capture.file):
                if epoch not in known:
                    known.add(epoch)
                    rows += _rows(epoch, capture.identity.node, told_ns, table)
    columns = list(zip(*rows, strict=True)) or [() for _ in TREES]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, TREES, strict=True)], schema=TREES
    )


def _rows(epoch: int, node: int | None, told_ns: int, table: BroadcastTable) -> Iterator[tuple[Any, ...]]:
    neighbour = dict(table.neighbours)
    for entry in table.entries:
        yield (
            epoch,
            node,
            entry.source,
            neighbour.get(entry.parent),
            entry.parent,
            [neighbour.get(child) for child in entry.children],
            list(entry.children),
            [neighbour.get(child) for child in entry.off_tree],
            told_ns,
        )


def _tables(path: Path) -> Iterator[tuple[int, int, BroadcastTable]]:
    """Epoch, time in ns and body of each TABLE frame that the controller sent in one capture."""
    reassembler = Reassembler()
    for time_ns, payload in _table_payloads(path):
        try:
            whole = reassembler.add(CONTROLLER_SOURCE, payload, time_ns / 1e9)
            if whole is None:
                continue
            header, data = whole
            body = decode_body(header, data)
        except DecodeError:
            continue
        if isinstance(body, BroadcastTable):
            yield header.epoch, time_ns, body


def _table_payloads(path: Path) -> Iterator[tuple[int, bytes]]:
    for block in PcapReader(path).blocks():
        raw = np.frombuffer(block.data, dtype=np.uint8)
        long_enough = np.flatnonzero(block.captured > ETHERNET_LENGTH + 1)
        types = raw[block.start[long_enough] + ETHERNET_LENGTH + 1]
        for row in long_enough[types == FrameType.TABLE].tolist():
            start = int(block.start[row])
            frame = bytes(block.data[start : start + int(block.captured[row])])
            if frame[6:14] == CONTROLLER_SOURCE + _ETHERTYPE:
                yield int(block.time_ns[row]), frame[ETHERNET_LENGTH:]
