"""The statements on figure 2 of the attention paper, judged from measurements."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from testbed.figures.attention import Attention
from testbed.figures.reproduction import Results

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
