"""The same accounting of a simulation as of an emulation, on Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from captures.accounting.account import account
from captures.rundir.capture_list import Kept
from captures.spark.session import spark_session
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.oracle.decide import write_oracle
from tests.support.simulated import simulated

pytestmark = pytest.mark.spark
#: Of the machine, not of the experiment.
_WALL = {"accounting_s"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as active:
        yield active


def _accounted(session: SparkSession, folder: Path, captures: Kept = "all") -> dict[str, Any]:
    experiment = load_experiment(find_experiment("ring5"))
    run = simulated(experiment, folder, captures)
    write_oracle(run, experiment.oracle.in_flight_window_s)
    summary = account(run.path, spark=session)
    return {key: value for key, value in summary.items() if key not in _WALL}


@pytest.fixture(scope="module")
def summary(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _accounted(session, tmp_path_factory.mktemp("sim") / "all")


def test_every_frame_of_a_simulation_is_accounted_for(summary: dict[str, Any]) -> None:
    assert summary["verdict"] == "holds", summary["verdict_reasons"]
    assert summary["deliveries_made"] >= 20
    for name in ("tshark", "routers", "ovs"):
        accounted = summary["reconciliation"][name]
        assert accounted["expected"] == accounted["found"] > 0, name


@pytest.mark.parametrize("captures", ["links", "none"])
def test_without_some_captures_the_rest_is_accounted_for_alike(
    session: SparkSession, tmp_path: Path, summary: dict[str, Any], captures: Kept
) -> None:
    """Frames that are not in the captures are in no total; the results of other evidence are unchanged."""
    partial = _accounted(session, tmp_path / captures, captures)
    assert partial["verdict"] == "holds", partial["verdict_reasons"]
    assert partial["host_links_captured"] == 0
    assert partial["links_captured"] == (summary["links_captured"] if captures == "links" else 0)
    same = ["deliveries_made", "deliveries_expected", "false_negatives", "false_positives", "messages_sent"]
    same += ["messages_received_by_routers", "false_positives_from_network", "messages_received_from_network"]
    if captures == "links":
        same += ["frames_by_type", "bytes_by_type", "control_share", "convergence_s", "frames_repeated"]
        assert partial["reconciliation"]["ovs"]["found"] == 2 * partial["frames_captured"] > 0
        assert partial["rests_on"] == {"engine": "spark", "frames": "captures", "no_tshark": None}
    else:
        same += ["frames_by_type", "control_share"]
        assert partial["rests_on"] == {"engine": "spark", "frames": "counters of routers", "no_tshark": None}
        assert partial["bytes_by_type"] == {}
        assert partial["frames_captured"] == 0
        assert partial["convergence_s"] is None
    assert {key: partial[key] for key in same} == {key: summary[key] for key in same}


def test_without_an_answer_of_capinfos_the_accounting_is_kept_and_the_verdict_says_so(
    session: SparkSession, tmp_path: Path, summary: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starved = tmp_path / "bin" / "capinfos"
    starved.parent.mkdir()
    starved.write_text("#!/bin/sh\nexec sleep 100\n")
    starved.chmod(0o755)
    monkeypatch.setenv("PATH", f"{starved.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("captures.accounting.reconcile._TSHARK_TIMEOUT_S", 0.1)
    found = _accounted(session, tmp_path / "run")
    assert found["rests_on"].pop("no_tshark") == "capinfos did not read the captures within 0.1 s"
    expected = json.loads(json.dumps(summary))
    del expected["reconciliation"]["tshark"], expected["rests_on"]["no_tshark"]
    assert found == expected
