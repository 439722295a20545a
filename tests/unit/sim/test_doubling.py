"""A run whose links double frames: applications get each message once, and no loop is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from testbed.experiments.config.load import load_experiment
from testbed.results.oracle.decide import write_oracle
from tests.support.simulated import simulated

_RING = """
duration_s = 60
[topology]
generator = "ring"
nodes = 5
[workload]
senders_percent = 100
receivers_percent = 100
"""


@pytest.mark.parametrize(
    "doubling",
    [
        "[links]\nduplicate_percent = 40\n",
        '[[events]]\nat_s = 1\naction = "link_impair"\nduplicate_percent = 40\n',
    ],
)
def test_copies_of_frames_on_links_that_double_them_are_no_fault(tmp_path: Path, doubling: str) -> None:
    path = tmp_path / "doubling.toml"
    path.write_text(_RING + doubling)
    experiment = load_experiment(path)
    run = simulated(experiment, tmp_path / "runs")
    write_oracle(run, experiment.oracle.in_flight_window_s)
    with Direct(run.path) as direct:
        summary = direct.summary()
    assert summary["frames_repeated"] > 0
    assert summary["deliveries_made"] > 0
    assert summary["duplicate_deliveries"] == 0
    assert summary["verdict"] == "holds", summary["verdict_reasons"]
