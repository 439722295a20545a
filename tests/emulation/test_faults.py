"""Faults of the parts of a run: what is lost, what is not, and what comes back (docs/explanation/faults.md).

`-s` prints the row of each fault.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.controller import read_controller
from captures.rundir.epochs import epochs
from captures.rundir.faults import read_faults
from router.runtime.client import Client
from testbed.experiments.config.load import find_experiment
from testbed.support.names import port_device
from tests.bench.kill_anywhere import Phases, kill_often
from tests.support.command import CBCB, STATE, Cbcb, left_behind
from tests.support.fault_costs import Row, rows
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]


@dataclass(frozen=True)
class Finished:
    """A run of the experiment `faults`.

    Attributes:
        folder: the run folder.
        left: what the run has left on the machine.
        asked_ns, answered_ns: when an application asked a router without descriptors for a connection, and
            when it had one.
    """

    folder: Path
    left: list[str]
    asked_ns: int
    answered_ns: int


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    runs = tmp_path_factory.mktemp("runs")
    command = [*CBCB, "run", "faults", "--runs", str(runs), "--engine", "duckdb"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            run = Cbcb(process, runs)
            state = run.state()
            layout = RunLayout(Path(state["run_dir"]))
            exhausted = partial(any_of, layout, "exhausted")
            poll(exhausted, 300, "the router of node 0 has no descriptor")
            asked_ns = time.time_ns()
            assert _ask(STATE / state["tag"] / "r0.sock") == 0
            answered_ns = time.time_ns()
            status, printed = run.wait(400)
        finally:
            process.kill()
    assert status == 0, printed
    return Finished(layout.path, left_behind(state), asked_ns, answered_ns)


def any_of(run: RunLayout, what: str) -> bool | None:
    """Whether a part of a run is or was in a state (None: not yet)."""
    return any(record["what"] == what for record in read_faults(run)) or None


@pytest.fixture(scope="module")
def run_dir(finished: Finished) -> Path:
    return finished.folder


@pytest.fixture(scope="module")
def found(run_dir: Path) -> dict[str, Row]:
    """The rows of the run by the words of their faults."""
    found = rows(RunLayout(run_dir))
    for row in found:
        print(row)
    return {row.fault: row for row in found}


def delivered(run_dir: Path, node: int) -> list[int]:
    """The times at which a node's applications were delivered messages of other nodes (wall clock, ns)."""
    return [
        recorded.event["t_ns"]
        for _, recorded in read_applications(RunLayout(run_dir))
        if recorded.event["event"] == "deliver" and recorded.event["node"] == node != recorded.event["source"]
    ]


def test_the_verdict_holds_and_all_accounts_agree(run_dir: Path) -> None:
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["verdict"] == "holds"
    # The greater part of what was expected is decided: faults leave only their surroundings open.
    assert summary["deliveries_expected"] > 4000
    assert summary["deliveries_undecided"] < summary["deliveries_expected"] / 2
    for name, account in summary["reconciliation"].items():
        assert account["differences"] == [], name


def test_nothing_is_left_behind(finished: Finished) -> None:
    assert finished.left == []


def test_every_part_recovers_and_no_receiver_is_missed_from_then_on(
    run_dir: Path, found: dict[str, Row]
) -> None:
    log = [json.loads(line) for line in (run_dir / "logs" / "controller.jsonl").read_text().splitlines()]
    committed = [line["t_ns"] for line in log if line["event"] == "committed" and line["routers"] == 5]
    assert len(found) == 12
    for row in found.values():
        # Up to the next fault, there is something to be missed, and the oracle says so.
        assert (row.expected > 100, row.decided > 0) == (True, True), row
        if row.lost:
            # The last message that was lost was sent before all routers had their trees again, or while the
            # advertisements spread that these call for: within the oracle's window.
            answered_ns = next(t_ns for t_ns in committed if t_ns > row.ended_ns)
            assert row.ended_ns + row.back_s * 1e9 <= answered_ns + 0.5e9, row
    # The epoch that answers a change is committed before the next fault begins, 2 to 5 s of wall time later.
    for change in epochs(event for _, event in read_controller(RunLayout(run_dir))).changes:
        following = (row.began_ns for row in found.values() if row.began_ns > change.began_ns)
        assert change.committed_ns is not None, change
        assert change.committed_ns < min(following, default=inf), change
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["false_negatives_after_convergence"] == 0


def test_only_faults_that_cost_advertisements_make_epochs(run_dir: Path) -> None:
    summary = json.loads((run_dir / "summary.json").read_text())
    changes = summary["recovery_s"]
    assert all(change["committed_s"] is not None for change in changes)
    events = {event for change in changes for event in change["events"]}
    # No stop, and neither the controller nor the database.
    switches = {f"switch_{what} {node}" for what in ("disconnected", "connected") for node in range(5)}
    links = {f"link_{way} {link}" for way in ("down", "up") for link in ("0-1", "3-4", "4-0", "0-4")}
    assert events - switches - links == {"node_down 4", "node_up 4", "restart 3"}
    assert {"link_down 0-1", "link_up 0-1", *switches} <= events


def test_what_is_stopped_loses_nothing(found: dict[str, Row]) -> None:
    for fault in ("router of node 2 stopped", "controller stopped", "captures stopped"):
        assert (found[fault].lost, found[fault].expected > 100) == (0, True), found[fault]
    # Messages have waited in the router.
    assert found["router of node 2 stopped"].delay_s > found["router of node 2 stopped"].away_s / 2


def test_messages_go_the_other_way_round_while_a_link_flaps(run_dir: Path, found: dict[str, Row]) -> None:
    row = found["link 0-1 flaps"]
    assert row.lost < row.expected / 4, row
    for node in range(5):
        assert any(row.began_ns < t_ns < row.ended_ns for t_ns in delivered(run_dir, node)), node


def test_a_node_that_is_down_gets_nothing_and_the_others_all(run_dir: Path, found: dict[str, Row]) -> None:
    row = found["node 4 down"]
    log = [json.loads(line) for line in (run_dir / "logs" / "controller.jsonl").read_text().splitlines()]
    (down, up) = (line["t_ns"] for line in log if line["event"] in ("node_down", "node_up"))
    (gone,) = (line["t_ns"] for line in log if line["event"] == "committed" and down < line["t_ns"] < up)
    assert not any(gone < t_ns < up for t_ns in delivered(run_dir, 4))
    for node in range(4):
        assert any(gone < t_ns < up for t_ns in delivered(run_dir, node)), node
    assert any(t_ns > row.ended_ns for t_ns in delivered(run_dir, 4))


def test_an_application_waits_for_a_router_without_descriptors(
    finished: Finished, found: dict[str, Row]
) -> None:
    row = found["router of node 0 exhausted"]
    assert (row.lost, row.expected > 100) == (0, True), row
    if finished.asked_ns > row.ended_ns:
        pytest.skip("on this machine, the application asked for its connection after the end of the fault")
    assert finished.answered_ns > row.ended_ns


def test_messages_are_forwarded_without_a_controller(run_dir: Path, found: dict[str, Row]) -> None:
    row = found["controller killed"]
    assert (row.lost, row.expected > 100) == (0, True), row
    during = [
        t_ns for node in range(5) for t_ns in delivered(run_dir, node) if row.began_ns < t_ns < row.ended_ns
    ]
    assert len(during) > 50
    log = (run_dir / "logs" / "controller.jsonl").read_text().splitlines()
    taken = [json.loads(line) for line in log if '"taken_over"' in line]
    # The epoch of the killed controller goes on.
    assert len(taken) == 1
    started = [json.loads(line) for line in log if '"epoch_started"' in line]
    before = [event["epoch"] for event in started if event["t_ns"] < row.began_ns]
    assert taken[0]["epoch"] == before[-1]


def test_a_router_that_was_killed_is_back(run_dir: Path) -> None:
    run = RunLayout(run_dir)
    before, after = (
        [json.loads(line) for line in path.read_text().splitlines(True) if line[-1] == "\n"]
        for path in (run.applications_of(3), run.applications_after_restart(3, 1))
    )
    # The runner has recorded that the kill ended the connection; then the application comes, and asks again.
    events = [(event["event"], event["app"]) for event in after[:3]]
    assert events == [(name, "workload") for name in ("disconnect", "connect", "set_predicate")]
    wanted = [event["predicate"] for event in before if event["event"] == "set_predicate"]
    assert after[2]["predicate"] == wanted[-1]
    assert before[-1]["t_ns"] <= after[0]["t_ns"] < after[1]["t_ns"]
    assert sum(event["event"] == "deliver" for event in after) > 100


def test_one_switch_is_restarted_alone(run_dir: Path, found: dict[str, Row]) -> None:
    row = found["switch of node 1 killed"]
    later = next(each for each in found.values() if each.began_ns > row.began_ns)
    log = [json.loads(line) for line in (run_dir / "logs" / "controller.jsonl").read_text().splitlines()]
    during = [event for event in log if row.began_ns < event["t_ns"] < later.began_ns]
    connections = [
        (event["event"], event["node"])
        for event in during
        if event["event"] in ("switch_disconnected", "switch_connected", "pipeline_installed")
    ]
    # Its connection is made again, and its rules; the four beside it keep theirs.
    assert connections == [
        ("switch_disconnected", 1),
        ("switch_connected", 1),
        ("pipeline_installed", 1),
    ]
    # An epoch without its node, in which the others go on, and one with it.
    assert [event["routers"] for event in during if event["event"] == "committed"] == [4, 5]
    (gone, back) = (event["t_ns"] for event in during if event["event"] == "committed")
    assert any(gone < t_ns < row.ended_ns for node in (0, 2, 3, 4) for t_ns in delivered(run_dir, node))
    assert not any(gone < t_ns < row.ended_ns for t_ns in delivered(run_dir, 1))
    assert any(t_ns > back for t_ns in delivered(run_dir, 1))


def test_frames_wait_for_the_database(found: dict[str, Row]) -> None:
    row = found["database of node 0 killed"]
    assert (row.lost, row.expected > 100) == (0, True), row


def test_an_application_that_was_killed_has_gone(run_dir: Path, found: dict[str, Row]) -> None:
    row = found["application of node 1 killed"]
    records = RunLayout(run_dir).applications_of(1).read_text().splitlines()
    events = [json.loads(line) for line in records]
    (gone,) = (event for event in events if event["event"] == "disconnect" and event["app"] == "workload")
    assert gone["t_ns"] > row.began_ns
    after = [event for event in events if event["t_ns"] > gone["t_ns"] and event.get("app") == "workload"]
    assert after == []


def test_a_run_that_loses_the_device_of_a_link_ends_and_names_it(cbcb: Start) -> None:
    run = cbcb("run", "ring5", "--set", "duration_s=6000", "--engine", "duckdb", "--force")
    state = run.state()
    poll(lambda: (STATE / state["tag"] / "control.sock").exists() or None, 300, "the workload is played")
    layout = RunLayout(Path(state["run_dir"]))
    (captures,) = (
        process["pid"]
        for process in run.state()["processes"]
        if b"capturing.recorder" in Path(f"/proc/{process['pid']}/cmdline").read_bytes()
    )
    # All switches of five nodes are in one namespace, which the process of the captures has entered.
    within = ["nsenter", f"--net=/proc/{captures}/ns/net", "ip"]
    subprocess.run([*within, "link", "delete", port_device(0, 1)], check=True)
    status, output = run.wait()
    assert status == 1, output
    assert re.search(r"captures died during the run: link-\d-\d: its network device is gone", output)
    assert left_behind(state) == []
    assert [each["part"] for each in read_faults(layout)] == ["captures"]


def _ask(socket: Path) -> int:
    with Client(socket, "after") as client:
        return int(client.status(tables=False)["node"])


def test_a_controller_notices_that_switches_restarted_while_it_was_away(
    emulated: Callable[..., Path], tmp_path: Path
) -> None:
    shipped = find_experiment("faults").read_text()
    file = tmp_path / "away.toml"
    file.write_text(
        shipped[: shipped.index("[[events]]")]
        + '[[events]]\nat_s = 10\naction = "controller_restart"\naway_s = 20\n'
        + '[[events]]\nat_s = 20\naction = "switches_restart"\nnode = 0\naway_s = 1\n'
    )
    folder = emulated(str(file), "--set", "duration_s=60", "--engine", "duckdb")
    log = RunLayout(folder).controller_log.read_text().splitlines()
    names = [json.loads(line)["event"] for line in log]
    assert names.count("switch_connected") == 2 * 5
    assert "switch_taken_over" not in names
    assert names[names.index("taken_over") :].count("committed") == 1


def test_what_random_kills_leave_is_cleaned() -> None:
    """One run with each engine of accounting."""
    outcomes = kill_often(2, seed=3, phases=Phases(whole_s=8.0, up_s=3.0))
    assert [outcome.found for outcome in outcomes] == [[], []]
