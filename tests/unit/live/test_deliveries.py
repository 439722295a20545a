"""Deliveries so far: judged as the logs grow, ending with the oracle's answers for the whole logs."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from captures.rundir.layout import RunLayout
from captures.rundir.topology import read_topology
from router.records.application_log import MessageDelivered, MessageSent, PredicateSet
from testbed.config.load import load_experiment
from testbed.config.shipped import find_experiment
from testbed.live.deliveries import Deliveries
from testbed.oracle.connectivity import NetworkGraph
from testbed.oracle.decide import judge
from testbed.oracle.history import read_history
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress

S = 10**9
WINDOW_S = 1.0
FILTERS = [[["a", "integer", "=", 1]]]


def predicate(node: int, at_ns: int, filters: list[Any] = FILTERS) -> PredicateSet:
    return PredicateSet(
        event="set_predicate", t_ns=at_ns, node=node, app="x", requested_ns=at_ns - 1, predicate="",
        filters=filters,
    )  # fmt: skip


def message(seq: int, at_ns: int, value: int = 1) -> MessageSent:
    return MessageSent(
        event="send_message", t_ns=at_ns, node=0, app="x", requested_ns=at_ns - 1, source=0, seq=seq,
        attributes={"a": value},
    )  # fmt: skip


def delivery(node: int, seq: int, at_ns: int) -> MessageDelivered:
    return MessageDelivered(event="deliver", t_ns=at_ns, node=node, app="x", source=0, seq=seq)


@pytest.fixture
def deliveries() -> Deliveries:
    found = Deliveries(WINDOW_S, NetworkGraph(frozenset(range(3)), {0: (0, 1), 1: (1, 2)}))
    found.take_applications([predicate(1, 1 * S), predicate(2, 1 * S)])
    return found


def test_a_message_is_open_until_nothing_can_change_its_answer(deliveries: Deliveries) -> None:
    deliveries.take_applications([message(1, 10 * S), delivery(1, 1, 10 * S + 5)])
    deliveries.judge_until(11 * S)
    assert (deliveries.sent, deliveries.judged, deliveries.expected) == (1, 0, 0)
    deliveries.judge_until(13 * S)
    assert (deliveries.judged, deliveries.expected, deliveries.made) == (1, 2, 1)
    assert [(seq, application.node) for _, seq, application in deliveries.missing] == [(1, 2)]


def test_a_late_delivery_is_no_longer_missing(deliveries: Deliveries) -> None:
    deliveries.take_applications([message(1, 10 * S), delivery(1, 1, 10 * S)])
    deliveries.judge_until(13 * S)
    assert len(deliveries.missing) == 1
    deliveries.take_applications([delivery(2, 1, 14 * S)])
    assert (len(deliveries.missing), deliveries.made, deliveries.spurious) == (0, 2, 0)


def test_spurious_and_duplicate_deliveries_count_before_and_after_the_judgement(
    deliveries: Deliveries,
) -> None:
    deliveries.take_applications(
        [message(1, 10 * S, value=2), delivery(1, 1, 10 * S), delivery(1, 1, 10 * S)]
    )
    assert (deliveries.duplicates, deliveries.spurious) == (1, 0)
    deliveries.judge_until(13 * S)
    assert deliveries.spurious == 1
    deliveries.take_applications([delivery(2, 1, 14 * S)])
    assert deliveries.spurious == 2


def test_near_a_change_either_is_right(deliveries: Deliveries) -> None:
    deliveries.take_applications([message(1, 10 * S), predicate(1, 10 * S + S // 2, filters=[])])
    deliveries.judge_until(13 * S)
    assert (deliveries.undecided, deliveries.expected) == (1, 1)


def test_a_change_of_trees_leaves_the_answer_open(deliveries: Deliveries) -> None:
    deliveries.take_controller(
        [
            {"t_ns": S, "event": "committed", "epoch": 1},
            {"t_ns": 10 * S, "event": "link_down", "link": 1, "u": 1, "v": 2},
        ]
    )
    deliveries.take_applications([message(1, 10 * S + 5)])
    deliveries.judge_until(13 * S)
    assert (deliveries.undecided, deliveries.expected, len(deliveries.missing)) == (2, 0, 0)


def test_a_run_followed_line_by_line_ends_as_its_oracle_says(tmp_path: Path) -> None:
    experiment = load_experiment(find_experiment("recovery"))
    run_dir = simulate(experiment, tmp_path, Progress(Console(file=StringIO())))
    run = RunLayout(run_dir)
    window_s = experiment.oracle.in_flight_window_s
    found = Deliveries(window_s, NetworkGraph.of(read_topology(run)))
    records = []
    for name, path in (("applications", run.applications_log), ("controller", run.controller_log)):
        lines = path.read_text().splitlines()
        records += [(record["t_ns"], name, record) for record in map(json.loads, lines)]
    records.sort(key=lambda entry: entry[0])
    for at_ns, name, record in records:
        (found.take_applications if name == "applications" else found.take_controller)([record])
        found.judge_until(at_ns)
    found.judge_until(2**62)

    judgements = list(judge(read_history(run), window_s))
    decided = [one for one in judgements if one.decided and one.expected]
    assert found.judged == found.sent > 100
    assert found.expected == len(decided) > 50
    assert found.undecided == sum(not one.decided for one in judgements) > 0
    assert (len(found.missing), found.spurious, found.duplicates) == (0, 0, 0)
