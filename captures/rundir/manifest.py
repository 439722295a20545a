"""The manifest of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from captures.rundir.files import RunFolderError, read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check

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
    since_ns: Annotated[int, "wall clock, ns since 1970 UTC, from which the link had the property"]
    until_ns: Annotated[int, "wall clock of the next change of the link, or of the end"]
    property: Annotated[str, "name of the property, as in `topology.json`"]
    required: Annotated[float, "value that was asked for"]
    measured: Annotated[
        float | None,
        "measured value; null: there was nothing to measure it by: no frame was sent or, of a bandwidth, "
        "none had to wait for it",
    ]
    frames: Annotated[int, "frames by which it was measured"]


class Manifest(TypedDict):
    """The facts with which a run can be repeated."""

    datapath: Annotated[str, f"datapath of the switches, `kernel` or `user`; `{SIMULATED}` of a simulation"]
    started_ns: Annotated[int, "wall clock at the start, ns since 1970 UTC; virtual in a simulation"]
    evidence: Annotated[
        list[str],
        "files that the run must leave, as paths in the run folder: listed at the start, so that a file "
        "that is removed is missed. The records of a router that is started after a kill are not among "
        "them: `logs/faults.jsonl` has the kill",
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
    simulated_ns: NotRequired[Annotated[int, "wall clock at the start of a simulation, ns since 1970 UTC"]]
    tag: NotRequired[Annotated[str, "tag of the run, the name of its folder in /run/cbcb; emulations only"]]
    held: NotRequired[Annotated[bool, "whether the network was held until its user ended the run (`--hold`)"]]
    senders: NotRequired[Annotated[list[int], "nodes that the workload drew as senders"]]
    receivers: NotRequired[Annotated[list[int], "nodes that the workload drew as receivers"]]
    testbed: NotRequired[Annotated[Source, "the testbed's own version"]]
    command: NotRequired[Annotated[list[str], "command line of the run"]]
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
    versions: NotRequired[Annotated[Mapping[str, str], "versions of Python, its packages and system tools"]]


FILE = RunFile(
    lambda run: [run.manifest],
    "The facts with which the run can be repeated. A folder with this file is a run folder.",
    (("", Manifest), ("`testbed`", Source), ("`links`, objects", Calibration)),
)


def read_manifest(run: RunLayout) -> Manifest:
    """Reads the manifest.

    Raises:
        RunFolderError: the file is missing, or a field is missing or malformed.
    """
    document = read_object(run.manifest)
    manifest = check(Manifest, str(run.manifest), document)
    if not all(isinstance(name, str) for name in manifest["evidence"]):
        raise RunFolderError(f"{run.manifest}: evidence: expected a list of paths")
    return manifest


def is_private(run: RunLayout) -> bool:
    """Whether routers read no predicates; a folder without a manifest is of a run whose routers do.

    Raises:
        RunFolderError: a field of the manifest is missing or malformed.
    """
    return run.manifest.is_file() and read_manifest(run).get("private", False)


def write_manifest(run: RunLayout, manifest: Manifest) -> None:
    """Writes the manifest whole or not at all."""
    write_json(run.manifest, manifest)
