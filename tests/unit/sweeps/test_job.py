"""One run of a sweep: measured only if its verdict holds; a worker makes many runs, one after the other."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.direct import Direct
from captures.accounting.verdict import MESSAGE_FAILURES
from captures.rundir import RunLayout
from captures.rundir.measures import LAG
from testbed.evaluation.sweeps.job import measured_by, simulate_in_worker, simulate_job
from testbed.evaluation.sweeps.spec import Job
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.support.errors import RunError
from tests.support.simulated import judged_run


class _Knot:
    """An object in a cycle."""

    made: weakref.ref[_Knot]

    def __init__(self) -> None:
        self.itself = self
        _Knot.made = weakref.ref(self)


def tied(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Makes an object in a cycle, and returns how many objects the collector does not search."""
    del parameters, seed
    _Knot()
    return {"frozen": gc.get_freeze_count()}


_JOB = Job(
    0, "0", {}, 1, "simulate", load_experiment(find_experiment("default"), {}), f"{__name__}:tied", True
)


def test_cycles_of_a_run_are_collected() -> None:
    before = gc.get_freeze_count()  # 0, but for Python 3.12
    row = simulate_job(_JOB)
    assert (row["error"], row["keys"]["frozen"]) == (None, before)
    assert _Knot.made() is None
    assert gc.get_freeze_count() == before


def test_what_lived_before_a_run_is_not_searched_in_a_worker_of_spark() -> None:
    alive = len(gc.get_objects())
    try:
        for _ in range(2):
            row = simulate_in_worker(_JOB)
            assert row["error"] is None
            assert _Knot.made() is None
            assert gc.get_freeze_count() > alive / 2
        assert row["keys"]["frozen"] > alive / 2
    finally:
        gc.unfreeze()


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


#: Routers that keep their RAs back for 200 s, so that messages miss receivers after each change.
DELAYING = _job(**{"protocol.ra_min_interval_s": "200", "time_scale": "10"})


@pytest.fixture(scope="module")
def delayed(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    return judged_run(DELAYING.experiment, tmp_path_factory.mktemp("runs"))


def test_a_run_whose_verdict_fails_is_an_error_and_is_not_measured() -> None:
    row = simulate_job(DELAYING)
    assert row["keys"] == {}
    assert row["error"] is not None
    assert row["error"].startswith("RunError: verdict fails: ")
    assert row["error"].endswith(" expected deliveries missed after convergence")


@pytest.mark.parametrize(
    ("expected", "measured"), [((MISSED,), True), (MESSAGE_FAILURES, True), (("spurious_deliveries",), False)]
)
def test_a_figure_names_the_keys_that_its_runs_may_have_above_0(
    delayed: RunLayout, expected: tuple[str, ...], measured: bool
) -> None:
    refused = nullcontext() if measured else pytest.raises(RunError, match=r"^verdict fails: ")
    with Direct(delayed.path) as direct, refused:
        keys, _ = measured_by(replace(DELAYING, expected=expected), direct)
        assert keys["messages"] > 0


def test_a_run_whose_capture_was_cut_short_is_not_measured(delayed: RunLayout, tmp_path: Path) -> None:
    """Whatever messages the figure lets fail, what is not in evidence cannot be measured."""
    run = RunLayout(shutil.copytree(delayed.path, tmp_path / "cut"))
    capture = next(run.captures_folder.glob("link-*.pcap"))
    os.truncate(capture, capture.stat().st_size - 1)
    job = replace(DELAYING, expected=MESSAGE_FAILURES)
    with Direct(run.path) as direct, pytest.raises(RunError, match=r"^verdict fails: capture cut short: "):
        measured_by(job, direct)


def test_a_run_that_was_late_is_not_measured(tmp_path: Path) -> None:
    """The verdict on an emulation whose router was late is `invalid`, whatever the figure expects."""
    job = _job()
    run = judged_run(job.experiment, tmp_path)
    LAG.write(
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
