"""Liveness of switches (by connection and pipeline) and of links (by the ports at both ends); take-over.

A controller leaves its state for the next controller in a file of the run folder. The file is written when an
epoch is committed, and made unsettled before anything of the next one is sent. A controller that finds it
settled, and the network as it says, goes on without an epoch of its own; otherwise it begins a new epoch,
with a number that no router has seen. The log of the controller says for which start of a router frames are:
its line is written before the first frame to that start.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from captures.rundir.controller import read_controller
from captures.rundir.files import RunFolderError, read_json
from router.wire.header import HOST_PORT
from topos import Link, Topology


@dataclass(frozen=True, slots=True)
class Legacy:
    """The state of a controller.

    Attributes:
        epoch: the number of its last epoch.
        committed_epoch: the last that was committed at a router.
        settled: every member is in `epoch`, and the rest of the state is that of the network.
        members: the nodes of the epoch.
        down_ports: (node, port) of the ports that are down.
        seq: the number of the last frame to a router when the state was left.
    """

    epoch: int
    committed_epoch: int
    settled: bool
    members: frozenset[int] = frozenset()
    down_ports: frozenset[tuple[int, int]] = frozenset()
    seq: int = 0


def read_legacy(path: Path) -> Legacy | None:
    """Returns the state that the file holds; None: there is no file, or it is of no use."""
    with suppress(RunFolderError):
        return read_json(path, Legacy)
    return None


def read_incarnations(log: Path) -> dict[int, int]:
    """Returns the incarnations of the routers, by node, that a controller's log names up to its first
    malformed line; none if there is no log."""
    found: dict[int, int] = {}
    with suppress(RunFolderError):
        for _, event in read_controller(log, unfinished=True):
            if event["event"] == "hello":
                found[event["node"]] = event["incarnation"]
    return found


#: A link, or a node by its host port, that went down or came up; and whether it is up.
Change = tuple[Link | int, bool]


class Liveness:
    """The liveness of a declared topology, as its switches report it.

    A port without a report counts as up. A node is up when its switch is connected, has its
    pipeline, and its host port is up. A link is up when the ports at both its ends are.
    """

    def __init__(self, topology: Topology) -> None:
        self._nodes = frozenset(node.id for node in topology.nodes)
        self._link_at: dict[tuple[int, int], Link] = {}
        for link in topology.links:
            self._link_at[link.u, link.u_port] = link
            self._link_at[link.v, link.v_port] = link
        self._ports: dict[int, list[int]] = {node: [HOST_PORT] for node in self._nodes}
        for node, port in self._link_at:
            self._ports[node].append(port)
        #: (node, port) of the ports that are down.
        self.down_ports: set[tuple[int, int]] = set()
        #: Nodes whose switches are connected and have their pipelines.
        self.ready: set[int] = set()

    @property
    def down_nodes(self) -> frozenset[int]:
        # Queried at every event: the work grows with the number of nodes that are down, not with all nodes.
        unreachable = {node for node, port in self.down_ports if port == HOST_PORT}
        return (self._nodes - self.ready) | (self._nodes & unreachable)

    @property
    def down_links(self) -> frozenset[int]:
        """Returns the indices of the links with a port down, whatever the state of the nodes."""
        return frozenset(self._link_at[key].index for key in self.down_ports if key in self._link_at)

    @property
    def all_ready(self) -> bool:
        """Returns whether every switch is connected and has its pipeline."""
        return len(self.ready) == len(self._nodes)

    def switch_connected(self, node: int, up_ports: Collection[int]) -> list[Change]:
        """Records that a switch has connected; its ports that are not in `up_ports` are down."""
        changes: list[Change] = []
        for port in self._ports[node]:
            changes += self.port_changed(node, port, port in up_ports)
        return changes

    def port_changed(self, node: int, port: int, up: bool) -> list[Change]:
        """Records the state of a port; returns the link or node whose state changed, if any."""
        link = self._link_at.get((node, port))
        if link is None and port != HOST_PORT:
            return []  # not a port of the topology
        before = self._works(link, node)
        (self.down_ports.discard if up else self.down_ports.add)((node, port))
        if self._works(link, node) == before:
            return []
        return [(node if link is None else link, up)]

    def _works(self, link: Link | None, node: int) -> bool:
        """Returns whether a link is up or, if `link` is None, whether the host port of `node` is."""
        if link is None:
            return (node, HOST_PORT) not in self.down_ports
        return self.down_ports.isdisjoint(((link.u, link.u_port), (link.v, link.v_port)))
