"""Deliveries against the oracle, on cases small enough to work out by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.texts import answer, rows_of, table_of, wall

_INPUTS = {
    "sent": table_of("sent", [(0, number, wall(number), f"n = {number}") for number in (1, 2, 3)]),
    "oracle": table_of(
        "oracle",
        [
            (0, 1, wall(1), 1, "a", True, True),
            (0, 1, wall(1), 2, "a", True, True),
            (0, 2, wall(2), 1, "a", True, True),
            (0, 2, wall(2), 2, "a", True, False),
            (0, 2, wall(2), 3, "a", False, False),
        ],
    ),
    "delivered": table_of(
        "delivered",
        [
            (0, 1, 1, "a", wall(1.5)),
            # Two repeated deliveries, and two that the oracle does not expect: undecided, and decided.
            *([(0, 1, 1, "a", wall(1.7))] * 2),
            (0, 2, 3, "a", wall(2.5)),
            (0, 3, 1, "a", wall(3.2)),
            (0, 3, 1, "a", wall(3.1)),
        ],
    ),
}
_PATH = ("source", "seq", "node", "hops", "cost", "shortest_hops", "shortest_cost")


def _converged(at_s: float) -> pa.Table:
    return pa.table({"end_ns": [wall(at_s)]})


def test_outcomes_of_every_kind() -> None:
    columns = ("seq", "node", "expected", "decided", "deliveries", "missed", "spurious")
    assert rows_of(answer("outcomes", _INPUTS), *columns) == [
        (1, 1, True, True, 3, False, False),
        (1, 2, True, True, 0, True, False),
        (2, 1, True, True, 0, True, False),
        (2, 2, True, False, 0, True, False),
        (2, 3, False, False, 1, False, False),
        (3, 1, False, True, 2, False, True),
    ]
    assert answer("outcome_totals", {**_INPUTS, "convergence": _converged(2)}).to_pylist() == [
        {
            "deliveries_expected": 4,
            "deliveries_made": 3,
            "deliveries_lost": 0,
            "false_negatives": 3,
            "false_negatives_after_convergence": 1,
            "deliveries_decided": 1,
            "spurious_deliveries": 1,
            "deliveries_undecided": 2,
            "duplicate_deliveries": 3,
        }
    ]


def test_messages_sum_up_their_receivers() -> None:
    counts = ("deliveries_expected", "delivered", "missed", "missed_decided", "spurious", "duplicates")
    assert rows_of(answer("messages", _INPUTS), "number", "message", "sent_s", *counts) == [
        (1, "n = 1", 10.0, 2, 1, 1, 1, 0, 2),
        (2, "n = 2", 20.0, 2, 1, 2, 1, 0, 0),
        (3, "n = 3", 30.0, 0, 1, 0, 0, 1, 1),
    ]


def test_totals_of_nothing_are_zero() -> None:
    (totals,) = answer("outcome_totals", {}).to_pylist()
    assert set(totals.values()) == {0}
    assert set(answer("delivery_delay", {}).to_pylist()[0].values()) == {None}


def test_applications_of_one_node_are_receivers_of_their_own() -> None:
    inputs = {
        "oracle": table_of("oracle", [(0, 1, wall(1), 1, app, True, True) for app in ("a", "b")]),
        "sent": table_of("sent", [(0, 1, wall(1), ""), (1, 1, wall(2), "")]),
        "delivered": table_of("delivered", [(0, 1, 1, "a", wall(1.5)), (1, 1, 1, "b", wall(2.5))]),
    }
    assert rows_of(answer("outcomes", inputs), "source", "app", "sent_ns", "missed", "spurious") == [
        (0, "a", wall(1), False, False),
        (0, "b", wall(1), True, False),
        (1, "b", wall(2), False, True),
    ]


def test_delay_and_path_of_what_was_delivered() -> None:
    arrivals = pa.Table.from_pylist([dict(zip(_PATH, (0, 1, 1, 2, 20, 1, 15), strict=True))])
    made = answer("deliveries", {**_INPUTS, "arrivals": arrivals})
    columns = ("seq", "node", "sent_s", "delay_wall_s", "times", "expected", "decided")
    assert rows_of(made, *columns) == [
        (1, 1, 10.0, 0.5, 3, True, True),
        (2, 3, 20.0, 0.5, 1, False, False),
        (3, 1, 30.0, pytest.approx(0.1), 2, False, True),
    ]
    paths = rows_of(made, "seq", "hops", "cost", "shortest_hops", "shortest_cost")
    assert [row for row in paths if row[1] is not None] == [(1, 2, 20, 1, 15)]
    assert answer("delivery_delay", _INPUTS).to_pylist() == [
        {"median_s": 0.5, "p90_s": 0.5, "p99_s": 0.5, "max_s": 0.5, "mean_s": pytest.approx(1.1 / 3)}
    ]


def test_a_quantile_lies_between_its_neighbours() -> None:
    delays = [1, 2, 4, 9]
    outcomes = pa.table({"sent_ns": [0] * 4, "delivered_ns": [delay * 10**9 for delay in delays]})
    (found,) = answer("delivery_delay", {"outcomes": outcomes}).to_pylist()
    assert found == {
        "median_s": 3.0,
        "p90_s": pytest.approx(4 + 5 * 0.7),
        "p99_s": pytest.approx(4 + 5 * 0.97),
        "max_s": 9.0,
        "mean_s": 4.0,
    }


def test_a_message_to_its_own_node_goes_no_hops() -> None:
    inputs = {
        "sent": table_of("sent", [(0, 1, wall(1), "")]),
        "delivered": table_of("delivered", [(0, 1, 0, "a", wall(1))]),
    }
    paths = ("hops", "cost", "shortest_hops", "shortest_cost")
    assert rows_of(answer("deliveries", inputs), *paths) == [(0, 0, 0, 0)]


def test_predicates_get_what_came_while_they_were_in_force() -> None:
    declared = table_of(
        "declared",
        [
            (1, "a", wall(1), "x = 1", 1, 0, 0),
            (1, "a", wall(3), "x = 2 or x = 3", 2, 0, 1),
            (1, "a", wall(5), "none", 0, 0, 2),
            (2, "a", wall(1), "y = 1", 1, 0, 3),
        ],
    )
    # What comes in the moment of a change belongs to the new predicate.
    times = [
        *((1, "a", 2.0), (1, "a", 2.5), (1, "a", 3.0), (1, "a", 5.0), (1, "a", 6.0)),
        *((1, "b", 4.0), (2, "a", 8.0)),
    ]
    got = [(0, number, node, app, wall(at)) for number, (node, app, at) in enumerate(times)]
    inputs = {"declared": declared, "delivered": table_of("delivered", got)}
    columns = ("node", "predicate", "filters", "from_s", "until_s", "deliveries")
    assert rows_of(answer("predicates", inputs, last_ns=str(wall(8))), *columns) == [
        (1, "x = 1", 1, 10.0, 30.0, 2),
        (1, "x = 2 or x = 3", 2, 30.0, 50.0, 1),
        (2, "y = 1", 1, 10.0, 80.0, 1),
    ]


@pytest.mark.parametrize("last", ["x = 1", "x = 2"])
def test_of_two_predicates_at_the_same_time_the_later_record_counts(last: str) -> None:
    first = "x = 2" if last == "x = 1" else "x = 1"
    records = [(1, "a", wall(1), text, 1, 0, place) for place, text in enumerate((first, last))]
    for declared in (records, records[::-1]):
        inputs = {
            "declared": table_of("declared", declared),
            "delivered": table_of("delivered", [(0, 1, 1, "a", wall(1.5))]),
        }
        found = rows_of(answer("predicates", inputs, last_ns=str(wall(2))), "predicate", "deliveries")
        assert found == sorted([(first, 0), (last, 1)])
