"""The captures of a run: which there are, and what was counted of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from captures.frames import CaptureIdentity
from captures.rundir import RunLayout, host_capture_name, link_capture_name, tunnel_capture_name
from captures.rundir.files import Document, RunFile, RunFolderError, read_json
from captures.rundir.inputs import read_topology
from router.records.json_file import write_json
from topos import Link, Topology

#: Bytes of captures, about a million frames, above which a JVM that compiles longer accounts faster.
LARGE_BYTES = 200_000_000
#: Captures of fewer bytes, about 100,000 frames, make a small run.
SMALL_BYTES = 20_000_000
#: The captures that a run keeps: of all links and host links, of links between routers, or none.
Kept = Literal["all", "links", "none"]


class CaptureEntry(TypedDict):
    """One capture.

    Counters are numbers of Ethernet frames.
    """

    name: Annotated[str, "name of the capture"]
    kind: Annotated[
        Literal["link", "host", "tunnel"],
        "a link between routers, one between switch and router, or the other end of a link between machines",
    ]
    u: Annotated[int | None, "of a link: the end at which it is captured"]
    v: Annotated[int | None, "of a link: the other end"]
    node: Annotated[int | None, "of a host link: its node"]
    file: Annotated[str, "path of the capture file in the run folder"]
    device: Annotated[str, "network device on which it was taken"]
    captured: Annotated[int, "frames in the file"]
    received_by_filter: Annotated[int, "frames of the protocol that the device had"]
    dropped_by_kernel: Annotated[int, "frames that the device had and the capture lost"]


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A capture that has ended.

    Attributes:
        identity: which capture it is.
        file: path of the capture file, relative to the run folder.
        device: network device on which it was taken.
        captured, received_by_filter, dropped_by_kernel: Ethernet frames; see `CaptureEntry`.
    """

    identity: CaptureIdentity
    file: str
    device: str
    captured: int
    received_by_filter: int
    dropped_by_kernel: int


#: The fields of `CaptureEntry` that `CapturedFile` has beside the identity.
_COUNTED = ("file", "device", "captured", "received_by_filter", "dropped_by_kernel")

CAPTURES = Document(
    lambda run: [run.captures, run.ip_captures],
    "The captures: a list of objects; with `[network] ip = true`, those of IPv4 in a list of their own.",
    (("", CaptureEntry),),
    form=list[CaptureEntry],
)
CAPTURE_FILES = RunFile(
    lambda run: [
        run.capture(link_capture_name("<u>", "<v>")),
        run.capture(host_capture_name("<n>")),
        run.capture(tunnel_capture_name("<u>", "<v>")),
        run.ip_capture(link_capture_name("<u>", "<v>")),
    ],
    "The captures: of each link between the nodes u and v, taken at the end of u, and of the link between "
    "switch and router of node n, taken at the switch; of a link between machines also at the end of v. With "
    "`[network] ip = true`, `ip/` has IPv4 on the same devices, the first 128 bytes of each frame.",
)


def link_identity(link: Link) -> CaptureIdentity:
    """The capture of a link between routers."""
    return CaptureIdentity(link_capture_name(link.u, link.v), "link", link.index, link.u, link.v)


def tunnel_identity(link: Link) -> CaptureIdentity:
    """The second capture of a link between machines, at the end of `v`."""
    name = tunnel_capture_name(link.u, link.v)
    return CaptureIdentity(name, "tunnel", link.index, link.v, link.u)


def host_identity(node: int) -> CaptureIdentity:
    """The capture of the link between the switch and the router of a node."""
    return CaptureIdentity(host_capture_name(node), "host", node=node)


def identities(topology: Topology, kept: Kept = "all") -> Iterator[CaptureIdentity]:
    """The captures that a run on a topology keeps: of every link, then of every host link."""
    if kept != "none":
        yield from (link_identity(link) for link in topology.links)
    if kept == "all":
        yield from (host_identity(node.id) for node in topology.nodes)


def read_captures(run: RunLayout) -> list[CapturedFile]:
    """Reads the list of captures, each link with the index that the topology gives it.

    Raises:
        RunFolderError: the list or the topology is missing or malformed.
    """
    return _read(run, run.captures)


def read_ip_captures(run: RunLayout) -> list[CapturedFile]:
    """Reads the list of the captures of IPv4, as `read_captures`; empty if the run has no IP."""
    return _read(run, run.ip_captures) if run.ip_captures.exists() else []


def _read(run: RunLayout, path: Path) -> list[CapturedFile]:
    index = {(link.u, link.v): link.index for link in read_topology(run).links}
    index |= {(v, u): number for (u, v), number in index.items()}
    found = []
    for number, entry in enumerate(read_json(path, CAPTURES.form)):
        where = f"{path}: {number}"
        if Path(entry["file"]).is_absolute() or ".." in Path(entry["file"]).parts:
            raise RunFolderError(f"{where}: file: {entry['file']!r}; expected a path in the run folder")
        kind, u, v, node = entry["kind"], entry["u"], entry["v"], entry["node"]
        link = None if u is None or v is None else index.get((u, v))
        if kind != "host" and link is not None:
            identity = CaptureIdentity(entry["name"], kind, link, u, v)
        elif kind == "host" and node is not None:
            identity = CaptureIdentity(entry["name"], kind, node=node)
        else:
            ends = f"kind {kind!r}, u {u!r}, v {v!r}, node {node!r}"
            raise RunFolderError(f"{where}: {ends}; expected a link of the topology or a host")
        values: dict[str, Any] = {**entry}
        found.append(CapturedFile(identity, **{name: values[name] for name in _COUNTED}))
    return found


def capture_paths(run: RunLayout) -> dict[str, CaptureIdentity]:
    """The capture files by path: those of the list, or, while there is no list, those of the topology.

    Raises:
        RunFolderError: the list or the topology is missing or malformed.
    """
    if run.captures.exists():
        return {str(run.path / capture.file): capture.identity for capture in read_captures(run)}
    return {str(run.capture(each.name)): each for each in identities(read_topology(run))}


def write_captures(path: Path, captures: Iterable[CapturedFile]) -> None:
    """Writes a list of captures (`RunLayout.captures`, `RunLayout.ip_captures`) whole or not at all."""
    entries = [
        {name: getattr(each.identity, name) for name in ("name", "kind", "u", "v", "node")}
        | {name: getattr(each, name) for name in _COUNTED}
        for each in captures
    ]
    write_json(path, entries)


def captured_bytes(layout: RunLayout) -> int:
    """Returns the size of the capture files of a run; a file counts each time that the list names it.

    Raises:
        RunFolderError: the list of captures is missing or malformed.
    """
    files = [layout.path / capture.file for capture in read_captures(layout)]
    return sum(path.stat().st_size for path in files if path.is_file())
