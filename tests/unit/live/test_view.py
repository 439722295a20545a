"""The live view of a run in its terminal: what its process prints, whole or not."""

from __future__ import annotations

import json
from io import BytesIO, StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from testbed.results.live import view
from testbed.results.live.view import LiveView
from testbed.support.processes import Child
from testbed.terminal.progress import Progress

BEGIN = json.dumps({"url": "http://127.0.0.1:8000/", "topology": {}}) + "\n"
SNAPSHOT = json.dumps({"phase": "running"}) + "\n"


def _shown(printed: str) -> str:
    """Returns the lines of a run beside a process that has printed this, and has ended."""
    output = StringIO()
    child = SimpleNamespace(process=SimpleNamespace(stdout=BytesIO(printed.encode())))
    LiveView(Progress(Console(file=output)), 0)._follow(cast("Child", child))
    return output.getvalue()


@pytest.mark.parametrize("printed", ["", BEGIN[:30]])
def test_a_process_that_ends_before_its_first_line_did_not_start(printed: str) -> None:
    assert _shown(printed).startswith("the live view did not start: see ")


def test_half_a_snapshot_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "live_line", lambda snapshot: f"phase {snapshot['phase']}")
    live, first, end = _shown(BEGIN + SNAPSHOT + SNAPSHOT[:8]).splitlines()
    assert (live, first) == ("live: http://127.0.0.1:8000/", "phase running")
    assert end.startswith("the live view is no longer shown here: see ")


def test_an_error_of_the_display_is_no_half_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_snapshot: Any) -> str:
        raise ValueError("of the display")

    monkeypatch.setattr(view, "live_line", fails)
    with pytest.raises(ValueError, match="of the display"):
        _shown(BEGIN + SNAPSHOT)
