"""The accounting on DuckDB gives the numbers of the accounting on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from captures.accounting import account as job
from captures.accounting.account import TooLargeError, account, account_directly
from captures.accounting.direct import Direct, flat
from captures.rundir.capture_list import Kept
from captures.rundir.layout import RunLayout
from captures.tables import store
from captures.tables.catalogue import TABLES
from testbed.config.hop_limit import hop_limit_of
from testbed.config.load import load_experiment
from testbed.config.shipped import find_experiment
from testbed.oracle.decide import write_oracle
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark

_SMALL = {"duration_s": "600", "topology.nodes": "10", "workload.first_message_s": "0"}
_FEW_PUBLICATIONS = {
    "duration_s": "60",
    "workload.attention.publications": "600",
    "workload.attention.subscriptions": "40",
}
#: Experiment, its overrides, and the captures that are kept.
_CASES: tuple[tuple[str, dict[str, str], Kept], ...] = (
    ("default", _SMALL, "all"),
    ("default", {**_SMALL, "broadcast.layer": "rpf", "routing.scheme": "pif-strict", "seed": "2"}, "all"),
    (
        "default",
        {**_SMALL, "workload.messages_per_minute": "60", "protocol.sr_min_interval_s": "60"},
        "links",
    ),
    ("default", {**_SMALL, "privacy.mode": "bloom"}, "all"),
    ("default", {**_SMALL, "workload": "false"}, "none"),
    ("recovery", {}, "all"),
    ("diallo-small", _FEW_PUBLICATIONS, "all"),
)


_RECONCILED = ("captures", "routers", "ovs", "applications")


def _compared(summary: dict[str, Any]) -> dict[str, Any]:
    """The keys that both have; numbers that are not whole up to rounding."""
    kept = {key: value for key, value in summary.items() if key != "accounting_s"}
    kept["rests_on"] = {
        **kept["rests_on"],
        "engine": "duckdb",
        "no_tshark": "the engine duckdb does not run it",
    }
    kept["reconciliation"] = {key: kept["reconciliation"][key] for key in _RECONCILED}
    lists = {key: value for key, value in kept.items() if isinstance(value, list)}
    return {
        key: pytest.approx(value) if isinstance(value, float) else value
        for key, value in {**flat(kept), **lists}.items()
    }


def _rows(table: pa.Table, name: str) -> list[str]:
    """The rows in order, with numbers that are not whole up to rounding."""
    rows = table.select([column.name for column in TABLES[name].columns]).to_pylist()
    return sorted(
        repr({key: f"{value:.9g}" if isinstance(value, float) else value for key, value in row.items()})
        for row in rows
    )


def _tables_agree(run: Path) -> None:
    """The tables on DuckDB have the rows of those that Spark has written."""
    with Direct(run, whole=True) as direct:
        tables = dict(direct.all_tables())
    assert tables.keys() == TABLES.keys()
    for name, table in tables.items():
        if store.is_empty(run, name):  # no frame was captured
            assert not table.num_rows
            continue
        assert _rows(table, name) == _rows(pq.read_table(run / "parquet" / name), name), name


@pytest.mark.parametrize(("name", "overrides", "captures"), _CASES)
def test_keys_and_curves_are_those_of_spark(
    tmp_path: Path, spark: SparkSession, name: str, overrides: dict[str, str], captures: Kept
) -> None:
    experiment = load_experiment(find_experiment(name), overrides)
    run = simulate(experiment, tmp_path, Progress(Console(quiet=True)), captures)
    write_oracle(RunLayout(run), experiment.oracle.in_flight_window_s, hop_limit_of(experiment))
    with Direct(run) as direct:
        found = direct.summary()
        curves = {
            ("false_negative_curve", "fraction"): direct.false_negatives(),
            ("false_positive_curve", "fraction"): direct.false_positives(),
            ("control_share_curve", "fraction"): direct.share_of(("RA", "SR", "UR")),
            ("control_share_curve", "ra_fraction"): direct.share_of(("RA",)),
        }
    summary = account(run, spark=spark)
    assert flat(found) | {key: found[key] for key in found if isinstance(found[key], list)} == _compared(
        summary
    )
    for (table, column), curve in curves.items():
        written = pq.read_table(run / "parquet" / table)
        if table == "control_share_curve":
            # Points of Spark's curve come every 2 s, also where no frame is.
            points = dict(zip(written["t_s"].to_pylist(), written[column].to_pylist(), strict=True))
            points = {t_s: points[t_s] for t_s in curve["t_s"].to_pylist()}
        else:
            points = dict(zip(written["t_s"].to_pylist(), written[column].to_pylist(), strict=True))
        assert dict(zip(*(curve[name].to_pylist() for name in ("t_s", "fraction")), strict=True)) == points
    _tables_agree(run)


def test_a_written_run_folder_gives_the_same_numbers(tmp_path: Path, spark: SparkSession) -> None:
    """Fragments, sequence numbers of 64 bits and repeated captures are in this folder."""
    run = good_run().write(tmp_path / "run")
    with Direct(run) as direct:
        found = direct.summary()
    lists = {key: value for key, value in found.items() if isinstance(value, list)}
    assert flat(found) | lists == _compared(account(run, spark=spark))
    _tables_agree(run)


def test_tables_are_written_in_the_form_of_spark_s(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    account(run, spark=spark)
    by_spark = {name: pq.read_table(run / "parquet" / name) for name in TABLES}
    published: list[dict[str, Any]] = []
    summary = account_directly(run, published.append)
    assert published == [summary]
    assert store.lacking(run, TABLES) is None
    for name, table in by_spark.items():
        written = pq.read_table(run / "parquet" / name)
        assert written.schema.names == table.schema.names, name
        assert written.schema.types == table.schema.types, name
        assert _rows(written, name) == _rows(table, name), name


def test_a_large_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = good_run().write(tmp_path / "run")
    monkeypatch.setattr(job, "LARGE_BYTES", 1000)
    published: list[dict[str, Any]] = []
    with pytest.raises(TooLargeError, match="MB of captures; the engine duckdb holds at most"):
        account_directly(run, published.append)
    assert not published
    assert not RunLayout(run).tables.exists()
