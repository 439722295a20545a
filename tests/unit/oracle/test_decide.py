"""Hand-made timelines with faults and changes of the network, in seconds, judged with a window of 1 s.

What no fault touches: tests/properties/oracle/test_timelines.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import FAULTS, NEVER_NS, FaultRecord, delays
from captures.rundir.files import RunFolderError
from captures.rundir.oracle import ORACLE
from router.records.applications import MessageSent
from testbed.experiments.config import BroadcastOptions, Experiment, ProtocolOptions
from testbed.experiments.events import Event, SendMessage, SetPredicate
from testbed.experiments.events.network import LinkDown, LinkUp
from testbed.experiments.workload.constraints import PredicateIndex, compile_constraint
from testbed.results.oracle.connectivity import Connectivity, connectivity, merged, outages, tree_changes
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import Application, History, Setting, read_history
from tests.support.applications import message_sent
from tests.support.cases import cases_beside
from tests.support.simulated import judged_run
from topos import Link, Node, Topology
from topos.generators import ring

S = 1_000_000_000
BELOW_TEN = [[["a", "integer", "<", 10]]]
ABOVE_TEN = [[["a", "integer", ">", 10]]]
SINK = Application(1, "sink")


def setting(requested: float, confirmed: float, filters: list[list[list[Any]]]) -> Setting:
    return Setting(round(requested * S), round(confirmed * S), filters)


def sending(at: float, value: int = 5) -> MessageSent:
    return message_sent(1, round(at * S), round(at * S), value)


def changes(*names: str) -> list[tuple[int, int]]:
    """The changes that the events make which follow the set-up, one a nanosecond, from 1 on."""
    fields = {"link": 0, "u": 0, "v": 1, "node": 2, "restarted": False, "epoch": 2}
    state: dict[str, Any] = {"down_links": [], "down_nodes": []}
    events = [{"t_ns": at, "event": name, **fields, **state} for at, name in enumerate(["committed", *names])]
    return tree_changes(events)


@pytest.mark.parametrize("event", ["link_down", "link_up", "node_down", "node_up", "switch_disconnected"])
def test_a_tree_change_ends_when_all_have_the_trees_after_it(event: str) -> None:
    assert changes("hello", "table_acknowledged") == []
    assert changes(event, "epoch_started", "hello", "committed") == [(1, 4)]
    assert changes(event, "epoch_started") == [(1, NEVER_NS)]


#: Nodes 0 - 1 - 2 in a line, and 3 by itself.
LINE = Topology(
    "line",
    tuple(map(Node, range(4))),
    (Link(0, 1, index=0, u_port=1, v_port=1), Link(1, 2, index=1, u_port=2, v_port=1)),
)


def test_connectivity_follows_links_nodes_and_epochs() -> None:
    events: list[dict[str, Any]] = [
        {"t_ns": 1, "event": "epoch_started", "down_links": [], "down_nodes": []},
        {"t_ns": 2, "event": "committed", "epoch": 1},
        {"t_ns": 3, "event": "link_down", "link": 1, "u": 1, "v": 2},
        {"t_ns": 4, "event": "link_up", "link": 1, "u": 1, "v": 2},
        {"t_ns": 5, "event": "node_down", "node": 1},
        {"t_ns": 6, "event": "node_up", "node": 1},
        {"t_ns": 7, "event": "epoch_started", "down_links": [0], "down_nodes": [2]},
    ]
    found = connectivity(events, LINE)
    reaching = [
        {(u, v) for u in range(4) for v in range(u + 1, 4) if found.connected(u, v, at)} for at in range(8)
    ]
    everyone = {(0, 1), (0, 2), (1, 2)}
    assert reaching[1:] == [everyone, everyone, {(0, 1)}, everyone, set(), everyone, set()]
    assert all(found.connected(v, u, 1) for u, v in everyone)
    assert all(found.connected(node, node, at) for node in range(4) for at in range(8))


def cut_off(at: float, selecting: bool = True, change: bool = False) -> tuple[bool, bool]:
    """Node 0 sends to the application at node 1, which is cut off from second 20 to second 40."""
    parts = {20: {0: 0, 1: 1}, 40: {0: 0, 1: 0}}
    history = History(
        {SINK: [setting(10, 10.1, BELOW_TEN if selecting else ABOVE_TEN)]},
        [sending(at)],
        [(round((at - 0.1) * S), round(at * S))] if change else [],
        Connectivity([(at_s * S, each, frozenset(), frozenset()) for at_s, each in parts.items()]),
    )
    found = list(judge(history, window_s=1))
    assert len(found) <= 1
    return (found[0]["expected"], found[0]["decided"]) if found else (False, True)


def test_nothing_is_expected_where_there_is_no_way() -> None:
    assert cut_off(15) == (True, True)
    assert cut_off(30) == (False, True)
    assert cut_off(45) == (True, True)


def test_near_a_change_it_is_open_who_is_connected() -> None:
    assert cut_off(20.5, change=True) == (False, False)
    assert cut_off(40.5, change=True) == (True, False)
    assert cut_off(20.5, selecting=False, change=True) == (False, True)


def record(t_s: float, event: str, **fields: Any) -> dict[str, Any]:
    """A record of the application at node 1."""
    return {"t_ns": round(t_s * S), "node": 1, "app": "sink", "event": event, **fields}


def logged(run: RunLayout, *records: dict[str, Any]) -> None:
    run.applications_folder.mkdir(parents=True, exist_ok=True)
    run.applications_of(1).write_text("".join(json.dumps(each) + "\n" for each in records))


@pytest.mark.parametrize(("killed_s", "undecided"), [(20.5, 1), (30, 0)])
def test_deliveries_of_what_a_killed_router_did_not_record_are_undecided(
    tmp_path: Path, killed_s: float, undecided: int
) -> None:
    run = RunLayout(tmp_path)
    predicate = record(10, "set_predicate", predicate="a < 10", requested_ns=9 * S)
    logged(run, predicate, record(20, "deliver", source=0, seq=3))
    FAULTS.append(run, fault(killed_s, "killed", "router", 0))
    ORACLE.write(run, judge(read_history(run), 1))
    answer = {"source": 0, "seq": 3, "sent_ns": 20 * S, "node": 1, "app": "sink"}
    answers = [json.loads(line) for line in run.oracle.read_text().splitlines()]
    assert answers == [{**answer, "expected": False, "decided": False}] * undecided


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    run = RunLayout(tmp_path)
    logged(run, record(1, "set_predicate", requested_ns=1, predicate="a <"))
    with pytest.raises(RunFolderError, match=r"applications/r1\.jsonl:1: predicate: .*expected a value"):
        read_history(run)
    logged(run, {})
    with pytest.raises(RunFolderError, match=r"applications/r1\.jsonl:1: no field 'event'"):
        read_history(run)


def test_a_missing_log_is_an_error_of_the_run_folder(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"logs/applications: missing"):
        read_history(RunLayout(tmp_path))


def fault(t_s: float, what: str, part: str, node: int | None = None) -> FaultRecord:
    record: Any = {"t_ns": round(t_s * S), "at_s": t_s, "what": what, "part": part}
    if node is not None:
        record["node"] = node
    return cast("FaultRecord", record)


def test_delays_last_until_the_same_part_goes_on() -> None:
    faults = [
        fault(1, "stopped", "router", 2),
        fault(2, "stopped", "router", 3),
        fault(3, "resumed", "router", 3),
        fault(4, "resumed", "router", 2),
        fault(5, "stopped", "captures"),
        fault(6, "killed", "database", 0),
        fault(7, "started", "database", 0),
        fault(8, "stopped", "router", 2),
    ]
    assert delays(faults) == [(S, 4 * S), (2 * S, 3 * S), (6 * S, 7 * S), (8 * S, NEVER_NS)]


def test_a_killed_router_may_lose_messages_until_an_epoch_answers_its_restart() -> None:
    def event(t_s: float, name: str, **fields: Any) -> dict[str, Any]:
        return {"t_ns": round(t_s * S), "event": name, **fields}

    epoch = {"epoch": 1, "down_links": [], "down_nodes": []}
    events = [
        event(1, "epoch_started", **epoch),
        event(2, "committed", epoch=1, routers=3),
        event(10, "hello", node=2, restarted=True),
        event(11, "epoch_started", **epoch),
        event(12, "committed", epoch=2, routers=3),
    ]
    killed = [fault(7, "killed", "router", 2), fault(9, "started", "router", 2)]
    assert outages(events, killed) == [(7 * S, 12 * S)]
    assert outages(events[:4], killed) == [(7 * S, NEVER_NS)]
    # Switches that came back to a controller which had been away itself.
    events += [event(22, "switch_connected", node=1), event(22.5, "epoch_started", **epoch)]
    events += [event(23, "committed", epoch=3, routers=3)]
    assert outages(events, [fault(20, "killed", "switches", 0)]) == [(20 * S, 23 * S)]
    assert outages(events, [fault(25, "killed", "switches", 0)]) == [(25 * S, NEVER_NS)]
    # One switch alone is back with the epoch that answers its own absence.
    assert outages(events, [fault(20, "killed", "switch", 1)]) == [(20 * S, 23 * S)]
    assert outages(events, [fault(20, "killed", "switch", 0)]) == [(20 * S, NEVER_NS)]
    # The kill of another part loses no message; the end of a part is noticed a little later than it came.
    others = [fault(7, "killed", "controller"), fault(9, "lost", "captures")]
    assert outages(events, others) == [(7 * S, NEVER_NS)]
    cut: Any = [{**fault(t_s, "cut", "tunnel"), "link": link} for t_s, link in ((7, "0-1"), (8, "1-2"))]
    joined: Any = {**fault(9, "joined", "tunnel"), "link": "1-2"}
    assert outages(events, [*cut, joined]) == [(7 * S, NEVER_NS), (8 * S, 9 * S)]
    assert merged([(5, 9), (1, 3), (2, 4), (9, 10)]) == [(1, 4), (5, 10)]


@pytest.mark.parametrize(("layer", "hop_limit", "expected"), cases_beside(__file__)["hop_limits"])
def test_no_delivery_is_expected_that_the_hop_limit_ends(
    tmp_path: Path, layer: str, hop_limit: int, expected: list[int]
) -> None:
    """Node 0 receives from all others on a ring; without link 0-1, node 1 is five hops away.

    On the spanning tree of the whole ring, node 5 is.
    """
    events: list[Event] = [SetPredicate(0.0, 0, "x > 0"), LinkDown(5.0, (0, 1)), LinkUp(25.0, (0, 1))]
    sent = ((2.0, 1), (3.0, 5), (20.0, 1), (21.0, 2), (22.0, 3), (40.0, 1))
    events += [SendMessage(at_s, node, "x = 20") for at_s, node in sent]
    experiment = Experiment(
        *("ring", 1, 60.0, 1.0, ring(6)),
        broadcast=BroadcastOptions(layer),
        protocol=ProtocolOptions(hop_limit=hop_limit),
        workload=None,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
    )
    answers = [answer for _, answer in ORACLE.read(judged_run(experiment, tmp_path, "none"))]
    assert all(answer["decided"] for answer in answers)
    assert sorted(answer["source"] for answer in answers if answer["expected"]) == expected


# Constraints as the records have them.


@pytest.mark.parametrize(("constraint", "problem"), cases_beside(__file__)["malformed_constraints"])
def test_malformed_constraints_are_named(constraint: list[Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_constraint(constraint)


def test_a_value_outside_the_four_types_is_an_error() -> None:
    with pytest.raises(ValueError, match="attribute 'a'"):
        PredicateIndex([[[]]]).matching({"a": None})
