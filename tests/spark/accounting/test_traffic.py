"""Totals and rates of frames, on inputs small enough to work out by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from captures.accounting import traffic
from tests.support.accounting_inputs import CLOCK, LINKS, frames_of, rows_of, wall

pytestmark = pytest.mark.spark

#: Bins of half an experiment second are 0.05 wall seconds wide.
BIN_S = 0.5


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    """Three frames from 0 to 1, of which two in one bin, one back, a broken one, and three on a host link."""
    host = {"capture": "h", "kind": "host", "link": None, "node": 0}
    frames = frames_of(
        spark,
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": wall(0.02)},
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": wall(0.15), "length": 50},
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": wall(0.19), "length": 60},
        {"capture": "a", "from_node": 1, "to_node": 0, "time_ns": wall(0.15), "type": "RA"},
        {**host, "direction": "from_router", "time_ns": wall(-0.05), "type": "HELLO"},
        {**host, "direction": "to_router", "time_ns": wall(-0.02), "type": "TABLE", "length": 500},
        {**host, "direction": "from_router", "time_ns": wall(-0.01), "type": "HELLO", "length": 70},
        {"capture": "a", "time_ns": wall(0.01), "type": None, "undecodable": "bad_type"},
    )
    return traffic.traffic(frames, CLOCK, BIN_S).cache()


def test_link_bins_and_their_sums(table: DataFrame) -> None:
    bins = traffic.link_bins(table, BIN_S)
    good = bins.where("from_node is not null")
    assert rows_of(good, "from_node", "type", "bin_s", "frames", "bytes", "frames_per_s", "bytes_per_s") == [
        (0, "MSG", 0.0, 1, 100, 2.0, 200.0),
        (0, "MSG", 1.5, 2, 110, 4.0, 220.0),
        (1, "RA", 1.5, 1, 100, 2.0, 200.0),
    ]
    assert rows_of(traffic.link_totals(bins).where("from_node = 0"), "type", "frames", "bytes") == [
        ("MSG", 3, 210)
    ]
    assert rows_of(traffic.type_bins(bins, BIN_S), "type", "bin_s", "frames", "frames_per_s") == [
        ("MSG", 0.0, 1, 2.0),
        ("MSG", 1.5, 2, 4.0),
        ("RA", 1.5, 1, 2.0),
        ("undecodable", 0.0, 1, 2.0),
    ]


def test_capture_totals(table: DataFrame) -> None:
    totals = traffic.capture_totals(table)
    columns = ("capture", "type", "frames", "undecodable", "first_ns", "last_ns")
    assert rows_of(totals, *columns) == [
        ("a", "MSG", 3, 0, wall(0.02), wall(0.19)),
        ("a", "RA", 1, 0, wall(0.15), wall(0.15)),
        ("a", "undecodable", 1, 1, wall(0.01), wall(0.01)),
        ("h", "HELLO", 2, 0, wall(-0.05), wall(-0.01)),
        ("h", "TABLE", 1, 0, wall(-0.02), wall(-0.02)),
    ]


@pytest.mark.parametrize(
    ("bandwidth", "shares"), [(0.16, [0.1, 0, 0, 0.11, 0, 0, 0, 0.1]), (None, [None] * 8)]
)
def test_utilisation_is_per_wall_second_and_direction(
    spark: SparkSession, table: DataFrame, bandwidth: float | None, shares: list[float | None]
) -> None:
    links = spark.createDataFrame([(0, 0, 1, 1, bandwidth)], LINKS)
    directions = spark.createDataFrame([(0, 0, 1), (0, 1, 0)], "link int, from_node int, to_node int")
    found = traffic.utilisation(traffic.link_bins(table, BIN_S), links, directions, CLOCK, BIN_S, 3)
    # Three bins are of the run; the fourth has frames, and no row for the idle direction of another link.
    assert rows_of(found, "from_node", "to_node", "bin_s", "bytes", "bits_per_wall_s") == [
        (0, 1, 0.0, 100, pytest.approx(16_000)),
        (0, 1, 0.5, 0, 0),
        (0, 1, 1.0, 0, 0),
        (0, 1, 1.5, 110, pytest.approx(17_600)),
        (1, 0, 0.0, 0, 0),
        (1, 0, 0.5, 0, 0),
        (1, 0, 1.0, 0, 0),
        (1, 0, 1.5, 100, pytest.approx(16_000)),
    ]
    assert [share for *_, share in rows_of(found, "from_node", "bin_s", "utilisation")] == pytest.approx(
        shares
    )


def test_talkers_are_counted_on_host_links(table: DataFrame) -> None:
    found = traffic.talkers(traffic.capture_totals(table))
    columns = ("node", "type", "frames_sent", "bytes_sent", "frames_received", "bytes_received")
    assert rows_of(found, *columns) == [(0, "HELLO", 2, 170, 0, 0), (0, "TABLE", 0, 0, 1, 500)]


def test_health_of_captures_with_and_without_frames(spark: SparkSession, table: DataFrame) -> None:
    files = spark.createDataFrame(
        [("a", 5, None), ("silent", 0, "the file ends inside a record")],
        "capture string, frames_written int, defect string",
    )
    found = traffic.capture_health(traffic.capture_totals(table), files, CLOCK)
    columns = (
        "capture",
        "frames_written",
        "frames",
        "bytes",
        "frames_undecodable",
        "first_s",
        "last_s",
        "defect",
    )
    assert rows_of(found, *columns) == [
        ("a", 5, 5, 410, 1, pytest.approx(0.1), pytest.approx(1.9), None),
        ("silent", 0, 0, 0, 0, None, None, "the file ends inside a record"),
    ]


def test_advertised_predicates_count_whole_bodies_on_links(spark: SparkSession) -> None:
    advertisement = {"type": "RA", "issuer": 3, "predicate": "a < 1", "fragment": "whole", "total_length": 40}
    frames = frames_of(
        spark,
        *({**advertisement, "link": link} for link in (0, 1, 2)),
        {**advertisement, "issuer": 4},
        {**advertisement, "type": "UR", "predicate": "b = 2", "fragment": "completing"},
        # The first fragment of that, a router's own link, and another type.
        {**advertisement, "type": "UR", "predicate": None, "fragment": "partial"},
        {**advertisement, "kind": "host", "link": None},
        {"type": "MSG", "fragment": "whole", "total_length": 9},
    )
    columns = ("type", "predicate", "issuers", "crossings", "body_bytes")
    assert rows_of(traffic.advertised(frames), *columns) == [
        ("RA", "a < 1", 2, 4, 160),
        ("UR", "b = 2", 1, 1, 40),
    ]
