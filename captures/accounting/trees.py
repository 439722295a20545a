"""The broadcast trees, from the TABLE frames in the captures of the routers' host links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from captures.accounting.log_tables import as_table
from captures.pcap.reader import PcapReader
from captures.rundir.capture_list import CapturedFile
from captures.tables.catalogue import TABLES
from router.wire.frames import BroadcastTable, FrameType
from router.wire.header import CONTROLLER_SOURCE, ETHERNET_HEADER_LENGTH, ETHERTYPE, DecodeError
from router.wire.intake import Reassembler
from router.wire.table import decode_table

TREES = TABLES["trees"].schema
_ETHERTYPE = ETHERTYPE.to_bytes(2, "big")


def read_trees(captures: Iterable[CapturedFile], run: Path, sources: Collection[int]) -> pa.Table:
    """The table `trees`: the trees of `sources` in all epochs.

    A large network has as many entries as pairs of nodes: the trees of nodes that send nothing would make up
    most of them. A TABLE that was sent repeatedly gives one row for each entry. A node that the TABLE does
    not name, such as the parent of the source, is null. Frames that do not decode are skipped; the accounting
    counts them elsewhere.

    Raises:
        captures.pcap.reader.PcapError, OSError: as `PcapReader`.
    """
    ascending = sorted(sources)
    rows: list[tuple[Any, ...]] = []
    for capture in captures:
        if capture.identity.kind == "host":
            known: set[int] = set()
            for epoch, told_ns, table in _tables(run / capture.file):
                if epoch not in known:
                    known.add(epoch)
                    rows += _rows(epoch, capture.identity.node, told_ns, table, ascending)
    return as_table(rows, TREES)


def _rows(
    epoch: int, node: int | None, told_ns: int, table: BroadcastTable, sources: Iterable[int]
) -> Iterator[tuple[Any, ...]]:
    neighbour = dict(table.neighbours)
    for source in sources:
        number = int(table.class_of[source]) if source < table.class_of.size else 0
        if number:
            own = table.classes[number - 1]
            yield (
                epoch,
                node,
                source,
                neighbour.get(own.parent),
                own.parent,
                [neighbour.get(child) for child in own.children],
                list(own.children),
                [neighbour.get(child) for child in own.off_tree],
                told_ns,
            )


def _tables(path: Path) -> Iterator[tuple[int, int, BroadcastTable]]:
    """Epoch, time (ns) and body of each TABLE frame from the controller in one capture."""
    reassembler = Reassembler()
    for time_ns, payload in _table_payloads(path):
        try:
            whole = reassembler.add(CONTROLLER_SOURCE, payload, time_ns / 1e9)
            if whole is None:
                continue
            header, data = whole
            table = decode_table(data)
        except DecodeError:
            continue
        yield header.epoch, time_ns, table


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
