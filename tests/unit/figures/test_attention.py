"""The statements on figure 2 of the attention paper, judged from measurements."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.evaluation.figures.attention import Attention
from testbed.evaluation.figures.reproduction import SEED, Results
from testbed.evaluation.figures.runner import _job
from testbed.evaluation.sweeps.job import simulate_job
from testbed.experiments.config.load import find_experiment
from testbed.sim.simulation import Simulation

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


def _with_a_history(size: str, runs: int) -> Results:
    """Measurements of which those with a history save as much as the paper's; all of PDP at Max 10 failed."""
    measured = {}
    for case in Attention().cases(size):
        history = case.facts.get("overrides") == {"service.history": "exact"}
        strategy, most = case.facts["strategy"], case.facts["max"]
        values = {"saved_bandwidth": (8.5 if history else 7) / most, "control_overhead": 0.02}
        values["control_crossings"] = 1000 if history else {"eon": 6000 - most, "pdp": 0}[strategy]
        failed = (strategy, most, history) == ("pdp", 10, False)
        measured[case] = [] if failed else [{**_SAME, **values, SEED: seed} for seed in range(runs)]
    return Results(measured)


def test_runs_with_a_history_are_curves_that_the_paper_does_not_judge() -> None:
    figure = Attention()
    cases = figure.cases("paper")
    assert len({case.label for case in cases}) == len(cases) == 2 * (9 + 3)
    results = _with_a_history("paper", 2)
    found = {each.text: (each.holds, each.measured) for each in figure.judge(results)}
    assert found["EON: saves up to 85% of bandwidth"] == (False, "70 [70, 70] % at Max 10")
    assert found["EON, exact history: saves up to 85% of bandwidth"] == (None, "85 [85, 85] % at Max 10")
    assert found["EON, exact history: a larger Max favours CBR"][0] is True
    assert found["PDP: under 3 % of CBR's control traffic at Max 20"][0] is True
    assert found["EON's notifications become fewer as Max grows"][0] is True
    saved = figure.panels(results)[0].curves
    assert saved["PDP, exact history"] == [[(10.0, 0.85), (20.0, 0.425), (50.0, 0.17)]] * 2
    assert [most for most, _ in saved["PDP"][0]] == [20, 50, 100, 200, 500, 1000, 2000, 5000]


def test_a_figure_without_a_run_has_no_statements_but_that_on_safety() -> None:
    (statement,) = Attention().judge(_with_a_history("small", 0))
    assert (statement.text, statement.holds) == ("No delivery of a run breaks a safety rule", False)


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
    monkeypatch.setattr("testbed.evaluation.figures.runner.find_experiment", lambda name: places[name])
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
