"""The small files of a run, read and turned into tables before Spark has started."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.accounting.log_tables import (
    ApplicationLog,
    FirstPredicate,
    opening_predicates,
    read_applications,
    read_controller,
    read_oracle,
    read_routing_tables,
)
from captures.accounting.recovery import read_epochs
from captures.accounting.shortest_paths import shortest_paths
from captures.accounting.summary import SIMULATED
from captures.accounting.trees import read_trees
from captures.frames.index import check_capture
from captures.rundir.clock import Clock
from captures.rundir.epochs import Epochs
from captures.rundir.folder import CapturedFile, LinkEnds, RunFolder, RunFolderError

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

    run: RunFolder
    captures: list[CapturedFile]
    log: ApplicationLog
    oracle: pa.Table
    workload: list[dict[str, Any]]
    opening: dict[int, FirstPredicate]
    clock: Clock
    router_counters: dict[int, dict[str, Any]]
    ovs_counters: dict[int, dict[int, dict[str, int]]]
    links: list[LinkEnds]
    epochs: Epochs
    simulated: bool

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


def read_inputs(run: RunFolder) -> Inputs:
    """Raises RunFolderError: a file is missing or bad."""
    manifest = run.manifest()
    log = read_applications(run)
    workload = run.workload_items()
    requested = [first.requested_ns for first in log.first_predicates.values()]
    start_ns = min(requested) if requested else int(manifest.get("started_ns", 0))
    captures = run.captures()
    for capture in captures:
        if not (run.path / capture.file).is_file():
            raise RunFolderError(f"{run.path / capture.file}: missing; capture.json names it")
    return Inputs(
        run=run,
        captures=captures,
        log=log,
        oracle=read_oracle(run),
        workload=workload,
        opening=opening_predicates(log, workload),
        clock=Clock(start_ns, float(manifest["time_scale"])),
        simulated=manifest.get("datapath") == SIMULATED,
        router_counters=run.router_counters(),
        ovs_counters=run.ovs_counters(),
        links=run.links(),
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
            "dropped_by_kernel": capture.dropped,
            "defect": damaged.get(capture.identity.name),
        }
        for capture in captures
    ]
    return pa.Table.from_pylist(rows, schema=FILES)


def link_table(links: list[LinkEnds]) -> pa.Table:
    """The table of `LINKS`."""
    rows = [
        {"link": link.index, **{name: getattr(link, name) for name in LINKS.names if name != "link"}}
        for link in links
    ]
    return pa.Table.from_pylist(rows, schema=LINKS)


def written_tables(inputs: Inputs) -> dict[str, pa.Table]:
    """The tables that hold what small files hold, and the trees that routers were told, by name."""
    run, clock = inputs.run, inputs.clock
    senders = inputs.log.sent["source"].unique().to_pylist()
    return {
        "applications": inputs.log.events(clock),
        "controller": read_controller(run, clock),
        "links": link_table(inputs.links),
        "nodes": pa.Table.from_pylist(run.nodes(), schema=NODES),
        "oracle": inputs.oracle,
        "routing_tables": read_routing_tables(run),
        "shortest_paths": shortest_paths(inputs.links, senders),
        "trees": read_trees(inputs.captures, run.path, senders),
    }
