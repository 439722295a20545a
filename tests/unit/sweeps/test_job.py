"""A worker makes many runs, one after the other."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

from testbed.config.load import load_experiment
from testbed.config.shipped import find_experiment
from testbed.sweeps.job import simulate_in_worker, simulate_job
from testbed.sweeps.spec import Job


class _Knot:
    """An object in a cycle."""

    made: weakref.ref[_Knot]

    def __init__(self) -> None:
        self.itself = self
        _Knot.made = weakref.ref(self)


def tied(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What the job of this test measures."""
    del parameters, seed
    _Knot()
    return {"frozen": gc.get_freeze_count()}


def test_cycles_of_a_run_are_collected_and_what_lived_before_it_is_not_searched_meanwhile() -> None:
    experiment = load_experiment(find_experiment("default"), {})
    alive = len(gc.get_objects())
    row = simulate_job(Job(0, "0", {}, 1, "simulate", experiment, f"{__name__}:tied", True))
    assert row["error"] is None
    assert row["keys"]["frozen"] > alive / 2
    assert _Knot.made() is None
    assert gc.get_freeze_count() == 0


def test_a_worker_of_spark_has_frozen_what_lives_after_a_run() -> None:
    experiment = load_experiment(find_experiment("default"), {})
    alive = len(gc.get_objects())
    try:
        row = simulate_in_worker(Job(0, "0", {}, 1, "simulate", experiment, f"{__name__}:tied", True))
        assert row["error"] is None
        assert _Knot.made() is None
        assert gc.get_freeze_count() > alive / 2
    finally:
        gc.unfreeze()
