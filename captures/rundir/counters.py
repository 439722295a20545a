"""The counters of routers and switches at the end of a run."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict, cast

from captures.rundir import RunLayout
from captures.rundir.files import Document, check
from router.records.counters import CORE_COUNTERS, LinkCounters

#: Counters that each router of a run writes.
ROUTERS_KEEP = (
    *("bytes_received", "bytes_sent", "dropped", "socket_drops", "records_lost"),
    *("applications_disconnected_slow", *CORE_COUNTERS),
)


class Port(TypedDict):
    """The counters of one switch port, between the start and the end of the captures."""

    rx_packets: Annotated[int, "Ethernet frames received by the port"]
    tx_packets: Annotated[int, "Ethernet frames sent by the port"]
    rx_bytes: NotRequired[Annotated[int, "bytes of the frames received"]]
    tx_bytes: NotRequired[Annotated[int, "bytes of the frames sent"]]
    rx_dropped: NotRequired[Annotated[int, "frames received and dropped"]]
    tx_dropped: NotRequired[Annotated[int, "frames to be sent and dropped"]]


class SwitchDrops(TypedDict):
    """Frames that one switch dropped.

    The counts of a switch that is restarted begin at 0, and those of the rules of all switches when the
    controller is.
    """

    controller_source: Annotated[int, "frames with the source address of the controller"]
    no_rule: Annotated[
        int,
        "frames that no rule forwards: with a VLAN tag, with the address of another node from a host, or of "
        "another EtherType",
    ]
    no_room: NotRequired[
        Annotated[
            int,
            "frames that found no room in the buffers of the switch's ports; missing with the kernel "
            "datapath, and where a container forbids to count them",
        ]
    ]
    lost_upcalls: NotRequired[
        Annotated[
            int,
            "frames without a flow that the kernel datapath could not hand over to ovs-vswitchd (`lost` of "
            "`ovs-appctl dpctl/show`) since the switches were made, of all switches that share it, in the "
            "entry of the first; missing with the userspace datapath",
        ]
    ]


PortCounters = dict[str, int]
#: Node -> switch port -> counters.
SwitchCounters = dict[int, dict[int, PortCounters]]

ROUTERS = Document(
    lambda run: [run.routers_counters],
    "The counters of every router when it ended: an object by node, as text. Beside the fields below stand "
    "the counters of the protocol core, which `router.protocol.counters` describes.",
    (("Counters of one router", LinkCounters),),
    form=dict[int, dict[str, Any]],
)
SWITCHES = Document(
    lambda run: [run.switches_counters],
    "The counters of every port of every switch, counted between the start and the end of the captures: an "
    "object by node, of objects by port, both as text.",
    (("Counters of one port", Port),),
    form=cast(type[SwitchCounters], dict[int, dict[int, Port]]),
)
DROPS = Document(
    lambda run: [run.switch_drops],
    "The frames that every switch dropped: an object by node, as text. A simulation has none.",
    (("Frames that one switch dropped", SwitchDrops),),
    form=dict[int, SwitchDrops],
)
write_routers_counters = ROUTERS.write
read_switches_counters, write_switches_counters = SWITCHES.read, SWITCHES.write
write_switch_drops = DROPS.write


def read_routers_counters(run: RunLayout) -> dict[int, dict[str, Any]]:
    """Reads the counters of the routers, by node.

    Raises:
        RunFolderError: the file is missing, or a field is missing or malformed.
    """
    found = ROUTERS.read(run)
    for node, counters in found.items():
        where = f"{run.routers_counters}: {node}"
        check(LinkCounters, where, counters)
        check(dict[str, int], where, {name: counters[name] for name in CORE_COUNTERS if name in counters})
    return found


def read_switch_drops(run: RunLayout) -> dict[int, SwitchDrops]:
    """Reads the frames that each switch dropped, by node; none if the run has no such file.

    Raises:
        RunFolderError: a field is missing or malformed.
    """
    return DROPS.read_if_there(run) or {}
