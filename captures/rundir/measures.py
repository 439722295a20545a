"""The measurements of a run: how late its parts were, what bring-up, simulation and accounting took, and the
counters of routers and switches at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from captures.rundir import RunLayout
from captures.rundir.files import Document, RunFolderError, check
from router.records.counters import CORE_COUNTERS, LinkCounters
from router.records.json_file import write_json

PartName = Literal["router", "workload", "switches", "captures", "controller"]


class PartLag(TypedDict):
    """The lag of a part from `from_s` until the end of the workload.

    That of the controller is not measured, and 0. A turn of a loop goes from the end of a wait to the
    next wait.
    """

    part: Annotated[PartName, "the part"]
    node: NotRequired[Annotated[int, "node of a router"]]
    lag_s: Annotated[
        float,
        "greatest lag in experiment seconds since something was due, or wall seconds that something had "
        "waited at the rate of that time",
    ]
    lag_wall_s: Annotated[float, "greatest lag in wall seconds"]
    lag_at_s: Annotated[float, "experiment second of the greatest lag"]
    turn_s: NotRequired[Annotated[float, "longest turn of the part's loop, wall seconds"]]
    turn_of: NotRequired[
        Annotated[
            str,
            "what that turn of a router did longest: type of a frame, `deadline`, `request`, or `compiled` "
            "(messages in compiled code, with their deliveries); empty: nothing, or another part",
        ]
    ]
    turn_at_s: NotRequired[Annotated[float, "experiment second at which that turn ended"]]
    turn_cpu_s: NotRequired[
        Annotated[
            float,
            "greatest CPU time of a turn, seconds; a turn in which other processes had the processor is "
            "longer in wall time",
        ]
    ]


class Answers(TypedDict):
    """The delay of routers' answers: from the request of an application of the workload to its answer."""

    median_s: Annotated[float, "median, wall seconds"]
    p99_s: Annotated[float, "99 % of the answers came within these wall seconds"]
    max_s: Annotated[float, "greatest delay, wall seconds"]


class LagReport(TypedDict):
    """How late the parts of the run were, and how late they may be."""

    from_s: Annotated[
        float, "experiment second from which lag counts: the opening predicates had spread, nothing waited"
    ]
    bound_s: Annotated[float, "greatest lag of a valid run, experiment seconds"]
    bound_wall_s: Annotated[float, "greatest lag of a valid run, wall seconds"]
    parts: Annotated[list[PartLag], "the parts that measure themselves"]
    answers: Annotated[Answers | None, "the delay of routers' answers; null without a request"]


class Timings(TypedDict):
    """Measurements of a run; the summary repeats them."""

    bring_up_s: NotRequired[Annotated[float, "wall seconds until every router could originate"]]
    run_s: NotRequired[Annotated[float, "wall seconds of the workload, until the network was quiet"]]
    teardown_s: NotRequired[Annotated[float, "wall seconds to take the network down"]]
    workload_lateness_max_s: NotRequired[
        Annotated[float, "wall seconds by which the latest request was sent after its time"]
    ]
    memory_per_router_bytes: NotRequired[Annotated[float, "mean bytes of memory of a router"]]


class SimulationCost(TypedDict):
    """The cost of a simulation."""

    events: Annotated[int, "events of the agenda from the start of the workload to the end"]
    set_up_cpu_s: Annotated[float, "CPU seconds of the set-up"]
    cpu_s: Annotated[float, "CPU seconds of these events"]
    events_per_cpu_s: Annotated[int | None, "events per CPU second; null if they took no time"]
    virtual_s: Annotated[float, "virtual seconds from the beginning to the end"]
    memory_per_router_bytes: Annotated[int, "resident bytes that the network added, per router"]
    peak_memory_bytes: Annotated[int, "largest resident memory of the process, bytes"]


class StageTime(TypedDict):
    """A stage; stages overlap, and the time of one holds its waiting for others."""

    name: Annotated[str, "name of a table, of a function that makes keys of the summary, or of other work"]
    began_s: Annotated[float, "wall seconds from the start of the accounting to that of the stage"]
    seconds: Annotated[float, "wall seconds of the stage"]


class Accounting(TypedDict):
    """The work of the accounting that made the tables."""

    engine: Annotated[str, "`spark` or `duckdb`"]
    master: Annotated[str | None, "Spark's master URL; null: another engine"]
    seconds: Annotated[float, "wall seconds of all stages together"]
    stages: Annotated[list[StageTime], "in the order in which they began"]


LAG = Document(
    lambda run: [run.lag],
    "How late the parts of an emulation were (docs/explanation/clock.md); simulations do not have the file.",
    (("", LagReport), ("`parts`", PartLag), ("`answers`", Answers)),
    form=LagReport,
)
TIMINGS = Document(
    lambda run: [run.timings],
    "Measurements that the runner makes of itself, for the summary. Written last: a folder without the "
    "file is of a run that was killed, was interrupted before its workload, or still goes on.",
    (("", Timings),),
    form=cast(type[dict[str, float]], Timings),
)
SIMULATION = Document(
    lambda run: [run.simulation],
    "The cost of a simulation; emulations do not have the file.",
    form=SimulationCost,
)
ACCOUNTING = Document(
    lambda run: [run.accounting],
    "The stages of the accounting that made the tables, with their times; replaced together with the tables.",
    (("", Accounting), ("`stages`", StageTime)),
    form=Accounting,
)


def read_lag(run: RunLayout) -> LagReport | None:
    """Reads the report; None if the run has none.

    Raises:
        RunFolderError: a field is missing or malformed.
    """
    report = LAG.read_if_there(run)
    for number, part in enumerate(report["parts"] if report else ()):
        if part["part"] == "router" and "node" not in part:
            raise RunFolderError(f"{run.lag}: parts: {number}: no field 'node'")
    return report


def write_accounting(tables: Path, accounting: Accounting) -> None:
    """Writes the file into a folder of tables: of a run, or of new tables that will replace those."""
    write_json(tables / RunLayout(tables).accounting.name, accounting)


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


#: Node -> switch port -> the counters of `Port`, by name.
SwitchCounters = dict[int, dict[int, dict[str, int]]]

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
    optional=True,
)


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
