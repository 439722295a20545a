"""The trace of a message of a run that goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from captures.capturing import recorder, ring
from captures.rundir import RunLayout
from captures.rundir.routing_tables import TableRow
from testbed.emulation.control.prompt import Prompt
from testbed.emulation.control.running import Running
from testbed.results.trace import live
from testbed.results.trace.live import live_listing, live_trace
from testbed.support.errors import InputError
from testbed.support.run_state import ProcessId, RunState
from tests.support import run_folder
from tests.support.run_folder import SEQ, good_run

_EXPERIMENT = Path(__file__).with_name("line.toml").read_text()


def _live(folder: Path) -> RunLayout:
    """The good run and a message that nobody got, as its folder is while the run goes on."""
    played = good_run()
    played.tick(100)
    played.send(4, 50, [(0, [1])], expected=True)
    played.deliver(4, 1)
    run = RunLayout(played.write(folder))
    # What the end of a run writes.
    for path in (run.captures, run.oracle, run.routing_tables, run.routers_counters, run.switches_counters):
        path.unlink()
    run.experiment.write_text(_EXPERIMENT)
    return run


def _tables() -> Mapping[int, Sequence[TableRow]]:
    return {1: [TableRow(interface=2, scope="", predicate="price < 40", part="forwarding")]}


def test_a_message_is_followed_by_what_has_been_written_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    run = _live(tmp_path / "run")
    # The parts of the run are in the middle of a line, and of a frame.
    for path in (run.controller_log, run.clock, run.applications_of(2)):
        path.write_text(path.read_text() + '{"t_ns": 17')
    capture = run.capture("link-1-2")
    capture.write_bytes(capture.read_bytes() + b"\x00" * 20)
    first = list(live_trace(run, _tables, "0:1"))
    assert first[0].startswith("message 0:1  price = 50, text = ")
    assert first[2] == "2 delivered, 2 expected; at 3 routers; pruned at 0 interfaces"
    assert [line.split("deliver")[0].strip("│├└─ ✓") for line in first if "✓" in line] == ["", ""]
    assert first[-1].startswith("the run goes on; this is what it had recorded ")
    assert "not known" not in first[-1]
    # One receiver was not sent the message: its row selects it no more.
    fourth = list(live_trace(run, _tables, "0:4"))
    assert fourth[2] == "1 delivered, 2 expected, 1 MISSED; at 2 routers; pruned at 1 interfaces"
    assert any(line.endswith("✂ r2  p2 does not select it: ✗price < 40") for line in fourth), fourth
    assert "p1, p2, ... are those that the routers have now" in fourth[-3]
    listing = list(live_listing(run))
    assert [line.split()[0] for line in listing] == ["message", "0:1", "0:2", "0:3", "0:4", "(4"]
    assert [line.split()[2] for line in listing[1:-1]] == ["2", "0", "0", "1"]


def test_a_message_of_this_moment_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "START_NS", time.time_ns())
    run = _live(tmp_path / "run")
    run.experiment.write_text(_EXPERIMENT.replace("0.05", "3600"))
    monkeypatch.setattr("testbed.results.trace.live._WAIT_S", 0.0)
    shown = list(live_trace(run, _tables, "0:4"))
    assert shown[2] == "1 delivered so far; at 2 routers; pruned at 1 interfaces"
    assert shown[-1].endswith("who should have got it is not known yet")
    assert not any("MISSED" in line for line in shown)


def test_evidence_that_is_written_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "START_NS", time.time_ns())
    run = _live(tmp_path / "run")
    late = run.applications_of(2), run.capture("link-1-2")
    contents = [path.read_bytes() for path in late]
    late[0].write_bytes(b"")
    late[1].write_bytes(contents[1][:24])  # the header of the file
    asked = 0

    def tables() -> Mapping[int, Sequence[TableRow]]:
        nonlocal asked
        asked += 1
        if asked == 3:
            for path, content in zip(late, contents, strict=True):
                path.write_bytes(content)
        return _tables()

    shown = list(live_trace(run, tables, f"0:{SEQ + 1}"))
    assert asked >= 3
    assert shown[2] == "2 delivered, 2 expected; at 3 routers; pruned at 0 interfaces"


def test_a_message_that_is_not_there_is_an_error_that_names_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _live(tmp_path / "run")
    monkeypatch.setattr("testbed.results.trace.live._LOOKUP_S", 0.0)
    with pytest.raises(InputError, match=r"0:9: no such message; node 0 sent 4, 0:1 to 0:4"):
        list(live_trace(run, _tables, "0:9"))
    with pytest.raises(InputError, match="expected SOURCE:NUMBER"):
        list(live_trace(run, _tables, "17"))
    assert SEQ >> 63  # numbers that no signed integer of 64 bits holds


def test_a_trace_waits_twice_as_long_as_the_recorder_takes_to_write_a_frame() -> None:
    recorder_s = ring.BLOCK_MS / 1000 + recorder._LOOK_S + recorder._WRITE_S
    assert 2 * recorder_s <= live._WRITTEN_S
    assert live._WAIT_S > live._WRITTEN_S


def test_a_malformed_record_is_an_error_of_the_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _live(tmp_path / "run")
    run.applications_of(2).write_text("no record\n")
    running = Running(RunState("run", ProcessId.of(os.getpid()), str(run.path)))
    with Prompt(running, interactive=False) as prompt:
        assert prompt.onecmd("trace")
        assert prompt.status == InputError.status
    assert f"cbcb: {run.applications_of(2)}" in capsys.readouterr().err
