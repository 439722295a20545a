"""The figure of the forwarding algorithm: its claims, and an engine whose options change."""

from __future__ import annotations

import pytest

from router.matching.counting import CountingMatcher
from testbed.evaluation.figures.forwarding import _CLAIMS, _ROUNDS, _VARIANTS, Forwarding, measured
from testbed.evaluation.figures.reproduction import SEED, Case, Results
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table

#: Ratios with which every claim holds.
_GOOD = {"no short circuit": 3.0, "10 rounds": 1.0, "Bloom": 0.9, "Bloom, 10 rounds": 0.8}


@pytest.mark.parametrize("spoilt", [None, *_CLAIMS, "interfaces", "constraints", "rounds"])
def test_each_claim_follows_what_was_measured(spoilt: str | None) -> None:
    def run(case: Case) -> dict[str, float]:
        basic = 9.0
        if case.facts["interfaces"] == 10:
            much = 100 if spoilt == "constraints" else 10 if spoilt == "interfaces" else 8
            basic = much if case.facts["constraints"] >= 100_000 else 2
        ratios = _GOOD | {f"{each} rounds": 1 if spoilt == "rounds" else 0.99 for each in _ROUNDS}
        if spoilt in _CLAIMS:
            ratios[spoilt] = 1.5
        return {"basic": basic, **{f"{variant} ratio": ratio for variant, ratio in ratios.items()}}

    figure = Forwarding()
    cases = figure.cases("paper")
    results = Results({case: [{**run(case), SEED: seed} for seed in (1, 2, 3)] for case in cases})
    failing = {each.claim for each in figure.judge(results) if not each.holds}
    assert bool(failing) == (spoilt is not None)


def test_every_variant_of_a_table_is_timed() -> None:
    facts = {"name": "workload of 2003", "filter": (1, 6), "attributes": (1, 19)}
    found = measured(facts | {"constraints": 300, "interfaces": 10}, 1)
    assert {name.removesuffix(" ratio") for name in found} == set(_VARIANTS)
    assert min(found.values()) > 0
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
