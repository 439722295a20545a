"""The rules for IP bring a packet from every host to every other one that is joined to it."""

from __future__ import annotations

import pytest

from router.wire.addresses import HOST_PORT, node_address
from testbed.controller.ip_rules import ip_rules
from testbed.controller.trees import hops_on_trees, spt_trees
from testbed.network.names import ip_address
from topos.generators import ring, waxman
from topos.model import Topology


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
