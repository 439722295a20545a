"""A long emulation with changing predicates and random faults: memory, descriptors and queues of each part.

A ring of five, at one experiment second in a wall second: five messages a second, predicates that change
every 20 s, and a fault every 15 s, drawn from those of `testbed.experiments.events` that a run survives.
Every few seconds the parts are sampled: anonymous memory (proportional set size), open descriptors, and the
bytes that wait in the packet sockets of the routers and of the switches. The samples are written as a table
and a plot. A part is flat if a straight line through the samples of the later two thirds of its life rises by
less than a bound; parts that a fault starts again, the router of each node among them, begin again with
each start, and are judged by their longest life. A part whose longest life has too few samples is not
judged, which is a failure.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import psutil

from captures.rundir import RunLayout
from tests.bench.kill_anywhere import PARTS
from tests.support.command import CBCB
from tests.support.paths import ROOT

#: What a line may rise by: memory in MiB and, for an hour, a share for each hour more; descriptors; bytes
#: that wait.
_MEMORY_MIB, _DESCRIPTORS, _QUEUED = 4.0, 2.0, 4096.0
#: Of a router: its caches of normal forms (`router.predicates.covering.normal`) take some 2 kB for each
#: filter that was ever in force, up to 16,384 of them, and are not full after an hour.
_ROUTER_MIB = 16.0
#: In the output of the command when the network is up.
_UP = "bring-up:"
#: Seconds between two faults, and from the last one to the end.
_FAULT_S, _REST_S = 15.0, 30.0
_SAMPLES = 300
#: Of the parts of `PARTS`: those that have the command line of routers, and the process that forks them.
_ROUTERS, _PARENT = "routers", "parent of routers"
_SWITCHES = "ovs-vswitchd"
_NODES = 5
#: The parts that are judged.
JUDGED = (
    *("runner", "controller", _PARENT),
    *(f"router {node}" for node in range(_NODES)),
    *("captures", _SWITCHES, "ovsdb-server"),
)
#: A life of a part with fewer samples is not judged.
_FEWEST = 12
_HEAD = """name = "soak"
seed = {seed}
duration_s = {seconds}
time_scale = 1
lag_max_s = 1e9
record = false

[topology]
name = "ring5"
link = [
  {{ u = 0, v = 1 }},
  {{ u = 1, v = 2 }},
  {{ u = 2, v = 3 }},
  {{ u = 3, v = 4 }},
  {{ u = 4, v = 0 }},
]

[workload]
senders_percent = 100
receivers_percent = 100
messages_per_minute = 300
changing_receivers_percent = 100
predicate_change_interval_s = 20
filters_min = 6
filters_max = 10
constraints_max = 1
first_message_s = 2

[oracle]
in_flight_window_s = 1
"""


@dataclass(frozen=True)
class Sample:
    """A part at one time.

    Attributes:
        at_s: wall seconds since the start of the command.
        part: the part; of routers, one for each node.
        pid: of the process.
        memory_mib: proportional set size of anonymous memory: that of files falls and rises with other
            processes that map the same libraries.
        descriptors: open files.
        queued: bytes that wait in the packet sockets of its network namespace; 0: it has none.
    """

    at_s: float
    part: str
    pid: int
    memory_mib: float
    descriptors: int
    queued: int


def experiment(seconds: int, seed: int) -> str:
    """The text of the experiment file."""
    choose = random.Random(seed)
    text = _HEAD.format(seed=seed, seconds=seconds)
    at_s = _FAULT_S
    while at_s < seconds - _REST_S:
        text += f"\n[[events]]\nat_s = {at_s:g}\n{_fault(choose, at_s)}\n"
        at_s += _FAULT_S
    return text


def _fault(choose: random.Random, at_s: float) -> str:
    node, first = choose.randrange(5), choose.randrange(5)
    link = f"[{first}, {(first + 1) % 5}]"
    return choose.choice(
        [
            f'action = "router_stop"\nnode = {node}\nfor_s = 1',
            f'action = "router_restart"\nnode = {node}\naway_s = 1',
            f'action = "descriptors_exhausted"\nnode = {node}\nfor_s = 1',
            'action = "controller_stop"\nfor_s = 2',
            'action = "controller_restart"\naway_s = 1',
            'action = "captures_stop"\nfor_s = 1',
            'action = "switches_restart"\nnode = 0\naway_s = 0.5',
            f'action = "switch_restart"\nnode = {node}\naway_s = 0.5',
            'action = "database_restart"\nnode = 0\naway_s = 1',
            f'action = "link_flap"\nlink = {link}\ndown_s = 1',
            f'action = "node_down"\nnode = {node}\n\n'
            f'[[events]]\nat_s = {at_s + 3:g}\naction = "node_up"\nnode = {node}',
        ]
    )


@dataclass(frozen=True)
class Rise:
    """The later two thirds of the longest life of a part.

    Attributes:
        samples: their number.
        memory_mib, descriptors, queued: what each rises by, by a straight line through the samples.
        flat: whether all three rise by less than their bounds; None: there are too few samples to say.
    """

    part: str
    samples: int
    memory_mib: float = 0.0
    descriptors: float = 0.0
    queued: float = 0.0
    flat: bool | None = None

    def __str__(self) -> str:
        numbers = f"{self.memory_mib:+11.2f} {self.descriptors:+12.2f} {self.queued:+8.0f}"
        word = {True: "flat", False: "RISES", None: "NOT JUDGED"}[self.flat]
        return f"{self.part:17} {self.samples:8} {numbers}  {word}"


def _samples(runner: psutil.Process, since: float, nodes: Mapping[int, int]) -> Iterator[Sample]:
    """Samples all parts; `nodes`: process id of each router -> its node."""
    for process in [runner, *runner.children(recursive=True)]:
        # A part may end while it is read.
        with suppress(psutil.Error, OSError):
            command = " ".join(process.cmdline())
            part = next((part for part, word in PARTS.items() if word in command), None)
            if part == _ROUTERS:
                part = f"router {nodes[process.pid]}" if process.pid in nodes else _PARENT
            if part not in JUDGED:
                continue
            memory = _memory_mib(process.pid)
            waits = part == _SWITCHES or process.pid in nodes
            yield Sample(
                *(time.monotonic() - since, part, process.pid, memory, process.num_fds()),
                _queued(process.pid) if waits else 0,
            )


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


def rises(samples: Iterable[Sample], parts: Iterable[str] = JUDGED) -> list[Rise]:
    """Judges each of some parts by its process that lived longest."""
    lives: dict[str, dict[int, list[Sample]]] = {part: {} for part in parts}
    for sample in samples:
        lives[sample.part].setdefault(sample.pid, []).append(sample)
    return [_rise(part, max(each.values(), key=len, default=[])) for part, each in lives.items()]


def _rise(part: str, life: Sequence[Sample]) -> Rise:
    later = life[len(life) // 3 :]
    if len(later) < _FEWEST:
        return Rise(part, len(later))
    at_s = np.array([sample.at_s for sample in later])
    slopes = [
        float(np.polyfit(at_s, np.array([getattr(each, name) for each in later], dtype=float), 1)[0])
        for name in ("memory_mib", "descriptors", "queued")
    ]
    life_s = float(at_s[-1] - at_s[0])
    memory, descriptors, queued = (slope * life_s for slope in slopes)
    bound = _ROUTER_MIB if part.startswith("router ") else _MEMORY_MIB
    allowed = bound * max(1.0, life_s / 3600)
    flat = memory < allowed and descriptors < _DESCRIPTORS and queued < _QUEUED
    return Rise(part, len(later), memory, descriptors, queued, flat)


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Draws the samples: a row each for memory, descriptors and queues."""
    mpl.use("agg")
    from matplotlib import pyplot  # after the backend is chosen

    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(9, 9), layout="constrained")
    for axis, name, unit in zip(
        axes, ("memory_mib", "descriptors", "queued"), ("MiB", "open files", "bytes waiting"), strict=True
    ):
        for number, part in enumerate(JUDGED):
            own = [sample for sample in samples if sample.part == part]
            axis.plot(
                [sample.at_s for sample in own],
                [getattr(sample, name) for sample in own],
                *(".",),
                color=pyplot.colormaps["tab20"](number),
                markersize=2,
                label=part,
            )
        axis.set_ylabel(unit)
    axes[0].legend(fontsize="small", ncols=3)
    axes[-1].set_xlabel("wall seconds")
    figure.savefig(path)
    pyplot.close(figure)


def configure(options: list[str]) -> dict[str, Any]:
    """Returns the arguments of `main`."""
    parser = argparse.ArgumentParser(prog="./run.sh bench soak", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3600, help="(3,600)")
    parser.add_argument("--seed", type=int, default=0, help="(0)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where to draw the samples (soak.png)")
    return vars(parser.parse_args(options))


def main(seconds: int = 3600, seed: int = 0, plot: Path | None = None) -> None:
    """Prints the table of rises; ends with status 1 if the verdict does not hold or a part is not flat.

    Writes `soak.csv` beside the run folder and, unless `plot` names another file, `soak.png`; prints where.
    """
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    file, runs = folder / "soak.toml", folder / "runs"
    file.write_text(experiment(seconds, seed))
    runs.mkdir()
    samples: list[Sample] = []
    with (folder / "output").open("w+") as output:
        command = [*CBCB, "run", str(file), "--runs", str(runs)]
        run = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        since = time.monotonic()
        interval_s = max(1.0, seconds / _SAMPLES)
        while run.poll() is None:
            going = _UP in (folder / "output").read_text() and not list(runs.glob("*/lag.json"))
            if going:  # the workload has begun, and not ended
                samples += _samples(psutil.Process(run.pid), since, _nodes(runs))
            with suppress(subprocess.TimeoutExpired):
                run.wait(interval_s)
        output.seek(0)
        said = output.read()
    with (folder / "soak.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow([field.name for field in fields(Sample)])
        writer.writerows(astuple(sample) for sample in samples)
    draw(samples, plot or folder / "soak.png")
    summaries = list(runs.glob("*/summary.json"))
    if not summaries:
        print(said)
        sys.exit(1)
    summary = json.loads(summaries[0].read_text())
    faults = RunLayout(summaries[0].parent).experiment.read_text().count("[[events]]")
    print(f"{seconds} s, {faults} events, {summary['epochs']} epochs, {summary['messages_sent']} messages")
    print(f"verdict {summary['verdict']} {summary['verdict_reasons']}")
    made, decided = summary["deliveries_made"], summary["deliveries_decided"]
    missed = summary["false_negatives_after_convergence"]
    print(
        f"{made} deliveries; of {summary['deliveries_expected']} expected {decided} decided, {missed} missed"
    )
    lost = summary["capture_drops"]
    print(f"{summary['frames_captured']} captured frames, {lost} lost")
    print(f"{'part':17} {'samples':>8} {'memory MiB':>11} {'descriptors':>12} {'queued':>8}")
    found = rises(samples)
    print(*found, folder, sep="\n")
    if summary["verdict"] != "holds" or not all(each.flat for each in found):
        sys.exit(1)
