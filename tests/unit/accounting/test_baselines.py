"""Broadcast, unicast and the minimal tree beside CBCB, on networks small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from captures.accounting.account import account_directly
from testbed.controller.trees import LAYERS
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.simulated import judged_run
from tests.support.texts import answer, frames_of, rows_of, table_of

_WAYS = ("broadcast", "unicast", "minimal")


def test_crossings_of_the_three_ways() -> None:
    """Receivers 2 and 3: along the chain 3 links; unicast takes 0-1-2 and 0-3; the second goes nowhere."""
    receivers = {1: (0, 2, 3), 2: (0,), 3: (1,)}
    answers = [(0, seq, 1, node, "a", True, True) for seq, nodes in receivers.items() for node in nodes]
    inputs = {
        "links": table_of("links", [(0, 0, 1, 10), (1, 1, 2, 10), (2, 2, 3, 10), (3, 0, 3, 15)]),
        "shortest_paths": table_of("shortest_paths", [(0, 1, 1, 10), (0, 2, 2, 20), (0, 3, 1, 15)]),
        "trees": table_of("trees", [(1, node, 0, node - 1, 0, []) for node in (1, 2, 3)]),
        "sent": table_of("sent", [(0, seq, 1, "") for seq in receivers]),
        "oracle": table_of("oracle", answers),
    }
    found = rows_of(answer("savings", inputs), "seq", "receivers", *_WAYS)
    assert found == [(1, 3, 3, 3, 3), (2, 1, 3, 0, 0), (3, 1, 3, 1, 1)]
    links = rows_of(answer("link_savings", inputs), "from_node", "to_node", *_WAYS)
    crossed = {(u, v): tuple(ways) for u, v, *ways in links}
    assert crossed == dict.fromkeys([(1, 0), (2, 1), (3, 2), (3, 0)], (0, 0, 0)) | {
        (0, 1): (3, 2, 2),
        (1, 2): (3, 1, 1),
        (2, 3): (3, 0, 1),
        (0, 3): (0, 1, 0),
    }


def test_a_tree_is_what_hangs_together_with_its_source() -> None:
    """Routers 2 and 3 name each other as parents; 1 sends to 2, which drops what comes from there."""
    trees = [(1, 1, 0, 0, 0, [2]), (1, 2, 0, 3, 0, []), (1, 3, 0, 2, 0, [])]
    found = answer("tree_links", {"trees": table_of("trees", trees)})
    assert rows_of(found, "from_node", "to_node", "dropped") == [(0, 1, False), (1, 2, True)]


def test_a_link_to_a_member_that_kept_a_message_counts_for_no_cause() -> None:
    """Along a chain, 1 keeps the message, 3 discards it, and a frame goes on to 4."""
    hops = ({"link": n, "from_node": n, "to_node": n + 1, "epoch": 1, "time_ns": n} for n in range(4))
    inputs = {
        "captured": frames_of(*hops),
        "trees": table_of("trees", [(1, node, 0, node - 1, 0, []) for node in (1, 2, 3, 4)]),
        "delivered": table_of("delivered", [(0, 1, 1, "a", 5)]),
        "discarded": table_of("discarded", [(0, 1, 3, "a", 5, "hash"), (0, 1, 3, "b", 5, "stale")]),
    }
    (found,) = answer("private_crossings", inputs, private="true").to_pylist()
    assert found == {"kept": 1, "operator": 0, "hash": 2, "other": 0, "no_delivery": 1}


def _accounted(folder: Path, **overrides: str) -> tuple[dict[str, Any], Path]:
    given = {"duration_s": "120", "topology.nodes": "12", "workload.first_message_s": "0"} | overrides
    experiment = load_experiment(find_experiment("default"), given)
    run = judged_run(experiment, folder).path
    return account_directly(run, lambda _: None), run


@pytest.mark.parametrize("layer", LAYERS)
def test_flooding_crosses_what_broadcast_is_said_to(tmp_path: Path, layer: str) -> None:
    summary, run = _accounted(
        tmp_path, **{"routing.scheme": "flooding", "broadcast.layer": layer, "seed": "3"}
    )
    savings = pq.read_table(run / "parquet" / "savings")
    assert savings["cbcb"].to_pylist() == savings["broadcast"].to_pylist()
    links = pq.read_table(run / "parquet" / "link_savings")
    assert links["cbcb"].to_pylist() == links["broadcast"].to_pylist()
    crossings = summary["message_crossings"]
    assert crossings["messages"] == summary["messages_sent"] == savings.num_rows > 0
    assert crossings["cbcb"] == summary["frames_by_type"]["MSG"]


def test_cbcb_lies_between_the_minimal_tree_and_broadcast(tmp_path: Path) -> None:
    summary, run = _accounted(tmp_path, seed="4", duration_s="900")
    rows = pq.read_table(run / "parquet" / "savings").to_pylist()
    assert all(row["minimal"] <= row["cbcb"] <= row["broadcast"] for row in rows)
    assert all(row["minimal"] <= row["unicast"] for row in rows)
    crossings = summary["message_crossings"]
    assert 0 < crossings["minimal"] < crossings["cbcb"] < crossings["broadcast"]
    assert crossings["minimal"] < crossings["unicast"]
