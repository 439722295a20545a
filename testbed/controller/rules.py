"""The switch pipeline that replicates a router's frame to the ports its destination address names, and IPv4.

Rules are values: the Ryu application turns them into flow modifications, and tests run frames through them
without a switch. The pipeline depends on the switch's ports alone, so it is installed once and does not
change when trees do. See docs/explanation/emulated-network.md, "Switch pipeline", and `router.wire.header`
for the addresses.

IPv4 between hosts goes along shortest paths (`ip_rules`). Each switch acts as an IP router does, so a capture
shows who sent a frame on its link, as with CBCB frames, and a packet in a transient loop ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ETHERTYPE,
    HOST_PORT,
    IPV4_ETHERTYPE,
    PORTS_PER_PAGE,
    node_address,
    port_addresses,
)
from testbed.controller.classes import NO_PARENT
from testbed.controller.trees import Forest
from testbed.support.names import ip_address
from topos import Topology

CLASSIFY_TABLE = 0
#: Table of bit 0; bit b is table REPLICATE_TABLE + b.
REPLICATE_TABLE = 1
MATCH_PRIORITY = 100
#: Rules that come before all others of their table.
FIRST_PRIORITY = 200
#: Rules that match every frame of their table.
MISS_PRIORITY = 0

_WHOLE_ADDRESS = bytes.fromhex("ffffffffffff")
_PAGE_MASK = bytes.fromhex("ffff00000000")


@dataclass(frozen=True, slots=True)
class Match:
    """The condition of a rule; a field that is None matches any value.

    Addresses are 6 bytes.

    Attributes:
        ipv4_dst: IPv4 address to which the packet goes; with `eth_type` of IPv4.
        untagged: the frame has no VLAN tag. A switch compares `eth_type` with the type behind a tag.
    """

    in_port: int | None = None
    eth_type: int | None = None
    eth_dst: bytes | None = None
    eth_dst_mask: bytes = _WHOLE_ADDRESS
    eth_src: bytes | None = None
    ipv4_dst: str | None = None
    untagged: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A flow entry: it outputs the frame, then sends it to the next table; a rule without either drops it.

    Attributes:
        outputs: switch ports that the frame leaves by.
        to_controller: whether the controller gets the whole frame.
        goto_table: the table that processes the frame next.
        hop: link addresses, source and destination, that the frame gets before it leaves; its IP packet then
            has one hop less to live. None: it leaves as it came.
    """

    table: int
    priority: int
    match: Match
    outputs: tuple[int, ...] = ()
    to_controller: bool = False
    goto_table: int | None = None
    hop: tuple[bytes, bytes] | None = None


def pipeline(ports: Collection[int], source: bytes) -> list[Rule]:
    """Returns the rules of a switch whose link ports are `ports` and whose host is attached to HOST_PORT.

    Table 0 classifies. It drops frames with a VLAN tag, and frames of the host with a source address other
    than `source`, the address of its router: a node cannot pass for another node, nor for the controller.
    Nor can a link: the controller's frames come from no port, and the switch drops those that do.
    Table 1 + b outputs to the port that bit b stands for on the frame's page, and passes the frame to the
    next table. The last table is that of the highest bit that any port uses.

    Raises:
        ValueError: a port is outside 1..MAX_INTERFACE.
    """
    addresses = {port: port_addresses([port])[0] for port in sorted(ports)}
    return [*_classify(addresses, source), *_replicate(addresses)]


def _classify(addresses: Mapping[int, bytes], source: bytes) -> list[Rule]:
    to_controller = Match(HOST_PORT, ETHERTYPE, CONTROLLER_DESTINATION, eth_src=source, untagged=True)
    pages = sorted({address[:2] for address in addresses.values()})
    return [
        Rule(CLASSIFY_TABLE, FIRST_PRIORITY, Match(eth_src=CONTROLLER_SOURCE)),
        Rule(CLASSIFY_TABLE, MATCH_PRIORITY, to_controller, to_controller=True),
        *(
            Rule(
                CLASSIFY_TABLE,
                MATCH_PRIORITY,
                Match(HOST_PORT, ETHERTYPE, page + bytes(4), _PAGE_MASK, source, untagged=True),
                goto_table=REPLICATE_TABLE,
            )
            for page in pages
        ),
        *(
            Rule(CLASSIFY_TABLE, MATCH_PRIORITY, Match(port, ETHERTYPE, untagged=True), outputs=(HOST_PORT,))
            for port in addresses
        ),
        # An explicit drop, so that the switch counts the dropped frames.
        Rule(CLASSIFY_TABLE, MISS_PRIORITY, Match()),
    ]


def _replicate(addresses: Mapping[int, bytes]) -> list[Rule]:
    rules = []
    bits = max(((port - 1) % PORTS_PER_PAGE + 1 for port in addresses), default=0)
    for bit in range(bits):
        table = REPLICATE_TABLE + bit
        following = table + 1 if bit + 1 < bits else None
        for port, address in addresses.items():
            if (port - 1) % PORTS_PER_PAGE != bit:
                continue
            # Matches the page and this bit only: an address that names other ports as well matches too.
            match = Match(eth_dst=address, eth_dst_mask=_PAGE_MASK[:2] + address[2:])
            rules.append(Rule(table, MATCH_PRIORITY, match, outputs=(port,), goto_table=following))
        if following is not None:
            rules.append(Rule(table, MISS_PRIORITY, Match(), goto_table=following))
    return rules


#: Selects every rule of `ip_rules`.
_ALL = Rule(CLASSIFY_TABLE, MATCH_PRIORITY, Match(eth_type=IPV4_ETHERTYPE, untagged=True))


class SentRules:
    """The rules for IP that each switch was sent last, so that only what differs is sent."""

    def __init__(self) -> None:
        self._epoch = 0
        self._sent: dict[int, Mapping[int, Rule]] = {}

    def forget(self, node: int) -> None:
        """Assumes that the switch may hold any IP rules, for example after a restart."""
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
