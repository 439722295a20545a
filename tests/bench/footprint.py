"""Processes, memory, descriptors, times and disk that an emulation takes.

The constants of `testbed.emulation.run.demand` are measured so.

Networks without a workload are brought up, measured and taken down; a line through the sizes gives the base
and the share of each router. With `--mininet`, plain Mininet sets up the same networks with the same switches
and without a controller (`topos/mininet_topos.py`).

Then a shipped experiment runs: its verdict and times, the bytes on disk of a captured frame, and the
processes, memory and CPU of each part, the most of all samples. Memory is the proportional set size (a page
that n processes share counts 1/n in each); the machine's is all that was in use beyond the start, the
kernel's devices and namespaces included. Needs root.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSSwitch
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.measures import TIMINGS
from testbed.emulation.run.emulation import Emulation
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine.probes import datapath
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from testbed.support.usage import proportional_bytes
from testbed.terminal.progress import Progress
from tests.bench.parts import OTHERS, PARTS, processes_of
from tests.support.command import CBCB
from tests.support.paths import ROOT
from tests.support.system_switches import start_open_vswitch
from topos.mininet_topos import CbcbTopo

_KEYS = ("processes", "memory_mb", "descriptors", "bring_up_s", "take_down_s")
_MININET = ("Mininet_up_s", "Mininet_down_s")
_MIB = 1 << 20


def main(
    sizes: Sequence[int] = (25, 50, 100, 200), mininet: bool = False, experiment: str = "default"
) -> None:
    """Prints what each size takes, the line through the sizes, and the figures of the run.

    Args:
        sizes: numbers of routers.
        experiment: to run; "": none.
    """
    keys = _KEYS + _MININET * mininet
    print(f"{'routers':>8} {'links':>6}" + "".join(f" {key:>14}" for key in keys))
    rows = []
    for size in sizes:
        quiet = dict.fromkeys(("workload.senders_percent", "workload.receivers_percent"), "0")
        quiet |= {"topology.nodes": str(size), "duration_s": "1", "workload.first_message_s": "0"}
        chosen = load_experiment(find_experiment("default"), quiet)
        rows.append(_quiet(chosen) + (_in_mininet(chosen) if mininet else []))
        links = len(chosen.topology.links)
        print(f"{size:8} {links:6}" + "".join(f" {value:14.1f}" for value in rows[-1]), flush=True)
    if len(sizes) > 1:
        for name, column in zip(keys, zip(*rows, strict=True), strict=True):
            share, base = np.polyfit(sizes, column, 1)
            print(f"{name}: {base:.1f} and {share:.3f} for each router")
    if experiment:
        _of_a_run(experiment)


def _seconds(action: Callable[[], object]) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started


def _quiet(experiment: Experiment) -> list[float]:
    """The figures of a network that is up while nothing is sent."""
    with tempfile.TemporaryDirectory() as folder:
        run = new_run_folder(Path(folder), "footprint").resolve()
        emulation = Emulation(experiment, run, datapath(), Progress(Console(quiet=True)))
        try:
            write_inputs(run, experiment, emulation.workload, datapath(), tag=emulation.state.tag)
            up_s = _seconds(emulation.bring_up)
            pids = {process.pid for process in psutil.Process().children(recursive=True)}
            pids |= {process.pid for process in emulation.state.processes if process.alive()}
            memory = proportional_bytes(pids)
            descriptors = max(_descriptors(pid) for pid in (os.getpid(), *pids))
        finally:
            down_s = _seconds(emulation.abandon)
    return [len(pids), memory / 1e6, descriptors, up_s, down_s]


def _descriptors(pid: int) -> int:
    with suppress(psutil.Error):  # it has ended
        return int(psutil.Process(pid).num_fds())
    return 0


def _in_mininet(experiment: Experiment) -> list[float]:
    """Seconds to start and to stop the same network in plain Mininet."""
    start_open_vswitch()
    setLogLevel("warning")
    switch = partial(OVSSwitch, datapath=datapath(), protocols="OpenFlow13")
    network = Mininet(topo=CbcbTopo(lambda: experiment.topology), switch=switch, controller=None, build=False)
    return [_seconds(network.start), _seconds(network.stop)]


def _of_a_run(name: str) -> None:
    """Runs a shipped experiment as a user does, and prints its figures."""
    most: dict[str, Counter[str]] = {each: Counter() for each in ("processes", "memory", "cpu_s")}
    free, machine = psutil.virtual_memory().available, 0
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen([*CBCB, "run", name, "--runs", folder], cwd=ROOT)
        started = time.monotonic()
        while run.poll() is None:
            took_s = _seconds(partial(_sample, run.pid, most))
            machine = max(machine, free - psutil.virtual_memory().available)
            # A sample of 1,000 routers takes seconds: the samples take at most a tenth of the time.
            time.sleep(max(1.0, 9 * took_s))
        (path,) = Path(folder).iterdir()
        timings, summary = TIMINGS.read(RunLayout(path)), json.loads(RunLayout(path).summary.read_text())
        size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    print(f"{name}: exit status {run.returncode}, verdict {summary['verdict']}")
    print(f"up {timings['bring_up_s']:.1f} s, down {timings['teardown_s']:.1f} s, ", end="")
    print(f"all {time.monotonic() - started:.0f} s; ", end="")
    print(f"{size / summary['frames_captured']:.0f} bytes a captured frame in captures, logs and tables")
    print(f"{'part':24} {'processes':>10} {'MiB':>9} {'CPU s':>9}")
    for part in (*PARTS, OTHERS):
        if most["processes"][part]:
            memory, cpu_s = most["memory"][part] / _MIB, most["cpu_s"][part]
            print(f"{part:24} {most['processes'][part]:10} {memory:9.0f} {cpu_s:9.1f}")
    print(f"{'machine, at most':24} {'':10} {machine / _MIB:9.0f}")


def _sample(runner: int, most: dict[str, Counter[str]]) -> None:
    """Notes processes, memory and CPU time of each part of a run, where it is more than before."""
    pids: dict[str, list[int]] = {}
    cpu: Counter[str] = Counter()
    for part, process in processes_of(runner):
        times = process.cpu_times()
        pids.setdefault(part, []).append(process.pid)
        cpu[part] += times.user + times.system
    for part, members in pids.items():
        # The union of two counters has the greater count of each part.
        most["processes"] |= Counter({part: len(members)})
        most["memory"] |= Counter({part: proportional_bytes(members)})
        most["cpu_s"] |= Counter({part: cpu[part]})
