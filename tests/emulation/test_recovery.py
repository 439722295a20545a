"""A real ring that loses links, falls apart, becomes whole, loses a node and gets it back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from router.recording.replay import state_at
from tests.support.command import output_of

pytestmark = pytest.mark.emulation

EVENTS = ["link_down 0-1", "link_down 2-3", "link_up 2-3", "link_up 0-1", "node_down 4", "node_up 4"]


@pytest.fixture(scope="module")
def run_dir(emulated: Callable[..., Path]) -> Path:
    return emulated("recovery", "--engine", "duckdb")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_changes_leave_only_their_surroundings_open(run_dir: Path) -> None:
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["deliveries_made"] > 100
    assert summary["deliveries_undecided"] < summary["deliveries_expected"] / 2


def test_each_change_is_answered_by_an_epoch(run_dir: Path) -> None:
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["epochs"] == 1 + len(EVENTS)
    assert [change["epoch"] for change in summary["recovery_s"]] == list(range(2, 2 + len(EVENTS)))
    for change, event in zip(summary["recovery_s"], EVENTS, strict=True):
        print(f"{event}: trees {change['committed_s']:.3f} s, RAs {change['advertised_s']:.3f} s")
        assert event in change["events"]
        assert 0 < change["committed_s"] < change["advertised_s"]


def test_routers_whose_links_came_and_went_are_replayed(run_dir: Path) -> None:
    assert "5 routers" in output_of("replay", str(run_dir))
    epochs = [e["t_ns"] for e in lines(run_dir / "logs" / "controller.jsonl") if e["event"] == "committed"]
    # A tenth of a second after each commit, node 3 is in that epoch, and knows its neighbours of it.
    states = []
    for t_ns in epochs:
        router = state_at(RunLayout(run_dir).recording(3), t_ns + 10**8)
        states.append((router.epoch, sorted(router.interfaces().values())))
    assert [epoch for epoch, _ in states] == list(range(1, 2 + len(EVENTS)))
    assert [neighbours for _, neighbours in states] == [
        *([[2, 4]] * 2),
        [4],
        *([[2, 4]] * 2),
        [2],
        [2, 4],
    ]


def test_a_router_that_is_cut_off_says_what_it_could_not_send(run_dir: Path) -> None:
    routers = json.loads((run_dir / "counters" / "routers.json").read_text())
    assert routers["4"]["dropped"].get("send_failed", 0) > 0
    assert not any(routers[str(node)]["dropped"].get("send_failed", 0) for node in range(4))
