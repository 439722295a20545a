"""Paths of messages, on networks small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.texts import answer, frames_of, rows_of, table_of

#: Links 0-1, 1-2, 2-3 of cost 10 and 0-3 of cost 50.
_RING = {
    "links": table_of("links", [(0, 0, 1, 10), (1, 1, 2, 10), (2, 2, 3, 10), (3, 0, 3, 50)]),
    "shortest_paths": table_of("shortest_paths", [(0, 1, 1, 10), (0, 2, 2, 20), (0, 3, 1, 30)]),
}


def _hop(link: int, sender: int, receiver: int, at: int, **more: Any) -> dict[str, Any]:
    return {"link": link, "from_node": sender, "to_node": receiver, "time_ns": at, "epoch": 1, **more}


def _inputs(*hops: dict[str, Any], trees: tuple[tuple[int, int, int, int], ...] = ()) -> dict[str, pa.Table]:
    return {**_RING, "captured": frames_of(*hops), "trees": table_of("trees", trees)}


def test_repeated_frames_are_those_of_one_link_direction_and_fragment() -> None:
    once = [
        {"from_node": 0},
        {"from_node": 1},
        {"from_node": 0, "link": 1},
        {"from_node": 0, "fragment_index": 1},
    ]
    assert rows_of(answer("frames_repeated", {"captured": frames_of(*once)})) == [(0,)]
    thrice = {"captured": frames_of(*once, once[0], once[0])}
    columns = ("link", "from_node", "source", "seq", "crossings")
    assert rows_of(answer("repeated_frames", thrice), *columns) == [(0, 0, 0, 1, 3)]
    assert rows_of(answer("frames_repeated", thrice)) == [(2,)]


def test_crossings_join_fragments_and_ask_the_tree() -> None:
    inputs = _inputs(
        _hop(0, 0, 1, 7, length=50, fragment_index=1),
        _hop(0, 0, 1, 5),
        _hop(3, 0, 3, 6),
        _hop(2, 3, 2, 8, epoch=2),
        _hop(0, 0, 1, 5, undecodable="bad_value", seq=9),
        _hop(0, 0, 1, 5, type="RA"),
        trees=((1, 1, 0, 0), (1, 3, 0, 2)),
    )
    columns = ("link", "from_node", "to_node", "first_ns", "on_tree")
    assert rows_of(answer("crossings", inputs), *columns) == [
        (0, 0, 1, 5, True),
        (2, 3, 2, 8, None),
        (3, 0, 3, 6, False),
    ]


def test_hops_and_cost_add_up_from_the_source() -> None:
    inputs = _inputs(
        # Two messages of one source, on different paths.
        *(_hop(0, 0, 1, 1), _hop(1, 1, 2, 2), _hop(2, 2, 3, 3)),
        *(_hop(3, 0, 3, 1, seq=2), _hop(2, 3, 2, 2, seq=2)),
    )
    columns = ("seq", "node", "from_node", "arrived_ns", "hops", "cost", "shortest_hops", "shortest_cost")
    assert rows_of(answer("arrivals", inputs), *columns) == [
        (1, 1, 0, 1, 1, 10, 1, 10),
        (1, 2, 1, 2, 2, 20, 2, 20),
        (1, 3, 2, 3, 3, 30, 1, 30),
        (2, 2, 3, 2, 2, 60, 2, 20),
        (2, 3, 0, 1, 1, 50, 1, 30),
    ]
    assert answer("stretch", inputs).to_pylist() == [
        {
            "stretch_hops_mean": pytest.approx((1 + 1 + 3 + 1 + 1) / 5),
            "stretch_hops_max": 3.0,
            "stretch_cost_mean": pytest.approx((1 + 1 + 1 + 3 + 5 / 3) / 5),
            "stretch_cost_max": 3.0,
        }
    ]


def test_of_two_ways_into_a_router_the_one_on_the_tree_counts() -> None:
    twice = (_hop(3, 0, 3, 1), _hop(0, 0, 1, 1), _hop(1, 1, 2, 2), _hop(2, 2, 3, 3))
    by_first = rows_of(answer("arrivals", _inputs(*twice)), "node", "from_node", "hops")
    assert by_first[-1] == (3, 0, 1)
    by_tree = answer("arrivals", _inputs(*twice, trees=((1, 1, 0, 0), (1, 2, 0, 1), (1, 3, 0, 2))))
    assert rows_of(by_tree, "node", "from_node", "hops")[-1] == (3, 2, 3)


def test_gaps_and_loops_leave_the_path_unknown() -> None:
    # Nobody captured how message 1 came to node 1; message 2 goes round between 1 and 2.
    inputs = _inputs(_hop(1, 1, 2, 2), _hop(1, 1, 2, 2, seq=2), _hop(1, 2, 1, 3, seq=2))
    assert rows_of(answer("arrivals", inputs), "seq", "node", "hops", "cost") == [
        (1, 2, None, None),
        (2, 1, None, None),
        (2, 2, None, None),
    ]


def test_no_message_no_arrival() -> None:
    inputs = _inputs(_hop(0, 0, 1, 1, type="RA"))
    assert not answer("arrivals", inputs).num_rows
    assert set(answer("stretch", inputs).to_pylist()[0].values()) == {None}
