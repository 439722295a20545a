"""Inputs of the accounting as tables: the run, its topology, and the attention-limited service.

The broadcast trees are read from the TABLE frames in the captures of the routers' host links.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import as_table
from captures.frames.bodies import attribute_maps, signed64
from captures.pcap.reader import PcapReader
from captures.rundir.capture_list import CapturedFile
from captures.rundir.oracle import SUBSCRIPTIONS
from captures.tables import TABLES
from router.predicates import Message
from router.predicates.printer import format_message
from router.records.attention import AttentionEvent
from router.wire.frames import BroadcastTable, FrameType
from router.wire.header import CONTROLLER_HEADER, CONTROLLER_SOURCE, ETHERNET_HEADER_LENGTH, DecodeError
from router.wire.intake import Reassembler
from router.wire.table import decode_table
from topos import Link

TREES = TABLES["trees"].schema
SHORTEST = TABLES["shortest_paths"].schema
_SERVICE = pa.schema(
    [
        *(("event", pa.string()), ("t_ns", pa.int64()), ("node", pa.int32()), ("app", pa.string())),
        *(("source", pa.int64()), ("seq", pa.int64()), ("message", pa.string())),
        *(("subscription", pa.int64()), ("round", pa.int32())),
        *(("age_s", pa.float64()), ("whence", pa.string())),
        *((name, pa.string()) for name in ("before", "after", "cause")),
    ]
)
#: Unsigned numbers of 64 bits.
_UNSIGNED = ("seq", "subscription")


def run(inputs: Inputs) -> pa.Table:
    """The run as a whole."""
    clock = inputs.clock
    row = {
        "experiment": inputs.manifest.get("experiment"),
        "seed": inputs.manifest.get("seed"),
        "datapath": inputs.manifest["datapath"],
        "start_ns": clock.start_ns,
        "last_ns": inputs.log.last_ns,
        "last_s": inputs.last_s,
        "time_scale": inputs.time_scale,
        "width_s": inputs.bin_s,
        "clock": list(map(asdict, clock.pieces)),
    }
    return pa.Table.from_pylist([row], schema=TABLES["run"].schema)


def links(inputs: Inputs) -> pa.Table:
    """The links of the topology."""
    rows = [{**vars(link), "link": link.index} for link in inputs.topology.links]
    return pa.Table.from_pylist(rows, schema=TABLES["links"].schema)


def nodes(inputs: Inputs) -> pa.Table:
    """The nodes of the topology."""
    rows = [{**vars(node), "node": node.id} for node in inputs.topology.nodes]
    return pa.Table.from_pylist(rows, schema=TABLES["nodes"].schema)


def shortest_paths(links: Sequence[Link], sources: Iterable[int]) -> pa.Table:
    """The table `shortest_paths`: fewest hops and least cost from each source to each other node.

    A node that `links` do not connect with a source has no row for it.
    """
    graph = nx.Graph()
    graph.add_weighted_edges_from(((link.u, link.v, link.cost) for link in links), weight="cost")
    rows: list[tuple[int, ...]] = []
    for source in sorted(set(sources) & set(graph)):
        hops = nx.single_source_shortest_path_length(graph, source)
        costs = nx.single_source_dijkstra_path_length(graph, source, weight="cost")
        rows += [(source, node, hops[node], costs[node]) for node in hops if node != source]
    return as_table(rows, SHORTEST)


def subscription_table(inputs: Inputs) -> pa.Table:
    """The table `subscriptions`: rounds of subscriptions, judged by the oracle."""
    rows = [
        {**_signed(row), "matching": row["m_s"], "eligible": row["m_s_eligible"]}
        for row in map(dict, SUBSCRIPTIONS.read_all(inputs.run))
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["subscriptions"].schema)


def service_table(inputs: Inputs) -> pa.Table:
    """The records of routers, with the columns of `_SERVICE` and `attributes`; empty with another service."""
    events = [_row(event) for event in inputs.service if inputs.judgement is not None]
    contents = attribute_maps([event.get("attributes") for event in events])
    return pa.Table.from_pylist(events, _SERVICE).append_column("attributes", contents)


def _row(event: AttentionEvent) -> dict[str, Any]:
    row = _signed(dict(event))
    if "attributes" in row:
        row["message"] = format_message(Message(row["attributes"]))
    return row


def _signed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: signed64(row[name]) for name in _UNSIGNED if name in row}


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
    # Rows of Python take several times the memory of a table: no more of them than one capture has at once.
    parts = []
    for capture in captures:
        if capture.identity.kind == "host":
            rows: list[tuple[Any, ...]] = []
            known: set[int] = set()
            for epoch, told_ns, table in _tables(run / capture.file):
                if epoch not in known:
                    known.add(epoch)
                    rows += _entries(epoch, capture.identity.node, told_ns, table, ascending)
            parts.append(as_table(rows, TREES))
    return pa.concat_tables(parts or [as_table([], TREES)])


def _entries(
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
            if frame[6:14] == CONTROLLER_HEADER[6:]:
                yield int(block.time_ns[row]), frame[ETHERNET_HEADER_LENGTH:]
