"""The cost of a message at each router of the default experiment, emulated, with many more messages.

The 20 routers run on real links, switches and captures; their CPU seconds are the kernel's, from their
counters. Two runs of each engine, one with few messages and one with many: the difference between them is
the cost of the messages, without start, tables and advertisements. Then, on the same links and under the same
captures, the routers give way to bare loops that forward frames at the same rate. Needs root.

*Machine* is the processor time of everything on the machine for each message that crosses a link: routers,
Open vSwitch, captures, kernel and the applications, and other programs, so nothing else should run.
`testbed.emulation.run.demand` estimates with it.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console

from router.runtime.client import Client
from testbed.emulation.run.emulation import Emulation
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine.probes import datapath
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from testbed.support.names import host_device
from testbed.terminal.progress import Progress
from tests.bench.bare import bare_process, frame
from tests.support.runtime_wire import socket_in

_FEW = 3
#: Seconds in which bare loops forward, hops of each of their frames, and seconds until the last has arrived.
_BARE_S = 10.0
_HOPS = 6
_DRAIN_S = 0.5


def main(engines: Sequence[str] = ("compiled", "counting", "naive"), rate: int = 300) -> None:
    """Prints microseconds of CPU for each message at each router, and for a hop of the bare loop.

    Args:
        engines: the one with a bar first: each takes a minute and more.
        rate: messages a minute of each sender.
    """
    print(
        f"{'engine':10} {'messages':>9} {'us CPU a hop':>13} {'of it user':>11} {'by the core':>12}"
        f" {'bare loop':>10} {'ratio':>6} {'machine':>8}"
    )
    for engine in engines:
        (base, _), (full, bare) = (_measured(engine, each) for each in (_FEW, rate))
        hops, crossings, by_core, user, system, machine = (
            after - before for before, after in zip(base, full, strict=True)
        )
        cost = (user + system) / hops
        print(
            f"{engine:10} {hops:9,.0f} {cost * 1e6:13.1f} {user / hops * 1e6:11.1f} {by_core / hops:12.1%}"
            f" {bare * 1e6:10.1f} {cost / bare:6.2f} {machine / crossings * 1e6:8.1f}",
            flush=True,
        )


class _Cost(NamedTuple):
    """Messages at routers, from links, handled by the core; CPU seconds of routers, and of all processes."""

    hops: float
    crossings: float
    by_core: float
    user_s: float
    system_s: float
    machine_s: float


def _machine_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _measured(engine: str, rate: int) -> tuple[_Cost, float]:
    """The cost of a run, and CPU seconds of a bare hop."""
    overrides = {
        "protocol.matcher": engine,
        "workload.messages_per_minute": str(rate),
        "workload.changing_receivers_percent": "0",
    }
    experiment = load_experiment(find_experiment("default"), overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = new_run_folder(Path(folder), "hops").resolve()
        emulation = _Emulation(experiment, run, datapath(), Progress(Console(quiet=True)))
        try:
            write_inputs(run, experiment, emulation.workload, datapath(), tag=emulation.state.tag)
            emulation.bring_up()
            began, machine_s = time.monotonic(), _machine_s()
            emulation.run(hold=False)
            machine_s = _machine_s() - machine_s
            took = time.monotonic() - began
            bare = emulation.bare_hops(emulation.hops() / took) if rate > _FEW else 0.0
            emulation.take_down()
        finally:
            emulation.abandon()
        routers = json.loads((run / "counters" / "routers.json").read_text()).values()
    keys = ("messages_received", "messages_sent", "messages_compiled", "cpu_user_s", "cpu_system_s")
    received, sent, compiled, user_s, system_s = (sum(router[key] for router in routers) for key in keys)
    hops = received + sent
    return _Cost(hops, received, hops - compiled, user_s, system_s, machine_s), bare


class _Emulation(Emulation):
    """An emulation whose routers can give way to bare loops on the same links, under the same captures."""

    def hops(self) -> int:
        """Messages that routers took so far."""
        total = 0
        for node in self.nodes:
            with Client(str(self.state.socket(node)), "bench") as client:
                counters = client.status(tables=False)["counters"]
                total += counters["messages_received"] + counters["messages_sent"]
        return total

    def bare_hops(self, rate: float) -> float:
        """CPU seconds of a hop of `tests.bench.bare`, with so many hops a second in the whole network."""
        ports: dict[int, list[int]] = {node: [] for node in self.nodes}
        for link in self.topology.links:
            ports[link.u].append(link.u_port)
            ports[link.v].append(link.v_port)
        with ExitStack() as stack:
            for pid in self.site.routers.pids.values():
                os.kill(pid, signal.SIGSTOP)
                stack.callback(os.kill, pid, signal.SIGCONT)
            loops, sockets = [], []
            for node in self.nodes:
                place = self.site.network.host_namespaces[node], host_device(node)
                own = ",".join(map(str, ports[node]))
                loops.append(stack.enter_context(bare_process(*place, "hops", node, own)))
                sockets.append(stack.enter_context(socket_in(Path(place[0]), place[1])))
            began, injected = time.monotonic(), 0
            while (now := time.monotonic() - began) < _BARE_S:
                while injected < now * rate / _HOPS:
                    at = injected % len(self.nodes)
                    node = self.nodes[at]
                    port = ports[node][injected // len(self.nodes) % len(ports[node])]
                    sockets[at].send(frame(node, port, _HOPS - 1))
                    injected += 1
                time.sleep(0.001)
            time.sleep(_DRAIN_S)
            results = [json.loads(loop.communicate()[0]) for loop in loops]
        hops: int = sum(each["hops"] for each in results)
        assert hops > 0.9 * injected * _HOPS, f"{hops} hops of {injected * _HOPS}"
        total: float = sum(each["cpu_s"] for each in results)
        return total / hops
