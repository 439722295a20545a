"""Counters of a run of which only some links were captured."""

from __future__ import annotations

from captures.accounting.traffic import captured_only, processed_by_counters
from captures.frames import CaptureIdentity
from captures.rundir.capture_list import CapturedFile
from router.wire.header import HOST_PORT
from topos import Link

LINKS = [Link(0, 0, 1, 1, 1, False), Link(1, 1, 2, 2, 1, False)]
ROUTERS = {node: {"frames_sent": {"MSG": node}} for node in range(3)}
PORTS = {
    0: {HOST_PORT: {"rx_packets": 1}, 1: {"rx_packets": 2}},
    1: {HOST_PORT: {"rx_packets": 3}, 1: {"rx_packets": 4}, 2: {"rx_packets": 5}},
    2: {HOST_PORT: {"rx_packets": 6}, 1: {"rx_packets": 7}},
}
LINK = CapturedFile(CaptureIdentity("link-1-2", "link", 1, 1, 2), "pcap/link-1-2.pcap", "a", 9, 9, 0)
HOST = CapturedFile(CaptureIdentity("host-0", "host", node=0), "pcap/host-0.pcap", "b", 9, 9, 0)


def test_only_what_has_a_capture_is_held_against_it() -> None:
    routers, ports, links = captured_only([LINK, HOST], ROUTERS, PORTS, LINKS)
    assert routers == {0: ROUTERS[0]}
    assert ports == {0: {HOST_PORT: PORTS[0][HOST_PORT]}, 1: {2: PORTS[1][2]}, 2: {1: PORTS[2][1]}}
    assert links == [LINKS[1]]
    assert captured_only([], ROUTERS, PORTS, LINKS) == ({}, {0: {}, 1: {}, 2: {}}, [])


def test_false_positives_by_the_counters_of_the_routers() -> None:
    one = {"messages_sent": 3, "messages_unmatched": 1, "messages_received": 10, "messages_unwanted": 4}
    assert processed_by_counters([one, {**one, "messages_unwanted": 0}, {}]) == {
        "false_positives": 6,
        "messages_received_by_routers": 26,
        "false_positives_from_network": 4,
        "messages_received_from_network": 20,
    }
