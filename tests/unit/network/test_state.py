from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.network import state as run_state
from testbed.network.cleanup import clean_dead_runs, remove_state
from testbed.network.state import ProcessId, RunState, start_time


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_state, "STATE_ROOT", tmp_path / "cbcb")
    return tmp_path / "cbcb"


def test_a_claimed_run_is_alive_and_can_be_read_back(root: Path) -> None:
    state = run_state.claim(Path("/somewhere"))
    state.nodes = 3
    state.add_process(os.getpid())
    assert run_state.load(root / state.tag) == state
    assert [run.tag for run in run_state.live_runs()] == [state.tag]


def test_two_runs_never_share_a_tag(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = iter(["aaa", "aaa", "bbb"])
    monkeypatch.setattr(run_state, "new_tag", lambda: next(tags))
    assert run_state.claim(Path("/1")).tag == "aaa"
    assert run_state.claim(Path("/2")).tag == "bbb"
    assert len(list(root.iterdir())) == 2


def test_a_process_that_ended_is_not_alive_even_if_its_number_is_taken() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = ProcessId.of(child.pid)
    assert process.alive()
    assert not ProcessId(child.pid, process.started + 1).alive()
    child.communicate()
    assert not process.alive()
    with pytest.raises(ProcessLookupError):
        ProcessId.of(child.pid)


def test_a_zombie_counts_as_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert start_time(child) is None
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
    state.add_process(child.pid)
    state.add_processes([child.pid])
    assert state.processes == []


@pytest.mark.root
def test_a_dead_run_whose_folder_cannot_be_removed_is_no_removed_run(root: Path) -> None:
    state = run_state.claim(Path("/x"))
    state.owner = ProcessId(state.owner.pid, state.owner.started + 1)
    state.save()
    other = run_state.claim(Path("/y"))
    other.owner = state.owner
    other.save()
    place = state.folder / "busy"
    place.mkdir()
    for name in ("above", "switches"):
        (state.folder / name).mkdir()
        (state.folder / name / "database").touch()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=True)
    try:
        found = clean_dead_runs()
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert found.tags == (other.tag,)
    assert found.failures == (f"run {state.tag}: [Errno 16] Device or resource busy: 'busy'",)
    # The rest is gone, and the state is not, whatever the order of the entries: the process is still known.
    assert sorted(path.name for path in state.folder.iterdir()) == ["busy", "state.json"]
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

    def late(name: str, *, dir_fd: int | None = None) -> None:
        """Another process is faster than the removal."""
        unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", late)
    remove_state(state)
    assert list(root.iterdir()) == []
    remove_state(state)
