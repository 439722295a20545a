"""The demand of an emulation on the machine, estimated before it starts, and the machine's capacity.

The constants were measured on 2 cores in the userspace datapath, on an otherwise idle machine. Memory: a fit
to `./run.sh bench footprint --sizes 20+60+120+200`, and to a run of `waxman1000`. Times: runs of 200 and of
1,000 routers (4.5 and 37.7 s up, 1.7 and 16.6 s down); 200 take 0.75 s longer to go down since runs leave the
kernel's grace periods as they are.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from testbed.emulation.network.namespaces import descriptors_needed
from testbed.emulation.network.switch_daemons import switches_per_daemon
from testbed.emulation.run.estimate import Estimate
from testbed.emulation.run.governor import CAUTION
from testbed.experiments.config import AUTO, Experiment
from testbed.support.errors import MachineError

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
                f"{_size(self.disk_bytes)} of disk, {self.descriptors} open files in one process",
            ),
            ("wall time", f"about {_time(self.wall_s)}, of which {_time(self.bring_up_s)} for bring-up"),
        ]


@dataclass(frozen=True)
class Capacity:
    """The part of the machine that is free for a run; None: not limited."""

    processes: int | None
    memory_bytes: float
    descriptors: int | None
    disk_bytes: float


def demand(experiment: Experiment, work: Estimate) -> Demand:
    """Estimates the demand of an emulation, without its accounting."""
    routers = len(experiment.topology.nodes)
    scale = experiment.time_scale
    rate = min(experiment.fastest, CAUTION * work.rate) if scale == AUTO else scale
    up_s, down_s = (
        base + share * routers + pair * routers**2 for base, share, pair in (_BRING_UP_S, _TAKE_DOWN_S)
    )
    groups = -(-routers // switches_per_daemon(routers))
    # In the opening, every receiver's RA goes over the links of a tree.
    frames = (work.message_hops + work.ra_hops) * experiment.duration_s + work.opening_hops
    network = _MEMORY + _MEMORY_PER_ROUTER * routers + _MEMORY_PER_PAIR * routers**2
    return Demand(
        processes=_PROCESSES + routers + _PROCESSES_PER_GROUP * groups,
        # In the opening, every predicate crosses a link to each of the other routers.
        memory_bytes=network
        + _MEMORY_PER_GROUP * groups
        + _MEMORY_PER_PREDICATE * work.opening_hops
        + _MEMORY_PER_PUBLICATION * routers * _cached(experiment, work),
        descriptors=descriptors_needed(routers),
        disk_bytes=_DISK + _DISK_PER_ROUTER * routers + _DISK_PER_HOP * frames,
        bring_up_s=up_s,
        wall_s=up_s + work.opening_s + experiment.duration_s / rate + down_s,
    )


def _cached(experiment: Experiment, work: Estimate) -> int:
    """Returns the publications that a router caches at most."""
    if not work.publications:
        return 0
    capacity: int = experiment.service.of_kind.cache_publications
    return min(capacity, work.publications)


def capacity(runs: Path) -> Capacity:
    """Returns what the machine has free, with the disk of the folder of runs, which need not exist."""
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


def require_capacity(wanted: Demand, runs: Path) -> None:
    """Refuses an emulation that the machine is too small for.

    Raises:
        MachineError: with a line for each limit.
    """
    if lines := shortages(wanted, capacity(runs)):
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
