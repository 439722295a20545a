"""The machines of a network, and the share of each: nodes for its processors, few links to other machines."""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from captures.spark.machines import Answer
from testbed.emulation.machines.relay import make_identity
from testbed.emulation.network.tunnels import Tunnel
from testbed.emulation.run.demand import Capacity, Estimate, capacity, demand, refuse, shortages, slowness
from testbed.experiments.config import Experiment
from testbed.machine.probes import datapath, output
from testbed.support.errors import MachineError
from testbed.support.run_state import STATE_ROOT, whole_machine
from testbed.terminal.numbers import counted
from topos import Topology

#: Nodes from which a bisection starts; a single one cuts up to 20 % more links.
_STARTS = 8


class Machine(NamedTuple):
    """A machine that was checked; what follows the address is its `offer`.

    Attributes:
        key: see `captures.spark.machines.machine_key`.
        address: IP address that the other machines reach.
        certificate: that of its relay, PEM.
        datapath: "kernel" or "user".
        free: no other run has the machine.
        slow: see `Estimate`.
        chrony: what chrony says of its clock; empty: it is not there.
    """

    key: str
    name: str
    address: str
    certificate: bytes
    processors: int
    datapath: str
    free: bool
    capacity: Capacity
    slow: float
    chrony: str

    @classmethod
    def of(cls, answer: Answer) -> Machine:
        address = socket.gethostbyname(answer.executor.rpartition(":")[0])
        return cls(answer.key, answer.name, address, *pickle.loads(b"".join(answer.output)))

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"  # clones share the name


def offer() -> tuple[bytes, int, str, bool, Capacity, float, str]:
    """Returns the last fields of `Machine`, of this machine."""
    said = output(["chronyc", "tracking"]).splitlines()
    chrony = next((line for line in said if line.startswith("System time")), "")
    has = capacity(Path(tempfile.gettempdir()))  # where the files of a run are until its end
    with whole_machine() as free:
        own = make_identity(STATE_ROOT), len(os.sched_getaffinity(0)), datapath()
    return *own, free, has, slowness(), chrony


def require_own(machines: Collection[Machine]) -> None:
    """Raises MachineError if another run has a machine, or machines share an IP address."""
    if used := ", ".join(str(each) for each in machines if not each.free):
        raise MachineError(f"another run has {used}")
    addresses = [each.address for each in machines]
    if shared := ", ".join(str(each) for each in machines if addresses.count(each.address) > 1):
        raise MachineError(f"{shared}: expected an IP address for each (`--host` of the worker)")


def cut_over(topology: Topology, answers: Sequence[Answer]) -> dict[Machine, tuple[int, ...]]:
    """Returns the nodes of the machines that have answered, at most as many as there are nodes."""
    machines = sorted(map(Machine.of, answers))[: len(topology.nodes)]
    return dict(zip(machines, shares(topology, [each.processors for each in machines]), strict=True))


def describe_part(
    experiment: Experiment, work: Estimate, machine: Machine, nodes: Collection[int]
) -> list[tuple[str, str]]:
    """Describes the part of a network that a machine carries, as lines of a heading and a text.

    Args:
        work: of the whole network, on this machine.
    """
    ends, own = _part(experiment.topology, work, machine, nodes)
    cut = f"{counted(ends[1] + ends[2], 'link')}, {ends[1]} of them to other machines"
    has = f"{counted(machine.processors, 'processor')}; free: {machine.capacity.describe()}"
    rows = [("machine", f"{machine}: {counted(len(nodes), 'router')}, {cut}"), ("work", own.describe())]
    rows += [demand(experiment, work, len(nodes)).describe()[0], ("has", has)]
    return rows if (warning := own.warning(experiment)) is None else [*rows, ("warning", warning)]


def slowest_part(topology: Topology, work: Estimate, parts: Mapping[Machine, Collection[int]]) -> Estimate:
    """Returns the work of the machine at whose rate the network can run."""
    return min((_part(topology, work, *part)[1] for part in parts.items()), key=attrgetter("rate"))


def _part(
    topology: Topology, work: Estimate, machine: Machine, nodes: Collection[int]
) -> tuple[Counter[int], Estimate]:
    """The links by how many of their ends are on a machine, and its work: either end has half of a link's."""
    own = set(nodes)
    ends = Counter((link.u in own) + (link.v in own) for link in topology.links)
    half_links = max(1, ends[1] + 2 * ends[2]) / max(1, 2 * len(topology.links))
    return ends, work.of_part(half_links, machine.processors, machine.slow)


def require_parts(
    experiment: Experiment, work: Estimate, parts: Mapping[Machine, Collection[int]], runs: Path
) -> None:
    """Refuses a network that a machine is too small for, or this machine, where all files go in the end.

    Raises:
        MachineError: with a line for each limit.
    """
    here = replace(demand(experiment, work), processes=0, memory_bytes=0.0)
    lines = [f"this machine: {line}" for line in shortages(here, capacity(runs))]
    for machine, nodes in parts.items():
        wanted = demand(experiment, work, len(nodes))
        lines += [f"{machine}: {line}" for line in shortages(wanted, machine.capacity)]
    refuse(lines)


def shares(topology: Topology, capacities: Sequence[float]) -> list[tuple[int, ...]]:
    """Cuts a topology into the nodes of each machine, ascending.

    Args:
        capacities: of the machines, above 0, at most as many as nodes; machines have nodes in proportion
            (largest remainder), at least 1.
    """
    exact = [len(topology.nodes) * capacity / sum(capacities) for capacity in capacities]
    sizes = [int(size) for size in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda number: sizes[number] - exact[number])
    for number in by_remainder[: len(topology.nodes) - sum(sizes)]:
        sizes[number] += 1
    while 0 in sizes:
        sizes[sizes.index(max(sizes))] -= 1
        sizes[sizes.index(0)] += 1
    graph = nx.Graph((link.u, link.v) for link in topology.links)
    graph.add_nodes_from(node.id for node in topology.nodes)
    return [tuple(sorted(share)) for share in _cut(graph, sizes)]


def tunnels(topology: Topology, places: Mapping[int, str], tag: str) -> dict[str, dict[int, Tunnel]]:
    """Returns the ends of the links between machines, by IP address of the machine and index of the link.

    Args:
        places: node -> address.
        tag: of the run (`testbed.support.run_state`).
    """
    found: dict[str, dict[int, Tunnel]] = {address: {} for address in places.values()}
    for link in topology.links:
        u, v = places[link.u], places[link.v]
        if u != v:
            # Frames of an earlier run, from a machine that was frozen, most likely have another number.
            vni = ((int(tag, 16) << 8) + link.index) % (1 << 24)
            found[u][link.index], found[v][link.index] = Tunnel(u, v, vni), Tunnel(v, u, vni)
    return found


def _cut(graph: nx.Graph, sizes: Sequence[int]) -> list[Sequence[int]]:
    """Halves the machines, and their nodes after Kernighan and Lin, until each has its own."""
    if len(sizes) == 1:
        return [list(graph)]
    nodes, half = sorted(graph), len(sizes) // 2
    size, cuts = sum(sizes[:half]), []
    for first in nodes[:: -(-len(nodes) // _STARTS)]:
        order: dict[int, None] = {}
        for start in (first, *nodes):
            if start not in order:
                edges = nx.bfs_edges(graph, start, sort_neighbors=sorted)
                order |= dict.fromkeys([start, *(far for _, far in edges)])
        begin = list(order)[:size], list(order)[size:]
        # The parts keep their sizes, but not their order.
        parts = nx.community.kernighan_lin_bisection(graph, begin)
        cuts.append(sorted(parts, key=lambda part: len(part) != size))
    best = min(cuts, key=lambda parts: nx.cut_size(graph, *parts))
    graphs = [graph.subgraph(sorted(part)).copy() for part in best]
    return [*_cut(graphs[0], sizes[:half]), *_cut(graphs[1], sizes[half:])]
