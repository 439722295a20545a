"""The engines give the same summary and the same tables, to the last bit."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from captures.accounting import account as job
from captures.accounting.account import account, account_directly
from captures.accounting.engines import DuckDB
from captures.accounting.spark_engine import Spark
from captures.accounting.texts import texts, written_out
from captures.frames.bodies import attribute_maps
from captures.frames.columns import SCHEMA
from captures.rundir.capture_list import Kept
from captures.tables import TABLES, store
from router.predicates import Value
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.run_folder import SEQ, good_run
from tests.support.simulated import judged_run
from tests.support.texts import CLOCK, frames_of, table_of

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

#: Accounts for a large run, and ends by SIGKILL when a table is written and others are not.
_KILLED = """
import os, signal, sys
from pathlib import Path
from captures.accounting import account as job
from captures.tables import store
def killing(write):
    def write_and_die(table, tables, name):
        write(table, tables, name)
        if name == "messages":
            os.kill(os.getpid(), signal.SIGKILL)
    return write_and_die
store.write, store.write_arrow = killing(store.write), killing(store.write_arrow)
job._SMALL_BYTES = 0
job.account(Path(sys.argv[1])) if sys.argv[2] == "spark" else job.account_directly(Path(sys.argv[1]), print)
"""


def _compared(summary: dict[str, Any]) -> str:
    """The bytes of a summary, but for the time that it took, and for what tshark says on Spark alone."""
    reconciled = {name: found for name, found in summary["reconciliation"].items() if name != "tshark"}
    own = {"accounting_s": None, "rests_on": summary["rests_on"]["frames"], "reconciliation": reconciled}
    return json.dumps({**summary, **own})


def _tables(run: Path) -> dict[str, tuple[list[str], list[pa.DataType], list[str]]]:
    """The columns, their types, and the rows in order, of each table."""
    found = {}
    for name in TABLES:
        table = pq.read_table(run / "parquet" / name) if not store.is_empty(run, name) else pa.table({})
        found[name] = table.schema.names, table.schema.types, sorted(map(repr, table.to_pylist()))
    return found


def _agree(run: Path, spark: SparkSession) -> dict[str, Any]:
    published: list[dict[str, Any]] = []
    by_duckdb, of_duckdb = account_directly(run, published.append), _tables(run)
    assert published == [by_duckdb]
    assert store.lacking(run, TABLES) is None
    by_spark, of_spark = account(run, spark=spark), _tables(run)
    assert {path.suffix for path in (run / "parquet").rglob("*") if path.is_file()} == {".parquet", ".json"}
    assert _compared(by_duckdb) == _compared(by_spark)
    for name in TABLES:
        assert of_duckdb[name] == of_spark[name], name
    return by_spark


@pytest.mark.parametrize(("name", "overrides", "captures"), _CASES)
def test_a_simulation(
    tmp_path: Path, spark: SparkSession, name: str, overrides: dict[str, str], captures: Kept
) -> None:
    experiment = load_experiment(find_experiment(name), overrides)
    _agree(judged_run(experiment, tmp_path, captures).path, spark)


@pytest.mark.parametrize("small", [True, False])
def test_a_written_run_folder(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """Fragments, sequence numbers of 64 bits and repeated captures are in this folder."""
    if not small:
        monkeypatch.setattr(job, "_SMALL_BYTES", 0)
    _agree(good_run().write(tmp_path / "run"), spark)


def test_a_written_run_folder_with_faults(tmp_path: Path, spark: SparkSession) -> None:
    builder = good_run()
    builder.deliver(1, 2)
    builder.deliver(3, 1)  # which nobody asked for
    builder.send(4, 150, [(0, [1]), (0, [1])])
    time_ns, data = builder.pcaps["link-0-1"][0]
    builder.pcaps["link-0-1"][0] = (time_ns, data[:14] + b"\x09" + data[15:])
    (sent,) = (
        each for each in builder.events if (each["event"], each.get("seq")) == ("send_message", SEQ + 3)
    )
    builder.events.remove(sent)
    run = builder.write(tmp_path / "run")
    path = run / "pcap" / "link-1-2.pcap"
    path.write_bytes(path.read_bytes()[:-1])
    summary = _agree(run, spark)
    counts = (
        *("duplicate_deliveries", "spurious_deliveries", "frames_repeated", "frames_undecodable"),
        *("messages_unrecorded", "capture_defects"),
    )
    assert all(summary[key] for key in counts), {key: summary[key] for key in counts}


@pytest.mark.parametrize("engine", ["spark", "duckdb"])
def test_an_accounting_that_is_killed_leaves_no_tables_and_the_next_leaves_all(
    tmp_path: Path, engine: str
) -> None:
    run = good_run().write(tmp_path / "run")
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(run), engine], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (run / "parquet.new" / "messages").is_dir()
    assert "the accounting was interrupted" in str(store.lacking(run, TABLES))
    account_directly(run, lambda _: None)
    assert store.lacking(run, TABLES) is None
    assert not (run / "parquet.new").exists()


def test_texts_agree_where_values_are_hard_to_tell_apart(spark: SparkSession) -> None:
    """Contents of messages that a text without quotation marks makes equal, and two RAs at the same time."""
    pairs: list[tuple[dict[str, Value], dict[str, Value]]] = [
        ({"a": "x", "b": "y"}, {"a": "x, null, null, null, null}, b -> {y"}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1.0}, {"a": 1}),
        ({"a": math.nan}, {"a": math.nan}),
    ]
    captured = frames_of(*({"seq": seq, "time_ns": 5} for seq in range(len(pairs))))
    place = captured.schema.get_field_index("attributes")
    captured = captured.set_column(place, "attributes", attribute_maps([each for _, each in pairs]))
    sent = {"source": [0] * len(pairs), "seq": range(len(pairs)), "sent_ns": [1] * len(pairs)}
    recorded = pa.table(
        {**sent, **dict.fromkeys(("delivered_ns", "received_ns"), pa.nulls(len(pairs), pa.int64()))}
    )
    recorded = recorded.append_column("attributes", attribute_maps([each for each, _ in pairs]))
    unwritten = [
        ("node", pa.int64()),
        ("exhaustive", pa.bool_()),
        ("since_ns", pa.int64()),
        ("until_ns", pa.int64()),
    ]
    columns = ("issuer", "seq", "first_ns", "predicate")
    inputs = {
        store.FRAMES: captured,
        "recorded": recorded,
        "unwritten": pa.schema(unwritten).empty_table(),
        "declared": table_of("declared", [(3, "one", 10, "x", 1, 9, 0)]),
        "waves": pa.table([[3, 3], [1, 2], [10, 10], ["a", "a"]], columns),
    }
    session = spark.newSession()
    engines = DuckDB((), SCHEMA, threads=1), Spark(session, session.range(0), Path(), small=True)
    found = []
    for engine in engines:
        for name, table in inputs.items():
            engine.register(name, table)
        for name in ("suspicious", "changes"):
            text = written_out(texts()[name], CLOCK, {"resolution_ns": "0", "named": "9", "wait_ns": "5"})
            engine.define(name, text, shared=False)
        differing = engine.rows("suspicious").to_pylist()
        found.append(
            (
                [row["seq"] for row in differing if row["contents_differ"]],
                engine.rows("changes")["seq"].to_pylist(),
            )
        )
        engine.close()
    assert found == [([0, 1, 2], [1])] * 2
