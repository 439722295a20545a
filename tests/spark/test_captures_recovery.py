"""Recovery times: from the controller's log and the captured advertisements to summary.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from captures.accounting.clock import Clock
from captures.decode import COLUMNS, SPARK_SCHEMA
from captures.recovery import Change, advertised_again, epochs, read_epochs, recovery
from captures.rundir import RunFolder, RunFolderError

pytestmark = pytest.mark.spark


def log(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events, one a nanosecond, after the set-up in nanoseconds 0 and 1."""
    set_up = [{"event": "epoch_started"}, {"event": "committed", "epoch": 1}]
    return [{"t_ns": at, **event} for at, event in enumerate([*set_up, *events])]


LINK_DOWN = {"event": "link_down", "u": 0, "v": 1}
NODE_DOWN = {"event": "node_down", "node": 4}
STARTED = {"event": "epoch_started"}


def committed(epoch: int) -> dict[str, Any]:
    return {"event": "committed", "epoch": epoch}


def test_an_epoch_answers_what_came_before_it() -> None:
    found = epochs(log(LINK_DOWN, NODE_DOWN, STARTED, committed(2), STARTED, committed(3), NODE_DOWN))
    assert found.committed == 3
    assert found.changes == [Change(["link_down 0-1", "node_down 4"], 2, 2, 5), Change(["node_down 4"], 8)]


def test_what_comes_during_an_epoch_waits_for_the_next() -> None:
    found = epochs(log(LINK_DOWN, STARTED, NODE_DOWN, committed(2), STARTED, committed(3)))
    assert found.changes == [Change(["link_down 0-1", "node_down 4"], 2, 3, 7)]


def test_set_up_is_no_change_but_a_restart_is() -> None:
    first = {"event": "hello", "node": 3, "restarted": False}
    again = {"event": "hello", "node": 3, "restarted": True}
    assert epochs([{"t_ns": 0, **LINK_DOWN}, *log(first)]).changes == []
    assert epochs(log(again, STARTED, committed(2))).changes == [Change(["restart 3"], 2, 2, 4)]


def test_a_log_with_a_gap_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert read_epochs(RunFolder(tmp_path)).committed == 0
    (tmp_path / "logs" / "controller.jsonl").write_text('{"t_ns": 1, "event": "node_up"}\n')
    with pytest.raises(RunFolderError, match=r"controller\.jsonl:1: no field 'node'"):
        read_epochs(RunFolder(tmp_path))


def test_the_advertisements_that_an_epoch_called_for(spark: SparkSession) -> None:
    # (issuer, epoch, seq, time): node 1 advertises in epochs 1, 2 and twice in 3; node 2 in 3 only.
    sightings = [(1, 1, 1, 10), (1, 2, 2, 20), (1, 2, 2, 25), (1, 3, 3, 30), (1, 3, 4, 39), (2, 3, 1, 35)]
    rows = [
        tuple(
            {"type": "RA", "issuer": issuer, "epoch": epoch, "seq": seq, "time_ns": at}.get(name)
            for name in COLUMNS
        )
        for issuer, epoch, seq, at in sightings
    ]
    table = advertised_again(spark.createDataFrame(rows, SPARK_SCHEMA))
    assert sorted(tuple(row) for row in table.select("epoch", "last_ns").collect()) == [(2, 25), (3, 30)]


def test_recovery_in_wall_seconds_at_experiment_seconds() -> None:
    second = 10**9
    changes = [
        Change(["node_down 4"], 12 * second, 2, 13 * second),
        Change(["node_up 4"], 14 * second, 3, 16 * second),
        Change(["node_down 1"], 17 * second),
    ]
    made = recovery(changes, {2: 15 * second}, Clock(10 * second, 20.0))
    assert made == [
        {"events": ["node_down 4"], "at_s": 40.0, "epoch": 2, "committed_s": 1.0, "advertised_s": 3.0},
        {"events": ["node_up 4"], "at_s": 80.0, "epoch": 3, "committed_s": 2.0, "advertised_s": None},
        {"events": ["node_down 1"], "at_s": 140.0, "epoch": None, "committed_s": None, "advertised_s": None},
    ]
