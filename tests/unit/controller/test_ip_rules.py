"""The rules for IP bring a packet from every host to every other one that is joined to it."""

from __future__ import annotations

import pytest

from router.wire.header import HOST_PORT, node_address
from testbed.controller.rules import SentRules, ip_rules
from testbed.controller.trees import hops_on_trees, spt_trees
from testbed.support.names import ip_address
from topos import Topology
from topos.generators import ring, waxman


def test_hosts_have_addresses_of_their_own() -> None:
    assert [ip_address(node) for node in (0, 4, 254, 255, 70_000)] == [
        "10.0.0.1",
        "10.0.0.5",
        "10.0.0.255",
        "10.0.1.0",
        "10.1.17.113",
    ]


@pytest.mark.parametrize("topology", [ring(6), waxman(25, seed=3)])
@pytest.mark.parametrize("down", [frozenset(), frozenset({0})])
def test_packets_take_shortest_paths_and_name_their_hops(topology: Topology, down: frozenset[int]) -> None:
    rules = ip_rules(topology, spt_trees(topology, down))
    hops = hops_on_trees(topology, spt_trees, down, frozenset())
    for source in rules:
        for destination, rule in rules[source].items():
            at, taken = source, 0
            while rule.outputs != (HOST_PORT,):
                (port,) = rule.outputs
                following = topology.neighbours(at)[port]
                assert rule.hop == (node_address(at), node_address(following))
                at, taken = following, taken + 1
                assert taken <= len(topology.nodes)
                rule = rules[at][destination]
            assert (at, rule.hop) == (destination, (node_address(at), node_address(at)))
            assert rule.match.ipv4_dst == ip_address(destination)
            assert taken == hops[source, destination]
        assert len(rules[source]) == len(topology.nodes)


def test_a_node_that_is_cut_off_is_no_destination() -> None:
    topology = ring(4)
    rules = ip_rules(topology, spt_trees(topology, frozenset(), frozenset({2})))
    assert [sorted(rules[node]) for node in range(4)] == [[0, 1, 3], [0, 1, 3], [], [0, 1, 3]]


def test_a_switch_is_sent_only_what_differs() -> None:
    topology, sent = ring(4), SentRules()
    whole = ip_rules(topology, spt_trees(topology))[0]
    first = list(sent.changes(1, 0, whole))
    assert [rule for rule, delete in first if not delete] == list(whole.values())
    assert list(sent.changes(2, 0, whole)) == []
    cut = ip_rules(topology, spt_trees(topology, frozenset(), frozenset({2})))[0]
    assert list(sent.changes(3, 0, cut)) == [(whole[2], True)]
    assert list(sent.changes(4, 0, whole)) == [(whole[2], False)]


def test_an_epoch_that_is_done_after_a_later_one_changes_no_rule() -> None:
    topology, sent = ring(4), SentRules()
    before = ip_rules(topology, spt_trees(topology))[0]
    after = ip_rules(topology, spt_trees(topology, frozenset({0})))[0]
    assert before != after
    assert list(sent.changes(2, 0, after))
    assert list(sent.changes(1, 0, before)) == []
    assert list(sent.changes(2, 0, after)) == []


def test_a_switch_that_comes_back_loses_rules_that_it_may_still_have() -> None:
    topology, sent = ring(4), SentRules()
    whole = ip_rules(topology, spt_trees(topology))[0]
    list(sent.changes(1, 0, whole))
    sent.forget(0)
    cut = ip_rules(topology, spt_trees(topology, frozenset(), frozenset({2})))[0]
    (cleared, delete), *added = sent.changes(2, 0, cut)
    assert delete
    assert (cleared.table, cleared.match.eth_type, cleared.match.ipv4_dst) == (
        whole[2].table,
        whole[2].match.eth_type,
        None,
    )
    assert added == [(rule, False) for rule in cut.values()]
