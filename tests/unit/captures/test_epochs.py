"""The controller's log: epochs, the changes of the network that they answer, what is up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.controller import read_controller
from captures.rundir.epochs import Change, epochs
from captures.rundir.files import RunFolderError

STARTED: dict[str, Any] = {"event": "epoch_started", "down_links": [], "down_nodes": []}
LINK_DOWN = {"event": "link_down", "link": 7, "u": 0, "v": 1}
NODE_DOWN = {"event": "node_down", "node": 4}


def committed(epoch: int) -> dict[str, Any]:
    return {"event": "committed", "epoch": epoch}


def log(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events, one a nanosecond, after the set-up in nanoseconds 0 and 1."""
    return [{"t_ns": at, **event} for at, event in enumerate([STARTED, committed(1), *events])]


def test_an_epoch_answers_what_came_before_it() -> None:
    found = epochs(log(LINK_DOWN, NODE_DOWN, STARTED, committed(2), STARTED, committed(3), NODE_DOWN))
    assert found.committed == 3
    assert found.changes == [
        Change(["link_down 0-1", "node_down 4"], 2, 2, 5),
        Change([], 6, 3, 7),
        Change(["node_down 4"], 8),
    ]
    assert not found.settled


def test_what_comes_during_an_epoch_waits_for_the_next() -> None:
    events = log(LINK_DOWN, STARTED, NODE_DOWN, committed(2), STARTED, committed(3))
    assert not epochs(events[:-2]).settled
    assert epochs(events).changes == [Change(["link_down 0-1", "node_down 4"], 2, 3, 7)]
    assert epochs(events).settled


def test_set_up_is_no_change_but_a_restart_is() -> None:
    first = {"event": "hello", "node": 3, "restarted": False}
    again = {"event": "hello", "node": 3, "restarted": True}
    assert epochs([{"t_ns": 0, **LINK_DOWN}, *log(first)]).changes == []
    assert epochs(log(again, STARTED, committed(2))).changes == [Change(["restart 3"], 2, 2, 4)]
    assert not epochs([{"t_ns": 0, **STARTED}]).settled


def test_what_comes_during_the_set_up_is_answered_after_it() -> None:
    events = [{"t_ns": at, **event} for at, event in enumerate([STARTED, LINK_DOWN, committed(1)])]
    found = epochs(events)
    assert not found.settled
    assert found.changes == [Change(["link_down 0-1"], 2)]
    found = epochs([*events, {"t_ns": 3, **STARTED}, {"t_ns": 4, **committed(2)}])
    assert found.settled
    assert found.changes == [Change(["link_down 0-1"], 2, 2, 4)]


def test_an_epoch_without_routers_ends_no_outage() -> None:
    """Open vSwitch restarts: every switch goes, an epoch of nobody is committed, the switches come back."""
    gone = [{"event": "switch_disconnected", "node": node} for node in (0, 1)]
    back = [{"event": "switch_connected", "node": node} for node in (0, 1)]
    nobody = {"event": "committed", "epoch": 2, "routers": 0}
    outage = log(*gone, STARTED, nobody, *back, STARTED, {**committed(3), "routers": 2})
    assert not epochs(outage[:6]).settled
    words = ["switch_disconnected 0", "switch_disconnected 1", "switch_connected 0", "switch_connected 1"]
    assert epochs(outage).changes == [Change(words, 2, 3, 9)]
    assert epochs(outage).settled


def test_what_is_up_is_followed() -> None:
    says_more = {**STARTED, "down_links": [2], "down_nodes": [4, 5]}
    back = {"event": "node_up", "node": 4}
    link_back = {"event": "link_up", "link": 7, "u": 0, "v": 1}
    states = []
    for length in range(3, 8):
        found = epochs(log(LINK_DOWN, NODE_DOWN, link_back, says_more, back)[:length])
        states.append((found.down_links, found.down_nodes))
    assert states == [({7}, set()), ({7}, {4}), (set(), {4}), ({2}, {4, 5}), ({2}, {5})]


def test_a_log_with_a_gap_is_named(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    run.logs_folder.mkdir()
    assert epochs(event for _, event in read_controller(run)).committed == 0
    run.controller_log.write_text('{"t_ns": 1, "event": "node_up"}\n')
    with pytest.raises(RunFolderError, match=r"controller\.jsonl:1: no field 'node'"):
        list(read_controller(RunLayout(tmp_path)))
