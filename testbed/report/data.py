"""What a report shows, read from a run folder without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from testbed.errors import InputError
from testbed.workload.generate import match_distribution
from testbed.workload.model import Workload, read_workload

#: The tables that the report reads, and the columns that it needs of each (docs/tables.md).
TABLES: dict[str, tuple[str, ...]] = {
    "link_totals": ("link", "from_node", "to_node", "type", "frames", "bytes"),
    "type_bins": ("type", "bin_s", "frames", "bytes", "frames_per_s"),
    "false_negative_curve": ("t_s", "fraction"),
    "false_positive_curve": ("t_s", "fraction"),
    "control_share_curve": ("t_s", "fraction"),
    "control_rate_curve": ("t_s", "ra_per_s", "sr_ur_per_s"),
    "link_utilisation": ("link", "from_node", "to_node", "bin_s", "bits_per_s", "utilisation"),
    "deliveries": ("delay_s",),
    "arrivals": ("hops", "cost", "shortest_hops", "shortest_cost"),
    "talkers": ("node", "type", "frames_sent", "bytes_sent", "frames_received", "bytes_received"),
    "predicates": ("node", "app", "predicate", "filters", "from_s", "until_s", "deliveries"),
    "advertised": ("type", "predicate", "issuers", "crossings", "body_bytes"),
    "captures": (
        *("capture", "kind", "captured", "received_by_filter", "dropped_by_kernel", "defect"),
        *("frames", "bytes", "undecodable", "first_s", "last_s"),
    ),
}


@dataclass(frozen=True)
class RunData:
    """A run, as the report reads it.

    Attributes:
        summary, manifest: the JSON objects of the same names.
        topology: `{"name", "nodes": [{"id", "x", "y"}], "links": [...]}`.
        captures: the entries of capture.json (empty if there is none).
        tables: the tables of `TABLES`; one that was not written is empty.
        workload: what applications asked for.
        matched: for each message the share of predicates that selects it (0..1).
    """

    run_dir: Path
    summary: dict[str, Any]
    manifest: dict[str, Any]
    topology: dict[str, Any]
    captures: list[dict[str, Any]]
    tables: dict[str, pd.DataFrame]
    workload: Workload
    matched: list[float]


def read_run(run_dir: Path) -> RunData:
    """Reads a run folder.

    summary.json and topology.json must be there; what else is missing comes out empty.

    Raises:
        InputError: a needed file is missing, or one is malformed (names the file).
    """
    workload_path = run_dir / "workload.jsonl"
    workload = read_workload(workload_path) if workload_path.exists() else Workload()
    return RunData(
        run_dir=run_dir,
        summary=_json(run_dir / "summary.json"),
        manifest=_json(run_dir / "manifest.json", default={}),
        topology=_json(run_dir / "topology.json"),
        captures=_json(run_dir / "capture.json", default=[]),
        tables={name: _table(run_dir / "parquet" / name, columns) for name, columns in TABLES.items()},
        workload=workload,
        matched=match_distribution(workload),
    )


def _json(path: Path, default: Any = None) -> Any:
    if not path.exists() and default is not None:
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a file of a finished run") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """A table written by Spark (a folder of Parquet files), or by other means as one file `NAME.parquet`."""
    if not path.exists():
        path = path.with_suffix(".parquet")
    if not path.exists():
        return pd.DataFrame({column: [] for column in columns})
    table = pd.read_parquet(path)
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; "
            f"expected {', '.join(columns)}, found {', '.join(table.columns)}"
        )
    return table
