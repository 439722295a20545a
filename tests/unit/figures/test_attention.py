"""The statements on figure 2 of the attention paper, judged from measurements."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.config.shipped import find_experiment
from testbed.figures.attention import Attention
from testbed.figures.reproduction import Results
from testbed.figures.runner import _job
from testbed.sim.simulation import Simulation
from testbed.sweeps.job import simulate_job

_SAME = {"fluid": 0.8, "fluid_control": 0.01, "matching": 272.0, "violations": 0, "starvation": 0.0}
_SMALL = (10, 20, 50, 100, 200, 400)


def _judged(notifications: Mapping[int, int]) -> Mapping[str, bool | None]:
    figure = Attention()
    measured = {}
    for case in figure.cases("small"):
        most = case.facts["max"]
        control = 1000 + (notifications[most] if case.facts["strategy"] == "eon" else 0)
        values = {"saved_bandwidth": 1 / most, "control_overhead": 0.1, "control_crossings": control}
        measured[case] = [{**_SAME, **values}]
    return {each.text: each.holds for each in figure.judge(Results(measured))}


@pytest.mark.parametrize(
    ("counts", "holds"), [((60, 50, 40, 30, 20, 10), True), ((60, 90, 80, 30, 20, 10), False)]
)
def test_notifications_become_fewer_only_if_they_never_rise(counts: tuple[int, ...], holds: bool) -> None:
    found = _judged(dict(zip(_SMALL, counts, strict=True)))
    assert found["EON's notifications become fewer as Max grows"] is holds
    assert found["PDP has less control traffic than EON at Max 10"] is True
    assert found["No delivery of a run breaks a safety rule"] is True


def test_a_run_is_known_by_the_experiment_that_it_simulates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Attention()
    case = figure.cases("small")[0]
    before = _job(figure, case, 1, "simulate", 0).identity
    assert _job(figure, case, 1, "simulate", 0).identity == before
    text = find_experiment("diallo-small").read_text(encoding="utf-8")
    other = tmp_path / "diallo-small.toml"
    other.write_text(text.replace("events = 40", "events = 41"), encoding="utf-8")
    places = {"diallo-small": other}
    monkeypatch.setattr("testbed.figures.runner.find_experiment", lambda name: places[name])
    assert _job(figure, case, 1, "simulate", 0).identity != before


def test_a_run_leaves_no_simulation_in_the_memory_of_its_worker() -> None:
    figure = Attention()
    case = figure.cases("small")[0]
    short = {"duration_s": "2", "workload.attention.publications": "20", "topology.nodes": "5"}
    parameters: dict[str, Any] = {**case.facts, "overrides": short}
    before = _simulations()
    row = simulate_job(replace(_job(figure, case, 1, "simulate", 0), parameters=parameters))
    assert (row["error"], row["keys"]["publications"]) == (None, 20)
    assert _simulations() <= before


def _simulations() -> set[int]:
    return {id(each) for each in gc.get_objects() if isinstance(each, Simulation)}
