"""Faults of the parts of a run: what is lost, what is not, and what comes back (docs/explanation/faults.md).

`-s` prints the cost of each fault of the experiment `faults`, from the fault to the next one. *Expected* are
the deliveries of messages sent in that time to applications to which a way led, and whose predicates did not
change near the sending, nor before the end of the fault; *lost* are those never made.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.controller import read_controller
from captures.rundir.epochs import LINK_DOWN, LINK_UP, NODE_DOWN, NODE_UP, epochs
from captures.rundir.faults import FAULTS
from captures.rundir.oracle import ORACLE
from router.runtime.client import Client
from testbed.experiments.config.load import find_experiment
from testbed.results.oracle.history import Application, possible, read_history
from testbed.support.names import port_device
from tests.bench.kill_anywhere import Phases, kill_often
from tests.support.command import CBCB, STATE, Cbcb, accounted, left_behind
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]
Event = dict[str, Any]
_WINDOW_NS = 500_000_000
#: A message takes less, on a busy machine too.
_UNDER_WAY_NS = 100_000_000
#: Time in which the controller notices a device that goes down.
_NOTICED_NS = 50_000_000
#: Changes of links closer to each other than this make one row, in ns of wall time.
_ONE_ROW_NS = 1_000_000_000


@dataclass
class Row:
    """A fault and its cost; times are of the wall clock.

    Attributes:
        expected, lost: see the module.
        decided: deliveries of messages sent from the end of the fault to the next one, that the oracle
            decides.
        last_lost_ns: the sending of the last message of which a delivery was lost.
        delay_ns: greatest delay of the deliveries that were made.
    """

    fault: str
    began_ns: int
    ended_ns: int
    expected: int = 0
    lost: int = 0
    decided: int = 0
    last_lost_ns: int = 0
    delay_ns: int = 0


def _faults(run: RunLayout) -> Iterator[Row]:
    """Yields the faults, without numbers."""
    away: dict[tuple[str, int | None], Row] = {}
    for record in FAULTS.read_all(run):
        part, node = record["part"], record.get("node")
        if record["what"] in ("stopped", "killed", "exhausted"):
            where = "" if node is None else f" of node {node}"
            away[part, node] = Row(f"{part}{where} {record['what']}", record["t_ns"], record["t_ns"])
            yield away[part, node]
        elif (part, node) in away:
            away[part, node].ended_ns = record["t_ns"]
    last = Row("", 0, 0)
    for _, event in read_controller(run.controller_log):
        if event["event"] in (LINK_DOWN.name, LINK_UP.name):
            what = f"link {event['u']}-{event['v']} flaps"
        elif event["event"] in (NODE_DOWN.name, NODE_UP.name):
            what = f"node {event['node']} down"
        else:
            continue
        if last.fault == what or event["t_ns"] - last.ended_ns < _ONE_ROW_NS:
            last.ended_ns = event["t_ns"]
            if event["event"] == NODE_DOWN.name:
                last.fault = what  # it takes its links along
        elif event["event"] in (LINK_DOWN.name, NODE_DOWN.name):
            last = Row(what, event["t_ns"] - _NOTICED_NS, event["t_ns"])
            yield last


def rows(run: RunLayout) -> list[Row]:
    """The faults of a finished run, in order of time."""
    found = sorted(_faults(run), key=lambda row: row.began_ns)
    made = {
        (event["node"], event["app"], event["source"], event["seq"]): event["t_ns"]
        for _, recorded in read_applications(run)
        if (event := recorded.event)["event"] == "deliver"
    }
    history = read_history(run)
    for _, answer in ORACLE.read(run):
        sent_ns = answer["sent_ns"]
        # A message that is under way when a fault begins may be lost by it.
        before = [row for row in found if row.began_ns <= sent_ns + _UNDER_WAY_NS]
        if not before or not answer["expected"]:
            continue
        row = before[-1]
        row.decided += answer["decided"] and sent_ns > row.ended_ns
        timeline = history.timelines[Application(answer["node"], answer["app"])]
        if len(possible(timeline, sent_ns - _WINDOW_NS, max(sent_ns, row.ended_ns) + _WINDOW_NS)) > 1:
            continue
        row.expected += 1
        at_ns = made.get((answer["node"], answer["app"], answer["source"], answer["seq"]))
        if at_ns is None:
            row.lost += 1
            row.last_lost_ns = max(row.last_lost_ns, sent_ns)
        else:
            row.delay_ns = max(row.delay_ns, at_ns - sent_ns)
    return found


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
    # A busy machine has twice the time to recover before the next fault.
    command = [*CBCB, "run", "faults", "--set", "time_scale=2", "--runs", str(runs), "--no-account"]
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
    accounted(layout.path)
    return Finished(layout.path, left_behind(state), asked_ns, answered_ns)


def any_of(run: RunLayout, what: str) -> bool | None:
    """Whether a part of a run is or was in a state (None: not yet)."""
    return any(record["what"] == what for record in FAULTS.read_all(run)) or None


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


@pytest.fixture(scope="module")
def log(run_dir: Path) -> list[Event]:
    """The controller's log."""
    return [json.loads(line) for line in RunLayout(run_dir).controller_log.read_text().splitlines()]


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
    run_dir: Path, found: dict[str, Row], log: list[Event]
) -> None:
    committed = [line["t_ns"] for line in log if line["event"] == "committed" and line["routers"] == 5]
    assert len(found) == 12
    for row in found.values():
        # Up to the next fault, there is something to be missed, and the oracle says so.
        assert (row.expected > 100, row.decided > 0) == (True, True), row
        if row.lost:
            # The last message that was lost was sent before all routers had their trees again, or while the
            # advertisements spread that these call for: within the oracle's window.
            answered_ns = next(t_ns for t_ns in committed if t_ns > row.ended_ns)
            assert row.last_lost_ns <= answered_ns + 0.5e9, row
    # The epoch that answers a change is committed before the next fault begins, 4 to 10 s of wall time later.
    for change in epochs(event for _, event in read_controller(RunLayout(run_dir).controller_log)).changes:
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


@pytest.mark.parametrize(
    "fault",
    [
        "router of node 2 stopped",
        "controller stopped",
        "captures stopped",
        "router of node 0 exhausted",
        "controller killed",
        "database of node 0 killed",
    ],
)
def test_these_faults_lose_nothing(found: dict[str, Row], fault: str) -> None:
    assert (found[fault].lost, found[fault].expected > 100) == (0, True), found[fault]


def test_messages_wait_in_a_router_that_is_stopped(found: dict[str, Row]) -> None:
    row = found["router of node 2 stopped"]
    assert row.delay_ns > (row.ended_ns - row.began_ns) / 2


def test_messages_go_the_other_way_round_while_a_link_flaps(run_dir: Path, found: dict[str, Row]) -> None:
    row = found["link 0-1 flaps"]
    assert row.lost < row.expected / 4, row
    for node in range(5):
        assert any(row.began_ns < t_ns < row.ended_ns for t_ns in delivered(run_dir, node)), node


def test_a_node_that_is_down_gets_nothing_and_the_others_all(
    run_dir: Path, found: dict[str, Row], log: list[Event]
) -> None:
    row = found["node 4 down"]
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
    if finished.asked_ns > row.ended_ns:
        pytest.skip("on this machine, the application asked for its connection after the end of the fault")
    assert finished.answered_ns > row.ended_ns


def test_messages_are_forwarded_without_a_controller(
    run_dir: Path, found: dict[str, Row], log: list[Event]
) -> None:
    row = found["controller killed"]
    during = [
        t_ns for node in range(5) for t_ns in delivered(run_dir, node) if row.began_ns < t_ns < row.ended_ns
    ]
    assert len(during) > 50
    # The epoch of the killed controller goes on.
    (taken,) = (event for event in log if event["event"] == "taken_over")
    started = (event for event in log if event["event"] == "epoch_started")
    assert taken["epoch"] == [event["epoch"] for event in started if event["t_ns"] < row.began_ns][-1]


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


def test_one_switch_is_restarted_alone(run_dir: Path, found: dict[str, Row], log: list[Event]) -> None:
    row = found["switch of node 1 killed"]
    later = next(each for each in found.values() if each.began_ns > row.began_ns)
    during = [event for event in log if row.began_ns < event["t_ns"] < later.began_ns]
    connections = [
        (event["event"], event["node"])
        for event in during
        if event["event"] in ("switch_disconnected", "switch_connected", "pipeline_installed")
    ]
    # Its connection is made again, and its rules; the four beside it keep theirs.
    assert connections == [("switch_disconnected", 1), ("switch_connected", 1), ("pipeline_installed", 1)]
    # An epoch without its node, in which the others go on, and one with it.
    assert [event["routers"] for event in during if event["event"] == "committed"] == [4, 5]
    (gone, back) = (event["t_ns"] for event in during if event["event"] == "committed")
    assert any(gone < t_ns < row.ended_ns for node in (0, 2, 3, 4) for t_ns in delivered(run_dir, node))
    assert not any(gone < t_ns < row.ended_ns for t_ns in delivered(run_dir, 1))
    assert any(t_ns > back for t_ns in delivered(run_dir, 1))


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
    output = run.ends(1)
    assert re.search(r"captures died during the run: link-\d-\d: its network device is gone", output)
    assert left_behind(state) == []
    assert [each["part"] for each in FAULTS.read_all(layout)] == ["captures"]


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
    folder = emulated(str(file), "--set", "duration_s=60", "--no-account")
    log = RunLayout(folder).controller_log.read_text().splitlines()
    names = [json.loads(line)["event"] for line in log]
    assert names.count("switch_connected") == 2 * 5
    assert "switch_taken_over" not in names
    assert names[names.index("taken_over") :].count("committed") == 1


def test_what_random_kills_leave_is_cleaned() -> None:
    """One run with each engine of accounting."""
    outcomes = kill_often(2, seed=3, phases=Phases(whole_s=8.0, up_s=3.0))
    assert [outcome.found for outcome in outcomes] == [[], []]
