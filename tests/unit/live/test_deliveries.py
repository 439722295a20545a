"""Deliveries so far: judged as the logs grow, ending with the oracle's answers for the whole logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.rundir.applications import read_applications
from captures.rundir.controller import read_controller
from captures.rundir.inputs import read_topology
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.live.deliveries import Deliveries
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from tests.support.applications import delivery_event as delivery
from tests.support.applications import message_event as message
from tests.support.applications import predicate_event as predicate
from tests.support.simulated import simulated
from topos.generators import line

S = 10**9
WINDOW_S = 1.0


@pytest.fixture
def deliveries() -> Deliveries:
    found = Deliveries(WINDOW_S, line(3))
    found.take_applications([predicate(1, 1 * S, "a = 1"), predicate(2, 1 * S, "a = 1")])
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
    deliveries.take_applications([message(1, 10 * S), predicate(1, 10 * S + S // 2, "none")])
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
    run = simulated(experiment, tmp_path)
    window_s = experiment.oracle.in_flight_window_s
    found = Deliveries(window_s, read_topology(run))
    applications = [(recorded.event["t_ns"], recorded) for _, recorded in read_applications(run)]
    controller = [(event["t_ns"], event) for _, event in read_controller(run)]
    for at_ns in sorted({at_ns for at_ns, _ in (*applications, *controller)}):
        found.take_controller([event for t_ns, event in controller if t_ns == at_ns])
        found.take_applications([recorded for t_ns, recorded in applications if t_ns == at_ns])
        found.judge_until(at_ns)
    found.judge_until(2**62)

    judgements = list(judge(read_history(run), window_s))
    decided = [one for one in judgements if one["decided"] and one["expected"]]
    assert found.judged == found.sent > 100
    assert found.expected == len(decided) > 50
    assert found.undecided == sum(not one["decided"] for one in judgements) > 0
    assert (len(found.missing), found.spurious, found.duplicates) == (0, 0, 0)
