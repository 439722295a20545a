"""The attention-limited service in a simulation: the records of a run are those of its events."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from router.protocol.services.attention.dissemination import StrategyName
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from tests.support.attention_experiment import DELIVERIES, deliveries, experiment, outcomes, records
from tests.support.simulated import simulated


@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_a_simulation_plays_the_events_of_the_service(tmp_path: Path, strategy: StrategyName) -> None:
    run_dir = simulated(experiment(tmp_path / "e.toml", strategy, 3), tmp_path / "runs", "none").path
    assert deliveries(run_dir) == DELIVERIES
    assert outcomes(run_dir) == [
        (0, 0, "satisfied", 3),
        (1, 0, "expired", 1),
        (0, 1, "expired", 1),
    ]
    # The caches of routers 2, 3, 4 and 0 referenced the publications that they sent or got.
    changes = [each for each in records(run_dir) if each["event"] == "cache"]
    assert {each["cause"] for each in changes} <= {"U1", "U2", "U3", "U4", "P1", "T1", "T3", "L1"}
    assert {each["after"] for each in changes} == {"ppt", "dpt", "opt"}


def test_events_of_another_service_are_refused(tmp_path: Path) -> None:
    path = experiment(tmp_path / "e.toml", "eon", 1)
    path.write_text(
        path.read_text().replace('kind = "attention"\nstrategy = "eon"\nrecord_caches = true\n', "")
    )
    with pytest.raises(ExperimentError, match=r'\[service\] kind: "exhaustive" has no register, which an ev'):
        load_experiment(path)


def test_keys_of_another_service_are_refused(tmp_path: Path) -> None:
    path = experiment(tmp_path / "e.toml", "push", 1)
    with pytest.raises(ExperimentError, match=r'strategy: "push" is not valid; expected "eon" or "pdp"'):
        load_experiment(path)
    path.write_text(path.read_text().replace('kind = "attention"', 'kind = "exhaustive"'))
    with pytest.raises(ExperimentError, match="strategy"):
        load_experiment(path)
