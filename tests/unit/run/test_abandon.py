"""The removal of a run that failed: every step runs, is repeated, and what then is left is said."""

from __future__ import annotations

import io
import json
import math
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.capture_list import link_identity
from captures.rundir.files import RunFolderError
from router.records.json_file import to_json
from testbed.emulation.machines.sites import Sites
from testbed.emulation.network import cleanup as module
from testbed.emulation.network.calibration import Counted, Span
from testbed.emulation.network.cleanup import end_processes
from testbed.emulation.run.emulation import Emulation, emulate
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.conclude import conclude
from testbed.support import run_state
from testbed.support.errors import InputError, RunError
from testbed.terminal.progress import Progress
from tests.support.cases import cases_beside
from topos.generators import line

#: Failures of a step before it works.
_Times = int


class Run:
    """An emulation that was made and not brought up.

    Attributes:
        emulation: of two nodes; it holds its state, its clock and a process.
        process: recorded in the state.
    """

    def __init__(self, folder: Path) -> None:
        self._file = io.StringIO()
        progress = Progress(Console(file=self._file, width=400))
        (folder / "run").mkdir()
        self.emulation = Emulation(Experiment("x", 1, 1.0, 1.0, line(2)), folder / "run", "user", progress)
        self.process = subprocess.Popen(["sleep", "3600"])
        self.emulation.state.add_processes(self.process.pid)

    @property
    def folder(self) -> Path:
        return self.emulation.state.folder

    @property
    def notes(self) -> list[str]:
        return [line.rstrip() for line in self._file.getvalue().splitlines()]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    monkeypatch.setattr(run_state, "STATE_ROOT", tmp_path / "cbcb")
    made = Run(tmp_path)

    def end() -> None:
        made.process.kill()
        made.process.wait()

    request.addfinalizer(end)
    return made


def _failing(times: _Times, step: Callable[..., object], calls: list[int]) -> Callable[..., object]:
    """The step, which fails so often before it works."""

    def failing(*arguments: object) -> object:
        calls.append(len(calls) + 1)
        if len(calls) <= times:
            raise OSError(28, "No space left on device")
        return step(*arguments)

    return failing


def test_a_step_that_fails_once_is_repeated_and_the_others_have_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(module, "end_processes", _failing(1, end_processes, calls))
    monkeypatch.setattr(run.emulation.site.network, "stop", _failing(2, run.emulation.site.network.stop, []))
    run.emulation.abandon()
    assert calls == [1, 2, 3]
    assert run.process.wait() == -9
    assert not run.folder.exists()
    assert run.notes == []
    # The run is gone: nothing is left to do.
    run.emulation.abandon()
    assert calls == [1, 2, 3]


def test_captures_end_after_the_parts_whose_frames_they_take(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    parts = ("controller", "routers", "captures", "applications")
    monkeypatch.setattr(run.emulation, "_kills", {part: partial(ended.append, part) for part in parts})
    run.emulation.abandon()
    assert ended == ["routers", "controller", "applications", "captures"]


def test_what_is_left_after_three_attempts_is_said_and_keeps_the_state(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[int] = []
    monkeypatch.setattr(module, "end_processes", _failing(3, end_processes, []))
    monkeypatch.setattr(
        run.emulation.site.network, "stop", _failing(0, run.emulation.site.network.stop, stops)
    )
    run.emulation.abandon()
    # The step behind that which failed ran each time.
    assert stops == [1, 2, 3]
    assert run.notes == [
        "take-down: processes: [Errno 28] No space left on device",
        f"take-down: 1 processes are alive: {run.process.pid}",
        f"left: {run.folder}; `cbcb clean` removes what is left",
    ]
    assert run_state.load(run.folder) == run.emulation.state
    # As `cbcb clean` would.
    run.emulation.abandon()
    assert not run.folder.exists()


def test_a_machine_that_has_not_ended_is_named_although_the_next_attempt_knows_it_no_more(run: Run) -> None:
    sites: Any = Sites(*[{}] * 8)  # type: ignore[arg-type]
    sites._reports["m2"], machine = socket.socketpair()
    machine.close()
    run.emulation.site = sites
    run.emulation.abandon()
    (note,) = run.notes
    assert note.startswith("take-down: m2: has not ended the run; `cbcb clean --master`")
    assert not run.folder.exists()


@pytest.mark.parametrize("capture", [None, b""], ids=["missing", "empty"])
def test_a_link_whose_capture_cannot_be_read_has_no_calibration_and_the_take_down_goes_on(
    run: Run, capture: bytes | None
) -> None:
    layout = RunLayout(Path(run.emulation.state.run_dir))
    path = layout.capture(link_identity(run.emulation.topology.links[0]).name)
    path.parent.mkdir()
    if capture is not None:
        path.write_bytes(capture)
    shaped = replace(run.emulation.topology.links[0], bandwidth_mbps=5.0)
    run.emulation._calibrate([Span(shaped, 0, 0, 1, Counted(waited=1))])
    reason = (
        f"[Errno 2] No such file or directory: '{path}'"
        if capture is None
        else f"{path}: 0 bytes; expected a pcap header of 24 bytes"
    )
    assert run.notes == ["… : calibration", f"not kept: calibration of links: {reason}"]
    run.emulation.abandon()
    assert not run.folder.exists()


@pytest.mark.parametrize("part", ["controller", "network"])
def test_links_are_calibrated_although_a_part_does_not_stop(
    run: Run, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    controller: Any = SimpleNamespace(child=SimpleNamespace(stop=lambda: None))
    stops: list[int] = []
    emulation = run.emulation
    place = controller.child if part == "controller" else emulation.site.network
    monkeypatch.setattr(place, "stop", _failing(1, place.stop, stops))
    monkeypatch.setattr(emulation, "_controller", controller, raising=False)
    span = Span(emulation.topology.links[0], 0, 0, 1, Counted(waited=1))
    given: list[list[Span]] = []
    monkeypatch.setattr(emulation, "_calibrate", given.append)
    with pytest.raises(RunError, match=rf"^{part}: \[Errno 28\] No space left on device$"):
        emulation._stop_network([span])
    assert (stops, given) == ([1], [[span]])
    monkeypatch.setattr(emulation, "_controller", None)
    emulation.abandon()
    assert not run.folder.exists()


# The end of a run that can be accounted for.


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The folder of an emulation that has just begun."""
    run = RunLayout(tmp_path)
    shutil.copy(find_experiment("ring5"), run.experiment)
    run.manifest.write_text(json.dumps({"datapath": "user", "evidence": [], "inputs": {}, "started_ns": 1}))
    return tmp_path


def _refused(begun: Path, message: str) -> None:
    before = sorted(begun.rglob("*"))
    console = Console(quiet=True)
    with pytest.raises(RunFolderError, match=message):
        conclude(begun, "local[2]", Progress(console))
    assert sorted(begun.rglob("*")) == before


def test_interrupted_emulation_is_named_as_such(begun: Path) -> None:
    _refused(begun, r"timings\.json: missing; was the emulation interrupted, or does it still run\?")


@pytest.mark.parametrize(("name", "content", "message"), cases_beside(__file__)["malformed"])
def test_malformed_files_are_named(begun: Path, name: str, content: str, message: str) -> None:
    RunLayout(begun).timings.write_text("{}")
    getattr(RunLayout(begun), name).write_text(content)
    _refused(begun, message)


def test_an_emulation_refuses_a_folder_that_its_processes_could_not_open(tmp_path: Path) -> None:
    folder = tmp_path / "b\udcff"
    with pytest.raises(InputError, match=r"b\\udcff': the name is not in UTF-8"):
        emulate(load_experiment(find_experiment("ring5")), folder, "user", Progress(Console(quiet=True)))
    assert not folder.exists()
    assert to_json(RunLayout(folder / "é")) == to_json({"path": f"{tmp_path}/b?/é"})
    assert to_json([folder.name, math.nan]) == b'["b?",null]'
