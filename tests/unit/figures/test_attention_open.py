"""The measurements of what the attention paper leaves open: valid experiments, statements, tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from testbed.evaluation.figures.attention_open import AttentionOpen
from testbed.evaluation.figures.reproduction import SEED, Case, Results
from testbed.experiments.config.load import find_experiment, load_experiment

_SAME = {
    "saved_bandwidth": 0.8,
    "saved_with_flushes": 0.7,
    "control_overhead": 0.2,
    "satisfied": 1.0,
    "starvation": 0.0,
    "overload": 100,
    "violations": 0,
}
#: What makes every statement hold, by a part of the name of the variant.
_BETTER: dict[str, Mapping[str, float]] = {
    "history": {"saved_bandwidth": 0.9},
    "fan_out": {"overload": 10},
    "replacement": {"saved_bandwidth": 0.5},
    "cbf": {"satisfied": 1.1},
}


def _measured(case: Case, better: Mapping[str, Mapping[str, float]]) -> Mapping[str, Any]:
    found = dict(_SAME)
    for part, values in better.items():
        if part in case.facts["variant"]:
            found |= values
    return found


def _judged(size: str, better: Mapping[str, Mapping[str, float]]) -> dict[str, bool | None]:
    figure = AttentionOpen()
    results = Results({case: [_measured(case, better)] * 2 for case in figure.cases(size)})
    return {each.text: each.holds for each in figure.judge(results)}


@pytest.mark.parametrize("size", AttentionOpen.sizes)
def test_every_variant_is_a_valid_experiment_that_differs_from_the_others(size: str) -> None:
    experiments = []
    for case in AttentionOpen().cases(size):
        facts = case.facts
        overrides = {"service.strategy": facts["strategy"], **facts["overrides"]}
        overrides["workload.attention.max"] = str(facts["max"])
        experiments.append(load_experiment(find_experiment(facts["base"]), overrides))
    assert all(each not in experiments[:number] for number, each in enumerate(experiments))


@pytest.mark.parametrize("size", AttentionOpen.sizes)
def test_every_statement_can_hold(size: str) -> None:
    assert set(_judged(size, _BETTER).values()) <= {True, None}


def test_what_is_called_as_shipped_changes_no_key() -> None:
    for size in AttentionOpen.sizes:
        for case in AttentionOpen().cases(size):
            assert (case.facts["variant"] == "as shipped") == (not case.facts["overrides"])
    assert list(_judged("large", {"nodes = 1000": {"starvation": 0.02}}).items())[:2] == [
        ("EON: nodes = 1000, publications = 5000000, few rounds starve", False),
        ("PDP: nodes = 1000, publications = 5000000, few rounds starve", False),
    ]


@pytest.mark.parametrize(
    ("part", "statement"),
    [
        (
            "history",
            "PDP: a refreshed subscription that may take all that it has not had costs less bandwidth",
        ),
        ("fan_out", "EON: a SUB that divides what is lacking among children brings less in excess"),
        ("replacement", "EON: replacement matters more than selection"),
        ("cbf", "PDP: priority forwarding satisfies more rounds where links are full"),
    ],
)
def test_a_statement_fails_where_nothing_is_better(part: str, statement: str) -> None:
    better = {name: values for name, values in _BETTER.items() if name != part}
    assert _judged("small", better)[statement] is False


@pytest.mark.parametrize(
    ("worse", "statement"),
    [
        ({"as shipped": {"starvation": 0.02}}, "EON: as shipped, few rounds starve"),
        (
            {"flushing": {"saved_with_flushes": 0.81}},
            "PDP: flushing costs more bandwidth than it saves, with any cache",
        ),
        ({"en_route": {"violations": 1}}, "No delivery of a run breaks a safety rule"),
    ],
)
def test_a_statement_fails_where_something_is_worse(
    worse: dict[str, Mapping[str, float]], statement: str
) -> None:
    assert _judged("small", _BETTER | worse)[statement] is False


def test_tables_have_a_row_for_each_variant_and_panels_a_curve_for_each_seed() -> None:
    figure = AttentionOpen()
    cases = figure.cases("small")
    runs: tuple[Mapping[str, Mapping[str, float]], ...] = ({}, _BETTER)
    results = Results(
        {case: [{**_measured(case, run), SEED: seed} for seed, run in enumerate(runs)] for case in cases}
    )
    eon, pdp = figure.tables(results)
    rows = {row[0]: row[1:] for row in eon.rows}
    assert len(rows) == len(pdp.rows) == len(cases) / 2
    assert rows["`as shipped`"][:2] == ["80 [80, 80]", "70 [70, 70]"]
    titles = [
        (panel.title, sorted(len(curves) for curves in panel.curves.values()))
        for panel in figure.panels(results)
    ]
    assert titles == [
        (f"{strategy}: {what}", [2] * count)
        for strategy in ("EON", "PDP")
        for what, count in (("readings", 9), ("caches", 3), ("links", 2))
    ]
