"""The figure of networks of operators, stock ticks and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.evaluation.figures.reproduction import Case
from testbed.evaluation.figures.world import World
from tests.support.cases import cases_beside
from tests.support.figures import measured_run, verdicts


def _good(case: Case) -> dict[str, Any]:
    """Measurements of which no statement fails."""
    way, apart = case.facts["way"], 2 if case.facts["of"] == "spread" else 1
    own = {"pif, spt": 2, "pif + SRs, spt": 1.5, "pif + SRs, spanning-tree": 2}.get(way, 9)
    found = {"crossings": own * apart, "wasted": own, "filters": 9 * apart, "decided": 90}
    lost = 0.3 if way.startswith(("drp", "unicast", "multicast-16")) else 0.1
    missed = int(way == "pif-strict, spt")
    return {**found, "control": 5 * apart, "missed": missed, "late_ms": 10, "way_ms": 10, "lost": lost}


@pytest.mark.parametrize(("of", "way", "changed", "fails"), cases_beside(__file__)["spoilt"])
def test_each_claim_fails_by_the_number_that_it_is_about(
    of: str, way: str, changed: Mapping[str, float], fails: list[str]
) -> None:
    assert {*verdicts(World(), lambda case: 3 * [_good(case)], "paper").values()} == {True}

    def values(case: Case) -> list[dict[str, Any]]:
        its = (case.facts["of"], case.facts["way"]) == (of, way)
        return 3 * [{**_good(case), **(changed if its else {})}]

    found = verdicts(World(), values, "paper")
    assert {text.partition(": ")[2] for text, holds in found.items() if holds is False} == set(fails)


def test_runs_are_measured_by_scheme(tmp_path: Path) -> None:
    cases = {case.label: case for case in World().cases("paper")}
    flooding, least, topics, groups, copies = (
        measured_run(World(), cases[f"att, {way}, local"])
        for way in ("flooding, spt", "ips, spt", "topics, spanning-tree", "multicast-4, spt", "unicast, spt")
    )
    assert (flooding["control"], flooding["filters"]) == (0, 0)
    assert least["crossings"] < topics["crossings"] < groups["crossings"] < flooding["crossings"]
    assert least["crossings"] < copies["crossings"]
    assert least["wasted"] == copies["wasted"] == 0 < topics["wasted"] < flooding["wasted"]
    # Every router gets every RA but its own.
    assert least["control"] == 24
    assert {run["late_ms"] for run in (flooding, least, topics)} == {0}
    # Links of two delays, for which the time of an RA is not known.
    path = tmp_path / "two.toml"
    path.write_text(
        3 * "[[node]]\n" + "".join(f"[[link]]\nu = {u}\nv = {u + 1}\ndelay_ms = {u + 1}\n" for u in (0, 1))
    )
    case = cases["att, pif, spt, local"]
    with pytest.raises(AssertionError, match="the longest way of an RA"):
        measured_run(World(), replace(case, overrides={**case.overrides, "topology.file": str(path)}))


def test_a_message_is_missed_until_the_advertisement_has_come_to_its_sender() -> None:
    cases = {case.label: case for case in World().cases("paper")}
    found = measured_run(World(), cases["geant2012, ips, spt, churn"])
    assert 0 < found["late_ms"] <= found["way_ms"]
    # Seven links of 20 ms, and the times of their routers.
    assert found["way_ms"] == pytest.approx(7 * 20.5)
    assert 0 < found["lost"] < found["curve"][0][1]
