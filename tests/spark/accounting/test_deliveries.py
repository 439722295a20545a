"""Deliveries against the oracle, on cases small enough to work out by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from captures.accounting import deliveries as accounting
from tests.support.accounting_inputs import CLOCK, DELIVERIES, ORACLE, SENT, rows_of, wall

pytestmark = pytest.mark.spark


def _outcomes(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    sent = spark.createDataFrame([(0, number, wall(number), f"n = {number}") for number in (1, 2, 3)], SENT)
    oracle = spark.createDataFrame(
        [
            (0, 1, wall(1), 1, "a", True, True),
            (0, 1, wall(1), 2, "a", True, True),
            (0, 2, wall(2), 1, "a", True, True),
            (0, 2, wall(2), 2, "a", True, False),
            (0, 2, wall(2), 3, "a", False, False),
        ],
        ORACLE,
    )
    deliveries = spark.createDataFrame(
        [
            (0, 1, 1, "a", wall(1.5)),
            # Two repeated deliveries, and two that the oracle does not expect: undecided, and decided.
            *([(0, 1, 1, "a", wall(1.7))] * 2),
            (0, 2, 3, "a", wall(2.5)),
            (0, 3, 1, "a", wall(3.2)),
            (0, 3, 1, "a", wall(3.1)),
        ],
        DELIVERIES,
    )
    return sent, accounting.outcomes(oracle, deliveries, spark.createDataFrame([], DELIVERIES), sent)


def test_outcomes_of_every_kind(spark: SparkSession) -> None:
    _, table = _outcomes(spark)
    assert rows_of(table, "seq", "node", "expected", "decided", "deliveries", "missed", "spurious") == [
        (1, 1, True, True, 3, False, False),
        (1, 2, True, True, 0, True, False),
        (2, 1, True, True, 0, True, False),
        (2, 2, True, False, 0, True, False),
        (2, 3, False, False, 1, False, False),
        (3, 1, False, True, 2, False, True),
    ]
    (totals,) = accounting.outcome_totals(table, wall(2)).collect()
    assert totals.asDict() == {
        "deliveries_expected": 4,
        "deliveries_made": 3,
        "false_negatives": 3,
        "false_negatives_after_convergence": 1,
        "deliveries_decided": 1,
        "spurious_deliveries": 1,
        "deliveries_lost": 0,
        "deliveries_undecided": 2,
        "duplicate_deliveries": 3,
    }


def test_messages_sum_up_their_receivers(spark: SparkSession) -> None:
    sent, table = _outcomes(spark)
    counts = ("deliveries_expected", "delivered", "missed", "missed_decided", "spurious", "duplicates")
    assert rows_of(accounting.messages(sent, table, CLOCK), "number", "message", "sent_s", *counts) == [
        (1, "n = 1", 10.0, 2, 1, 1, 1, 0, 2),
        (2, "n = 2", 20.0, 2, 1, 2, 1, 0, 0),
        (3, "n = 3", 30.0, 0, 1, 0, 0, 1, 1),
    ]


def test_totals_of_nothing_are_zero(spark: SparkSession) -> None:
    empty = [spark.createDataFrame([], schema) for schema in (ORACLE, DELIVERIES, DELIVERIES, SENT)]
    (totals,) = accounting.outcome_totals(accounting.outcomes(*empty), 0).collect()
    assert set(totals.asDict().values()) == {0}


def test_applications_of_one_node_are_receivers_of_their_own(spark: SparkSession) -> None:
    oracle = spark.createDataFrame([(0, 1, wall(1), 1, app, True, True) for app in ("a", "b")], ORACLE)
    sent = spark.createDataFrame([(0, 1, wall(1), ""), (1, 1, wall(2), "")], SENT)
    deliveries = spark.createDataFrame([(0, 1, 1, "a", wall(1.5)), (1, 1, 1, "b", wall(2.5))], DELIVERIES)
    table = accounting.outcomes(oracle, deliveries, spark.createDataFrame([], DELIVERIES), sent)
    assert rows_of(table, "source", "app", "sent_ns", "missed", "spurious") == [
        (0, "a", wall(1), False, False),
        (0, "b", wall(1), True, False),
        (1, "b", wall(2), False, True),
    ]


def test_delay_and_path_of_what_was_delivered(spark: SparkSession) -> None:
    _, table = _outcomes(spark)
    arrivals = spark.createDataFrame(
        [(0, 1, 1, 2, 20, 1, 15)],
        "source bigint, seq bigint, node int, hops int, cost bigint, shortest_hops int, shortest_cost bigint",
    )
    made = accounting.delivered(table, arrivals, CLOCK)
    columns = ("seq", "node", "sent_s", "delay_wall_s", "times", "expected", "decided")
    assert rows_of(made, *columns) == [
        (1, 1, 10.0, 0.5, 3, True, True),
        (2, 3, 20.0, 0.5, 1, False, False),
        (3, 1, 30.0, pytest.approx(0.1), 2, False, True),
    ]
    paths = ("hops", "cost", "shortest_hops", "shortest_cost")
    assert rows_of(made.where("hops is not null"), "seq", *paths) == [(1, 2, 20, 1, 15)]
    (totals,) = accounting.delay_totals(made).collect()
    assert totals.asDict() == {
        "median_s": 0.5,
        "p90_s": 0.5,
        "p99_s": 0.5,
        "max_s": 0.5,
        "mean_s": pytest.approx(1.1 / 3),
    }


def test_the_mean_delay_does_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    delays = [(number * 7919 % 1000 + 1) / 1e9 * 10 ** (number % 9) for number in range(2000)]
    exact = sum(round(delay * 1e9) for delay in delays) / len(delays) / 1e9
    for rows, partitions in ((delays, 1), (delays[::-1], 3), (sorted(delays), 7)):
        table = spark.createDataFrame([(delay,) for delay in rows], "delay_wall_s double")
        (totals,) = accounting.delay_totals(table.repartition(partitions)).collect()
        assert totals["mean_s"] == exact


def test_a_message_to_its_own_node_goes_no_hops(spark: SparkSession) -> None:
    sent = spark.createDataFrame([(0, 1, wall(1), "")], SENT)
    got = spark.createDataFrame([(0, 1, 0, "a", wall(1))], DELIVERIES)
    none = spark.createDataFrame([], DELIVERIES)
    table = accounting.outcomes(spark.createDataFrame([], ORACLE), got, none, sent)
    arrivals = spark.createDataFrame(
        [],
        "source bigint, seq bigint, node int, hops int, cost bigint, shortest_hops int, shortest_cost bigint",
    )
    made = accounting.delivered(table, arrivals, CLOCK)
    assert rows_of(made, "hops", "cost", "shortest_hops", "shortest_cost") == [(0, 0, 0, 0)]


def test_predicates_get_what_came_while_they_were_in_force(spark: SparkSession) -> None:
    declared = spark.createDataFrame(
        [
            (1, "a", wall(1), "x = 1", 1),
            (1, "a", wall(3), "x = 2 or x = 3", 2),
            (1, "a", wall(5), "none", 0),
            (2, "a", wall(1), "y = 1", 1),
        ],
        "node int, app string, t_ns bigint, predicate string, filters int",
    )
    # What comes in the moment of a change belongs to the new predicate.
    times = [
        (1, "a", 2.0),
        (1, "a", 2.5),
        (1, "a", 3.0),
        (1, "a", 5.0),
        (1, "a", 6.0),
        (1, "b", 4.0),
        (2, "a", 8.0),
    ]
    got = spark.createDataFrame(
        [(0, number, node, app, wall(at)) for number, (node, app, at) in enumerate(times)], DELIVERIES
    )
    table = accounting.predicates(declared, got, wall(8), CLOCK)
    columns = ("node", "predicate", "filters", "from_s", "until_s", "deliveries")
    assert rows_of(table, *columns) == [
        (1, "x = 1", 1, 10.0, 30.0, 2),
        (1, "x = 2 or x = 3", 2, 30.0, 50.0, 1),
        (2, "y = 1", 1, 10.0, 80.0, 1),
    ]
