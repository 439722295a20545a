"""Bring-up and take-down of the emulated network beside bare Mininet's, same topology, same switches.

Bare Mininet: `net.start()` and `net.stop()` of `topos/mininet_topos.py`, no controller. Ours: hosts, links
and switches up to the same point (bridges and ports made), and their removal.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSSwitch

from testbed.machine.probes import datapath, kernel_features
from testbed.network.emulated import EmulatedNetwork
from topos.generators import waxman
from topos.mininet_topos import CbcbTopo


def _seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def _bare(nodes: int) -> tuple[float, float]:
    setLogLevel("warning")
    topo = CbcbTopo(waxman, nodes)
    switch = partial(OVSSwitch, datapath=datapath(), protocols="OpenFlow13")
    networks: list[Mininet] = []

    def start() -> None:
        networks.append(Mininet(topo=topo, switch=switch, controller=None))
        networks[0].start()

    return _seconds(start), _seconds(lambda: networks[0].stop())


def _ours(nodes: int) -> tuple[float, float]:
    # A short path: the name of a Unix socket has at most 107 bytes.
    with TemporaryDirectory(prefix="cbcb-", dir="/run") as folder:
        network = EmulatedNetwork(waxman(nodes), Path(folder), datapath(), kernel_features())

        def start() -> None:
            network.start_hosts()
            network.start_links()
            network.start_switches()

        return _seconds(start), _seconds(network.stop)


def main(nodes: int = 100, rounds: int = 3) -> None:
    """Prints medians over `rounds`, taken in turn."""
    results: dict[str, list[tuple[float, float]]] = {"bare Mininet": [], "this testbed": []}
    for _ in range(rounds):
        results["bare Mininet"].append(_bare(nodes))
        results["this testbed"].append(_ours(nodes))
    print(f"network of {nodes} nodes (waxman), median of {rounds}")
    print(f"{'':14} {'bring-up s':>11} {'take-down s':>12}")
    for name, seconds in results.items():
        up, down = (statistics.median(column) for column in zip(*seconds, strict=True))
        print(f"{name:14} {up:11.2f} {down:12.2f}")
