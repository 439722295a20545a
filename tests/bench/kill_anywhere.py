"""Runs whose processes are killed at random moments: what `cbcb clean` leaves, and what of others is gone.

Each run is `cbcb run` of a ring of five with its accounting, every second one on Spark, which is started
beside the emulation. At a random moment of it one of its processes gets SIGKILL: three of four
times while the network is up, when all parts are there, otherwise from its start to the end of an undisturbed
run. The part is drawn first, then one of its processes. When the command has ended, `cbcb clean` follows, and
then:

- no process of the run is alive (they are known by a variable in their environment), no network namespace of
  it is held by anyone, and its folders under /run/cbcb and for temporary files are gone;
- devices and mounts of this machine's own namespace are those from before;
- bystanders are whole: a named network namespace with a bridge, a pair of devices and a process that has the
  command line of a controller in it, and the folder of another run that is alive.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NamedTuple

import psutil

from testbed.support.run_state import STATE_ROOT, ProcessId, RunState, all_states
from tests.bench.parts import part_of
from tests.support.command import CBCB
from tests.support.network_namespaces import held_by_others, network_namespaces
from tests.support.paths import ROOT

_MARK = "CBCB_KILL_ANYWHERE"
#: Wall seconds: for the network to come up, for the command to end after a kill, for `cbcb clean`, and for
#: the kernel to remove things.
_UP_S, _END_S, _CLEAN_S, _REMOVAL_S = 120.0, 120.0, 60.0, 20.0
_POLL_S = 0.02
_RUN = ("run", "ring5", "--set", "duration_s=90", "--set", "time_scale=30", "--force")
#: The runs take turns with these.
_ENGINES = {"duckdb": ("--engine", "duckdb"), "spark": ("--engine", "spark")}
#: Share of the kills while the network is up.
_UP_SHARE = 0.75


class Phases(NamedTuple):
    """Wall seconds of an undisturbed run: of the whole command, and for which the network is up."""

    whole_s: float
    up_s: float


class Moment(NamedTuple):
    """The moment of a kill: wall seconds after the network is up, or after the command has begun."""

    since_up: bool
    at_s: float


@dataclass
class Outcome:
    """The result of one kill.

    Attributes:
        part: killed part; None: the run was over.
        status: exit status of the command; None: it had to be killed.
        found: sentences about what was left, or is missing.
        phases: of the run, up to the kill.
    """

    part: str | None
    status: int | None
    found: list[str]
    phases: Phases


@contextmanager
def bystanders() -> Iterator[Callable[[], Iterator[str]]]:
    """Things of others, which must survive; yields what yields a sentence for each that is not whole."""
    name = f"bystander{os.getpid()}"
    folder = STATE_ROOT / name
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
        for command in (
            f"netns add {name}",
            f"-n {name} link add br0 type bridge",
            f"-n {name} link add s0-eth1 type veth peer name r0-eth0",
            f"-n {name} link set s0-eth1 master br0",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        # Its command line has the words of a controller's.
        waiting = "import sys; sys.stdin.read()"
        argv = ["ip", "netns", "exec", name, sys.executable, "-c", waiting, "testbed.controller"]
        process = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE))
        stack.callback(process.kill)
        STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
        folder.mkdir()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        state = RunState(name, ProcessId.of(os.getpid()), "/nonexistent")
        state.processes.append(ProcessId.of(process.pid))
        state.save()

        def missing() -> Iterator[str]:
            listing = ["ip", "-json", "-n", name, "link"]
            listed = subprocess.run(listing, capture_output=True, text=True, check=False).stdout
            devices = {link["ifname"] for link in json.loads(listed or "[]")}
            for device in {"br0", "s0-eth1", "r0-eth0"} - devices:
                yield f"device {device} of the namespace {name} is gone"
            if process.poll() is not None:
                yield "the process of another has ended"
            if not (folder / "state.json").exists():
                yield "the folder of a live run is gone"

        yield missing


def marked(mark: str) -> dict[int, str]:
    """Process id -> part, of the live processes that have a mark in their environment."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(_MARK) == mark:
                found[process.pid] = part_of(" ".join(process.cmdline()))
    return found


def hold(pids: Iterable[int], held: ExitStack) -> set[str]:
    """The names of the network namespaces of processes, which stay open until `held` ends.

    The kernel gives the name of a namespace that is gone to another one, such as that of another run.
    """
    found = set()
    for _, path in network_namespaces(pids):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            held.callback(os.close, descriptor)
            found.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    return found


def machine() -> set[str]:
    """Devices and mounts of this process's namespaces."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return {f"device {path.name}" for path in Path("/sys/class/net").iterdir()} | {
        f"mount {mount.split()[4]}" for mount in mounts if not re.search(r" /(run/netns|proc)", mount)
    }


def _up(owner: int) -> bool:
    """Whether the network of the run of a command is up: the run takes commands."""
    return any(
        state is not None and state.owner.pid == owner and state.control.exists() for _, state in all_states()
    )


def kill_once(engine: str, moment: Moment, choose: random.Random) -> Outcome:
    """Starts a run, kills one of its processes at a moment of it, cleans up, and looks around."""
    with ExitStack() as held, tempfile.TemporaryDirectory(prefix="kill-anywhere-") as folder:
        temporary, runs = Path(folder) / "tmp", Path(folder) / "runs"
        temporary.mkdir()
        mark = Path(folder).name
        environment = {**os.environ, _MARK: mark, "TMPDIR": str(temporary)}
        before, own = machine(), {name for name, _ in network_namespaces([os.getpid()])}
        namespaces: set[str] = set()
        not_up: list[str] = []
        with (Path(folder) / "output").open("w+") as output:
            run = subprocess.Popen(
                [*CBCB, *_RUN, *_ENGINES[engine], "--runs", str(runs)],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            started = time.monotonic()
            up_by, up_s = started + _UP_S, 0.0
            while moment.since_up and run.poll() is None and not _up(run.pid):
                if time.monotonic() > up_by:
                    not_up.append(f"the network is not up {_UP_S:g} s after the start of the command")
                    break
                time.sleep(_POLL_S)
            over_at = time.monotonic() + moment.at_s
            while run.poll() is None and (before_s := time.monotonic()) < over_at:
                time.sleep(_POLL_S)
                up_s += time.monotonic() - before_s if _up(run.pid) else 0.0
            phases = Phases(time.monotonic() - started, up_s)
            processes = marked(mark)
            namespaces |= hold(processes, held) - own
            part = None
            if run.poll() is None and processes:
                part = choose.choice(sorted(set(processes.values())))
                victim = choose.choice(sorted(pid for pid, each in processes.items() if each == part))
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            outcome = Outcome(part, None, not_up, phases)
            try:
                outcome.status = run.wait(_END_S)
            except subprocess.TimeoutExpired:
                output.seek(0)
                words = " | ".join(output.read().splitlines()[-3:])
                outcome.found.append(f"the command goes on {_END_S:g} s after the kill: {words}")
                run.kill()
                run.wait()
        cleaned = subprocess.run(
            [*CBCB, "clean"],
            cwd=ROOT,
            env={key: value for key, value in environment.items() if key != _MARK},
            timeout=_CLEAN_S,
            capture_output=True,
            text=True,
            check=False,
        )
        if cleaned.returncode:
            outcome.found.append(f"clean: status {cleaned.returncode}: {cleaned.stdout} {cleaned.stderr}")
        deadline = time.monotonic() + _REMOVAL_S
        while (left := list(_left(mark, run.pid, namespaces, temporary, before))) and (
            time.monotonic() < deadline
        ):
            time.sleep(_POLL_S * 10)
        outcome.found += left
        for pid in marked(mark):  # so that the next kill begins on a clean machine
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return outcome


def _left(mark: str, owner: int, namespaces: set[str], temporary: Path, before: set[str]) -> Iterator[str]:
    """Yields a sentence for each thing of a run that is still there."""
    for pid, part in marked(mark).items():
        yield f"process {pid} ({part}) is alive"
    if held := held_by_others(namespaces):
        yield f"{len(held)} network namespaces are held"
    for path, state in all_states():
        if state is not None and state.owner.pid == owner:
            yield f"{path} is there"
    for path in STATE_ROOT.glob(f".{owner}-*"):
        yield f"{path} is there"
    for path in temporary.iterdir():
        yield f"temporary {path.name} is there"
    for what in machine() - before:
        yield f"{what} is new"


def kill_often(kills: int, seed: int, phases: Phases | None = None) -> list[Outcome]:
    """Kills so many times, and prints each.

    Args:
        phases: of which the moments are drawn; None: those of an undisturbed run with each engine.
    """
    choose = random.Random(seed)
    outcomes: list[Outcome] = []
    lengths = dict.fromkeys(_ENGINES, phases)
    with bystanders() as missing:
        for number in range(kills):
            engine = list(_ENGINES)[number % len(_ENGINES)]
            length = lengths[engine]
            if length is None:
                whole = kill_once(engine, Moment(False, inf), choose)
                assert (whole.status, whole.found) == (0, [])
                length = lengths[engine] = whole.phases
                print(f"{engine}, undisturbed: {length}", flush=True)
            since_up = choose.random() < _UP_SHARE
            moment = Moment(since_up, choose.uniform(0, length.up_s if since_up else length.whole_s))
            outcome = kill_once(engine, moment, choose)
            outcome.found += missing()
            outcomes.append(outcome)
            begin, what = "up" if since_up else "start", outcome.part or "over"
            print(
                f"{number + 1}: {engine:6} {begin} + {moment.at_s:4.1f} s {what:13} status {outcome.status}"
            )
            print(*(f"   {sentence}\n" for sentence in outcome.found), sep="", end="", flush=True)
    return outcomes


def main(kills: int = 200, seed: int = 0) -> None:
    """Prints every kill and a table; ends with status 1 if anything was left or is missing."""
    outcomes = kill_often(kills, seed)
    kinds = Counter((outcome.part or "over", outcome.status) for outcome in outcomes)
    print(f"\n{'part':14} {'status':>6} {'kills':>5}")
    for (part, status), number in kinds.most_common():
        print(f"{part:14} {status!s:>6} {number:5}")
    faults = sum(bool(outcome.found) for outcome in outcomes)
    killed = sum(outcome.part is not None for outcome in outcomes)
    print(f"{killed} processes killed; after {faults} of {len(outcomes)} runs something was left or missing")
    if faults:
        sys.exit(1)
