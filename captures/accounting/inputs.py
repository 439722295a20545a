"""The small files of a run, read before Spark has started."""

from __future__ import annotations

import math
import tomllib
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from captures.accounting.log_tables import application_tables, as_table, opening_predicates, oracle_table
from captures.datasource.opening import open_captures
from captures.pcap.opening import is_compressed
from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.applications import read_attention
from captures.rundir.capture_list import CapturedFile, read_captures, read_ip_captures
from captures.rundir.clock import read_clock
from captures.rundir.controller import read_controller
from captures.rundir.epochs import epochs
from captures.rundir.faults import (
    COMMANDS,
    FAULTS,
    killed_routers,
    lossy_links,
    lost_parts,
    restarted_routers,
)
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import MANIFEST, WORKLOAD, read_topology
from captures.rundir.measures import (
    DROPS,
    ROUTERS_KEEP,
    SWITCHES,
    Port,
    read_lag,
    read_routers_counters,
)
from captures.rundir.oracle import JUDGEMENT
from captures.rundir.routing_tables import ROUTING_TABLES
from captures.tables import TABLES
from router.wire.header import HOST_PORT, node_address
from topos import Link

_MOST_BINS = 300
#: Bytes of an empty JSON object with the end of its line, or fewer.
_EMPTY_BYTES = 3
#: The columns of the table `captures` that the list of captures and a walk through the files give.
_FILE_COLUMNS = (
    *("capture", "kind", "link", "node", "frames_written", "received_by_filter", "dropped_by_kernel"),
    "defect",
)
FILES = pa.schema([TABLES["captures"].schema.field(name) for name in _FILE_COLUMNS])


class Inputs:
    """The small files of a run.

    Attributes:
        log: the records of applications; `log.last_ns` is the last event of the service, too.
        opening: the predicates that the first wave of RAs answers (`opening_predicates`).
        held: whether the network was held until its user ended the run.
        private: whether applications encode predicates and messages.
        message_frames: of the scheme; see `Manifest`.
        ip: the IPv4 frames beside CBCB.
        faults: of the parts of the emulation.
        controller, service: the events of the controller, and of the attention-limited service.
        judgement: of the oracle on attention-limited subscriptions; None: the run has another service.

    Raises:
        RunFolderError: a file is missing or malformed.
    """

    def __init__(self, run: RunLayout) -> None:
        self.run = run
        self.manifest = MANIFEST.read(run)
        self.held = self.manifest.get("held", False)
        self.private = self.manifest.get("private", False)
        self.message_frames = self.manifest.get("message_frames", "one")
        log = application_tables(run)
        # What applications request of an attention-limited service is in the records of the service alone.
        self.service = [event for _, event in read_attention(run)] if run.service_folder.is_dir() else []
        self.log = replace(log, last_ns=max([log.last_ns, *(event["t_ns"] for event in self.service)]))
        self.controller = [event for _, event in read_controller(run.controller_log)]
        self.epochs = epochs(self.controller)
        self.workload = [line for _, line in WORKLOAD.read(run)]
        self.opening = opening_predicates(self.log, self.workload)
        self.topology = read_topology(run)
        self.captures = read_captures(run)
        for listed, found in ((run.captures, self.captures), (run.ip_captures, read_ip_captures(run))):
            for capture in found:
                path = run.path / capture.file
                if not path.is_file():
                    raise RunFolderError(f"{path}: missing; {listed.name} names it")
                # Its size would say nothing of the memory that its frames take.
                if is_compressed(str(path)):
                    raise RunFolderError(
                        f"{path}: is compressed; expected a capture as the run has written it"
                    )
        self.oracle = oracle_table(run)
        self.clock = read_clock(run)
        self.router_counters = read_routers_counters(run)
        self.ovs_counters = SWITCHES.read(run)
        self.lag = read_lag(run)
        self.judgement = JUDGEMENT.read_if_there(run)
        self.ip = ip_frames(run, self.topology.links, self.cut)
        self.faults = FAULTS.read_all(run)

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """The keys of the experiment file; a run folder without one has none."""
        try:
            return tomllib.loads(self.run.experiment.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    @cached_property
    def capture_paths(self) -> dict[str, Path]:
        """Capture -> its file."""
        return {each.identity.name: self.run.path / each.file for each in self.captures}

    @cached_property
    def damaged(self) -> dict[str, str]:
        """Capture -> how its file ends inside a record, of those that do, by a walk through each."""
        found: dict[str, str] = {}
        for name, path in self.capture_paths.items():
            reader = PcapReader(path, link_type=None)
            for _ in reader.blocks():
                pass
            if reader.defect is not None:
                found[name] = reader.defect
        return found

    @property
    def evidence_missing(self) -> list[str]:
        """The files that the run left, and that are gone; without any, what is gone from the files."""
        restarted = [self.run.applications_after_restart(*each) for each in restarted_routers(self.faults)]
        left = [*self.manifest["evidence"], *map(self.run.relative, restarted)]
        gone = [name for name in left if not (self.run.path / name).is_file()]
        return gone if gone or lost_parts(self.faults) else list(self._gaps({*left}))

    def _gaps(self, listed: set[str]) -> Iterator[str]:
        """Yields what a run that ends as planned writes into its files, and that is gone from them."""
        run, name = self.run, self.run.relative
        killed = {node for node, _ in killed_routers(self.faults)}
        written = [run.recording(node) for node in self.router_counters if node not in killed]
        written += [run.routing_tables, run.switch_drops, run.timings, run.simulation]
        for path in written:
            if name(path) in listed and path.stat().st_size <= _EMPTY_BYTES:
                yield f"{name(path)} is empty"
        if name(run.controller_log) in listed and not self.epochs.committed:
            yield f"{name(run.controller_log)}: no epoch was committed"
        if name(run.routers_counters) in listed:
            for node, counters in self.router_counters.items():
                for counter in ROUTERS_KEEP:
                    if counter not in counters:
                        yield f"{name(run.routers_counters)}: router {node}: {counter}"
        if name(run.switches_counters) in listed:
            for node, ports in self.ovs_counters.items():
                for port, counts in ports.items():
                    for counter in sorted(Port.__annotations__.keys() - counts.keys()):
                        yield f"{name(run.switches_counters)}: switch {node}: port {port}: {counter}"
        # A part that was away, or that the user commanded, may have no entry.
        tables, drops = ROUTING_TABLES.read(run).keys(), DROPS.read(run).keys()
        for path, entries in ((run.routing_tables, tables), (run.switch_drops, drops)):
            gone = self.router_counters.keys() - entries if self.calm and name(path) in listed else ()
            yield from (f"{name(path)}: node {node}" for node in sorted(gone))

    @property
    def uncaptured(self) -> list[str]:
        """The captures that the run kept, and that its list of captures does not name."""
        folder, listed = self.run.captures_folder, {capture.file for capture in self.captures}
        kept = [name for name in self.manifest["evidence"] if (self.run.path / name).parent == folder]
        return [Path(name).stem for name in kept if name not in listed]

    @property
    def lossy_links(self) -> frozenset[int]:
        """Indices of the links that a command or an event of the experiment made lose or double frames."""
        events = self.experiment.get("events", [])
        ends = [each.get("link") for each in events if each.get("loss_percent") or _doubles(each)]
        # A tunnel that is cut drops what its capture has seen.
        ends += [[int(end) for end in each["link"].split("-")] for each in self.faults if "link" in each]
        return lossy_links(self.run) | {each.index for each in self.topology.links if _among(each, ends)}

    @cached_property
    def cut(self) -> frozenset[Link]:
        """The links between machines, which are captured at both ends."""
        return self.topology.cut(each["nodes"] for each in self.manifest.get("machines", ()))

    @property
    def disturbed(self) -> frozenset[Link]:
        """The links between machines that may have lost frames: an event was theirs, or that of an end."""
        if lost_parts(self.faults):
            return self.cut  # the captures of two machines may end at different times
        names = [event.split()[1] for change in self.epochs.changes for event in change.events]
        names += [each["link"] for each in self.faults if "link" in each]
        ends = [{int(node) for node in name.split("-")} for name in names]
        return frozenset(link for link in self.cut if any(each <= {link.u, link.v} for each in ends))

    @property
    def calm(self) -> bool:
        """Whether links, nodes and parts stayed as they were, and the user commanded nothing."""
        events = (str(event.get("action")) for event in self.experiment.get("events", []))
        changed = any(action.startswith(("link_", "node_")) for action in events)
        return not (changed or self.faults or COMMANDS.read_all(self.run))

    @property
    def doubling(self) -> bool:
        """Whether a link doubles frames at some time; copies of messages are then sent on by routers."""
        return (
            any(link.duplicate_percent for link in self.topology.links)
            or any(map(_doubles, self.experiment.get("events", [])))
            or any(record.get("doubling", False) for record in COMMANDS.read_all(self.run))
        )

    @property
    def senders(self) -> list[int]:
        """The nodes that sent messages."""
        senders: list[int] = self.log.sent["source"].unique().to_pylist()
        return senders

    @cached_property
    def captured_links(self) -> list[Link]:
        """The links between routers that have a capture: a large simulation may keep fewer."""
        captured = {each.identity.link for each in self.captures if each.identity.kind == "link"}
        return [link for link in self.topology.links if link.index in captured]

    @cached_property
    def captured_nodes(self) -> set[int | None]:
        """The nodes whose host link has a capture."""
        return {each.identity.node for each in self.captures if each.identity.kind == "host"}

    @property
    def all_hosts_captured(self) -> bool:
        """Whether the host link of every router has a capture."""
        return self.captured_nodes >= self.router_counters.keys()

    @property
    def captures_unbroken(self) -> bool:
        """Whether captures can lack no frame of a host link: none lost any, and none was stopped."""
        lost = any(capture.dropped_by_kernel for capture in self.captures)
        return self.all_hosts_captured and not (self.faults or lost)

    @property
    def last_s(self) -> float | None:
        """The experiment second of the last event of an application; None: there was no event."""
        return self.clock.experiment_at(self.log.last_ns) if self.log.last_ns else None

    @property
    def time_scale(self) -> float:
        """Experiment seconds per wall second, from second 0 to the last event."""
        return round(self.clock.mean_rate(self.last_s or 0.0), 6)

    @property
    def bin_s(self) -> float:
        """Width of a time bin in experiment seconds.

        The least of 1, 2 or 5 times a power of ten, and of 0.1 s or more, that makes at most 300 bins.
        """
        span_s = max(0.0, self.last_s or 0.0)
        for power in range(-1, 9):
            for factor in (1, 2, 5):
                width = factor * 10.0**power
                if span_s / width <= _MOST_BINS:
                    return width
        return math.ceil(span_s / _MOST_BINS)

    @property
    def bins(self) -> int:
        """Number of the time bins from second 0 to the last event of the run; 0: there was no event."""
        return 0 if self.last_s is None else max(0, math.floor(self.last_s / self.bin_s) + 1)


def capture_files(inputs: Inputs) -> pa.Table:
    """The captures with the columns of `FILES`."""
    rows = []
    for each in inputs.captures:
        which = each.identity
        counted = each.captured, each.received_by_filter, each.dropped_by_kernel
        defect = inputs.damaged.get(which.name)
        rows.append((which.name, which.kind, which.link, which.node, *counted, defect))
    return as_table(rows, FILES)


def _doubles(event: Mapping[str, Any]) -> bool:
    """Whether an event of an experiment makes links double frames."""
    return bool(event.get("duplicate_percent"))


def _among(link: Link, ends: list[list[int] | None]) -> bool:
    """Whether a link is named by its nodes; None names all links."""
    return any(each is None or {link.u, link.v} == set(each) for each in ends)


_RECEIVED, _SENT = "rx_packets", "tx_packets"


@dataclass
class IpFrames:
    """The IPv4 frames of a run.

    Attributes:
        on_links: frames over links between switches; None: the run has no IP.
        at_ports: (node, port, counter of Open vSwitch) -> frames.
        lost: (node, port) of devices of which the capture lost frames.
    """

    on_links: int | None = None
    at_ports: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    lost: set[tuple[int, int]] = field(default_factory=set)

    def left_out(
        self, counters: Mapping[int, Mapping[int, Mapping[str, int]]]
    ) -> dict[int, dict[int, dict[str, int]]]:
        """Returns counters of switch ports without these frames."""
        return {
            node: {
                port: {name: count - self.at_ports[node, port, name] for name, count in own.items()}
                for port, own in ports.items()
            }
            for node, ports in counters.items()
        }


def ip_frames(run: RunLayout, links: Iterable[Link], cut: Collection[Link] = ()) -> IpFrames:
    """Reads the captures of IPv4: how often each switch port counted its frames.

    A switch gives each IP frame the link addresses of its hop (`testbed.controller.rules`): the source of a
    frame on a link is the node that sent it there, and the destination of a frame to a host is its node.

    Args:
        cut: links of which each end has a capture of its own.

    Raises:
        RunFolderError: their list is malformed.
        PcapError, OSError: a capture cannot be read.
    """
    captures = read_ip_captures(run)
    if not captures:
        return IpFrames()
    found = IpFrames(on_links=0)
    by_index: dict[int | None, Link] = {link.index: link for link in links}
    with warnings.catch_warnings():
        # A capture that ends inside a record: the comparison with the switches shows what is missing.
        warnings.simplefilter("ignore", UserWarning)
        for capture in captures:
            link = None if capture.identity.link is None else by_index[capture.identity.link]
            _take(found, run, capture, link, both=link not in cut)
    return found


def _take(found: IpFrames, run: RunLayout, capture: CapturedFile, link: Link | None, *, both: bool) -> None:
    """Adds a capture, which counts for both ends of its link, or for that alone where it was taken."""
    which = capture.identity
    # The first port has sent what comes from its node over a link, or goes to its node over a host link.
    column, node = ("eth_dst", which.node) if link is None else ("eth_src", link.u)
    assert node is not None
    ports = [(node, HOST_PORT)] if link is None else [(node, link.u_port), (link.v, link.v_port)]
    if capture.dropped_by_kernel:
        found.lost.update(ports)
    for batch in open_captures(run.path / capture.file, columns=(column,)):
        sent = _count(batch[column], node)
        ways = (sent, batch.num_rows - sent), (batch.num_rows - sent, sent)
        found.on_links = (found.on_links or 0) + (batch.num_rows if which.kind == "link" else 0)
        for port, counts in zip(ports, ways, strict=False):  # a host link has one port
            if both or port[0] == which.u:
                found.at_ports.update({(*port, _SENT): counts[0], (*port, _RECEIVED): counts[1]})


def _count(addresses: pa.Array, node: int) -> int:
    """The number of link addresses that are the node's; frames shorter than a header have none."""
    address = int.from_bytes(node_address(node), "big")
    return pc.sum(pc.equal(addresses, address)).as_py() or 0
