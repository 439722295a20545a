"""The same accounting of a simulation as of an emulation, on Spark, twice with the same numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from captures.job import account
from captures.session import spark_session
from testbed.config.load import load_experiment
from testbed.config.shipped import find_experiment
from testbed.oracle.decide import write_oracle
from testbed.run.progress import Progress
from testbed.sim.simulation import simulate

pytestmark = pytest.mark.spark
#: Of the machine, not of the experiment.
_WALL = {"accounting_s"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as active:
        yield active


def _accounted(session: SparkSession, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    with (folder / "output").open("w") as output:
        experiment = load_experiment(find_experiment("ring5"))
        run_dir = simulate(experiment, folder, Progress(Console(file=output)))
    write_oracle(run_dir, experiment.oracle.in_flight_window_s)
    summary = account(run_dir, spark=session)
    return {key: value for key, value in summary.items() if key not in _WALL}


def test_two_simulations_have_one_summary_and_every_frame_is_accounted_for(
    session: SparkSession, tmp_path: Path
) -> None:
    summary = _accounted(session, tmp_path / "one")
    assert summary["verdict"] == "holds", summary["verdict_reasons"]
    assert summary["deliveries_made"] >= 20
    for name in ("tshark", "routers", "ovs"):
        accounted = summary["reconciliation"][name]
        assert accounted["expected"] == accounted["found"] > 0, name
    assert json.dumps(summary, sort_keys=True) == json.dumps(
        _accounted(session, tmp_path / "two"), sort_keys=True
    )
