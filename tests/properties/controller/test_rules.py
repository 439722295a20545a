"""The switch pipeline sends each frame to exactly the ports of its address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ETHERTYPE,
    HOST_PORT,
    MAX_INTERFACE,
    ROUTER_DESTINATION,
    node_address,
    port_addresses,
    ports_of,
)
from testbed.controller.rules import Match, Rule, pipeline


@dataclass(frozen=True)
class Fate:
    """The fate of a frame: the ports by which it left, in order, and whether the controller got it."""

    ports: list[int]
    to_controller: bool


class FlowTable:
    """The tables of one switch.

    Two rules of equal priority that match one frame are an error.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._tables: dict[int, list[Rule]] = {}
        for rule in rules:
            if rule.goto_table is not None:
                assert rule.goto_table > rule.table, f"{rule}: OpenFlow goes to later tables only"
            self._tables.setdefault(rule.table, []).append(rule)

    def run(
        self, in_port: int, destination: bytes, eth_type: int, source: bytes, tagged: bool = False
    ) -> Fate:
        ports: list[int] = []
        to_controller = False
        table: int | None = 0
        while table is not None:
            found = [
                r
                for r in self._tables.get(table, [])
                if not (r.match.untagged and tagged)
                and _matches(r.match, in_port, destination, eth_type, source)
            ]
            if not found:
                break  # a table miss without a rule of its own drops
            best = max(rule.priority for rule in found)
            chosen = [rule for rule in found if rule.priority == best]
            assert len(chosen) == 1, f"ambiguous: {chosen}"
            # A switch sends a frame back through its input port only for an explicit IN_PORT action.
            ports += [port for port in chosen[0].outputs if port != in_port]
            to_controller |= chosen[0].to_controller
            table = chosen[0].goto_table
        return Fate(ports, to_controller)


def _matches(match: Match, in_port: int, destination: bytes, eth_type: int, source: bytes) -> bool:
    if match.eth_src is not None and match.eth_src != source:
        return False
    if match.in_port is not None and match.in_port != in_port:
        return False
    if match.eth_type is not None and match.eth_type != eth_type:
        return False
    return match.eth_dst is None or all(
        (have ^ want) & mask == 0
        for have, want, mask in zip(destination, match.eth_dst, match.eth_dst_mask, strict=True)
    )


OWN = node_address(7)
PORT_SETS = st.one_of(
    st.integers(0, 70).map(lambda count: frozenset(range(1, count + 1))),
    st.frozensets(st.integers(1, MAX_INTERFACE), max_size=12),
)


#: Destinations of every sort: what a bitmap names, the controller, routers, and others.
DESTINATIONS = (
    st.builds(
        lambda page, bitmap: bytes((3, page)) + bitmap.to_bytes(4, "big"),
        st.integers(0, 253) | st.integers(0, 2),
        st.integers(0, 2**32 - 1),
    )
    | st.sampled_from([CONTROLLER_DESTINATION, ROUTER_DESTINATION, *port_addresses([1, 2, 40])])
    | st.binary(min_size=6, max_size=6)
)


def by_definition(ports: frozenset[int], in_port: int, destination: bytes, ethertype: int) -> Fate:
    """The fate of a frame with the source address of the host."""
    if ethertype != ETHERTYPE or in_port not in {HOST_PORT, *ports}:
        return Fate([], to_controller=False)
    if in_port != HOST_PORT:
        return Fate([HOST_PORT], to_controller=False)
    if destination == CONTROLLER_DESTINATION:
        return Fate([], to_controller=True)
    return Fate(sorted(ports_of(destination) & ports), to_controller=False)


@given(PORT_SETS, DESTINATIONS, st.sampled_from([ETHERTYPE, ETHERTYPE, 0x0800]) | st.integers(0, 0xFFFF))
def test_each_frame_leaves_by_exactly_the_ports_that_its_address_names(
    ports: frozenset[int], destination: bytes, ethertype: int
) -> None:
    table = FlowTable(pipeline(ports, OWN))
    for in_port in (HOST_PORT, *ports, max(ports, default=0) + 1):
        found = table.run(in_port, destination, ethertype, OWN)
        assert found == by_definition(ports, in_port, destination, ethertype), in_port


@pytest.mark.attack("address of another node")
@given(PORT_SETS, st.sampled_from([CONTROLLER_SOURCE, node_address(8)]) | st.binary(min_size=6, max_size=6))
def test_a_host_cannot_pass_for_another(ports: frozenset[int], source: bytes) -> None:
    table = FlowTable(pipeline(ports, OWN))
    for address in (CONTROLLER_DESTINATION, ROUTER_DESTINATION, *port_addresses(ports)):
        if source != OWN:
            assert table.run(HOST_PORT, address, ETHERTYPE, source) == Fate([], to_controller=False)


@pytest.mark.attack("address of the controller")
@given(PORT_SETS)
def test_no_link_can_pass_for_the_controller(ports: frozenset[int]) -> None:
    table = FlowTable(pipeline(ports, OWN))
    for port in ports:
        assert table.run(port, ROUTER_DESTINATION, ETHERTYPE, CONTROLLER_SOURCE) == Fate(
            [], to_controller=False
        )


@pytest.mark.attack("VLAN tag")
@given(PORT_SETS)
def test_frames_with_a_vlan_tag_go_nowhere(ports: frozenset[int]) -> None:
    table = FlowTable(pipeline(ports, OWN))
    for in_port in (HOST_PORT, *ports):
        for address in (CONTROLLER_DESTINATION, *port_addresses(ports)):
            assert table.run(in_port, address, ETHERTYPE, OWN, tagged=True) == Fate([], to_controller=False)


@given(PORT_SETS)
def test_the_number_of_rules_is_linear_in_the_ports(ports: frozenset[int]) -> None:
    rules = pipeline(ports, OWN)
    pages = {(port - 1) // 32 for port in ports}
    assert len(rules) <= 2 * len(ports) + len(pages) + 31 + 3
    assert len({(r.table, r.priority, r.match) for r in rules}) == len(rules), "a switch keeps one of equals"


@pytest.mark.parametrize("port", [0, -1, MAX_INTERFACE + 1, HOST_PORT])
def test_ports_outside_the_range_are_refused(port: int) -> None:
    with pytest.raises(ValueError, match="outside 1"):
        pipeline([1, port], OWN)
