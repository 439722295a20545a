"""The broadcast trees that routers were told, from the TABLE frames in the captures of their host links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from captures.pcap.reader import PcapReader
from captures.rundir.capture_list import CapturedFile
from router.wire.addresses import CONTROLLER_SOURCE, ETHERNET_HEADER_LENGTH, ETHERTYPE
from router.wire.format import Tlv
from router.wire.fragments import Reassembler
from router.wire.frames import BroadcastTable, FrameType
from router.wire.header import DecodeError
from router.wire.table import decode_table
from router.wire.tlv import TLV_HEADER_LENGTH, tlvs

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


def read_trees(captures: Iterable[CapturedFile], run: Path, sources: Collection[int]) -> pa.Table:
    """The trees of `sources` in all epochs, with the columns of `TREES`: one row a router and source.

    The trees of the others would be most of a large network's: it has as many as pairs of nodes. A table that
    was sent again is there once. Nodes that the table does not name, as the source's own parent, are null.
    Frames that do not decode are passed over here; the accounting counts them.

    Raises:
        captures.pcap.reader.PcapError, OSError: as `PcapReader`.
    """
    wanted = frozenset(source.to_bytes(4, "big") for source in sources)
    batches = []
    for capture in captures:
        if capture.identity.kind == "host":
            rows: list[tuple[Any, ...]] = []
            known: set[int] = set()
            for epoch, told_ns, table in _tables(run / capture.file, wanted):
                if epoch not in known:
                    known.add(epoch)
                    rows += _rows(epoch, capture.identity.node, told_ns, table)
            columns = list(zip(*rows, strict=True)) or [() for _ in TREES]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, TREES, strict=True)]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=TREES))
    # Spark takes no column without a chunk: where no router's own link was captured, there is no batch.
    return pa.Table.from_batches(batches, schema=TREES) if batches else TREES.empty_table()


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


def _tables(path: Path, wanted: frozenset[bytes]) -> Iterator[tuple[int, int, BroadcastTable]]:
    """Epoch, time in ns and body of each TABLE frame that the controller sent in one capture.

    Of the body, the entries of the sources `wanted`, each as it stands there.
    """
    reassembler = Reassembler()
    for time_ns, payload in _table_payloads(path):
        try:
            whole = reassembler.add(CONTROLLER_SOURCE, payload, time_ns / 1e9)
            if whole is None:
                continue
            header, data = whole
            table = decode_table(_only(data, wanted))
        except DecodeError:
            continue
        yield header.epoch, time_ns, table


def _only(body: bytes, wanted: frozenset[bytes]) -> bytes:
    """The body of a TABLE without the entries of other sources. Raises DecodeError."""
    return b"".join(
        body[start - TLV_HEADER_LENGTH : end]
        for kind, start, end in tlvs(body)
        if kind != Tlv.TREE_ENTRY or body[start : start + 4] in wanted
    )


def _table_payloads(path: Path) -> Iterator[tuple[int, bytes]]:
    for block in PcapReader(path).blocks():
        raw = np.frombuffer(block.data, dtype=np.uint8)
        long_enough = np.flatnonzero(block.captured > ETHERNET_HEADER_LENGTH + 1)
        types = raw[block.start[long_enough] + ETHERNET_HEADER_LENGTH + 1]
        for row in long_enough[types == FrameType.TABLE].tolist():
            start = int(block.start[row])
            frame = bytes(block.data[start : start + int(block.captured[row])])
            if frame[6:14] == CONTROLLER_SOURCE + _ETHERTYPE:
                yield int(block.time_ns[row]), frame[ETHERNET_HEADER_LENGTH:]
