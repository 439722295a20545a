"""The records of a run that leave starvation open: it is then a measurement, and no fault of the routers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.clock import ClockPiece, write_clock
from captures.rundir.counters import write_routers_counters
from captures.rundir.faults import CommandRecord, FaultRecord, append_command, append_fault
from captures.rundir.oracle import read_judgement
from router.records.json_file import json_line
from testbed.controller.trees import spt_trees
from testbed.results.oracle.attention.judge import write_judgement
from topos.generators import line

_LINK = {"link": 0, "u": 0, "v": 1}
_SET_UP = ({"event": "committed", "epoch": 1, "routers": 3, "seconds": 0.1},)


def _fault(**record: Any) -> Callable[[RunLayout], object]:
    fault: FaultRecord = {"t_ns": 10, "at_s": 1.0, "what": "stopped", "part": "router", **record}  # type: ignore[typeddict-item]
    return lambda run: append_fault(run, fault)


def _command(text: str) -> Callable[[RunLayout], object]:
    record: CommandRecord = {"at_s": 1.0, "time_ns": 10, "command": text}
    return lambda run: append_command(run, record)


def _counters(**counters: Any) -> Callable[[RunLayout], object]:
    one = {"frames_received": {}, "frames_sent": {}, **counters}
    return lambda run: write_routers_counters(run, {0: one, 1: one})


def _controller(*events: dict[str, Any]) -> Callable[[RunLayout], object]:
    lines = [json_line({"t_ns": 20 + number, **event}) for number, event in enumerate((*_SET_UP, *events))]
    return lambda run: run.controller_log.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("happened", "undecided"),
    [
        (_counters(dropped={"sub_old": 3, "pub_duplicate": 2}), None),
        (_controller(), None),
        (_fault(part="captures"), None),
        (
            _fault(what="lost", part="captures", why="ended"),
            "parts of the run did not work throughout: captures lost",
        ),
        (
            _fault(what="killed", part="captures"),
            "parts of the run did not work throughout: captures killed",
        ),
        (_fault(what="killed", part="application", node=2, app="0"), None),
        (_counters(dropped={"sub_old": 3, "malformed": 1}), "routers dropped frames: 2 malformed"),
        (_counters(socket_drops=4), "routers dropped frames: 8 socket"),
        (_counters(publications_evicted=3), "6 publications were evicted from caches"),
        (_controller({"event": "link_down", **_LINK}), "broadcast trees changed"),
        (_fault(node=3), "parts of the run did not work throughout: router of node 3 stopped"),
        (
            _fault(what="lost", part="switches", why="ended"),
            "parts of the run did not work throughout: switches lost",
        ),
        (_command("link 0 1 set loss=5"), "the run was given commands: link 0 1 set loss=5"),
    ],
)
def test_what_happened_in_a_run_leaves_starvation_open(
    tmp_path: Path, happened: Callable[[RunLayout], object], undecided: str | None
) -> None:
    run = RunLayout(tmp_path)
    for folder in (run.logs_folder, run.service_folder, run.routers_counters.parent):
        folder.mkdir(parents=True, exist_ok=True)
    piece: ClockPiece = {"t_ns": 0, "monotonic_ns": 0, "experiment_s": 0.0, "rate": 1.0}
    write_clock(run, [piece])
    _counters()(run)
    happened(run)
    topology = line(3)
    write_judgement(run, spt_trees(topology), 3, 10.0, 0.1)
    judged = read_judgement(run)
    assert judged is not None
    assert judged["undecided"] == undecided
    # What the experiment says comes first.
    write_judgement(run, spt_trees(topology), 3, 10.0, 0.1, "link 0-1 loses frames")
    judged = read_judgement(run)
    assert judged is not None
    assert judged["undecided"] == "link 0-1 loses frames"
