"""Paths of messages, on networks small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from captures.accounting import paths
from tests.support.accounting_inputs import LINKS, frames_of, rows_of

pytestmark = pytest.mark.spark

TREES = "epoch bigint, node int, source bigint, parent int"
#: Links 0-1, 1-2, 2-3 of cost 10 and 0-3 of cost 50.
RING = [(0, 0, 1, 10), (1, 1, 2, 10), (2, 2, 3, 10), (3, 0, 3, 50)]
SHORTEST = [(0, 1, 1, 10), (0, 2, 2, 20), (0, 3, 1, 30)]


def test_repeated_frames_are_those_of_one_link_direction_and_fragment(spark: SparkSession) -> None:
    once = [
        {"from_node": 0},
        {"from_node": 1},
        {"from_node": 0, "link": 1},
        {"from_node": 0, "fragment_index": 1},
    ]
    assert rows_of(paths.repeated_total(paths.repeated(frames_of(spark, *once))), "frames_repeated") == [(0,)]
    thrice = paths.repeated(frames_of(spark, *once, once[0], once[0]))
    assert rows_of(thrice, "link", "from_node", "source", "seq", "crossings") == [(0, 0, 0, 1, 3)]
    assert rows_of(paths.repeated_total(thrice), "frames_repeated") == [(2,)]


def _hop(link: int, sender: int, receiver: int, at: int, **more: Any) -> dict[str, Any]:
    return {"link": link, "from_node": sender, "to_node": receiver, "time_ns": at, "epoch": 1, **more}


def _arrivals(
    spark: SparkSession, *hops: dict[str, Any], trees: list[tuple[int, int, int, int]] | None = None
) -> DataFrame:
    crossed = paths.crossings(frames_of(spark, *hops), spark.createDataFrame(trees or [], TREES))
    links = spark.createDataFrame([(*link, None) for link in RING], LINKS)
    shortest = "source bigint, node int, shortest_hops int, shortest_cost bigint"
    return paths.arrivals(crossed, links, spark.createDataFrame(SHORTEST, shortest), one_task=False)


def test_crossings_join_fragments_and_ask_the_tree(spark: SparkSession) -> None:
    frames = frames_of(
        spark,
        _hop(0, 0, 1, 7, length=50, fragment_index=1),
        _hop(0, 0, 1, 5),
        _hop(3, 0, 3, 6),
        _hop(2, 3, 2, 8, epoch=2),
        _hop(0, 0, 1, 5, undecodable="bad_value", seq=9),
        _hop(0, 0, 1, 5, type="RA"),
    )
    trees = spark.createDataFrame([(1, 1, 0, 0), (1, 3, 0, 2)], TREES)
    columns = ("link", "from_node", "to_node", "first_ns", "frames", "bytes", "on_tree")
    assert rows_of(paths.crossings(frames, trees), *columns) == [
        (0, 0, 1, 5, 2, 150, True),
        (2, 3, 2, 8, 1, 100, None),
        (3, 0, 3, 6, 1, 100, False),
    ]


def test_hops_and_cost_add_up_from_the_source(spark: SparkSession) -> None:
    found = _arrivals(
        spark,
        # Two messages of one source, on different paths.
        *(_hop(0, 0, 1, 1), _hop(1, 1, 2, 2), _hop(2, 2, 3, 3)),
        *(_hop(3, 0, 3, 1, seq=2), _hop(2, 3, 2, 2, seq=2)),
    )
    columns = ("seq", "node", "from_node", "arrived_ns", "hops", "cost", "shortest_hops", "shortest_cost")
    assert rows_of(found, *columns) == [
        (1, 1, 0, 1, 1, 10, 1, 10),
        (1, 2, 1, 2, 2, 20, 2, 20),
        (1, 3, 2, 3, 3, 30, 1, 30),
        (2, 2, 3, 2, 2, 60, 2, 20),
        (2, 3, 0, 1, 1, 50, 1, 30),
    ]
    totals = paths.arrival_totals(found)
    assert totals == {
        "stretch_hops_mean": pytest.approx((1 + 1 + 3 + 1 + 1) / 5),
        "stretch_hops_max": 3.0,
        "stretch_cost_mean": pytest.approx((1 + 1 + 1 + 3 + 5 / 3) / 5),
        "stretch_cost_max": 3.0,
    }


def test_of_two_ways_into_a_router_the_one_on_the_tree_counts(spark: SparkSession) -> None:
    twice = (_hop(3, 0, 3, 1), _hop(0, 0, 1, 1), _hop(1, 1, 2, 2), _hop(2, 2, 3, 3))
    by_first = _arrivals(spark, *twice)
    assert rows_of(by_first.where("node = 3"), "from_node", "hops") == [(0, 1)]
    by_tree = _arrivals(spark, *twice, trees=[(1, 1, 0, 0), (1, 2, 0, 1), (1, 3, 0, 2)])
    assert rows_of(by_tree.where("node = 3"), "from_node", "hops") == [(2, 3)]


def test_gaps_and_loops_leave_the_path_unknown(spark: SparkSession) -> None:
    # Nobody captured how message 1 came to node 1; message 2 goes round between 1 and 2.
    found = _arrivals(spark, _hop(1, 1, 2, 2), _hop(1, 1, 2, 2, seq=2), _hop(1, 2, 1, 3, seq=2))
    assert rows_of(found, "seq", "node", "hops", "cost") == [
        (1, 2, None, None),
        (2, 1, None, None),
        (2, 2, None, None),
    ]


def test_no_message_no_arrival(spark: SparkSession) -> None:
    assert _arrivals(spark, _hop(0, 0, 1, 1, type="RA")).collect() == []
