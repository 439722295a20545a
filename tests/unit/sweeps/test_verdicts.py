"""A run is measured only if its verdict holds."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.direct import Direct
from captures.accounting.verdict import MESSAGE_FAILURES
from captures.rundir.measures import write_lag
from testbed.evaluation.sweeps.job import measured_by, simulate_job
from testbed.evaluation.sweeps.spec import Job
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.support.errors import RunError
from tests.support.simulated import judged_run

MISSED = "false_negatives_after_convergence"


def counted(run: Direct, experiment: object) -> dict[str, Any]:
    """A function that measures: the number of messages."""
    del experiment
    return {"messages": run.inputs.log.sent.num_rows}


def _job(**overrides: str) -> Job:
    settings = {
        "topology.nodes": "8",
        "duration_s": "300",
        "workload.messages_per_minute": "12",
        "workload.changing_receivers_percent": "100",
        "workload.predicate_change_interval_s": "60",
    }
    experiment = load_experiment(find_experiment("default"), settings | overrides)
    return Job(0, "0", {}, 1, "simulate", experiment, f"{__name__}:counted")


@pytest.fixture
def delaying() -> Job:
    """Routers that keep their RAs back for 200 s, so that messages miss receivers after each change."""
    return _job(**{"protocol.ra_min_interval_s": "200", "time_scale": "10"})


def test_a_run_whose_verdict_fails_is_an_error_and_is_not_measured(delaying: Job) -> None:
    row = simulate_job(delaying)
    assert row["keys"] == {}
    assert row["error"] is not None
    assert row["error"].startswith("RunError: verdict fails: ")
    assert row["error"].endswith(" expected deliveries missed after convergence")


def test_a_figure_names_the_keys_that_its_runs_may_have_above_0(delaying: Job) -> None:
    row = simulate_job(replace(delaying, expected=(MISSED,)))
    assert row["error"] is None
    assert row["keys"]["messages"] > 0
    row = simulate_job(replace(delaying, expected=MESSAGE_FAILURES))
    assert row["error"] is None
    # Another key does not excuse what was missed.
    row = simulate_job(replace(delaying, expected=("spurious_deliveries",)))
    assert str(row["error"]).startswith("RunError: verdict fails: ")


def test_a_run_that_was_late_is_not_measured(tmp_path: Path) -> None:
    """The verdict on an emulation whose router was late is `invalid`, whatever the figure expects."""
    job = _job()
    run = judged_run(job.experiment, tmp_path)
    write_lag(
        run,
        {
            "from_s": 0.0,
            "bound_s": 30.0,
            "bound_wall_s": 1.0,
            "parts": [{"part": "router", "node": 3, "lag_s": 40.0, "lag_wall_s": 2.0, "lag_at_s": 7.0}],
            "answers": None,
        },
    )
    with Direct(run.path) as direct, pytest.raises(RunError, match=r"^verdict invalid: .*that of node 3"):
        measured_by(replace(job, expected=MESSAGE_FAILURES), direct)


def test_a_run_whose_capture_was_cut_short_is_not_measured(delaying: Job, tmp_path: Path) -> None:
    """Whatever messages the figure lets fail, what is not in evidence cannot be measured."""
    run = judged_run(delaying.experiment, tmp_path)
    capture = next(run.captures_folder.glob("link-*.pcap"))
    os.truncate(capture, capture.stat().st_size - 1)
    job = replace(delaying, expected=MESSAGE_FAILURES)
    with Direct(run.path) as direct, pytest.raises(RunError, match=r"^verdict fails: capture cut short: "):
        measured_by(job, direct)
