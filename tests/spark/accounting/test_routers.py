"""Tables of the routers' work on messages, on frames small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from captures.accounting import routers
from tests.support.accounting_inputs import DELIVERIES, SENT, frames_of, rows_of, wall

pytestmark = pytest.mark.spark


def test_first_wave_ends_with_the_last_frame_of_the_first_advertisements(spark: SparkSession) -> None:
    opening = spark.createDataFrame([(1, wall(0)), (2, wall(1))], "node int, requested_ns bigint")
    frames = frames_of(
        spark,
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": wall(0.5)},
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": wall(3)},
        # A later advertisement, one from before the predicate, and one of a node outside the opening.
        {"type": "RA", "issuer": 1, "seq": 11, "time_ns": wall(9)},
        {"type": "RA", "issuer": 2, "seq": 1, "time_ns": wall(0.9)},
        {"type": "RA", "issuer": 2, "seq": 2, "time_ns": wall(2)},
        {"type": "RA", "issuer": 3, "seq": 1, "time_ns": wall(8)},
        {"type": "MSG", "issuer": 1, "seq": 10, "time_ns": wall(7)},
    )
    assert rows_of(routers.first_wave_end(frames, opening), "last_ns", "issuers") == [(wall(3), 2)]
    none = routers.first_wave_end(frames.where("type = 'MSG'"), opening)
    assert rows_of(none, "last_ns", "issuers") == [(None, 0)]


def test_advertisement_on_its_way_at_the_request_is_not_its_answer(spark: SparkSession) -> None:
    opening = spark.createDataFrame([(1, wall(1))], "node int, requested_ns bigint")
    frames = frames_of(
        spark,
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": wall(0.9)},
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": wall(1.1)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": wall(1.2)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": wall(1.5)},
    )
    assert rows_of(routers.first_wave_end(frames, opening), "last_ns", "issuers") == [(wall(1.5), 1)]


def test_false_positives_of_the_paper(spark: SparkSession) -> None:
    def at_router(node: int, direction: str, seq: int, fragment: int = 0) -> dict[str, Any]:
        return {
            "kind": "host",
            "link": None,
            "node": node,
            "direction": direction,
            "seq": seq,
            "fragment_index": fragment,
            "time_ns": wall(seq),
        }

    frames = frames_of(
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
        {"from_node": 0, "time_ns": wall(1)},
        {**at_router(1, "to_router", 9), "type": "RA"},
    )
    sent = spark.createDataFrame([(0, seq, wall(seq), "") for seq in (1, 2, 3)], SENT)
    deliveries = spark.createDataFrame([(0, 1, 2, "a", wall(2))], DELIVERIES)
    table = routers.processed(frames, sent, deliveries, spark.createDataFrame([], DELIVERIES))
    assert rows_of(table, "node", "seq", "from_network", "false_positive") == [
        (0, 1, False, False),
        (0, 2, False, False),
        (0, 3, False, True),
        (1, 1, True, False),
        (1, 2, True, True),
        (2, 1, True, False),
    ]
    (totals,) = routers.processed_totals(table).collect()
    assert totals.asDict() == {
        "false_positives": 2,
        "messages_received_by_routers": 6,
        "false_positives_from_network": 1,
        "messages_received_from_network": 3,
    }


def test_incomplete_fragments_and_second_applications_count_a_message_once(spark: SparkSession) -> None:
    host = {"kind": "host", "link": None, "node": 1, "time_ns": wall(1)}
    frames = frames_of(
        spark,
        # Message 1: two of three fragments reach node 1. Message 2: delivered to two applications there.
        *({**host, "direction": "to_router", "fragment_index": index} for index in (0, 2)),
        {**host, "direction": "to_router", "seq": 2},
        # Node 1's own message 2 is another message. A damaged frame is no message at all.
        {**host, "direction": "to_router", "seq": 3, "undecodable": "bad_value"},
    )
    sent = spark.createDataFrame([(0, 1, wall(1), ""), (0, 2, wall(1), ""), (1, 2, wall(1), "")], SENT)
    deliveries = spark.createDataFrame([(0, 2, 1, "a", wall(2)), (0, 2, 1, "b", wall(2))], DELIVERIES)
    table = routers.processed(frames, sent, deliveries, spark.createDataFrame([], DELIVERIES))
    assert rows_of(table, "node", "source", "seq", "from_network", "false_positive") == [
        (0, 0, 1, False, True),
        (0, 0, 2, False, True),
        (1, 0, 1, True, True),
        (1, 0, 2, True, False),
        (1, 1, 2, False, True),
    ]
