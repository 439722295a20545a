"""The state of a run: the resources that it holds, recorded before it takes them, for cleaning dead runs.

One folder a run, /run/cbcb/<tag>/, with `state.json`. A run is alive while its main process is: pid and start
time (clock ticks since boot, /proc/<pid>/stat field 22) name a process uniquely.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from router.records.forms import parse
from router.records.json_file import json_line
from testbed.support.errors import RunError

STATE_ROOT = Path("/run/cbcb")
STATE_FILE = "state.json"
#: Name of the socket to which switches connect, among theirs.
CONTROLLER = "controller"
#: The source tree of this process.
CHECKOUT = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True)
class ProcessId:
    """A process, distinguished from a later process with the same number by its start time.

    Attributes:
        started: clock ticks since boot.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Raises ProcessLookupError if there is no such process."""
        found = find_process(pid)
        if found is None:
            raise ProcessLookupError(pid)
        return found

    def alive(self) -> bool:
        return find_process(self.pid) == self


def find_process(pid: int) -> ProcessId | None:
    """The live process of a number; None if it is gone or a zombie.

    psutil's `create_time` is of the wall clock: when that clock is set, the value changes for other
    processes, and a live run would look dead.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name, in parentheses, may contain any byte: the other fields are after its end.
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in b"ZX" else ProcessId(pid, int(fields[19]))


@dataclass
class RunState:
    """The contents of state.json."""

    tag: str
    owner: ProcessId
    run_dir: str
    nodes: int = 0
    checkout: str = CHECKOUT
    processes: list[ProcessId] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return STATE_ROOT / self.tag

    @property
    def switches(self) -> Path:
        return self.folder / "switches"

    @property
    def controller(self) -> Path:
        """Socket to which the switches connect."""
        return self.switches / CONTROLLER

    def socket(self, node: int) -> Path:
        return self.folder / f"r{node}.sock"

    @property
    def controller_windows(self) -> Path:
        return self.folder / "controller.windows"

    def windows(self, node: int) -> Path:
        return self.folder / f"r{node}.windows"

    @property
    def control(self) -> Path:
        """Socket on which the run takes commands of its user."""
        return self.folder / "control.sock"

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    def add_processes(self, *pids: int) -> None:
        """Records child processes, to be ended with the run, but none that has ended already."""
        self.processes += filter(None, map(find_process, pids))
        self.save()

    def save(self, folder: Path | None = None) -> None:
        """Writes state.json atomically into the run's folder or another folder."""
        folder = folder or self.folder
        temporary = folder / f"{STATE_FILE}.new"
        temporary.unlink(missing_ok=True)
        temporary.touch(0o644)
        temporary.write_bytes(json_line(self))
        temporary.replace(folder / STATE_FILE)


def claim(run_dir: Path) -> RunState:
    """Takes a tag that no other run holds, and makes its folder under /run/cbcb."""
    STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    # The folder gets its name when it is complete, so that no clean-up sees it without its owner.
    made = Path(tempfile.mkdtemp(prefix=f".{os.getpid()}-", dir=STATE_ROOT))
    made.chmod(0o755)
    for _ in range(100):
        state = RunState(secrets.token_hex(2), ProcessId.of(os.getpid()), str(run_dir))
        state.save(made)
        try:
            made.rename(state.folder)
        except OSError:  # the tag is taken
            continue
        return state
    shutil.rmtree(made)
    raise RunError(f"no free run tag under {STATE_ROOT}: `cbcb clean` removes the remains of dead runs")


@contextmanager
def whole_machine() -> Iterator[bool]:
    """Yields whether this process has the machine to itself, beside others that ask; until the block ends."""
    STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    with (STATE_ROOT / "machine.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def only_ours(path: Path) -> bool:
    """Whether a file or folder is this user's or root's, no link, and nobody else can write to it.

    Raises:
        OSError: there is none.
    """
    found = path.lstat()
    return found.st_uid in (0, os.geteuid()) and not stat.S_ISLNK(found.st_mode) and not found.st_mode & 0o022


def load(folder: Path) -> RunState | None:
    """Returns the state in a folder; None if it has none that this code reads, or others can write to it."""
    try:
        # The folder first: in one that nobody else can write to, nobody else replaces the file.
        if not only_ours(folder) or not only_ours(folder / STATE_FILE):
            return None
        return parse(RunState, (folder / STATE_FILE).read_bytes())
    except (OSError, ValueError):
        return None


def all_states() -> list[tuple[Path, RunState | None]]:
    """Returns every folder under /run/cbcb, with its state."""
    if not STATE_ROOT.is_dir():
        return []
    folders = [path for path in sorted(STATE_ROOT.iterdir()) if path.is_dir()]
    return [(folder, load(folder)) for folder in folders if not folder.name.startswith(".")]


def live_runs() -> list[RunState]:
    """Returns the runs whose main process is alive."""
    return [state for _, state in all_states() if state is not None and state.owner.alive()]
