"""The inputs of a run: the manifest, the topology, and the workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from captures.rundir import RunLayout
from captures.rundir.files import Document, Log, RunFile, RunFolderError, read_text
from router.predicates import Value
from router.records import MessageFrames
from topos import Node, Topology, TopologyError
from topos.loaders import JSON_LINK_KEYS, from_json, to_json

#: Datapath of a simulation, in the manifest and in the summary.
SIMULATED = "simulated"


class Source(TypedDict):
    """The testbed's own version."""

    version: Annotated[str, "version of the project"]
    commit: Annotated[str | None, "commit of the checkout; null outside of a checkout"]
    dirty: Annotated[bool | None, "whether tracked files differ from the commit; null outside of a checkout"]
    code: NotRequired[
        Annotated[str | None, "digest of the sources that a run imports; null where they are in an archive"]
    ]


class Calibration(TypedDict):
    """A property of one direction of a link as it was measured, beside the value that was required.

    From one change of the properties of the link to the next.
    """

    sender: Annotated[int, "node at the end of the link that sends"]
    receiver: Annotated[int, "node at the other end"]
    since_ns: Annotated[int, "from which the link had the property"]
    until_ns: Annotated[int, "wall clock of the next change of the link, or of the end"]
    property: Annotated[str, "name of the property, as in `topology.json`"]
    required: Annotated[float, "value that was asked for"]
    measured: Annotated[
        float | None,
        "measured value; null: there was nothing to measure it by: no frame was sent or, of a bandwidth, "
        "none had to wait for it",
    ]
    frames: Annotated[int, "frames by which it was measured"]


class MachineOfRun(TypedDict):
    """A machine that carried a share of the network."""

    name: Annotated[str, "host name"]
    nodes: Annotated[list[int], "its nodes"]
    ahead_s: Annotated[float, "wall seconds by which its clock was ahead of the driver's at the end"]
    drift: Annotated[float, "wall seconds that its clock gained in a second of the driver's"]
    bound_s: Annotated[float, "greatest error, wall seconds, of its times by the driver's clock"]
    chrony: Annotated[str, "what chrony said of its clock before the run; empty: it was not there"]


class Manifest(TypedDict):
    """The facts with which a run can be repeated."""

    datapath: Annotated[str, f"datapath of the switches, `kernel` or `user`; `{SIMULATED}` of a simulation"]
    started_ns: Annotated[int, "start of the run; virtual in a simulation"]
    evidence: Annotated[
        list[str],
        "files that the run must leave, by path, listed at the start so that a removed file is missed; not "
        "the records of a router started after a kill, which `logs/faults.jsonl` has",
    ]
    inputs: Annotated[
        Mapping[str, str], "SHA-256 of files with which the run began, in hexadecimal digits, by path"
    ]
    experiment: NotRequired[Annotated[str, "name of the experiment"]]
    seed: NotRequired[Annotated[int, "seed of everything that is drawn"]]
    identity: NotRequired[
        Annotated[str, "random number in hex, bound into keys of `[security]`; only if files give some"]
    ]
    private: NotRequired[Annotated[bool, "whether applications have keys, and routers read no predicates"]]
    simulated_ns: NotRequired[Annotated[int, "start of a simulation, by the wall clock"]]
    tag: NotRequired[Annotated[str, "tag of the run, the name of its folder in /run/cbcb; emulations only"]]
    held: NotRequired[Annotated[bool, "whether the network was held until its user ended the run (`--hold`)"]]
    message_frames: NotRequired[
        Annotated[
            MessageFrames,
            "`one` frame of a message on all links, `parts` by destination, or `copies`, several on a link",
        ]
    ]
    senders: NotRequired[Annotated[list[int], "nodes that the workload drew as senders"]]
    receivers: NotRequired[Annotated[list[int], "nodes that the workload drew as receivers"]]
    testbed: NotRequired[Annotated[Source, "the testbed's own version"]]
    command: NotRequired[Annotated[list[str], "command line of the run"]]
    machine: NotRequired[Annotated[str, "host name of the machine that made the run"]]
    kernel: NotRequired[Annotated[str, "release of the kernel"]]
    system: NotRequired[Annotated[str, "name of the operating system"]]
    cpus: NotRequired[Annotated[int | None, "number of processors"]]
    memory_bytes: NotRequired[Annotated[int, "bytes of memory of the machine"]]
    links: NotRequired[
        Annotated[
            list[Calibration],
            "properties of links, measured; written at the end of an emulation whose links had some",
        ]
    ]
    machines: NotRequired[Annotated[list[MachineOfRun], "the machines of a network over several"]]
    versions: NotRequired[Annotated[Mapping[str, str], "versions of Python, its packages and system tools"]]


class WorkloadLine(TypedDict):
    """One request of an application.

    `testbed.experiments.workload` says which fields belong to which action.
    """

    at_s: Annotated[float, "experiment second of the request"]
    node: Annotated[int, "node of the application"]
    action: Annotated[str, "name of the event, such as `set_predicate` (docs/reference/experiment-file.md)"]
    subscription: NotRequired[
        Annotated[
            str,
            "of subscribe, unsubscribe, register, refresh and unregister: name of the subscription, unique "
            "at the node",
        ]
    ]
    predicate: NotRequired[
        Annotated[str, "of set_predicate, subscribe and register: in the readable notation"]
    ]
    attributes: NotRequired[
        Annotated[Mapping[str, Value], "of send_message and publish: name of the attribute -> value"]
    ]
    max: NotRequired[Annotated[int, "of register: greatest number of publications of a round"]]
    lifetime_s: NotRequired[Annotated[float, "of register: duration of a round, experiment seconds"]]
    freshness_s: NotRequired[
        Annotated[float, "of register: greatest age of a publication, experiment seconds"]
    ]
    app: NotRequired[Annotated[str, "name of the application; without it `workload`"]]


MANIFEST = Document(
    lambda run: [run.manifest],
    "A folder with this file is a run folder.",
    (
        ("", Manifest),
        ("`testbed`", Source),
        ("`links`, objects", Calibration),
        ("`machines`, objects", MachineOfRun),
    ),
    form=Manifest,
)
TOPOLOGY = RunFile(
    lambda run: [run.topology],
    "The network: `name`, `nodes` (objects with {}) and `links` (objects with {}), with the meaning that "
    "`topos` gives them.".format(
        *(", ".join(f"`{key}`" for key in keys) for keys in (vars(Node(0)), JSON_LINK_KEYS))
    ),
)
WORKLOAD = Log(
    lambda run: [run.workload],
    "The requests that the workload makes of the applications, in order of time, one a line.",
    form=WorkloadLine,
    optional=True,
)


def clock_error_s(manifest: Manifest) -> float:
    """Returns the greatest error between two times of a run, wall seconds; 0 on a single machine."""
    return 2 * max((machine["bound_s"] for machine in manifest.get("machines", ())), default=0.0)


def is_private(run: RunLayout) -> bool:
    """Whether routers read no predicates; a folder without a manifest is of a run whose routers do.

    Raises:
        RunFolderError: a field of the manifest is missing or malformed.
    """
    return run.manifest.is_file() and MANIFEST.read(run).get("private", False)


def read_topology(run: RunLayout) -> Topology:
    """Reads the topology.

    Raises:
        RunFolderError: the file is missing or is no valid topology.
    """
    text = read_text(run.topology)
    try:
        return from_json(text)
    except TopologyError as error:
        raise RunFolderError(f"{run.topology}: {error}") from error
    except RecursionError as error:
        raise RunFolderError(f"{run.topology}: is nested too deeply") from error


def write_topology(run: RunLayout, topology: Topology) -> None:
    """Writes the topology.

    Raises:
        OSError: the file cannot be written.
    """
    run.topology.write_text(to_json(topology), encoding="utf-8")
