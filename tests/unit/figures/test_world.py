"""The figure of networks of operators, stock ticks and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from testbed.evaluation.figures.reproduction import Case
from testbed.evaluation.figures.world import World
from tests.support.figures import measured_run, verdicts

_CROSSINGS = {"flooding": 9, "topics": 4, "multicast-4": 6, "multicast-16": 3}


def _good(case: Case) -> dict[str, Any]:
    """Measurements of which no statement fails."""
    facts = case.facts
    scheme, layer = facts["way"].split(", ")
    minimal = 2 if layer == "spanning-tree" else 1
    own = 1.5 if facts["way"] == "pif, spt" else _CROSSINGS.get(scheme, minimal)
    apart = 2 if facts["of"] == "spread" else 1
    found = {"crossings": own * apart, "unicast": 2.5, "minimal": minimal, "filters": 9 * apart}
    return {**found, "control": 5 * apart, "missed": 0, "late_ms": 10, "way_ms": 10, "lost": 0.1}


@pytest.mark.parametrize(
    ("of", "changed", "fails"),
    [
        ("local", {"crossings": 10}, {"fewer crossings", "the crossings of the minimal tree"}),
        ("local", {"unicast": 1.5}, {"fewer crossings than unicast"}),
        ("local", {"minimal": 0.9}, {"the crossings of the minimal tree"}),
        ("spread", {"filters": 9}, {"fewer filters"}),
        ("spread", {"control": 4}, {"fewer RA frames"}),
        ("churn", {"late_ms": 11}, {"after a join"}),
        ("churn", {"missed": 1}, {"no delivery is missed"}),
    ],
)
def test_each_claim_fails_by_the_number_that_it_is_about(
    of: str, changed: Mapping[str, float], fails: set[str]
) -> None:
    assert {*verdicts(World(), lambda case: 3 * [_good(case)], "paper").values()} == {True}

    def values(case: Case) -> list[dict[str, Any]]:
        return 3 * [{**_good(case), **(changed if case.facts["of"] == of else {})}]

    failed = {text.rpartition(": ")[2] for text, holds in verdicts(World(), values).items() if holds is False}
    assert {each for each in fails if any(claim.startswith(each) for claim in failed)} == fails
    assert [claim for claim in failed if not claim.startswith(tuple(fails))] == []


def test_advertisements_that_are_not_covered_cost_deliveries_in_churn() -> None:
    def values(case: Case) -> list[dict[str, Any]]:
        return 3 * [{**_good(case), "lost": 0.2 if case.facts["way"].startswith("pif, ") else 0.1}]

    found = verdicts(World(), values)
    assert [holds for text, holds in found.items() if "which covers no RA" in text] == [False, False]


def test_runs_are_measured_by_scheme() -> None:
    cases = {case.label: case for case in World().cases("paper")}
    flooding, least, topics = (
        measured_run(World(), cases[f"att, {way}, local"])
        for way in ("flooding, spt", "ips, spt", "topics, spanning-tree")
    )
    assert (flooding["control"], flooding["filters"]) == (0, 0)
    assert (
        least["crossings"]
        == least["minimal"]
        < topics["minimal"]
        < topics["crossings"]
        < flooding["crossings"]
    )
    assert least["wasted"] == 0 < topics["wasted"] < flooding["wasted"]
    # Every router gets every RA but its own.
    assert least["control"] == 24
    assert {run["late_ms"] for run in (flooding, least, topics)} == {0}


def test_a_message_is_missed_until_the_advertisement_has_come_to_its_sender() -> None:
    cases = {case.label: case for case in World().cases("paper")}
    found = measured_run(World(), cases["geant2012, ips, spt, churn"])
    assert 0 < found["late_ms"] <= found["way_ms"]
    # Eight links of 20 ms, and the times of their routers.
    assert found["way_ms"] == pytest.approx(8 * 20.5)
    assert 0 < found["lost"] < found["curve"][0][1]
