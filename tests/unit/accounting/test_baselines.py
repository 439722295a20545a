"""Broadcast, unicast and the minimal tree beside CBCB, on networks small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captures.accounting.account import account_directly
from captures.accounting.baselines import WAYS, compute
from testbed.controller.trees import LAYERS
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.simulated import judged_run
from topos import LinkSpec, Node
from topos.build import build

#: Links 0-1, 1-2, 2-3 of cost 10 and 0-3 of cost 15.
_CLOSED = build(
    "ring",
    [Node(n) for n in range(4)],
    [LinkSpec(0, 1, 10), LinkSpec(1, 2, 10), LinkSpec(2, 3, 10), LinkSpec(0, 3, 15)],
)


def test_crossings_of_the_three_ways() -> None:
    """Receivers 2 and 3: along the chain 3 links; unicast takes 0-1-2 and 0-3; the second goes nowhere."""
    receivers = {1: (0, 2, 3), 2: (0,), 3: (1,)}
    messages = [{"source": 0, "seq": seq} for seq in receivers]
    chain: list[dict[str, Any]] = [
        {"source": 0, "epoch": 1, "node": node, "parent": node - 1, "off_tree": [], "told_ns": 0}
        for node in (1, 2, 3)
    ]
    found = compute(
        _CLOSED,
        pa.Table.from_pylist([each | {"sent_ns": 1} for each in messages]),
        pa.Table.from_pylist(chain),
        pa.Table.from_pylist(
            [
                {"source": 0, "seq": seq, "node": node, "expected": True}
                for seq, nodes in receivers.items()
                for node in nodes
            ]
        ),
        pa.Table.from_pylist([each | {"epoch": 1} for each in messages]),
    )
    columns = found["baselines"].to_pydict()
    assert columns["receivers"] == [3, 1, 1]
    assert {way: columns[way] for way in WAYS} == {
        "broadcast": [3, 3, 3],
        "unicast": [3, 0, 1],
        "minimal": [3, 0, 1],
    }
    crossed = {
        (row["from_node"], row["to_node"]): tuple(row[way] for way in WAYS)
        for row in found["link_baselines"].to_pylist()
    }
    assert crossed == dict.fromkeys([(1, 0), (2, 1), (3, 2), (3, 0)], (0, 0, 0)) | {
        (0, 1): (3, 2, 2),
        (1, 2): (3, 1, 1),
        (2, 3): (3, 0, 1),
        (0, 3): (0, 1, 0),
    }


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
