"""The counters of routers and switches at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict, cast

from captures.rundir.files import RunFolderError, as_object, key_number, read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.records.counters import CORE_COUNTERS, LinkCounters

#: Counters that each router of a run writes.
ROUTERS_KEEP = (
    *("bytes_received", "bytes_sent", "dropped", "socket_drops", "records_lost"),
    *("applications_disconnected_slow", *CORE_COUNTERS),
)
PortCounters = dict[str, int]
#: Node -> switch port -> counters.
SwitchCounters = dict[int, dict[int, PortCounters]]


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
            "`ovs-appctl dpctl/show`) since the switches were made: of all switches that share the datapath, "
            "in the entry of the first of them; missing with the userspace datapath",
        ]
    ]


ROUTERS_FILE = RunFile(
    lambda run: [run.routers_counters],
    "The counters of every router when it ended: an object by node, as text. Beside the fields below stand "
    f"the counters of the protocol core: {', '.join(f'`{name}`' for name in CORE_COUNTERS)} "
    "(`router.protocol.counters` describes them).",
    (("Counters of one router", LinkCounters),),
)
SWITCHES_FILE = RunFile(
    lambda run: [run.switches_counters],
    "The counters of every port of every switch, counted between the start and the end of the captures: an "
    "object by node, of objects by port, both as text.",
    (("Counters of one port", Port),),
)

DROPS_FILE = RunFile(
    lambda run: [run.switch_drops],
    "The frames that every switch dropped: an object by node, as text. A simulation has none.",
    (("Frames that one switch dropped", SwitchDrops),),
)


def read_routers_counters(run: RunLayout) -> dict[int, dict[str, Any]]:
    """Reads the counters of the routers, by node.

    Raises:
        RunFolderError: the file is missing, or a field is missing or malformed.
    """
    path = run.routers_counters
    found = {}
    for name, counters in read_object(path).items():
        node, where = key_number(path, name), f"{path}: node {name}"
        check(LinkCounters, where, as_object(where, counters))
        for way in ("frames_sent", "frames_received"):
            for kind, count in counters[way].items():
                if type(count) is not int:
                    raise RunFolderError(f"{where}: {way}: {kind}: {count!r}; expected an integer")
        found[node] = counters
    return found


def write_routers_counters(run: RunLayout, counters: Mapping[int, Mapping[str, Any]]) -> None:
    """Writes the counters of the routers, by node, whole or not at all."""
    write_json(run.routers_counters, counters)


def read_switches_counters(run: RunLayout) -> SwitchCounters:
    """Reads the counters of the switches.

    Raises:
        RunFolderError: the file is missing, or a field is missing or malformed.
    """
    path = run.switches_counters
    found: SwitchCounters = {}
    for name, ports in read_object(path).items():
        own = found[key_number(path, name)] = {}
        for port, counters in as_object(f"{path}: node {name}", ports).items():
            where = f"{path}: node {name}: port {port}"
            check(Port, where, as_object(where, counters))
            own[key_number(path, port)] = counters
    return found


def write_switches_counters(run: RunLayout, counters: SwitchCounters) -> None:
    """Writes the counters of the switches whole or not at all."""
    write_json(run.switches_counters, counters)


def read_switch_drops(run: RunLayout) -> dict[int, SwitchDrops]:
    """Reads the frames that each switch dropped, by node; none if the run has no such file.

    Raises:
        RunFolderError: a field is missing or malformed.
    """
    path, found = run.switch_drops, {}
    for name, drops in (read_object(path) if path.exists() else {}).items():
        node, where = key_number(path, name), f"{path}: node {name}"
        check(SwitchDrops, where, as_object(where, drops))
        found[node] = cast(SwitchDrops, drops)
    return found


def write_switch_drops(run: RunLayout, drops: Mapping[int, SwitchDrops]) -> None:
    """Writes the frames that each switch dropped, by node, whole or not at all."""
    write_json(run.switch_drops, drops)
