"""The run that `pub`, `sub` and other commands take: this checkout's, unless the user names another."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.emulation.control import running
from testbed.emulation.control.running import Running
from testbed.support.errors import InputError
from testbed.support.run_state import ProcessId, RunState


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunState:
    """The state of a live run of this checkout, beside that of a stranger's."""
    state = RunState("own", ProcessId.of(os.getpid()), str(tmp_path))
    stranger = replace(state, tag="other", checkout="/home/stranger/cbcb")
    monkeypatch.setattr(running, "live_runs", lambda: [stranger, state])
    return state


def test_a_stranger_s_run_is_taken_only_by_its_name(own: RunState, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Running.find(None).state == own
    assert Running.find("other").state.checkout == "/home/stranger/cbcb"
    others = [replace(own, tag="other", checkout="/home/stranger/cbcb")]
    monkeypatch.setattr(running, "live_runs", lambda: others)
    with pytest.raises(InputError, match="no emulation of this checkout is running, but of others other"):
        Running.find(None)


@pytest.mark.usefixtures("own")
def test_a_program_that_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Running, "namespace", lambda *_: "")
    monkeypatch.setattr(running, "enter_network_namespace", lambda _namespace: None)
    with pytest.raises(InputError, match="-c 1: this machine has no program no-such-ping"):
        Running.find(None).replace_process(0, ["no-such-ping", "-c", "1"], "exec 0 -- no-such-ping -c 1")


@pytest.mark.usefixtures("own")
def test_properties_of_a_link_may_have_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(_: Running, request: dict[str, object]) -> dict[str, object]:
        asked.append(request["event"])
        return {}

    monkeypatch.setattr(Running, "ask", ask)
    Running.find(None).shape_link(0, 1, ["loss=1.5%", "delay=20ms", "bandwidth=5Mbit/s", "jitter=2"])
    values = {"loss_percent": 1.5, "delay_ms": 20.0, "bandwidth_mbps": 5.0, "jitter_ms": 2.0}
    assert asked == [{"action": "link_impair", "link": [0, 1], **values}]
    with pytest.raises(
        InputError, match="loss=1ms: expected loss=NUMBER\\[%\\], bandwidth=NUMBER\\[Mbit/s\\]"
    ):
        Running.find(None).shape_link(0, 1, ["loss=1ms"])
