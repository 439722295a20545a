"""The data of a report, read from a run folder without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, read_captures
from captures.rundir.clock import Clock, read_clock
from captures.rundir.inputs import MANIFEST, Manifest, read_topology
from captures.rundir.summary import read_summary
from captures.tables import store
from testbed.experiments.workload import read_workload
from testbed.experiments.workload.generate import match_distribution
from topos import Topology

#: The tables that the report reads, and the columns that it needs of each (docs/reference/tables.md).
TABLES: dict[str, tuple[str, ...]] = {
    "link_totals": ("link", "from_node", "to_node", "type", "frames", "bytes"),
    "type_bins": ("type", "bin_s", "frames", "bytes", "frames_per_s"),
    "false_negative_curve": ("t_s", "fraction"),
    "false_positive_curve": ("t_s", "fraction"),
    "control_share_curve": ("t_s", "fraction"),
    "control_rate_curve": ("t_s", "ra_per_s", "sr_ur_per_s"),
    "attention_curve": (
        *("t_s", "publications_per_s", "deliveries_per_s", "registrations_per_s"),
        *("satisfied_fraction", "starved_fraction"),
    ),
    "link_utilisation": ("link", "from_node", "to_node", "bin_s", "bits_per_wall_s", "utilisation"),
    "deliveries": ("delay_wall_s",),
    "messages": ("source",),
    "publications": ("source",),
    "subscriptions": ("node",),
    "arrivals": ("hops", "cost", "shortest_hops", "shortest_cost"),
    "link_savings": ("link", "from_node", "to_node", "cbcb", "broadcast", "unicast", "minimal"),
    "talkers": ("node", "type", "frames_sent", "bytes_sent", "frames_received", "bytes_received"),
    "predicates": ("node", "app", "predicate", "filters", "from_s", "until_s", "deliveries"),
    "advertised": ("type", "predicate", "issuers", "crossings", "body_bytes"),
    "captures": (
        *("capture", "kind", "frames_written", "received_by_filter", "dropped_by_kernel", "defect"),
        *("frames", "bytes", "frames_undecodable", "first_s", "last_s"),
    ),
}


@dataclass(frozen=True)
class RunData:
    """The data of a run for its report.

    Attributes:
        clock: the experiment clock; None: the run has none.
        captures: the captures; empty if there is no list of them.
        tables: the tables of `TABLES`; a table that was not written is empty.
        matched: for each message of the workload the share of predicates that selects it (0..1).
    """

    run_dir: Path
    summary: dict[str, Any]
    manifest: Manifest | None
    topology: Topology
    clock: Clock | None
    captures: list[CapturedFile]
    tables: dict[str, pd.DataFrame]
    matched: list[float]

    @property
    def senders(self) -> set[int]:
        """Nodes whose applications sent something."""
        return set[int]().union(*(self.tables[name]["source"] for name in ("messages", "publications")))

    @property
    def receivers(self) -> set[int]:
        """Nodes whose applications declared a predicate or a subscription."""
        return set[int]().union(*(self.tables[name]["node"] for name in ("predicates", "subscriptions")))

    @property
    def links_captured(self) -> bool:
        """Whether the run has captures of links: without them, the frames of a link are not known."""
        return self.summary.get("links_captured") != 0


def read_run(run_dir: Path) -> RunData:
    """Reads a run folder.

    Summary and topology are required; other data that is missing is empty.

    Raises:
        RunFolderError: a required file is missing, or a file is malformed (names the file).
    """
    run = RunLayout(run_dir)
    return RunData(
        run_dir=run_dir,
        summary=read_summary(run),
        manifest=MANIFEST.read(run) if run.manifest.exists() else None,
        topology=read_topology(run),
        clock=read_clock(run) if run.clock.exists() else None,
        captures=read_captures(run) if run.captures.exists() else [],
        tables={name: _table(run_dir, name, columns) for name, columns in TABLES.items()},
        matched=match_distribution(read_workload(run)),
    )


def _table(run_dir: Path, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    table = store.read(run_dir, name, columns)
    if table is None:
        return pd.DataFrame({column: [] for column in columns})
    # Equal tables give an equal page, whatever order an engine wrote their rows in.
    return table.to_pandas().sort_values(list(columns), ignore_index=True)


def sums(table: pd.DataFrame, keys: list[str], column: str) -> dict[Any, int]:
    """Returns the sums of a column by the keys; rows that lack a key, such as host links, are left out."""
    found = table.groupby(keys if len(keys) > 1 else keys[0])[column].sum()
    return {key: int(value) for key, value in found.items()}
