"""Bring-up and take-down of the emulated network beside bare Mininet's, same topology, same switches.

Bare Mininet: `net.start()` and `net.stop()` of `topos/mininet_topos.py`, no controller. The network alone:
hosts, links and switches up to the same point (bridges and ports made), and their removal. A whole run: with
controller, rules, captures, routers, trees and the barrier after which every router may originate; its
removal includes queries of all tables, counters and the ends of all parts.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSSwitch

from captures.rundir import RunLayout
from captures.rundir.measures import read_timings
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.machine.probes import datapath, kernel_features
from tests.support.system_switches import start_open_vswitch
from topos.generators import waxman
from topos.mininet_topos import CbcbTopo


def _seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def _bare(nodes: int) -> tuple[float, float]:
    start_open_vswitch()
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


def _whole(nodes: int) -> tuple[float, float]:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "testbed.cli.main", "run", "waxman100", "--runs", folder]
        command += ["--topology", f"waxman,{nodes}", "--no-account"]
        # Nobody sends or receives.
        quiet = ("senders_percent=0", "receivers_percent=0", "first_message_s=10")
        for setting in ("duration_s=20", *(f"workload.{each}" for each in quiet)):
            command += ["--set", setting]
        subprocess.run(command, check=True, capture_output=True)
        (run,) = Path(folder).iterdir()
        timings = read_timings(RunLayout(run))
    return timings["bring_up_s"], timings["teardown_s"]


def main(nodes: int = 100, rounds: int = 3) -> None:
    """Prints medians over `rounds`, taken in turn."""
    results: dict[str, list[tuple[float, float]]] = {
        "bare Mininet": [],
        "network alone": [],
        "whole run": [],
    }
    for _ in range(rounds):
        results["bare Mininet"].append(_bare(nodes))
        results["network alone"].append(_ours(nodes))
        results["whole run"].append(_whole(nodes))
    print(f"network of {nodes} nodes (waxman), median of {rounds}")
    print(f"{'':14} {'bring-up s':>11} {'of Mininet':>11} {'take-down s':>12} {'of Mininet':>11}")
    medians = {
        name: [statistics.median(column) for column in zip(*seconds, strict=True)]
        for name, seconds in results.items()
    }
    bare = medians["bare Mininet"]
    for name, (up, down) in medians.items():
        print(f"{name:14} {up:11.2f} {up / bare[0]:11.3f} {down:12.2f} {down / bare[1]:11.3f}")
