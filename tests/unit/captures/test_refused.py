"""Frames that routers and the controller refused, in the summary: forgeries and replays apart."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from captures.accounting.conclusion import log_keys
from captures.accounting.inputs import Inputs
from captures.rundir import RunLayout
from captures.rundir.controller import Rejection, read_controller
from captures.rundir.counters import SwitchDrops, write_switch_drops
from captures.rundir.summary import SUMMARY_KEYS
from router.protocol.counters import Drop
from router.records.json_file import json_line
from router.security.guard import Refusal


def _keys(
    folder: Path, routers: dict[int, dict[str, Any]], *controllers: dict[str, Any] | None
) -> dict[str, Any]:
    """The keys of a run with controllers that left their counters, one after the other."""
    run = RunLayout(folder)
    run.controller_log.parent.mkdir(parents=True, exist_ok=True)
    counts: dict[str, Any] = {"frames_sent": {}, "frames_received": {}, "undecodable": {}, "rejected": {}}
    events = [{"t_ns": 1, "event": "counters", **counts, **each} for each in controllers if each is not None]
    run.controller_log.write_bytes(b"".join(map(json_line, events)))
    sent = SimpleNamespace(sent=pa.table({"seq": [1]}))
    inputs = SimpleNamespace(
        router_counters=routers,
        controller=[event for _, event in read_controller(run)],
        log=sent,
        held=False,
        workload=[],
        captures=[],
        run=run,
        time_scale=1.0,
    )
    return log_keys(cast(Inputs, inputs))


def test_each_receiver_names_sender_and_reason(tmp_path: Path) -> None:
    routers = {
        0: {"refused": {"1": {"bad_signature": 2, "issuer_replayed": 3, "replayed": 50, "untagged": 1}}},
        1: {"refused": {"controller": {"bad_tag": 4}, "others": {"untagged": 5}}},
        2: {},
    }
    keys = _keys(tmp_path, routers, {"refused": {"1": {"untagged": 7}}})
    assert keys["frames_refused"] == [
        "router 0 refused 2 frames in the name of node 1: bad_signature",
        "router 0 refused 1 frames in the name of node 1: untagged",
        "router 1 refused 4 frames in the name of controller: bad_tag",
        "router 1 refused 5 frames in the name of others: untagged",
        "the controller refused 7 frames in the name of node 1: untagged",
    ]
    assert keys["frames_replayed"] == [
        "router 0 refused 3 frames in the name of node 1: issuer_replayed",
        "router 0 refused 50 frames in the name of node 1: replayed",
    ]


def test_a_run_without_refused_frames_or_a_controller_has_none(tmp_path: Path) -> None:
    none: dict[str, Any] = {}
    for controller in (None, none):
        keys = _keys(tmp_path, {0: {}}, controller)
        assert (keys["frames_refused"], keys["frames_replayed"]) == ([], [])
        assert (keys["frames_rejected"], keys["frames_dropped_by_switches"]) == ([], [])


def test_what_the_controller_rejects_names_the_node_in_every_mode(tmp_path: Path) -> None:
    keys = _keys(tmp_path, {0: {}}, {"refused": {"1": {"hello_rate": 37, "other_epoch": 2}}})
    assert keys["frames_rejected"] == [
        "the controller refused 37 frames in the name of node 1: hello_rate",
        "the controller refused 2 frames in the name of node 1: other_epoch",
    ]
    assert (keys["frames_refused"], keys["frames_replayed"]) == ([], [])


@pytest.mark.parametrize("reason", Rejection)
def test_every_reason_of_the_controller_has_its_key_and_its_text(tmp_path: Path, reason: Rejection) -> None:
    keys = _keys(tmp_path, {0: {}}, {"refused": {"1": {reason: 2}}})
    assert keys["frames_rejected"] == [
        f"the controller refused 2 frames in the name of node 1: {reason.value}"
    ]
    assert (keys["frames_refused"], keys["frames_replayed"]) == ([], [])
    _, described = SUMMARY_KEYS["frames_rejected"]
    assert f"`{reason.value}`" in described
    # A reason of guard or core would be in two keys.
    assert reason.value not in {*Drop, *Refusal}


def test_what_switches_dropped_names_their_nodes(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    run.counters_folder.mkdir()
    lossy = SwitchDrops(controller_source=0, no_rule=0, lost_upcalls=490)
    write_switch_drops(run, {0: lossy, 2: SwitchDrops(controller_source=3, no_rule=1, no_room=7)})
    keys = _keys(tmp_path, {0: {}})
    assert keys["switch_drops"] == 497
    assert keys["frames_dropped_by_switches"] == [
        "the switch of node 2 dropped 3 frames with the address of the controller",
        "the switch of node 2 dropped 1 frames that no rule forwards",
    ]
    # Runs that are older than the count of frames without room.
    write_switch_drops(run, {0: SwitchDrops(controller_source=0, no_rule=2)})
    older = _keys(tmp_path, {0: {}})
    assert older["switch_drops"] == 0
    assert older["frames_dropped_by_switches"] == [
        "the switch of node 0 dropped 2 frames that no rule forwards"
    ]


def test_the_counts_of_a_controller_that_was_followed_by_another_are_added(tmp_path: Path) -> None:
    keys = _keys(
        tmp_path,
        {0: {}},
        {"refused": {"1": {"hello_rate": 37}}},
        {"refused": {"1": {"hello_rate": 3}, "2": {"untagged": 1}}},
    )
    assert keys["frames_rejected"] == ["the controller refused 40 frames in the name of node 1: hello_rate"]
    assert keys["frames_refused"] == ["the controller refused 1 frames in the name of node 2: untagged"]
