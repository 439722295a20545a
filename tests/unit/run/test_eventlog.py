"""Following the log that another process writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.emulation.run.processes import ProcessLog
from testbed.support.errors import RunError


def test_each_who_follows_a_log_sees_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = ProcessLog(path, lambda: None)
    assert log.since(0) == []
    path.write_text('{"event": "ready", "node": 0}\n{"event": "exited", "node": 0}\n{"event": "re')
    # Waiting for an event consumes no other event.
    assert log.wait_for(lambda event: event["event"] == "exited", 1, "exited")["node"] == 0
    assert [event["event"] for event in log.since(0)] == ["ready", "exited"]
    with path.open("a") as file:
        file.write('ady", "node": 1}\n')
    assert log.since(2) == [{"event": "ready", "node": 1}]
    with pytest.raises(RunError, match=r'(?s)it stops.*last event: {"event": "ready", "node": 1}'):
        log.wait_for(lambda event: event["event"] == "stopped", 0.05, "it stops")
