"""A worker makes many runs, one after the other."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

from testbed.evaluation.sweeps.job import simulate_in_worker, simulate_job
from testbed.evaluation.sweeps.spec import Job
from testbed.experiments.config.load import find_experiment, load_experiment


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
