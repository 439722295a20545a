"""Tables of runs, as the accounting writes them and as a reader finds them that knows the documents alone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from captures.accounting.account import account_directly
from captures.rundir.layout import RunLayout
from captures.tables import store
from captures.tables.catalogue import TABLES
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.shipped import find_experiment
from testbed.results.conclude import judge_run
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.independent import tables
from tests.support.paths import ROOT

_SMALL = {
    "duration_s": "120",
    "topology.nodes": "8",
    "workload.first_message_s": "0",
    "workload.messages_per_minute": "60",
    "protocol.sr_policy": "periodic",
    "protocol.sr_period_s": "30",
}
#: What a run has of its own -> experiment, overrides, and a column of frames with a value that shows it.
_RUNS: dict[str, tuple[str, dict[str, str], tuple[str, object]]] = {
    "epochs and receipts": ("recovery", {"protocol.reliable_control": "true"}, ("type", "RECEIPT")),
    "destinations": ("ring5", {"routing.scheme": "drp"}, ("destinations", [3])),
    "publications": (
        "diallo-small",
        {
            "duration_s": "60",
            "workload.attention.publications": "300",
            "workload.attention.subscriptions": "40",
        },
        ("type", "PUB"),
    ),
    "encoded frames": ("default", {**_SMALL, "privacy.mode": "bloom"}, ("encoded", True)),
    "signatures and fragments": (
        "default",
        {
            **_SMALL,
            "security.mode": "signed",
            "workload.filters_min": "60",
            "workload.filters_max": "60",
        },
        ("fragment", "completing"),
    ),
    "requests": ("default", _SMALL, ("type", "UR")),
}
#: Digits to which numbers agree, of which the documents give no order of operations.
_DIGITS = 9


def _rows(rows: Iterable[dict[str, Any]], columns: Iterable[str]) -> Counter[str]:
    names = sorted(columns)
    return Counter(repr([_plain(row.get(name)) for name in names]) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("kind", _RUNS)
def test_a_reader_of_the_documents_finds_the_same_tables(tmp_path: Path, kind: str) -> None:
    name, overrides, (column, value) = _RUNS[kind]
    experiment = load_experiment(find_experiment(name), overrides)
    run = simulate(experiment, tmp_path, Progress(Console(quiet=True)), "all")
    judge_run(RunLayout(run), experiment)
    account_directly(run, lambda _: None)
    read = tables.Run(run)
    assert any(row.get(column) == value for row in read.frames)
    for table, recomputed in tables.TABLES.items():
        path = store.folder(run, table)
        written = pa.table({}) if store.is_empty(run, table) else pq.read_table(path)
        columns = TABLES[table].schema.names
        found, expected = _rows(recomputed(read), columns), _rows(written.to_pylist(), columns)
        assert (table, list(found - expected)[:3]) == (table, list(expected - found)[:3])


def test_the_reader_imports_nothing_of_the_project() -> None:
    for path in (ROOT / "tests" / "support" / "independent").glob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        own = {name for name in imported if re.match(r"(router|topos|captures|testbed|tests)\b", name)}
        assert own <= {"tests.support.independent.frames"}
