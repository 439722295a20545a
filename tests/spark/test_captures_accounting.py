"""Each accounting function on inputs small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from captures import accounting
from captures.accounting import Clock
from captures.decode import COLUMNS, SPARK_SCHEMA

pytestmark = pytest.mark.spark

#: One wall second is ten experiment seconds.
CLOCK = Clock(start_ns=1_000_000_000, time_scale=10.0)
SENT = "source int, seq bigint, sent_ns bigint"
DELIVERIES = "source int, seq bigint, node int, app string"
ORACLE = "source int, seq bigint, sent_ns bigint, node int, app string, expected boolean, decided boolean"


def _frames(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    base = {
        "kind": "link",
        "link": 0,
        "type": "MSG",
        "length": 100,
        "issuer": 0,
        "seq": 1,
        "fragment_index": 0,
    }
    data = [tuple({**base, **row}.get(name) for name in COLUMNS) for row in rows]
    return spark.createDataFrame(data, SPARK_SCHEMA)


def _wall(seconds: float) -> int:
    """Time in ns, so many wall seconds after the start."""
    return CLOCK.start_ns + round(seconds * 1e9)


def _rows(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.select(*columns).collect())


def test_traffic_by_direction_type_and_bin(spark: SparkSession) -> None:
    frames = _frames(
        spark,
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": _wall(0.05)},
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": _wall(0.15), "length": 50},
        {"capture": "a", "from_node": 0, "to_node": 1, "time_ns": _wall(0.19), "length": 60},
        {"capture": "a", "from_node": 1, "to_node": 0, "time_ns": _wall(0.15), "type": "RA"},
        {"capture": "h", "kind": "host", "link": None, "node": 0, "time_ns": _wall(-0.05), "type": "HELLO"},
        {"capture": "a", "time_ns": _wall(0.01), "type": None, "undecodable": "bad_type"},
    )
    traffic = accounting.traffic(frames, CLOCK, 1.0)
    bins = accounting.link_bins(traffic)
    assert _rows(bins.where("from_node is not null"), "from_node", "type", "bin_s", "frames", "bytes") == [
        (0, "MSG", 0.0, 1, 100),
        (0, "MSG", 1.0, 2, 110),
        (1, "RA", 1.0, 1, 100),
    ]
    assert _rows(accounting.link_totals(bins).where("from_node = 0"), "type", "frames", "bytes") == [
        ("MSG", 3, 210)
    ]
    assert _rows(accounting.type_bins(bins), "type", "bin_s", "frames") == [
        ("MSG", 0.0, 1),
        ("MSG", 1.0, 2),
        ("RA", 1.0, 1),
        ("undecodable", 0.0, 1),
    ]
    assert _rows(accounting.capture_totals(traffic), "capture", "type", "frames", "undecodable") == [
        ("a", "MSG", 3, 0),
        ("a", "RA", 1, 0),
        ("a", "undecodable", 1, 1),
        ("h", "HELLO", 1, 0),
    ]


def test_repeated_frames_are_those_of_one_link_direction_and_fragment(spark: SparkSession) -> None:
    once = [
        {"from_node": 0},
        {"from_node": 1},
        {"from_node": 0, "link": 1},
        {"from_node": 0, "fragment_index": 1},
    ]
    assert _rows(
        accounting.repeated_total(accounting.repeated(_frames(spark, *once))), "frames_repeated"
    ) == [(0,)]
    thrice = _frames(spark, *once, once[0], once[0])
    assert _rows(accounting.repeated(thrice), "link", "from_node", "issuer", "seq", "times") == [
        (0, 0, 0, 1, 3)
    ]
    assert _rows(accounting.repeated_total(accounting.repeated(thrice)), "frames_repeated") == [(2,)]


def test_first_wave_ends_with_the_last_frame_of_the_first_advertisements(spark: SparkSession) -> None:
    opening = spark.createDataFrame([(1, _wall(0)), (2, _wall(1))], "node int, requested_ns bigint")
    frames = _frames(
        spark,
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": _wall(0.5)},
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": _wall(3)},
        # A later advertisement, one from before the predicate, and one of a node outside the opening.
        {"type": "RA", "issuer": 1, "seq": 11, "time_ns": _wall(9)},
        {"type": "RA", "issuer": 2, "seq": 1, "time_ns": _wall(0.9)},
        {"type": "RA", "issuer": 2, "seq": 2, "time_ns": _wall(2)},
        {"type": "RA", "issuer": 3, "seq": 1, "time_ns": _wall(8)},
        {"type": "MSG", "issuer": 1, "seq": 10, "time_ns": _wall(7)},
    )
    assert _rows(accounting.first_wave_end(frames, opening), "last_ns", "issuers") == [(_wall(3), 2)]
    none = accounting.first_wave_end(frames.where("type = 'MSG'"), opening)
    assert _rows(none, "last_ns", "issuers") == [(None, 0)]


def test_advertisement_on_its_way_at_the_request_is_not_its_answer(spark: SparkSession) -> None:
    opening = spark.createDataFrame([(1, _wall(1))], "node int, requested_ns bigint")
    frames = _frames(
        spark,
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": _wall(0.9)},
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": _wall(1.1)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": _wall(1.2)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": _wall(1.5)},
    )
    assert _rows(accounting.first_wave_end(frames, opening), "last_ns", "issuers") == [(_wall(1.5), 1)]


def _outcomes(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    sent = spark.createDataFrame([(0, 1, _wall(1)), (0, 2, _wall(2)), (0, 3, _wall(3))], SENT)
    oracle = spark.createDataFrame(
        [
            (0, 1, _wall(1), 1, "a", True, True),
            (0, 1, _wall(1), 2, "a", True, True),
            (0, 2, _wall(2), 1, "a", True, True),
            (0, 2, _wall(2), 2, "a", True, False),
            (0, 2, _wall(2), 3, "a", False, False),
        ],
        ORACLE,
    )
    deliveries = spark.createDataFrame(
        [
            (0, 1, 1, "a"),
            # Twice more than wanted, and two that the oracle does not ask for: undecided, and decided.
            *([(0, 1, 1, "a")] * 2),
            (0, 2, 3, "a"),
            (0, 3, 1, "a"),
            (0, 3, 1, "a"),
        ],
        DELIVERIES,
    )
    return sent, accounting.outcomes(oracle, deliveries, sent)


def test_outcomes_of_every_kind(spark: SparkSession) -> None:
    _, table = _outcomes(spark)
    assert _rows(table, "seq", "node", "expected", "decided", "deliveries", "missed", "spurious") == [
        (1, 1, True, True, 3, False, False),
        (1, 2, True, True, 0, True, False),
        (2, 1, True, True, 0, True, False),
        (2, 2, True, False, 0, True, False),
        (2, 3, False, False, 1, False, False),
        (3, 1, False, True, 2, False, True),
    ]
    (totals,) = accounting.outcome_totals(table, _wall(2)).collect()
    assert totals.asDict() == {
        "deliveries_expected": 4,
        "deliveries_made": 3,
        "false_negatives": 3,
        "false_negatives_after_convergence": 1,
        "deliveries_decided": 1,
        "spurious_deliveries": 1,
        "deliveries_undecided": 2,
        "duplicate_deliveries": 3,
    }


def test_messages_sum_up_their_receivers(spark: SparkSession) -> None:
    sent, table = _outcomes(spark)
    columns = ("seq", "sent_s", "expected", "delivered", "missed", "missed_decided", "spurious", "duplicates")
    assert _rows(accounting.messages(sent, table, CLOCK), *columns) == [
        (1, 10.0, 2, 1, 1, 1, 0, 2),
        (2, 20.0, 2, 1, 2, 1, 0, 0),
        (3, 30.0, 0, 1, 0, 0, 1, 1),
    ]


def test_totals_of_nothing_are_zero(spark: SparkSession) -> None:
    empty = [spark.createDataFrame([], schema) for schema in (ORACLE, DELIVERIES, SENT)]
    (totals,) = accounting.outcome_totals(accounting.outcomes(*empty), 0).collect()
    assert set(totals.asDict().values()) == {0}


def test_false_positives_of_the_paper(spark: SparkSession) -> None:
    def at_router(node: int, direction: str, seq: int, fragment: int = 0) -> dict[str, Any]:
        return {
            "kind": "host",
            "link": None,
            "node": node,
            "direction": direction,
            "seq": seq,
            "fragment_index": fragment,
            "time_ns": _wall(seq),
        }

    frames = _frames(
        spark,
        # Message 1: sent by node 0, forwarded by 1, delivered at 2; in two fragments.
        *(at_router(0, "from_router", 1, fragment) for fragment in (0, 1)),
        *(at_router(1, "to_router", 1, fragment) for fragment in (0, 1)),
        *(at_router(1, "from_router", 1, fragment) for fragment in (0, 1)),
        *(at_router(2, "to_router", 1, fragment) for fragment in (0, 1)),
        # Message 2: goes to node 1, which has no use for it. Message 3 never leaves node 0.
        at_router(0, "from_router", 2),
        at_router(1, "to_router", 2),
        # The links' own captures and other types do not count.
        {"from_node": 0, "time_ns": _wall(1)},
        {**at_router(1, "to_router", 9), "type": "RA"},
    )
    sent = spark.createDataFrame([(0, seq, _wall(seq)) for seq in (1, 2, 3)], SENT)
    deliveries = spark.createDataFrame([(0, 1, 2, "a")], DELIVERIES)
    table = accounting.processed(frames, sent, deliveries)
    assert _rows(table, "node", "seq", "from_network", "false_positive") == [
        (0, 1, False, False),
        (0, 2, False, False),
        (0, 3, False, True),
        (1, 1, True, False),
        (1, 2, True, True),
        (2, 1, True, False),
    ]
    (totals,) = accounting.processed_totals(table).collect()
    assert totals.asDict() == {
        "false_positives": 2,
        "messages_received_by_routers": 6,
        "false_positives_from_network": 1,
        "messages_received_from_network": 3,
    }


def test_incomplete_fragments_and_second_applications_count_a_message_once(spark: SparkSession) -> None:
    host = {"kind": "host", "link": None, "node": 1, "time_ns": _wall(1)}
    frames = _frames(
        spark,
        # Message 1: two of three fragments reach node 1. Message 2: delivered to two applications there.
        *({**host, "direction": "to_router", "fragment_index": index} for index in (0, 2)),
        {**host, "direction": "to_router", "seq": 2},
        # Node 1's own message 2 is another message. A damaged frame is no message at all.
        {**host, "direction": "to_router", "seq": 3, "undecodable": "bad_value"},
    )
    sent = spark.createDataFrame([(0, 1, _wall(1)), (0, 2, _wall(1)), (1, 2, _wall(1))], SENT)
    deliveries = spark.createDataFrame([(0, 2, 1, "a"), (0, 2, 1, "b")], DELIVERIES)
    table = accounting.processed(frames, sent, deliveries)
    assert _rows(table, "node", "source", "seq", "from_network", "false_positive") == [
        (0, 0, 1, False, True),
        (0, 0, 2, False, True),
        (1, 0, 1, True, True),
        (1, 0, 2, True, False),
        (1, 1, 2, False, True),
    ]


def test_applications_of_one_node_are_receivers_of_their_own(spark: SparkSession) -> None:
    oracle = spark.createDataFrame([(0, 1, _wall(1), 1, app, True, True) for app in ("a", "b")], ORACLE)
    sent = spark.createDataFrame([(0, 1, _wall(1)), (1, 1, _wall(2))], SENT)
    deliveries = spark.createDataFrame([(0, 1, 1, "a"), (1, 1, 1, "b")], DELIVERIES)
    table = accounting.outcomes(oracle, deliveries, sent)
    assert _rows(table, "source", "app", "sent_ns", "missed", "spurious") == [
        (0, "a", _wall(1), False, False),
        (0, "b", _wall(1), True, False),
        (1, "b", _wall(2), False, True),
    ]


def test_trailing_share_forgets_what_left_the_window(spark: SparkSession) -> None:
    # Experiment seconds 0.5 and 1.5 (of which one hits), then 9.5.
    events = spark.createDataFrame(
        [(_wall(0.05), 1), (_wall(0.05), 0), (_wall(0.15), 0), (_wall(0.95), 1)], "time_ns bigint, hit int"
    )
    curve = accounting.trailing_share(events, CLOCK, "time_ns", "hit", "1", window_s=3.0, step_s=1.0)
    assert [tuple(row) for row in curve.collect()] == [(1.0, 0.5), (2.0, pytest.approx(1 / 3)), (10.0, 1.0)]


def test_curves_use_their_own_parts(spark: SparkSession) -> None:
    _, table = _outcomes(spark)
    # The window is 0.25 experiment seconds, in steps of 0.05: each message stands alone.
    curve = [
        (round(t_s, 6), fraction) for t_s, fraction in accounting.false_negative_curve(table, CLOCK).collect()
    ]
    assert curve == [(10.05, 0.5), (20.05, 1.0)]
    frames = _frames(
        spark,
        {"type": "RA", "time_ns": _wall(0.1)},
        {"type": "MSG", "time_ns": _wall(0.3)},
        {"type": "HELLO", "time_ns": _wall(0.3)},
        {"type": "MSG", "kind": "host", "time_ns": _wall(0.3)},
    )
    shares = [tuple(row) for row in accounting.control_share_curve(frames, CLOCK).collect()]
    assert shares == [(2.0, 1.0), (4.0, 0.5)]
