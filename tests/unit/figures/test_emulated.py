"""The figure that compares emulations with simulations."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from testbed.evaluation.figures.emulated import EmulatedBesideSimulated, simulated
from testbed.evaluation.figures.page import DATA
from testbed.evaluation.figures.reproduction import Case
from testbed.evaluation.figures.runner import read_data
from testbed.support.errors import InputError
from tests.support.figures import Runs, verdicts
from tests.support.paths import DOCS

_SHARES = ("steady", "share", "missed", "saved_bandwidth", "missed_after_5_s")
_COUNTS = ("issued_per_s", "frames", "control_crossings", "crossings", "filters")


def _measured(difference: float, case: Case) -> list[dict[str, Any]]:
    """Numbers that differ between seeds by far more than between the engines, which differ with seed 5."""
    more = [0.0] * 4 + [difference if case.facts["half"] == "emulated" else 0.0]
    both = ((seed / 4 + each, 200 * seed * (1 + each)) for seed, each in enumerate(more, 1))
    return [
        {"holds": 1} | dict.fromkeys(_SHARES, share) | dict.fromkeys(_COUNTS, count) for share, count in both
    ]


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_difference_within_each_seed_decides(sign: int) -> None:
    near, far = (
        verdicts(EmulatedBesideSimulated(), partial(_measured, sign * each)) for each in (0.009, 2.5)
    )
    numbers = [text for text in near if "verdicts" not in text]
    assert {(near[text], far[text]) for text in numbers} == {(True, False)}


def _frames(emulated: int | None, case: Case) -> list[dict[str, Any]]:
    if emulated is None or case.facts["figure"] != "srur":
        return []
    return [{"frames": emulated if case.facts["half"] == "emulated" else 0}]


@pytest.mark.parametrize(("emulated", "holds"), [(0, True), (1, False), (None, False)])
def test_where_no_frame_is_simulated_none_may_be_emulated(emulated: int | None, holds: bool) -> None:
    runs: Runs = partial(_frames, emulated)
    found = verdicts(EmulatedBesideSimulated(), runs)
    assert found["srur, 25 nodes, spt, count-controlled: SRs and URs, within 1 %"] is holds
    assert found["srur: the verdicts on the paper's statements"] is holds


def test_the_simulated_half_is_simulated_as_the_figure_says() -> None:
    facts = {"figure": "srur", "half": "simulated", "case": "25 nodes, spt, every 10 min"}
    found = simulated(facts, 1)
    assert (found["frames"], found["rate"], len(found["curve"])) == (10_800, 2.0, 22)


def test_the_runs_of_the_page_are_those_of_data_beside_it() -> None:
    _, done = read_data(DOCS / "figures" / DATA / "emulated.json.gz")
    figure = EmulatedBesideSimulated()
    found = 0
    for case in done.results:
        for run in done.results.runs(case):
            if (expected := figure.run(case, run["seed"])) is not None:
                assert run == expected
                found += 1
    assert found > 0
    read = [read_data(path)[1] for path in figure.read()]
    assert {*done.code} >= {code for each in read for code in each.code}
    assert done.costs["s"] > sum(each.costs["s"] for each in read) > 0
    emulated = done.results.where(half="emulated")[0]
    with pytest.raises(InputError, match=r"fp-emulated.json.gz: no run of '25 nodes.+' with seed 6"):
        figure.run(emulated, 6)
