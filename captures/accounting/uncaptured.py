"""Runs that captured only some links: the counters that can be compared with the captures.

A simulation of a large network may keep the captures of links between routers only, or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from captures.accounting.traffic import control_share, every_type
from captures.frames.columns import type_of
from captures.rundir.capture_list import CapturedFile
from router.wire.addresses import HOST_PORT
from topos.model import Link

_COUNTERS = ("messages_received", "messages_sent", "messages_unmatched", "messages_unwanted")

#: Frames that come from the controller, not from a neighbour.
_OF_THE_CONTROLLER = ("TABLE", "COMMIT")

Ports = Mapping[int, Mapping[int, Mapping[str, int]]]


def captured_only(
    captures: Iterable[CapturedFile],
    routers: Mapping[int, Mapping[str, Any]],
    switches: Ports,
    links: Iterable[Link],
) -> tuple[dict[int, Mapping[str, Any]], Ports, list[Link]]:
    """Routers, switch ports and links that have a capture, of the counters of routers and
    switches and of the topology.
    """
    identities = [capture.identity for capture in captures]
    hosts = {identity.node for identity in identities if identity.kind == "host"}
    indices = {identity.link for identity in identities if identity.kind == "link"}
    seen = [link for link in links if link.index in indices]
    ports = {(node, HOST_PORT) for node in hosts}
    for link in seen:
        ports |= {(link.u, link.u_port), (link.v, link.v_port)}
    return (
        {node: counters for node, counters in routers.items() if node in hosts},
        {
            node: {port: counters for port, counters in own.items() if (node, port) in ports}
            for node, own in switches.items()
        },
        seen,
    )


def processed_by_counters(routers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """False positives, and the messages of which they are a part, from the routers' own counters.

    Where all host links were captured, their captures give the same numbers.
    """

    total: Counter[str] = Counter()
    for counters in routers:
        total.update({name: int(counters.get(name, 0)) for name in _COUNTERS})
    return {
        "false_positives": total["messages_unwanted"] + total["messages_unmatched"],
        "messages_received_by_routers": total["messages_received"] + total["messages_sent"],
        "false_positives_from_network": total["messages_unwanted"],
        "messages_received_from_network": total["messages_received"],
    }


def frames_by_counters(routers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the keys about frames on links where no link was captured: the frames from neighbours.

    A frame that a link lost is in no counter. The counters have no bytes by type.
    """
    frames: Counter[str] = Counter()
    for counters in routers:
        for kind, count in counters["frames_received"].items():
            if kind not in _OF_THE_CONTROLLER:
                frames[type_of(kind)] += count
    return {
        "frames_by_type": every_type(frames, host_links=False),
        "bytes_by_type": {},
        "control_share": control_share(frames),
    }
