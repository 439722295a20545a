"""Tables of the routers' work on messages, on frames small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.texts import answer, frames_of, rows_of, table_of, wall


def test_first_wave_ends_with_the_last_frame_of_the_first_advertisements() -> None:
    opening = table_of("opening", [(1, wall(0), wall(0.1)), (2, wall(1), wall(1.1))])
    frames = frames_of(
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": wall(0.5)},
        {"type": "RA", "issuer": 1, "seq": 10, "time_ns": wall(3)},
        # A later advertisement, one from before the predicate, and one of a node outside the opening.
        {"type": "RA", "issuer": 1, "seq": 11, "time_ns": wall(9)},
        {"type": "RA", "issuer": 2, "seq": 1, "time_ns": wall(0.9)},
        {"type": "RA", "issuer": 2, "seq": 2, "time_ns": wall(2)},
        {"type": "RA", "issuer": 3, "seq": 1, "time_ns": wall(8)},
        {"type": "MSG", "issuer": 1, "seq": 10, "time_ns": wall(7)},
    )
    found = answer("convergence", {"opening": opening, "captured": frames})
    assert rows_of(found) == [(wall(3), wall(3), pytest.approx(3.0))]
    # Without an RA, messages count from the last confirmation on; without a predicate, from the start.
    assert rows_of(answer("convergence", {"opening": opening})) == [(None, wall(1.1), None)]
    assert rows_of(answer("convergence", {}, start_ns="7")) == [(None, 7, None)]


def test_advertisement_on_its_way_at_the_request_is_not_its_answer() -> None:
    opening = table_of("opening", [(1, wall(1), wall(1))])
    frames = frames_of(
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": wall(0.9)},
        {"type": "RA", "issuer": 1, "seq": 1, "time_ns": wall(1.1)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": wall(1.2)},
        {"type": "RA", "issuer": 1, "seq": 2, "time_ns": wall(1.5)},
    )
    assert rows_of(answer("convergence", {"opening": opening, "captured": frames}), "last_ns") == [
        (wall(1.5),)
    ]


def test_false_positives_of_the_paper() -> None:
    def at_router(node: int, direction: str, seq: int, fragment: int = 0) -> dict[str, Any]:
        of_frame = {"seq": seq, "fragment_index": fragment, "time_ns": wall(seq)}
        return {"kind": "host", "link": None, "node": node, "direction": direction, **of_frame}

    frames = frames_of(
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
    inputs = {
        "captured": frames,
        "sent": table_of("sent", [(0, seq, wall(seq), "") for seq in (1, 2, 3)]),
        "delivered": table_of("delivered", [(0, 1, 2, "a", wall(2))]),
    }
    assert rows_of(answer("processed", inputs), "node", "seq", "from_network", "false_positive") == [
        (0, 1, False, False),
        (0, 2, False, False),
        (0, 3, False, True),
        (1, 1, True, False),
        (1, 2, True, True),
        (2, 1, True, False),
    ]
    assert answer("processed_totals", inputs).to_pylist() == [
        {
            "false_positives": 2,
            "messages_received_by_routers": 6,
            "false_positives_from_network": 1,
            "messages_received_from_network": 3,
        }
    ]
    assert not answer("processed", inputs, all_hosts="false").num_rows


def test_incomplete_fragments_and_second_applications_count_a_message_once() -> None:
    host = {"kind": "host", "link": None, "node": 1, "time_ns": wall(1)}
    inputs = {
        "captured": frames_of(
            # Message 1: two of three fragments reach node 1. Message 2: delivered to two applications there.
            *({**host, "direction": "to_router", "fragment_index": index} for index in (0, 2)),
            {**host, "direction": "to_router", "seq": 2},
            # Node 1's own message 2 is another message. A damaged frame is no message at all.
            {**host, "direction": "to_router", "seq": 3, "undecodable": "bad_value"},
        ),
        "sent": table_of("sent", [(0, 1, wall(1), ""), (0, 2, wall(1), ""), (1, 2, wall(1), "")]),
        "delivered": table_of("delivered", [(0, 2, 1, "a", wall(2)), (0, 2, 1, "b", wall(2))]),
    }
    columns = ("node", "source", "seq", "from_network", "false_positive")
    assert rows_of(answer("processed", inputs), *columns) == [
        (0, 0, 1, False, True),
        (0, 0, 2, False, True),
        (1, 0, 1, True, True),
        (1, 0, 2, True, False),
        (1, 1, 2, False, True),
    ]
