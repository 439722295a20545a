"""The oracle expects no delivery of a message that the hop limit ends on its way."""

from __future__ import annotations

from functools import partial

import pytest

from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.results.oracle.connectivity import HopLimit, connectivity
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import Application, History, Sending, Setting, Timeline
from topos.generators import ring

EVERYTHING: list[list[list[object]]] = [[]]
RING = ring(6)
#: Link 0 of the ring joins nodes 0 and 1: without it they are five hops apart.
EVENTS = [
    {"t_ns": 20, "event": "epoch_started", "epoch": 2, "down_links": [0], "down_nodes": []},
    {"t_ns": 40, "event": "epoch_started", "epoch": 3, "down_links": [], "down_nodes": []},
]


@pytest.mark.parametrize("layer", ["spt", "rpf"])
@pytest.mark.parametrize(
    ("hops", "at_ns", "reached"),
    [
        (5, 10, {0, 1, 2, 3, 4, 5}),
        (3, 10, {0, 1, 2, 3, 4, 5}),
        (2, 10, {0, 1, 2, 4, 5}),
        (1, 10, {0, 1, 5}),
        (5, 30, {0, 1, 2, 3, 4, 5}),
        (3, 30, {0, 3, 4, 5}),
        (3, 50, {0, 1, 2, 3, 4, 5}),
    ],
)
def test_expected_is_what_is_within_the_hop_limit(
    layer: str, hops: int, at_ns: int, reached: set[int]
) -> None:
    limit = HopLimit(6, hops, partial(hops_on_trees, RING, LAYERS[layer]))
    everyone = {Application(node, "a"): Timeline([Setting(0, 0, EVERYTHING)]) for node in range(6)}
    history = History(everyone, [Sending(0, 1, at_ns, at_ns, {})], [], connectivity(EVENTS, RING, limit))
    judged = list(judge(history, window_s=0))
    assert all(judgement["decided"] for judgement in judged)
    assert {judgement["node"] for judgement in judged if judgement["expected"]} == reached
