"""The small files of a run, read and turned into tables before Spark has started."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.accounting.log_tables import (
    ApplicationTables,
    FirstPredicate,
    application_tables,
    controller_table,
    opening_predicates,
    oracle_table,
    routing_table,
)
from captures.accounting.recovery import read_epochs
from captures.accounting.shortest_paths import shortest_paths
from captures.accounting.trees import read_trees
from captures.frames.index import check_capture
from captures.rundir.capture_list import CapturedFile, read_captures
from captures.rundir.clock import Clock
from captures.rundir.counters import SwitchCounters, read_routers_counters, read_switches_counters
from captures.rundir.epochs import Epochs
from captures.rundir.files import RunFolderError
from captures.rundir.layout import RunLayout
from captures.rundir.manifest import SIMULATED, read_manifest
from captures.rundir.topology import read_topology
from captures.rundir.workload import WorkloadLine, read_workload
from topos.model import Link, Node, Topology

_MOST_BINS = 300
FILES = pa.schema(
    [
        ("capture", pa.string()),
        ("kind", pa.string()),
        ("link", pa.int32()),
        ("node", pa.int32()),
        ("captured", pa.int64()),
        ("received_by_filter", pa.int64()),
        ("dropped_by_kernel", pa.int64()),
        ("defect", pa.string()),
    ]
)
LINKS = pa.schema(
    [
        *(("link", pa.int32()), ("u", pa.int32()), ("v", pa.int32()), ("u_port", pa.int32())),
        *(("v_port", pa.int32()), ("cost", pa.int64()), ("bandwidth_mbps", pa.float64())),
        *(("delay_ms", pa.float64()), ("loss_percent", pa.float64())),
    ]
)
NODES = pa.schema([("node", pa.int32()), ("x", pa.float64()), ("y", pa.float64())])


@dataclass(frozen=True, slots=True)
class Inputs:
    """The small files of a run. `simulated`: it may lack captures of links."""

    run: RunLayout
    captures: list[CapturedFile]
    log: ApplicationTables
    oracle: pa.Table
    workload: list[WorkloadLine]
    opening: dict[int, FirstPredicate]
    clock: Clock
    router_counters: dict[int, dict[str, Any]]
    ovs_counters: SwitchCounters
    topology: Topology
    epochs: Epochs
    simulated: bool

    @property
    def links(self) -> Sequence[Link]:
        return self.topology.links

    @property
    def all_hosts_captured(self) -> bool:
        """Whether every router's own link has a capture: a large simulation may keep fewer."""
        captured = {one.identity.node for one in self.captures if one.identity.kind == "host"}
        return captured >= self.router_counters.keys()

    @property
    def bin_s(self) -> float:
        """The narrowest bin of 1, 2 or 5 times a power of ten (0.1 s or more) that makes at most 300."""
        span_s = max(0.0, self.clock.experiment_s(self.log.last_ns))
        for power in range(-1, 9):
            for factor in (1, 2, 5):
                width = factor * 10.0**power
                if span_s / width <= _MOST_BINS:
                    return width
        return math.ceil(span_s / _MOST_BINS)


def read_inputs(run: RunLayout) -> Inputs:
    """Raises RunFolderError: a file is missing or bad."""
    manifest = read_manifest(run)
    log = application_tables(run)
    workload = [line for _, line in read_workload(run)]
    requested = [first.requested_ns for first in log.first_predicates.values()]
    start_ns = min(requested) if requested else manifest["started_ns"]
    captures = read_captures(run)
    for capture in captures:
        if not (run.path / capture.file).is_file():
            raise RunFolderError(f"{run.path / capture.file}: missing; {run.captures.name} names it")
    return Inputs(
        run=run,
        captures=captures,
        log=log,
        oracle=oracle_table(run),
        workload=workload,
        opening=opening_predicates(log, workload),
        clock=Clock(start_ns, manifest["time_scale"]),
        simulated=manifest["datapath"] == SIMULATED,
        router_counters=read_routers_counters(run),
        ovs_counters=read_switches_counters(run),
        topology=read_topology(run),
        epochs=read_epochs(run),
    )


def defects(files: Mapping[str, Path]) -> dict[str, str]:
    """Which captures end inside a record, and where."""
    return {name: defect for name, path in files.items() if (defect := check_capture(path))}


def capture_files(captures: list[CapturedFile], damaged: Mapping[str, str]) -> pa.Table:
    """The table of `FILES`."""
    rows = [
        {
            "capture": capture.identity.name,
            "kind": capture.identity.kind,
            "link": capture.identity.link,
            "node": capture.identity.node,
            "captured": capture.captured,
            "received_by_filter": capture.received_by_filter,
            "dropped_by_kernel": capture.dropped_by_kernel,
            "defect": damaged.get(capture.identity.name),
        }
        for capture in captures
    ]
    return pa.Table.from_pylist(rows, schema=FILES)


def link_table(links: Iterable[Link]) -> pa.Table:
    """The table of `LINKS`."""
    rows = [
        {"link": link.index, **{name: getattr(link, name) for name in LINKS.names if name != "link"}}
        for link in links
    ]
    return pa.Table.from_pylist(rows, schema=LINKS)


def node_table(nodes: Iterable[Node]) -> pa.Table:
    """The table of `NODES`."""
    return pa.Table.from_pylist([{"node": node.id, "x": node.x, "y": node.y} for node in nodes], schema=NODES)


def written_tables(inputs: Inputs) -> dict[str, pa.Table]:
    """The tables that hold what small files hold, and the trees that routers were told, by name."""
    run, clock = inputs.run, inputs.clock
    senders = inputs.log.sent["source"].unique().to_pylist()
    return {
        "applications": inputs.log.events(clock),
        "controller": controller_table(run, clock),
        "links": link_table(inputs.links),
        "nodes": node_table(inputs.topology.nodes),
        "oracle": inputs.oracle,
        "routing_tables": routing_table(run),
        "shortest_paths": shortest_paths(inputs.links, senders),
        "trees": read_trees(inputs.captures, run.path, senders),
    }
