"""The state of a run on its machine: claimed by a tag, read back, and cleaned up after its end."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from router.wire.header import HOST_PORT
from testbed.emulation.network.cleanup import clean_dead_runs, remove_folder
from testbed.support import run_state
from testbed.support.names import host_device, port_device, switch_name
from testbed.support.run_state import ProcessId, RunState
from tests.support.polling import TIMEOUT, poll


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_state, "STATE_ROOT", tmp_path / "cbcb")
    return tmp_path / "cbcb"


def test_a_claimed_run_is_alive_and_can_be_read_back(root: Path) -> None:
    state = run_state.claim(Path("/somewhere"))
    state.nodes = 3
    state.add_processes(os.getpid())
    assert run_state.load(root / state.tag) == state
    assert [run.tag for run in run_state.live_runs()] == [state.tag]


def test_two_runs_never_share_a_tag(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = iter(["aaa", "aaa", "bbb"])
    monkeypatch.setattr("testbed.support.run_state.secrets.token_hex", lambda _bytes: next(tags))
    assert run_state.claim(Path("/1")).tag == "aaa"
    assert run_state.claim(Path("/2")).tag == "bbb"
    assert len(list(root.iterdir())) == 2


def test_a_process_that_ended_is_not_alive_even_if_its_number_is_taken() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = ProcessId.of(child.pid)
    assert process.alive()
    assert not replace(process, started=process.started + 1).alive()
    child.communicate()
    assert not process.alive()
    with pytest.raises(ProcessLookupError):
        ProcessId.of(child.pid)


def test_a_process_is_the_same_whatever_it_executes_and_is_called() -> None:
    """`setpriv` becomes the daemon; a name may be no text."""
    code = "import os; open('/proc/self/comm', 'wb').write(b'\\xff) '); print(flush=True); input()"
    code += "; os.execlp('sleep', 'sleep', '600')"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        process = ProcessId.of(child.pid)
        child.stdin.write(b"\n")
        child.stdin.flush()
        poll(lambda: Path(f"/proc/{child.pid}/comm").read_bytes() == b"sleep\n" or None, TIMEOUT, "exec")
        assert process.alive()
        child.kill()


#: Ends a process between the two looks at it, and gives its number to another: alone in a namespace.
_REUSED = """
import os, subprocess, sys, time
from testbed.emulation.network.cleanup import end_processes
from testbed.support.run_state import ProcessId

def start():
    return subprocess.Popen(["sleep", "600"])

first, looks, later, alive = start(), [], [], ProcessId.alive
found = ProcessId.of(first.pid)

def alive_until_the_look(process):
    looks.append(alive(process))
    if len(looks) == int(sys.argv[1]):
        while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") <= found.started + 1:
            pass
        first.kill()
        first.wait()
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(first.pid - 1))
        later.append(start())
        assert later[0].pid == first.pid
    return looks[-1]

ProcessId.alive = alive_until_the_look
end_processes([found])
later[0].terminate()
assert later[0].wait() == -15
"""


@pytest.mark.root
@pytest.mark.parametrize("look", ["1", "2"])
def test_a_process_that_takes_a_number_before_the_kill_lives_on(look: str) -> None:
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    subprocess.run([*alone, sys.executable, "-c", _REUSED, look], check=True)


def test_a_zombie_counts_as_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        ProcessId.of(child)
    os.waitpid(child, 0)


def test_an_unreadable_state_is_no_state(root: Path) -> None:
    (root / "abc").mkdir(parents=True)
    (root / "abc" / "state.json").write_text('{"tag": "abc"')
    assert run_state.load(root / "abc") is None
    assert run_state.all_states() == [(root / "abc", None)]
    assert run_state.live_runs() == []


@pytest.mark.usefixtures("root")
def test_processes_that_are_gone_are_not_noted() -> None:
    state: RunState = run_state.claim(Path("/x"))
    child = subprocess.Popen(["true"])
    child.wait()
    state.add_processes(child.pid)
    assert state.processes == []


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.attack("umask 000")
@pytest.mark.usefixtures("no_umask")
def test_modes_of_the_state_do_not_come_from_the_umask(root: Path) -> None:
    state = run_state.claim(Path("/x"))
    state.save()
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (root, state.folder, *state.folder.iterdir())
    }
    assert modes == {"cbcb": 0o755, state.tag: 0o755, "state.json": 0o644}


@pytest.mark.attack("umask 000")
@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("attack", ["writable file", "writable folder", "link", "other owner"])
def test_a_state_that_others_can_write_ends_no_process_and_stays(tmp_path: Path, attack: str) -> None:
    state = run_state.claim(Path("/x"))
    state.owner = replace(state.owner, started=state.owner.started + 1)
    with subprocess.Popen(["sleep", "600"]) as victim:
        state.add_processes(victim.pid)
        file = state.folder / "state.json"
        match attack:
            case "writable file":
                file.chmod(0o666)
            case "writable folder":
                state.folder.chmod(0o777)
            case "link":
                file.symlink_to(file.rename(tmp_path / "elsewhere"))
            case "other owner" if os.geteuid() == 0:
                os.chown(file, 65534, -1)
            case _:
                victim.kill()
                pytest.skip("needs root")
        found = clean_dead_runs()
        assert victim.poll() is None
        victim.kill()
    assert (found.tags, found.processes) == ((), 0)
    (failure,) = found.failures
    assert failure.endswith("not removed: it belongs to another user, or others can write to it")
    assert state.folder.exists()


def test_a_state_of_other_code_counts_or_stays(root: Path) -> None:
    live = run_state.claim(Path("/x"))
    file = live.folder / "state.json"
    raw = json.loads(file.read_text())
    raw["owner"]["command"] = "python"
    file.write_text(json.dumps(raw))
    assert run_state.live_runs() == [live]
    del raw["owner"]["started"]
    file.write_text(json.dumps(raw))
    (root / "abc").mkdir()
    found = clean_dead_runs()
    assert found.tags == ("abc",)
    assert found.failures == (f"run {live.tag}: {file}: not removed: of another version of cbcb, or damaged",)
    assert file.exists()


@pytest.mark.root
def test_a_dead_run_whose_folder_cannot_be_removed_is_no_removed_run(root: Path) -> None:
    state = run_state.claim(Path("/x"))
    state.owner = replace(state.owner, started=state.owner.started + 1)
    state.save()
    other = run_state.claim(Path("/y"))
    other.owner = state.owner
    other.save()
    place = state.folder / "busy"
    place.mkdir()
    for name in ("above", "switches"):
        (state.folder / name).mkdir()
        (state.folder / name / "database").touch()
    for file in (held := state.folder / "held", state.folder / "first", state.folder / "last"):
        file.touch()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=True)
    subprocess.run(["mount", "--bind", str(held), str(held)], check=True)
    try:
        found = clean_dead_runs()
    finally:
        subprocess.run(["umount", str(held), str(place)], check=True)
    assert found.tags == (other.tag,)
    (failure,) = found.failures
    assert failure.startswith(f"run {state.tag}: [Errno 16] Device or resource busy: '{state.folder}/")
    # The rest is gone, and the state is not, whatever the order of the entries: the process is still known.
    assert sorted(path.name for path in state.folder.iterdir()) == ["busy", "held", "state.json"]
    assert run_state.load(state.folder) == state
    assert clean_dead_runs().tags == (state.tag,)
    assert list(root.iterdir()) == []


def test_a_file_that_vanishes_during_the_removal_leaves_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = run_state.claim(Path("/x"))
    state.switches.mkdir()
    for place in (state.folder, state.switches):
        for number in range(3):
            (place / f"f{number}").touch()
    unlink = os.unlink

    def late(name: str | Path, *, dir_fd: int | None = None) -> None:
        """Another process is faster than the removal."""
        unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", late)
    remove_folder(state.folder)
    assert list(root.iterdir()) == []
    remove_folder(state.folder)


def test_names_of_the_largest_networks_fit_a_device_name() -> None:
    for name in (port_device(999_999, 65_534), port_device(999_999, HOST_PORT), host_device(999_999)):
        assert len(name) <= 15  # IFNAMSIZ of Linux, without the final 0


def test_no_two_devices_of_a_run_share_a_name() -> None:
    made = [switch_name(n) for n in range(12)]
    made += [port_device(n, p) for n in range(12) for p in (1, 2, 11, HOST_PORT)]
    assert len(set(made)) == len(made)
