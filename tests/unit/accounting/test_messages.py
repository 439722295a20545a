"""Deliveries against the oracle, and paths of messages, on cases small enough to work out by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.texts import answer, frames_of, rows_of, table_of, wall

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


def _converged(at_s: float) -> pa.Table:
    return pa.table({"end_ns": [wall(at_s)]})


def test_totals_of_outcomes_of_every_kind() -> None:
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


def test_totals_of_nothing_are_zero() -> None:
    (totals,) = answer("outcome_totals", {}).to_pylist()
    assert set(totals.values()) == {0}
    assert set(answer("delivery_delay", {}).to_pylist()[0].values()) == {None}


def test_the_delay_of_what_was_delivered() -> None:
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
    # Copies of unicast have one hop limit, and a frame in a loop has not.
    of_unicast = {"copies": "true"}
    assert rows_of(answer("frames_repeated", thrice, **of_unicast)) == [(0,)]
    looping = {"captured": frames_of(*({"hop_limit": hops} for hops in (30, 30, 28)))}
    assert rows_of(answer("frames_repeated", looping, **of_unicast)) == [(2,)]


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


def test_stretch_is_that_of_hops_and_cost_from_the_source() -> None:
    inputs = _inputs(
        # Two messages of one source, on different paths.
        *(_hop(0, 0, 1, 1), _hop(1, 1, 2, 2), _hop(2, 2, 3, 3)),
        *(_hop(3, 0, 3, 1, seq=2), _hop(2, 3, 2, 2, seq=2)),
    )
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


def test_no_message_no_arrival() -> None:
    inputs = _inputs(_hop(0, 0, 1, 1, type="RA"))
    assert not answer("arrivals", inputs).num_rows
    assert set(answer("stretch", inputs).to_pylist()[0].values()) == {None}
