"""The rules by which switches forward IPv4 between hosts, along shortest paths.

Each switch acts as an IP router does: it forwards by the address of the packet, gives the frame the link
addresses of its hop and takes one from the time to live. So a capture shows who sent a frame on its link, as
with CBCB frames, and a packet in a transient loop ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from router.wire.addresses import HOST_PORT, IPV4_ETHERTYPE, node_address
from testbed.controller.rules import CLASSIFY_TABLE, MATCH_PRIORITY, Match, Rule
from testbed.controller.trees import NO_PARENT, Forest
from testbed.support.names import ip_address
from topos.model import Topology

#: Selects every rule of `ip_rules`.
_ALL = Rule(CLASSIFY_TABLE, MATCH_PRIORITY, Match(eth_type=IPV4_ETHERTYPE, untagged=True))


class SentRules:
    """The rules for IP that each switch was sent last, so that only what differs is sent."""

    def __init__(self) -> None:
        self._epoch = 0
        self._sent: dict[int, Mapping[int, Rule]] = {}

    def forget(self, node: int) -> None:
        """Takes it that a switch may have any rules for IP, for example after a restart."""
        self._sent.pop(node, None)

    def changes(self, epoch: int, node: int, rules: Mapping[int, Rule]) -> Iterator[tuple[Rule, bool]]:
        """Yields what a switch is to be sent: a rule, and whether all that its match selects are deleted.

        Nothing, if the rules of a later epoch were sent: epochs are computed at the same time, and one that
        is superseded may be the last to be done.

        Args:
            rules: by destination node.
        """
        if epoch < self._epoch:
            return
        self._epoch = epoch
        if node not in self._sent:
            yield _ALL, True
        before = self._sent.get(node, {})
        self._sent[node] = rules
        for destination, rule in before.items():
            if destination not in rules:
                yield rule, True
        for destination, rule in rules.items():
            if before.get(destination) != rule:
                yield rule, False  # takes the place of a rule with the same match


def ip_rules(topology: Topology, forest: Forest) -> dict[int, dict[int, Rule]]:
    """Returns the rules of each switch: node -> destination node -> rule.

    A destination that a node does not reach has no rule there.

    Args:
        forest: shortest-path trees of the present network (`testbed.controller.trees.spt_trees`).
    """
    ports = {
        node.id: {neighbour: port for port, neighbour in topology.neighbours(node.id).items()}
        for node in topology.nodes
    }
    rules: dict[int, dict[int, Rule]] = {node.id: {} for node in topology.nodes}
    for destination in forest.sources.tolist():
        # Paths are symmetric: the next node towards a source is the next hop to it.
        for node, following in enumerate(forest.parents[destination].tolist()):
            if node == destination:
                rules[node][destination] = _rule(node, destination, HOST_PORT, node)
            elif following != NO_PARENT:
                rules[node][destination] = _rule(node, destination, ports[node][following], following)
    return rules


def _rule(node: int, destination: int, port: int, following: int) -> Rule:
    match = Match(eth_type=IPV4_ETHERTYPE, ipv4_dst=ip_address(destination), untagged=True)
    hop = node_address(node), node_address(following)
    return Rule(CLASSIFY_TABLE, MATCH_PRIORITY, match, outputs=(port,), hop=hop)
