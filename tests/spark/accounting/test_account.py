"""The whole accounting on Spark of a run folder whose numbers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from captures.accounting.account import account
from captures.accounting.texts import texts
from captures.datasource.formats import captured_frames, register
from captures.rundir.files import RunFolderError
from captures.rundir.summary import SUMMARY_KEYS
from captures.spark.session import SessionError
from captures.tables import TABLES, store
from testbed.results.report.render import write_report
from tests.support.run_folder import SEQ, RunBuilder, good_run

pytestmark = pytest.mark.spark

#: Keys that the runner adds.
RUNNERS = {
    *("experiment", "routers", "links", "duration_s", "datapath", "bring_up_s", "run_s"),
    *("teardown_s", "workload_lateness_max_s", "memory_per_router_bytes"),
}


def test_good_run_has_the_known_numbers(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    summary = account(run, spark=spark)
    assert summary["verdict_reasons"] == []
    assert summary["verdict"] == "holds"
    assert set(summary) == set(SUMMARY_KEYS) - RUNNERS
    # RA: 1 to 0 and 2; 2 to 1, 1 to 0. MSG: message 1 in two fragments over two links, message 3 over one.
    assert summary["frames_by_type"] == {"RA": 4, "MSG": 5, "SR": 0, "UR": 0}
    usual = dict.fromkeys(("ACK", "COMMIT", "SR", "UR", "SUB", "PUB", "OVERLOAD", "FLUSH", "RECEIPT"), 0)
    assert summary["frames_by_type_host_links"] == {"HELLO": 3, "TABLE": 3, "RA": 7, "MSG": 10, **usual}
    assert summary["frames_captured"] == 9 + 23
    assert summary["control_share"] == pytest.approx(4 / 9)
    assert {key: summary[key] for key in ("messages_sent", "deliveries_expected", "deliveries_made")} == {
        "messages_sent": 3,
        "deliveries_expected": 2,
        "deliveries_made": 2,
    }
    # Message 2 at its own router, message 3 at node 1.
    assert (summary["false_positives"], summary["messages_received_by_routers"]) == (2, 6)
    assert (summary["false_positives_from_network"], summary["messages_received_from_network"]) == (1, 3)
    # Requests at 1 and 3 ms; the second wave's frames lie at 4 ms (and some ns, which order them).
    assert summary["convergence_s"] == pytest.approx(0.003, abs=1e-6)
    assert [summary["reconciliation"][name]["found"] for name in ("tshark", "routers", "ovs")] == [32, 23, 41]
    assert summary["reconciliation"]["applications"] == {"expected": 5, "found": 5, "differences": []}
    json.dumps(summary)


def _table(run: Path, name: str) -> Any:
    return pq.read_table(run / "parquet" / name)


def test_every_stage_of_a_small_run_is_one_task(tmp_path: Path, spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    account(good_run().write(tmp_path / "run"), spark=spark)
    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    tasks = [stage.numTasks for stage in stages if stage]
    assert tasks
    assert set(tasks) == {1}


def test_tables_have_the_documented_columns(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    account(run, spark=spark)
    for name, table in TABLES.items():
        written = [(column.name, column.type) for column in _table(run, name).schema]
        documented = [(column.name, column.type) for column in table.columns]
        if table.folders_by is not None:
            # The folders' names hold the column: Arrow reads it as a dictionary, and puts it last.
            assert written.pop()[0] == table.folders_by
            documented = [column for column in documented if column[0] != table.folders_by]
        assert written == documented, name
    messages = _table(run, "messages").sort_by("sent_s")
    assert messages["deliveries_expected"].to_pylist() == [2, 0, 0]
    assert messages["seq"].to_pylist() == [SEQ + n - 2**64 for n in (1, 2, 3)]
    totals = _table(run, "link_totals").to_pylist()
    assert {(row["link"], row["from_node"], row["type"]): row["frames"] for row in totals} == {
        (0, 1, "RA"): 2,
        (1, 1, "RA"): 1,
        (1, 2, "RA"): 1,
        (0, 0, "MSG"): 3,
        (1, 1, "MSG"): 2,
    }


def test_a_run_that_lacks_a_file_is_refused_before_spark_starts(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    (run / "counters" / "routers.json").unlink()
    with pytest.raises(RunFolderError, match=r"routers\.json: missing; was the emulation interrupted"):
        account(run)
    assert not (run / "logs" / "spark.log").exists()


def test_data_source_gives_the_frames_of_the_accounting(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    register(spark)
    loaded = spark.read.format("cbcb").option("partitions", 3).load(str(run))
    frames = captured_frames(spark, run, partitions=2)
    assert loaded.schema == frames.schema
    rows = [sorted(map(str, table.collect())) for table in (loaded, frames)]
    assert len(rows[0]) == 32
    assert rows[0] == rows[1]


def _report(run: Path, summary: dict[str, Any]) -> None:
    """Writes the report: no figure or table stumbles over what is missing."""
    (run / "summary.json").write_text(json.dumps({**dict.fromkeys(RUNNERS), **summary}))
    assert write_report(run).exists()


def test_a_run_in_which_nothing_happened_has_every_key_and_table(tmp_path: Path, spark: SparkSession) -> None:
    run = RunBuilder().write(tmp_path / "run")
    summary = account(run, spark=spark)
    assert set(summary) == set(SUMMARY_KEYS) - RUNNERS
    assert (summary["messages_sent"], summary["frames_captured"], summary["convergence_s"]) == (0, 0, None)
    assert set(summary["delivery_delay"].values()) == set(summary["stretch"].values()) == {None}
    assert summary["control_share"] is None
    # An empty table of captured frames, which come in folders by type, has no file.
    assert {name: len(_table(run, name)) for name in TABLES if name not in ("frames", "talkers")} == {
        **{name: 0 for name in TABLES if name not in ("frames", "talkers")},
        "captures": 5,
        "controller": 8,
        "links": 2,
        "link_savings": 4,
        "nodes": 3,
        "routing_tables": 3,
        "run": 1,
        "schemes": 14,
    }
    _report(run, summary)


def test_a_clock_that_was_set_changes_times_and_no_counts(tmp_path: Path, spark: SparkSession) -> None:
    built = good_run()
    # The last frame on the link was captured in 1970.
    data = built.pcaps["link-0-1"].pop()[1]
    built.pcaps["link-0-1"].append((0, data))
    run = built.write(tmp_path / "run")
    summary = account(run, spark=spark)
    assert summary["frames_by_type"] == {"RA": 4, "MSG": 5, "SR": 0, "UR": 0}
    assert summary["verdict_reasons"] == [
        "evidence contradicts itself: capture link-0-1: frames 1.7e+09 s before the run began",
        f"evidence contradicts itself: message 0/{SEQ + 3}: captured 1.7e+09 s before it was sent",
    ]
    assert len(_table(run, "control_rate_curve")) < 200
    _report(run, summary)


def test_a_run_without_captures_of_links_is_accounted_for(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    kept = [one for one in json.loads((run / "capture.json").read_text()) if one["kind"] == "host"]
    (run / "capture.json").write_text(json.dumps(kept))
    summary = account(run, spark=spark)
    assert (summary["links_captured"], summary["host_links_captured"]) == (0, 3)
    # Only a simulation may leave them out, whose manifest does not list them.
    assert summary["verdict_reasons"] == ["2 links without a capture; first: link-0-1"]
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["evidence"] = [name for name in manifest["evidence"] if "link" not in name]
    (run / "manifest.json").write_text(json.dumps({**manifest, "datapath": "simulated"}))
    summary = account(run, spark=spark)
    assert summary["verdict_reasons"] == []
    # Without captures, the counters of the routers: the frames that reached them from neighbours.
    assert summary["frames_by_type"] == {"RA": 4, "MSG": 5, "SR": 0, "UR": 0}
    assert set(summary["stretch"].values()) == {None}
    assert summary["deliveries_made"] == 2
    _report(run, summary)


def test_a_session_that_is_lent_comes_back_as_it_was(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", "spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    before = [spark.conf.get(key, None) for key in keys]

    def cached() -> dict[int, str]:
        found = spark.sparkContext._jsc.getPersistentRDDs()
        return {number: found[number].name() for number in found.keySet()}

    others = cached()

    def is_as_before() -> None:
        assert [spark.conf.get(key, None) for key in keys] == before
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
        assert {number: name for number, name in cached().items() if number not in others} == {}

    try:
        folder = good_run().write(tmp_path / "run")
        account(folder, spark=spark)
        is_as_before()
        tables = {path: path.read_bytes() for path in (folder / "parquet").rglob("*.parquet")}

        monkeypatch.setitem(texts(), "stretch", "select raise_error('no stretch') as failed from arrivals")
        with pytest.raises(SessionError, match="no stretch"):
            account(folder, spark=spark)
        is_as_before()
        assert {path: path.read_bytes() for path in (folder / "parquet").rglob("*.parquet")} == tables
        assert [path.name for path in folder.glob("parquet*")] == ["parquet"]
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_two_accountings_of_a_run_do_not_meet(tmp_path: Path, spark: SparkSession) -> None:
    folder = good_run().write(tmp_path / "run")
    with store.new_tables(folder), pytest.raises(store.BusyError, match="another accounting of it goes on"):
        account(folder, spark=spark)
