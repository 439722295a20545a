"""The demand of an emulation on the machine, estimated before it starts, and the machine's capacity.

The constants were measured on 2 cores in the userspace datapath, on an otherwise idle machine. Memory: a fit
to `./run.sh bench footprint --sizes 20+60+120+200`, and to a run of `waxman1000`. Times: runs of 200 and of
1,000 routers (4.5 and 37.7 s up, 1.7 and 16.6 s down); 200 take 0.75 s longer to go down since runs leave the
kernel's grace periods as they are.

The work of a run is that of its frames. A message takes a hop for each link of the tree that joins its sender
to the receivers that want it; an RA goes to every router, as long as no other covers it.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from captures.rundir.capture_list import SMALL_BYTES
from router.predicates import Message, matches
from router.predicates.parser import parse_predicate
from router.protocol.options import SERVICES
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.emulation.network.namespaces import descriptors_needed
from testbed.emulation.network.switch_daemons import switches_per_daemon
from testbed.emulation.run.governor import CAUTION
from testbed.experiments.config import AUTO, RATE_MAX, Experiment
from testbed.experiments.events import Place
from testbed.experiments.workload import Item, Workload
from testbed.experiments.workload.attention import Fluid
from testbed.experiments.workload.generate import generate
from testbed.results.oracle.attention.baseline import crossings
from testbed.support.errors import MachineError
from testbed.terminal.summary import ENGINES, WHY_SPARK

#: CPU seconds of a message that crosses a link, with its share of deliveries: routers, Open vSwitch,
#: captures, kernel and applications together, as `./run.sh bench emulated_hops` prints them (*machine*;
#: 2026-11-25). Of an RA: as much, with the time of the core in place of that of compiled code.
_MESSAGE_S, _RA_S = 345e-6, 400e-6
#: Loops of `slowness` in a second on the machine on which they were measured.
_REFERENCE_LOOPS = 38_000.0
_CALIBRATION_S = 0.2
#: Share of the processors' time up to which nothing is late.
_BUSY = 0.5
#: Messages that are matched against predicates; more say nothing new.
_SAMPLE = 200


@dataclass(frozen=True)
class Estimate:
    """The estimated work of an emulation.

    Attributes:
        message_hops: messages, or publications, over links, per experiment second.
        ra_hops: RAs, or SUBs and OVERLOADs, over links, per experiment second, after the opening.
        opening_hops: RAs over links in the opening.
        opening_s: wall seconds until the predicates of second 0 have spread.
        rate: the greatest rate of the experiment clock at which nothing is late.
        kinds: of the frames of `message_hops` and `ra_hops`.
        publications: uploads of the attention-limited service.
        slow: time that this machine takes over that of the measured constants.
    """

    message_hops: float
    ra_hops: float
    opening_hops: float
    opening_s: float
    rate: float
    kinds: tuple[str, str] = ("messages", "RAs")
    publications: int = 0
    slow: float = 1.0

    def link_frames(self, experiment: Experiment) -> float:
        """Returns the frames over links in the whole run."""
        # In the opening, every receiver's RA goes over the links of a tree.
        return (self.message_hops + self.ra_hops) * experiment.duration_s + self.opening_hops

    def of_part(self, part: float, processors: int, slow: float) -> Estimate:
        """Returns the work of a machine with so many processors and a part of the network, above 0."""
        faster = processors * self.slow / (slow * len(os.sched_getaffinity(0)))
        return replace(
            self,
            message_hops=part * self.message_hops,
            ra_hops=part * self.ra_hops,
            opening_hops=part * self.opening_hops,
            opening_s=part * self.opening_s / faster,
            rate=faster * self.rate / part,
            slow=slow,
        )

    def describe(self) -> str:
        data, control = self.kinds
        return (
            f"{self.message_hops:.3g} {data} and {self.ra_hops:.3g} {control} over links per experiment "
            f"second: a time scale of about {_two_digits(self.rate)} at most; "
            f"{self.opening_s:.2g} s for the opening"
        )

    def warning(self, experiment: Experiment) -> str | None:
        """Returns the advice for an experiment that asks for more than the machine can, or None."""
        scale = experiment.time_scale
        if scale == AUTO or scale <= self.rate:
            return None
        return (
            f"time_scale {scale:g} is more than the processors keep up with now, and an emulation would be "
            f'invalid; expected at most {_two_digits(self.rate)}, or "auto"'
        )


def work_of(experiment: Experiment) -> tuple[Workload, Estimate]:
    """Generates the workload of an experiment, and estimates the work of its emulation."""
    workload = generate(experiment)
    return workload, estimate(experiment, workload)


def estimate(experiment: Experiment, workload: Workload) -> Estimate:
    """Estimates the work of an emulation."""
    if not SERVICES[experiment.service.kind].sends_messages:
        return _of_publications(experiment, workload)
    topology = experiment.topology
    slow = slowness()
    opening = [item for item in workload.items if item.at_s <= 0 and item.action == "set_predicate"]
    # An SR and its URs, too, cross each link of a tree.
    changes = sum(item.attributes is None for item in workload.items) - len(opening)
    messages = [item for item in workload.items if item.attributes is not None]
    # An RA crosses every link of a tree once.
    links = max(0, len(topology.nodes) - 1)
    first: dict[Place, Item] = {}
    for item in workload.items:
        if item.action == "set_predicate":
            first.setdefault(item.place, item)
    message_hops = len(messages) * _hops(experiment, list(first.values()), messages) / experiment.duration_s
    ra_hops = changes * links / experiment.duration_s
    return Estimate(
        message_hops,
        ra_hops,
        opening_hops=float(len(opening) * links),
        opening_s=slow * len(opening) * links * _RA_S / len(os.sched_getaffinity(0)),
        rate=_rate(slow * (message_hops * _MESSAGE_S + ra_hops * _RA_S)),
        slow=slow,
    )


def _of_publications(experiment: Experiment, workload: Workload) -> Estimate:
    """Estimates the work of the attention-limited service, whose frames the core handles as it does RAs.

    With [workload.attention], each delivery of the fluid model crosses the mean length of a path, and each
    renewal leaves a router through every child and goes on to the routers whose publications it needs. Of
    `diallo-small` with PDP, 12,141 publications over links are estimated and 11,659 counted, but of SUBs only
    half: 885 and 1,803 (`cbcb simulate diallo-small --set service.strategy=pdp --captures none --engine
    duckdb`). With other workloads, every publication and every SUB goes to all routers.
    """
    topology, service = experiment.topology, experiment.service.of_kind
    nodes = len(topology.nodes)
    if (options := experiment.attention) is not None:
        fluid = Fluid(options, nodes, experiment.duration_s, service.cache_publications)
        layer = LAYERS[experiment.broadcast.layer]
        path = float(hops_on_trees(topology, layer, frozenset(), frozenset()).mean())
        # Of 3,200 nodes it has 41 MB, for which a run has no further use.
        hops_on_trees.cache_clear()
        uploads = options.publications
        publications = min(fluid.limited_deliveries(), fluid.exhaustive_deliveries()) * path
        notified = 2 if service.strategy == "eon" else 1
        subscriptions = notified * fluid.renewals * (2 * len(topology.links) / nodes + fluid.visited())
    else:
        actions = Counter(item.action for item in workload.items)
        uploads = actions["publish"]
        publications = uploads * (nodes - 1.0)
        subscriptions = (actions["register"] + actions["refresh"]) * (nodes - 1.0)
    slow = slowness()
    return Estimate(
        publications / experiment.duration_s,
        subscriptions / experiment.duration_s,
        opening_hops=0.0,
        opening_s=0.0,
        rate=_rate(slow * (publications + subscriptions) / experiment.duration_s * _RA_S),
        kinds=("publications", "subscriptions and notifications"),
        publications=uploads,
        slow=slow,
    )


def _rate(cpu_s: float) -> float:
    """The greatest rate, where an experiment second takes so much time of a processor."""
    return _BUSY * len(os.sched_getaffinity(0)) / cpu_s if cpu_s else float("inf")


def _two_digits(rate: float) -> str:
    """A rate with two significant digits, without an exponent."""
    shown = min(rate, RATE_MAX)
    return f"{float(f'{shown:.2g}'):.10g}"


def _hops(experiment: Experiment, opening: Sequence[Item], messages: Sequence[Item]) -> float:
    """The mean number of links that a message crosses to the receivers whose first predicate selects it."""
    sample = messages[:: max(1, len(messages) // _SAMPLE)]
    wanted = [(item.node, parse_predicate(item.predicate or "")) for item in opening]
    trees = LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset()).parents
    total = 0
    for item in sample:
        message = Message(item.attributes or {})
        receivers = (node for node, predicate in wanted if matches(predicate, message))
        total += crossings(trees[item.node].tolist(), item.node, receivers)
    return total / len(sample) if sample else 0.0


def slowness() -> float:
    """The time that this machine takes, with what else it does, over that of the measured constants."""
    loops = 0
    table = {number: (number, number + 1) for number in range(64)}
    deadline = time.perf_counter() + _CALIBRATION_S
    while time.perf_counter() < deadline:
        for number in range(200):
            pair = table[number & 63]
            bytes(pair[0] + pair[1]).find(b"x")
        loops += 1
    return _REFERENCE_LOOPS / (loops / _CALIBRATION_S)


#: Processes: controller, captures, the routers' parent; and of a group of switches, vswitchd and database.
_PROCESSES, _PROCESSES_PER_GROUP = 3, 2
#: Bytes of memory, proportional set sizes: of the run's own parts, for each router, for each pair of routers,
#: for each group of switches, and for each predicate at each router that it has spread to.
_MEMORY, _MEMORY_PER_ROUTER, _MEMORY_PER_PAIR, _MEMORY_PER_GROUP = 255e6, 5.6e6, 3.3e3, 15.2e6
_MEMORY_PER_PREDICATE = 25e3
#: Bytes of a cached publication that a frame brought, with one integer attribute.
_MEMORY_PER_PUBLICATION = 1.1e3
#: Wall seconds of bring-up and take-down: of a run, for each router, and for each pair of routers, which
#: are in each other's broadcast tables.
_BRING_UP_S = (1.7, 8.5e-3, 27.5e-6)
_TAKE_DOWN_S = (0.9, 5.3e-3, 12.1e-6)
#: Bytes of captures, recordings, logs and tables: of a run, of each router, and for each frame over a link.
_DISK, _DISK_PER_ROUTER, _DISK_PER_HOP = 1.5e6, 20e3, 1500.0
#: Of an accounting (prepared: in a session of Spark that was started beside the emulation): wall seconds of a
#: run and for each captured frame, bytes of memory of a run, for each captured frame, and at most. As
#: docs/reference/measured.md has them of `cbcb account RUN --engine ENGINE`, divided by `slowness` then.
_ACCOUNTING = {
    "prepared": (4.0, 50e-6, 1.0e9, 10e3, 2.1e9),
    "spark": (12.0, 50e-6, 1.0e9, 10e3, 2.1e9),
    "duckdb": (0.5, 40e-6, 0.3e9, 1.9e3, math.inf),
}
#: Captured frames for each that crosses a link: those of host links count, too; bytes of each in a capture.
_CAPTURED_PER_HOP, _BYTES_PER_FRAME = 2.6, 200
#: The control groups (version 2), as this process or its container sees them, and its own.
_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
#: Share of the free memory and disk that a run may take without a warning being due.
_MOST = 0.9


@dataclass(frozen=True)
class Demand:
    """The demand of an emulation; bytes, wall seconds."""

    processes: int
    memory_bytes: float
    descriptors: int
    disk_bytes: float
    bring_up_s: float
    wall_s: float

    def describe(self) -> list[tuple[str, str]]:
        """Describes it, as lines of a heading and a text."""
        return [
            (
                "takes",
                f"about {self.processes} processes, {_size(self.memory_bytes)} of memory, "
                f"{_size(self.disk_bytes)} of disk with tables and report, {self.descriptors} open files in "
                "one process",
            ),
            (
                "wall time",
                f"about {_time(self.wall_s)}, of which {_time(self.bring_up_s)} for bring-up, and the "
                "accounting after that",
            ),
        ]


@dataclass(frozen=True)
class Capacity:
    """The part of the machine that is free for a run; None: not limited."""

    processes: int | None
    memory_bytes: float
    descriptors: int | None
    disk_bytes: float

    def describe(self) -> str:
        return f"{_size(self.memory_bytes)} of memory, {_size(self.disk_bytes)} of disk"


def demand(experiment: Experiment, work: Estimate, routers: int | None = None) -> Demand:
    """Estimates the demand of an emulation; the disk is that of its accounting, too.

    Args:
        routers: that the machine carries, each with as many frames and predicates as any other; None: all.
    """
    nodes = len(experiment.topology.nodes)
    routers = routers or nodes
    part = routers / nodes
    scale = experiment.time_scale
    rate = min(experiment.fastest, CAUTION * work.rate) if scale == AUTO else scale
    up_s, down_s = (
        base + share * routers + pair * routers * nodes for base, share, pair in (_BRING_UP_S, _TAKE_DOWN_S)
    )
    groups = -(-routers // switches_per_daemon(routers))
    # Only the attention-limited service has publications, and a cache.
    cached = min(work.publications, experiment.service.of_kind.cache_publications) if work.publications else 0
    network = _MEMORY + _MEMORY_PER_ROUTER * routers + _MEMORY_PER_PAIR * routers * nodes
    return Demand(
        processes=_PROCESSES + routers + _PROCESSES_PER_GROUP * groups,
        # In the opening, every predicate crosses a link to each of the other routers.
        memory_bytes=network
        + _MEMORY_PER_GROUP * groups
        + _MEMORY_PER_PREDICATE * part * work.opening_hops
        + _MEMORY_PER_PUBLICATION * routers * cached,
        descriptors=descriptors_needed(routers),
        disk_bytes=_DISK + _DISK_PER_ROUTER * routers + _DISK_PER_HOP * part * work.link_frames(experiment),
        bring_up_s=up_s,
        wall_s=up_s + work.opening_s + experiment.duration_s / rate + down_s,
    )


def accounting(experiment: Experiment, work: Estimate, engine: str, master: str, prepared: bool) -> str:
    """Describes the demand of an accounting, and why it is on Spark where DuckDB takes less.

    Args:
        engine: `spark` or `duckdb`.
        master: Spark's master URL.
        prepared: whether the session of Spark starts beside the emulation.
    """
    frames = _CAPTURED_PER_HOP * work.link_frames(experiment)

    def demand_of(way: str) -> str:
        run_s, frame_s, run_bytes, frame_bytes, most = _ACCOUNTING[way]
        taken = _time(work.slow * (run_s + frame_s * frames))
        return f"about {taken} and {_size(min(run_bytes + frame_bytes * frames, most))} of memory"

    if engine != "spark":
        return f"{demand_of(engine)} on {ENGINES[engine]}"
    text = f"{demand_of('prepared' if prepared else engine)} on Spark ({master})"
    return f"{text}. {WHY_SPARK}: {demand_of('duckdb')}" if frames * _BYTES_PER_FRAME < SMALL_BYTES else text


def capacity(runs: Path) -> Capacity:
    """Returns what this machine has free, with the disk of the folder of runs, which need not exist."""
    existing = runs.resolve()
    while not existing.exists():
        existing = existing.parent
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Capacity(
        processes=min(_free_processes(), default=None),
        memory_bytes=min([psutil.virtual_memory().available, *_free_in_group()]),
        descriptors=None if hard == resource.RLIM_INFINITY else hard,
        disk_bytes=shutil.disk_usage(existing).free,
    )


def shortages(wanted: Demand, found: Capacity) -> list[str]:
    """Returns a sentence for each limit of the machine that an emulation exceeds."""
    limits = (
        ("processes", wanted.processes, found.processes, "{} may be started (`ulimit -u`)"),
        ("memory", wanted.memory_bytes, found.memory_bytes, "{} are free"),
        ("open files", wanted.descriptors, found.descriptors, "the limit is {} (`ulimit -Hn`)"),
        ("disk", wanted.disk_bytes, found.disk_bytes, "{} are free"),
    )
    lines = []
    for name, takes, limit, text in limits:
        shown, share = (_size, _MOST) if name in ("memory", "disk") else (str, 1.0)
        if limit is not None and takes > share * limit:
            lines.append(f"{name}: takes {shown(takes)}, {text.format(shown(limit))}")
    return lines


def refuse(lines: Sequence[str]) -> None:
    """Refuses an emulation that a machine is too small for.

    Raises:
        MachineError: there are `shortages`, which are its lines.
    """
    if lines:
        advice = "a smaller network, `cbcb simulate`, or --force"
        raise MachineError("\n".join([*lines, f"expected a machine with more, {advice}"]))


def _free_processes() -> Iterator[int]:
    """Yields how many processes each limit still allows."""
    used = len(list(Path("/proc/self/task").iterdir()))
    total = len(psutil.pids())
    for path in ("pid_max", "threads-max"):
        with suppress(OSError, ValueError):
            yield int(Path(f"/proc/sys/kernel/{path}").read_text()) - total
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    # The kernel does not hold root to this limit.
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:
        yield soft - used
    for group in _groups():
        with suppress(OSError, ValueError):
            yield int((group / "pids.max").read_text()) - int((group / "pids.current").read_text())


def _groups() -> Iterator[Path]:
    """Yields the folder of the process's control group, and those of the groups that it is in."""
    with suppress(OSError):
        own = _GROUPS / _OWN_GROUP.read_text().partition("0::/")[2].strip()
        yield from (own, *(each for each in own.parents if each.is_relative_to(_GROUPS)))


def _free_in_group() -> Iterator[float]:
    """Yields what each control group leaves of the memory."""
    for group in _groups():
        with suppress(OSError, ValueError):
            used = int((group / "memory.current").read_text())
            lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
            # The kernel takes the cache of files back before it refuses memory.
            cached = sum(int(value) for name, value in lines if name in ("active_file", "inactive_file"))
            yield int((group / "memory.max").read_text()) - used + cached


def _size(count: float) -> str:
    """A number of bytes with two digits."""
    unit, name = (1e9, "GB") if count >= 1e9 else (1e6, "MB")
    return f"{float(f'{count / unit:.2g}'):g} {name}"


def _time(seconds: float) -> str:
    """Wall seconds, in minutes from two minutes on."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{float(f'{seconds:.2g}'):g} s"
