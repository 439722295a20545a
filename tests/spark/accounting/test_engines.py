"""The engines give the same summary and the same tables, to the last bit; accounting on Spark."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from captures.accounting.account import Spark, account, account_directly
from captures.accounting.engines import DuckDB
from captures.accounting.texts import double, experiment_seconds, texts, wall_seconds, written_out
from captures.frames.bodies import attribute_maps
from captures.frames.columns import SCHEMA
from captures.rundir.capture_list import Kept
from captures.rundir.clock import Clock
from captures.rundir.files import RunFolderError
from captures.rundir.summary import SUMMARY_KEYS
from captures.spark.folder import remove_abandoned
from captures.spark.session import SessionError
from captures.tables import TABLES, store
from router.clock import NS, Piece
from router.predicates import Value
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.report.render import write_report
from tests.support.run_folder import SEQ, RunBuilder, faulty_run, good_run
from tests.support.simulated import judged_run
from tests.support.texts import CLOCK, frames_of, table_of

pytestmark = pytest.mark.spark

#: Keys that the runner adds.
_RUNNERS = {
    *("experiment", "routers", "links", "duration_s", "datapath", "bring_up_s", "run_s"),
    *("teardown_s", "workload_lateness_max_s", "memory_per_router_bytes"),
}
_SMALL = {"duration_s": "600", "topology.nodes": "10", "workload.first_message_s": "0"}
_FEW_PUBLICATIONS = {
    "duration_s": "60",
    "workload.attention.publications": "600",
    "workload.attention.subscriptions": "40",
}
#: Experiment, its overrides, and the captures that are kept.
_CASES: tuple[tuple[str, dict[str, str], Kept], ...] = (
    (
        "default",
        {
            **_SMALL,
            "broadcast.layer": "rpf",
            "routing.scheme": "pif-strict",
            "seed": "2",
            "workload.messages_per_minute": "60",
            "protocol.sr_min_interval_s": "60",
        },
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
        if name == "processed":
            os.kill(os.getpid(), signal.SIGKILL)
    return write_and_die
store.write, store.write_arrow = killing(store.write), killing(store.write_arrow)
job.SMALL_BYTES = 0
job.account(Path(sys.argv[1])) if sys.argv[2] == "spark" else job.account_directly(Path(sys.argv[1]), print)
"""


def _compared(summary: dict[str, Any]) -> str:
    """The bytes of a summary, but for the time that it took, and for what tshark says on Spark alone."""
    reconciled = {name: found for name, found in summary["reconciliation"].items() if name != "tshark"}
    own = {"accounting_s": None, "rests_on": summary["rests_on"]["frames"], "reconciliation": reconciled}
    return json.dumps({**summary, **own})


def _tables(run: Path) -> dict[str, tuple[list[tuple[str, pa.DataType]], list[str]]]:
    """The columns, and the rows in order, of each table."""
    found = {}
    for name in TABLES:
        table = pq.read_table(run / "parquet" / name) if not store.is_empty(run, name) else pa.table({})
        columns = [(column.name, column.type) for column in table.schema]
        found[name] = columns, sorted(map(repr, table.to_pylist()))
    return found


def _agree(run: Path, spark: SparkSession) -> dict[str, Any]:
    """Accounts with both engines; returns the summary."""
    published: list[dict[str, Any]] = []
    by_duckdb, of_duckdb = account_directly(run, published.append), _tables(run)
    assert published == [by_duckdb]
    assert store.lacking(run, TABLES) is None
    by_spark, of_spark = account(run, spark=spark), _tables(run)
    assert {path.suffix for path in (run / "parquet").rglob("*") if path.is_file()} == {".parquet", ".json"}
    assert _compared(by_duckdb) == _compared(by_spark)
    for name, table in TABLES.items():
        assert of_duckdb[name] == of_spark[name], name
        columns, rows = of_spark[name]
        # The names of folders hold a column, which Arrow reads as a dictionary.
        documented = [(each.name, each.type) for each in table.columns if each.name != table.folders_by]
        assert not rows or [each for each in columns if each[0] != table.folders_by] == documented, name
    assert set(by_spark) == set(SUMMARY_KEYS) - _RUNNERS
    return by_spark


def _reported(run: Path, spark: SparkSession | None = None) -> dict[str, Any]:
    """As `_agree`, or on DuckDB alone; a report of the run can be written."""
    summary = account_directly(run, lambda _: None) if spark is None else _agree(run, spark)
    (run / "summary.json").write_text(json.dumps({**dict.fromkeys(_RUNNERS), **summary}))
    assert write_report(run).exists()
    return summary


@pytest.mark.parametrize(("name", "overrides", "captures"), _CASES)
def test_a_simulation(
    tmp_path: Path, spark: SparkSession, name: str, overrides: dict[str, str], captures: Kept
) -> None:
    experiment = load_experiment(find_experiment(name), overrides)
    _agree(judged_run(experiment, tmp_path, captures).path, spark)


def test_good_run_has_the_known_numbers(tmp_path: Path, spark: SparkSession) -> None:
    """Fragments, sequence numbers of 64 bits and repeated captures are in this folder.

    `tests/spark/test_cluster.py` accounts for it as for a large run.
    """
    summary = _agree(good_run().write(tmp_path / "run"), spark)
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    # RA: 1 to 0 and 2; 2 to 1, 1 to 0. MSG: message 1 in two fragments over two links, message 3 over one.
    assert summary["frames_by_type"] == {"RA": 4, "MSG": 5, "SR": 0, "UR": 0}
    usual = dict.fromkeys(("ACK", "COMMIT", "SR", "UR", "SUB", "PUB", "OVERLOAD", "FLUSH", "RECEIPT"), 0)
    assert summary["frames_by_type_host_links"] == {"HELLO": 3, "TABLE": 3, "RA": 7, "MSG": 10, **usual}
    assert summary["frames_captured"] == 9 + 23
    assert summary["control_share"] == pytest.approx(4 / 9)
    deliveries = ("messages_sent", "deliveries_expected", "deliveries_made")
    assert [summary[key] for key in deliveries] == [3, 2, 2]
    # Message 2 at its own router, message 3 at node 1.
    assert (summary["false_positives"], summary["messages_received_by_routers"]) == (2, 6)
    assert (summary["false_positives_from_network"], summary["messages_received_from_network"]) == (1, 3)
    # Requests at 1 and 3 ms; the second wave's frames lie at 4 ms (and some ns, which order them).
    assert summary["convergence_s"] == pytest.approx(0.003, abs=1e-6)
    assert [summary["reconciliation"][name]["found"] for name in ("tshark", "routers", "ovs")] == [32, 23, 41]
    assert summary["reconciliation"]["applications"] == {"expected": 5, "found": 5, "differences": []}


def test_a_run_in_which_nothing_happened_has_every_key_and_table(tmp_path: Path, spark: SparkSession) -> None:
    run = RunBuilder().write(tmp_path / "run")
    summary = _reported(run, spark)
    assert (summary["messages_sent"], summary["frames_captured"], summary["convergence_s"]) == (0, 0, None)
    assert set(summary["delivery_delay"].values()) == set(summary["stretch"].values()) == {None}
    assert summary["control_share"] is None
    rows = {name: len(rows) for name, (_, rows) in _tables(run).items() if rows}
    assert rows == {
        "captures": 5,
        "controller": 8,
        "links": 2,
        "link_savings": 4,
        "nodes": 3,
        "routing_tables": 3,
        "run": 1,
        "schemes": 14,
    }


def test_a_clock_that_was_set_changes_times_and_no_counts(tmp_path: Path) -> None:
    built = good_run()
    # The last frame on the link was captured in 1970.
    data = built.pcaps["link-0-1"].pop()[1]
    built.pcaps["link-0-1"].append((0, data))
    run = built.write(tmp_path / "run")
    summary = _reported(run)
    assert summary["frames_by_type"] == {"RA": 4, "MSG": 5, "SR": 0, "UR": 0}
    assert summary["verdict_reasons"] == [
        "evidence contradicts itself: capture link-0-1: frames 1.7e+09 s before the run began",
        f"evidence contradicts itself: message 0/{SEQ + 3}: captured 1.7e+09 s before it was sent",
    ]
    assert len(_tables(run)["control_rate_curve"][1]) < 200


def test_a_run_without_captures_of_links_is_accounted_for(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    kept = [each for each in json.loads((run / "capture.json").read_text()) if each["kind"] == "host"]
    (run / "capture.json").write_text(json.dumps(kept))
    summary = account_directly(run, lambda _: None)
    assert (summary["links_captured"], summary["host_links_captured"]) == (0, 3)
    # Only a simulation may leave them out, whose manifest does not list them.
    assert summary["verdict_reasons"] == ["2 links without a capture; first: link-0-1"]
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["evidence"] = [name for name in manifest["evidence"] if "link" not in name]
    (run / "manifest.json").write_text(json.dumps({**manifest, "datapath": "simulated"}))
    summary = _reported(run)
    assert summary["verdict_reasons"] == []
    # Without captures, the counters of the routers: the frames that reached them from neighbours.
    assert summary["frames_by_type"] == {"RA": 4, "MSG": 5, "SR": 0, "UR": 0}
    assert set(summary["stretch"].values()) == {None}
    assert summary["deliveries_made"] == 2


def test_a_run_with_faults(tmp_path: Path, spark: SparkSession) -> None:
    builder = faulty_run()
    unrecorded = ("send_message", SEQ + 3)
    builder.events = [each for each in builder.events if (each["event"], each.get("seq")) != unrecorded]
    run = builder.write(tmp_path / "run")
    path = run / "pcap" / "link-1-2.pcap"
    path.write_bytes(path.read_bytes()[:-1])
    summary = _reported(run, spark)
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
    assert (run / "parquet.new" / "processed").is_dir()
    assert "the accounting was interrupted" in str(store.lacking(run, TABLES))
    # The JVM of a killed process writes until it notices the end of the process.
    remove_abandoned()
    account_directly(run, lambda _: None)
    assert store.lacking(run, TABLES) is None
    assert not (run / "parquet.new").exists()


def test_without_an_answer_of_capinfos_the_accounting_is_kept_and_the_verdict_says_so(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = good_run().write(tmp_path / "run")
    expected = account_directly(run, lambda _: None)
    starved = tmp_path / "bin" / "capinfos"
    starved.parent.mkdir()
    starved.write_text("#!/bin/sh\nexec sleep 100\n")
    starved.chmod(0o755)
    monkeypatch.setenv("PATH", f"{starved.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("captures.accounting.reconcile._TSHARK_TIMEOUT_S", 0.1)
    found = account(run, spark=spark)
    assert found["rests_on"]["no_tshark"] == "capinfos did not read the captures within 0.1 s"
    assert "tshark" not in found["reconciliation"]
    assert _compared(found) == _compared(expected)


def test_a_run_that_lacks_a_file_is_refused_before_spark_starts(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    (run / "counters" / "routers.json").unlink()
    with pytest.raises(RunFolderError, match=r"routers\.json: missing; was the emulation interrupted"):
        account(run)
    assert not (run / "logs" / "spark.log").exists()


def test_a_session_lent_for_a_small_run_has_stages_of_one_task_and_comes_back_as_it_was(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", "spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.shuffle.partitions", "7")

    def settings() -> list[str | None]:
        return [spark.conf.get(key, None) for key in (*keys, "spark.sql.shuffle.partitions")]

    def cached() -> set[int]:
        return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())

    tracker = spark.sparkContext.statusTracker()
    before, others, earlier = settings(), cached(), set(tracker.getJobIdsForGroup())
    try:
        folder = good_run().write(tmp_path / "run")
        account(folder, spark=spark)
        jobs = map(tracker.getJobInfo, set(tracker.getJobIdsForGroup()) - earlier)
        stages = [tracker.getStageInfo(stage) for each in jobs if each for stage in each.stageIds]
        assert {stage.numTasks for stage in stages if stage} == {1}
        assert (settings(), cached() - others) == (before, set())
        tables = {path: path.read_bytes() for path in (folder / "parquet").rglob("*.parquet")}
        monkeypatch.setitem(texts(), "stretch", "select raise_error('no stretch') as failed from arrivals")
        with pytest.raises(SessionError, match="no stretch"):
            account(folder, spark=spark)
        assert (settings(), cached() - others) == (before, set())
        assert {path: path.read_bytes() for path in (folder / "parquet").rglob("*.parquet")} == tables
        assert [path.name for path in folder.glob("parquet*")] == ["parquet"]
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_two_accountings_of_a_run_do_not_meet(tmp_path: Path, spark: SparkSession) -> None:
    folder = good_run().write(tmp_path / "run")
    with store.new_tables(folder), pytest.raises(store.BusyError, match="another accounting of it goes on"):
        account(folder, spark=spark)


def test_seconds_and_numbers_are_those_of_the_clock_to_the_last_digit(spark: SparkSession) -> None:
    for count in (1, 2, 40):
        rng = random.Random(count)
        pieces = [Piece(1_700_000_000 * NS, -5.3, 1.0 if count > 1 else 7.3)]
        for _ in range(count - 1):
            start_ns = pieces[-1].start_ns + rng.randrange(NS, 20 * NS)
            pieces.append(pieces[-1].followed_by(start_ns, rng.uniform(1, 90)))
        clock = Clock(pieces)
        times = [piece.start_ns + by for piece in pieces for by in (-NS, -1, 0, 1, 333_333_333, 100 * NS + 7)]
        table = spark.createDataFrame([(at,) for at in times], "at_ns bigint").coalesce(1)
        found = [row[0] for row in table.selectExpr(experiment_seconds(clock, "at_ns")).collect()]
        assert found == [clock.experiment_at(at) for at in times]
        seconds = spark.createDataFrame([(at_s,) for at_s in found], "at_s double").coalesce(1)
        lasting = [row[0] for row in seconds.selectExpr(wall_seconds(clock, "at_s", 30.0)).collect()]
        ends = [(clock.time_of(at_s), clock.time_of(at_s + 30.0)) for at_s in found]
        assert lasting == pytest.approx([(end - begin) / NS for begin, end in ends], abs=1e-5)
    numbers = (0.1, 1 / 3, 0.12345678901234568, 1e-300, -2.5, 1.7976931348623157e308, 0.0)
    assert tuple(spark.sql("select " + ", ".join(map(double, numbers))).first() or ()) == numbers


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
    unwritten = [("exhaustive", pa.bool_())]
    unwritten += [(name, pa.int64()) for name in ("node", "since_ns", "until_ns")]
    columns = ("issuer", "seq", "first_ns", "predicate")
    inputs = {
        store.FRAMES: captured,
        "recorded": recorded,
        "unwritten": pa.schema(unwritten).empty_table(),
        "declared": table_of("declared", [(3, "one", 10, "x", 1, 9, 0)]),
        "waves": pa.table([[3, 3], [1, 2], [10, 10], ["a", "a"]], columns),
    }
    session = spark.newSession()
    duckdb = DuckDB(SCHEMA.empty_table().to_reader(), threads=1)
    engines = duckdb, Spark(session, session.range(0), Path(), small=True)
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
