"""A long emulation with changing predicates and random faults: memory, descriptors and queues of each part.

A ring of five, at one experiment second in a wall second: five messages a second, predicates that change
every 20 s, and a fault every 15 s, drawn from those of `testbed.experiments.events` that a run survives.
Every few seconds the parts are sampled: anonymous memory (proportional set size), open descriptors, and the
bytes that wait in the packet sockets of the routers and of the switches. A part is flat if a straight line
through the samples of the later two thirds of its life rises by less than a bound; parts that a fault starts
again, the router of each node among them, begin again with each start, and are judged by their longest life.
A part whose longest life has too few samples is not judged, which is a failure.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from captures.rundir import RunLayout
from tests.bench.parts import processes_of
from tests.support.command import CBCB
from tests.support.paths import ROOT

#: Quantity of a sample -> what a line may rise by in an hour; of memory (MiB) a share for each hour more.
_BOUNDS = {"memory_mib": 4.0, "descriptors": 2.0, "queued": 4096.0}
#: Of a router: its caches of normal forms (`router.predicates.covering.normal`) take some 2 kB for each
#: filter that was ever in force, up to 16,384 of them, and are not full after an hour.
_ROUTER_MIB = 16.0
#: In the output of the command when the network is up.
_UP = "bring-up:"
#: Seconds between two faults, and from the last one to the end.
_FAULT_S, _REST_S = 15.0, 30.0
_SAMPLES = 300
_PARENT, _SWITCHES = "parent of routers", "ovs-vswitchd"
#: The parts that are judged.
JUDGED = (
    *("runner", "controller", _PARENT),
    *(f"router {node}" for node in range(5)),
    *("captures", _SWITCHES, "ovsdb-server"),
)
#: A life of a part with fewer samples is not judged.
_FEWEST = 12
#: Faults that a run survives; {node}, {next}: a node and its neighbour, {later}: 3 s after the fault.
_FAULTS = [
    'action = "router_stop"\nnode = {node}\nfor_s = 1',
    'action = "router_restart"\nnode = {node}\naway_s = 1',
    'action = "descriptors_exhausted"\nnode = {node}\nfor_s = 1',
    'action = "controller_stop"\nfor_s = 2',
    'action = "controller_restart"\naway_s = 1',
    'action = "captures_stop"\nfor_s = 1',
    'action = "switches_restart"\nnode = 0\naway_s = 0.5',
    'action = "switch_restart"\nnode = {node}\naway_s = 0.5',
    'action = "database_restart"\nnode = 0\naway_s = 1',
    'action = "link_flap"\nlink = [{node}, {next}]\ndown_s = 1',
    'action = "node_down"\nnode = {node}\n\n[[events]]\nat_s = {later:g}\naction = "node_up"\nnode = {node}',
]


#: Wall seconds since the start of the command; part (of routers, one for each node) and process id; anonymous
#: memory, proportional (that of files falls and rises with other processes that map the same libraries); open
#: files; bytes that wait in the packet sockets of its network namespace (0: it has none).
Sample = tuple[float, str, int, float, int, int]
_COLUMNS = ("at_s", "part", "pid", *_BOUNDS)


def experiment(seconds: int, seed: int) -> str:
    """The text of the experiment file, with faults."""
    choose, text = random.Random(seed), Path(__file__).with_suffix(".toml").read_text()
    at_s = _FAULT_S
    while at_s < seconds - _REST_S:
        node = choose.randrange(5)
        fault = choose.choice(_FAULTS).format(node=node, next=(node + 1) % 5, later=at_s + 3)
        text += f"\n[[events]]\nat_s = {at_s:g}\n{fault}\n"
        at_s += _FAULT_S
    return text


def _samples(runner: int, since: float, nodes: Mapping[int, int]) -> Iterator[Sample]:
    """Samples all parts; `nodes`: process id of each router -> its node."""
    for name, process in processes_of(runner):
        part = name
        if name == "routers":
            part = f"router {nodes[process.pid]}" if process.pid in nodes else _PARENT
        # A part may end while it is read.
        with suppress(psutil.Error, OSError):
            if part in JUDGED:
                waits = part == _SWITCHES or process.pid in nodes
                queued = _queued(process.pid) if waits else 0
                used = _memory_mib(process.pid), process.num_fds(), queued
                yield time.monotonic() - since, part, process.pid, *used


def _nodes(runs: Path) -> dict[int, int]:
    """Process id -> node, of every router that the run has started."""
    found = {}
    for folder in runs.iterdir():
        log = RunLayout(folder).routers_log
        for line in log.read_text().splitlines(keepends=True) if log.exists() else []:
            if line.endswith("\n") and (event := json.loads(line))["event"] == "ready":
                found[event["pid"]] = event["node"]
    return found


def _memory_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) / 1024


def _queued(pid: int) -> int:
    """The bytes that wait in the packet sockets of a process's network namespace."""
    lines = Path(f"/proc/{pid}/net/packet").read_text().splitlines()
    position = lines[0].split().index("Rmem")
    return sum(int(line.split()[position]) for line in lines[1:])


def judged(samples: list[Sample]) -> bool:
    """Prints how much the process of each part that lived longest rises; returns whether all are flat."""
    print(f"{'part':17} {'samples':>8} {'memory MiB':>11} {'descriptors':>12} {'queued':>8}")
    table, flat = pd.DataFrame(samples, columns=_COLUMNS), list[bool | None]()
    for part in JUDGED:
        lives = (life for _, life in table[table["part"] == part].groupby("pid"))
        life = max(lives, key=len, default=table.head(0))
        later = life[len(life) // 3 :]
        risen, flat = dict.fromkeys(_BOUNDS, 0.0), [*flat, None]
        if len(later) >= _FEWEST:
            life_s = later["at_s"].iloc[-1] - later["at_s"].iloc[0]
            risen = {name: np.polyfit(later["at_s"], later[name], 1)[0] * life_s for name in _BOUNDS}
            memory_mib = _ROUTER_MIB if part.startswith("router ") else _BOUNDS["memory_mib"]
            bounds = {**_BOUNDS, "memory_mib": memory_mib * max(1.0, life_s / 3600)}
            flat[-1] = all(risen[name] < bounds[name] for name in bounds)
        numbers = "{memory_mib:+11.2f} {descriptors:+12.2f} {queued:+8.0f}".format(**risen)
        word = {True: "flat", False: "RISES", None: "NOT JUDGED"}[flat[-1]]
        print(f"{part:17} {len(later):8} {numbers}  {word}")
    return all(flat)


def main(seconds: int = 3600, seed: int = 0) -> None:
    """Prints the table of rises; ends with status 1 if the verdict does not hold or a part is not flat."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    file, runs = folder / "soak.toml", folder / "runs"
    file.write_text(experiment(seconds, seed))
    runs.mkdir()
    samples: list[Sample] = []
    with (folder / "output").open("w+") as output:
        sets = ("--set", f"seed={seed}", "--set", f"duration_s={seconds}")
        command = [*CBCB, "run", str(file), *sets, "--runs", str(runs)]
        run = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        since = time.monotonic()
        interval_s = max(1.0, seconds / _SAMPLES)
        while run.poll() is None:
            going = _UP in (folder / "output").read_text() and not list(runs.glob("*/lag.json"))
            if going:  # the workload has begun, and not ended
                samples += _samples(run.pid, since, _nodes(runs))
            with suppress(subprocess.TimeoutExpired):
                run.wait(interval_s)
        output.seek(0)
        said = output.read()
    summaries = list(runs.glob("*/summary.json"))
    # The verdict, deliveries and losses are in the output of the command.
    print(said)
    flat = judged(samples)
    print(folder)
    holds = bool(summaries) and json.loads(summaries[0].read_text())["verdict"] == "holds"
    if not holds or not flat:
        sys.exit(1)
