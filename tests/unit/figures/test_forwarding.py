"""The figure of the forwarding algorithm: its claims, and an engine whose options change."""

from __future__ import annotations

import pytest

from router.matching.counting import CountingMatcher
from testbed.evaluation.figures.forwarding import _CLAIMS, _ROUNDS, _VARIANTS, Forwarding, measured
from testbed.evaluation.figures.reproduction import Case, Statement
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from tests.support.figures import judged, results_of

#: Ratios with which every claim holds.
_GOOD = {"no short circuit": 3.0, "10 rounds": 1.0, "Bloom": 0.9, "Bloom, 10 rounds": 0.8}
#: Spoilt -> the claim that fails.
_SPOILT: dict[str | None, str | None] = {
    None: None,
    "interfaces": "time with 10 interfaces / with 1,000, the most constraints (large disjunctions)",
    "constraints": "time of 10 times the constraints, 10 interfaces",
    **{
        variant: f"time {optimisation} / of the basic algorithm"
        for variant, (optimisation, *_) in _CLAIMS.items()
    },
}


def _judged(spoilt: str | None, **counts: float) -> list[Statement]:
    def run(case: Case) -> dict[str, float]:
        basic = 9.0
        if case.facts["interfaces"] == 10:
            few = 0.5 if spoilt == "constraints" else 2
            basic = few if case.facts["constraints"] < 100_000 else 10 if spoilt == "interfaces" else 8
        ratios = _GOOD | {f"{each} rounds": 0.99 for each in _ROUNDS}
        if spoilt in _CLAIMS:
            ratios[spoilt] = 1.5
        counted = {"matched": 5.0, "excluded": 500.0, **counts}
        return {"basic": basic, **counted, **{f"{variant} ratio": ratio for variant, ratio in ratios.items()}}

    return [*judged(Forwarding(), lambda case: 3 * [run(case)], "paper").values()]


@pytest.mark.parametrize(("spoilt", "claim"), _SPOILT.items())
def test_each_claim_follows_what_was_measured(spoilt: str | None, claim: str | None) -> None:
    failing = {each.claim.removesuffix(" (c1,a1)") for each in _judged(spoilt) if each.holds is False}
    assert failing == ({claim} - {None})


def test_an_optimisation_that_cannot_act_has_no_verdict() -> None:
    found = _judged(None, matched=0.5, excluded=0)
    for variant in ("no short circuit", "10 rounds", "Bloom, 10 rounds"):
        assert {each.holds for each in found if each.claim == _SPOILT[variant]} == {None}
    assert {each.holds for each in found if each.claim == _SPOILT["Bloom"]} == {True}


@pytest.mark.parametrize("size", Forwarding.sizes)
def test_a_label_has_the_table_that_runs(size: str) -> None:
    for case in Forwarding().cases(size):
        if case.label.startswith("I"):
            interfaces, filters, of_filter, _ = (int(part[1:]) for part in case.label.split(","))
            assert interfaces == case.facts["interfaces"]
            assert interfaces * filters * of_filter == case.facts["constraints"]


def test_every_variant_is_timed_and_the_selectivity_table_excludes_interfaces() -> None:
    chosen = {"name": "workload of 2003", "constraints": 4_000, "interfaces": 1_000}
    (case,) = results_of(Forwarding()).where(**chosen)
    found = measured({**case.facts, "constraints": 400, "interfaces": 100}, 1)
    assert found["excluded"] > 30
    assert {name.removesuffix(" ratio") for name in found} == {*_VARIANTS, "matched", "excluded"}
    assert min(value for key, value in found.items() if key not in ("matched", "excluded")) > 0
    assert found["basic ratio"] == 1


def test_options_that_change_later_change_no_answer() -> None:
    workload = MatchingWorkload(constraints=400, interfaces=40, messages=30, seed=3)
    matcher = CountingMatcher(_VARIANTS["basic"])
    matcher.load(draw_table(workload))
    for message in draw_messages(workload):
        answers = set()
        for options in _VARIANTS.values():
            matcher.options = options
            answers.add(matcher.match(message))
        assert len(answers) == 1
