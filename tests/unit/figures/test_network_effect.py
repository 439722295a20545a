"""One table at a single router, or spread over a network: the same filters, and the same receivers."""

from __future__ import annotations

import numpy as np
import pytest

from router.matching.common.columns import to_predicates
from router.matching.common.loading import load
from router.matching.factory import factory
from testbed.controller.trees import spt_trees
from testbed.figures.network_effect import at_router, measure, regrouped
from testbed.siena_ff.generate import draw_messages, draw_table
from testbed.siena_ff.parameters import MatchingWorkload
from topos.generators import line, waxman

_WORKLOAD = MatchingWorkload(constraints=400, interfaces=12, messages=60, seed=3, words=40)


def test_regrouped_tables_hold_the_same_filters() -> None:
    table = draw_table(_WORKLOAD)
    interface_of = np.array([0, *([2, 1, 3] * 4)], dtype=np.int32)
    before, after = to_predicates(table), to_predicates(regrouped(table, interface_of))
    for interface in (1, 2, 3):
        united = [
            each for old, predicate in before.items() if interface_of[old] == interface for each in predicate
        ]
        assert sorted(map(repr, after[interface])) == sorted(map(repr, united))


def test_the_interfaces_of_a_router_lead_towards_the_receivers() -> None:
    """In the line 0-1-2, receivers 1 and 4 are at node 1, 2 at node 2, 3 at node 0."""
    forest = spt_trees(line(3))
    assert at_router(forest, 0, 4, 3).tolist() == [0, 1, 1, 1_000_003, 1]
    assert at_router(forest, 1, 4, 3).tolist() == [0, 1_000_001, 2, 0, 1_000_004]


def test_a_message_finds_its_receivers_hop_by_hop() -> None:
    """From any router, the tables of the network lead to the receivers that the single table matches."""
    table, routers = draw_table(_WORKLOAD), 5
    forest = spt_trees(waxman(routers, seed=2))
    single = factory("compiled")
    load(single, table)
    matchers = []
    for router in range(routers):
        matcher = factory("compiled")
        load(matcher, regrouped(table, at_router(forest, router, 12, routers)))
        matchers.append(matcher)
    deliveries = 0
    for message in draw_messages(_WORKLOAD):
        found, pending = set(), [(0, 0)]
        while pending:
            router, parent = pending.pop()
            for interface in matchers[router].match(message):
                if interface >= 1_000_000:
                    found.add(interface - 1_000_000)
                elif interface != parent and forest.trees[0].parents[interface] == router:
                    pending.append((interface, router))
        assert found == single.match(message)
        deliveries += len(found)
    assert deliveries


@pytest.mark.parametrize("engine", ["counting", "compiled"])
def test_both_arrangements_are_measured(engine: str) -> None:
    found = measure(engine, 400, 20, 4, 40, seed=1)
    assert found["pairs"] > 0
    assert found["busiest_us"] > 0
    assert 0 < found["hops"] < 4
    assert min(found["single_us"], found["path_us"], found["forward_us"]) > 0
