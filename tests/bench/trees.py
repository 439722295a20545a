"""Broadcast trees and tables of Waxman networks, two links a node: CPU, memory, classes, bytes of a TABLE.

Each size runs in a process of its own. `trees` and `tables` are CPU seconds, with loops compiled before;
`peak` is the memory of the process. `subtrees` is the bytes of all TABLEs with SUBTREES, which the schemes
psf, ips and pif-classes need, over the bytes without. `HELLO` is the CPU time of the controller's
state machine for the HELLO of a router, all switches being there: microseconds, the mean over the routers.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from topos.model import Topology


def main(*sizes: int) -> None:
    """Prints one line for each number of nodes."""
    names = (
        "nodes",
        "trees, s",
        "tables, s",
        "peak, MB",
        "classes",
        "most",
        "TABLE, B",
        "most, B",
        "subtrees",
        "HELLO, us",
    )
    print("".join(f"{name:>12}" for name in names))
    for nodes in sorted(sizes or (300, 1000, 3200)):
        subprocess.run([sys.executable, "-m", __name__, str(nodes)], check=True)


def measure(nodes: int) -> None:
    """Prints the line of one network."""
    from router.wire.table import encode_table
    from testbed.controller import trees
    from testbed.controller.trees import with_subtrees
    from topos.generators import waxman

    trees.broadcast_tables(small := waxman(200), trees.spt_trees(small))
    topology = waxman(nodes)
    started = time.process_time()
    forest = trees.spt_trees(topology)
    between = time.process_time()
    tables = trees.broadcast_tables(topology, forest)
    ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    classes = np.array([len(table.classes) for table in tables.values()])
    lengths = np.array([len(encode_table(table)) for table in tables.values()])
    with_sets = sum(len(encode_table(table)) for table in with_subtrees(tables, forest).values())
    print(
        f"{nodes:12,}{between - started:12.2f}{ended - between:12.2f}{peak:12,.0f}"
        f"{classes.mean():12,.0f}{classes.max():12,}{lengths.mean():12,.0f}{lengths.max():12,}"
        f"{with_sets / lengths.sum():12.2f}{_hello_s(topology) * 1e6:12.1f}",
        flush=True,
    )


def _hello_s(topology: Topology) -> float:
    from router.wire.frames import Frame, FrameType, Hello
    from router.wire.header import HOST_PORT
    from testbed.controller.distribution import Distribution
    from testbed.controller.events import FrameReceived, PipelineInstalled, SwitchConnected

    machine = Distribution(topology)
    ports = {node.id: {HOST_PORT} for node in topology.nodes}
    for link in topology.links:
        ports[link.u].add(link.u_port)
        ports[link.v].add(link.v_port)
    for node, own in ports.items():
        machine.handle(SwitchConnected(node, frozenset(own)), 0.0)
        machine.handle(PipelineInstalled(node), 0.0)
    started = time.process_time()
    for node in ports:
        machine.handle(FrameReceived(node, Frame(FrameType.HELLO, node, 0, 0, 1, Hello(1))), 0.0)
    return (time.process_time() - started) / len(ports)


if __name__ == "__main__":
    measure(int(sys.argv[1]))
