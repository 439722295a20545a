"""Compiled code delivers messages at nodes with one application; the core does at nodes with several."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("numba")

from router.clock.pieces import Piece
from router.predicates.parser import parse_predicate
from router.protocol.events import SetPredicate
from router.protocol.options import RouterOptions
from router.records.applications import delivery_head
from router.wire.frames import Frame
from testbed.config.load import load_experiment
from testbed.sim.bulk import Bulk
from testbed.sim.simulation import Simulation, simulate
from testbed.terminal.progress import Progress
from tests.support.applications import application_events
from tests.support.one_router import msg, set_up

#: Node 1 has one application, node 2 two, and the predicate of node 3 changes: it selects odd messages first.
EXPERIMENT = (
    """
seed = 1
duration_s = 20

[topology]
generator = "line"
nodes = 4
"""
    + "".join(
        f"""
[[events]]
at_s = {at}
action = "set_predicate"
node = {node}
app = "{app}"
predicate = "{predicate}"
"""
        for at, node, app, predicate in (
            (1, 1, "workload", "x > 2"),
            (1, 2, "a", "x > 4"),
            (1, 2, "b", "x < 2"),
            (1, 3, "workload", "odd = true"),
            (10, 3, "workload", "odd = false"),
        )
    )
    + "".join(
        f"""
[[events]]
at_s = {3 + 2 * number}
action = "send_message"
node = 0
message = "x = {number}, odd = {"true" if number % 2 else "false"}"
"""
        for number in range(8)
    )
)


def test_one_application_gets_messages_from_compiled_code_and_several_from_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_core: Counter[int] = Counter()
    compiled = 0
    deliver, record = Simulation._delivered, Bulk._record

    def delivered(self: Simulation, node: int, at_ns: int, frame: Frame) -> None:
        by_core[node] += 1
        deliver(self, node, at_ns, frame)

    def recorded(self: Bulk, first: int, end: int) -> int:
        nonlocal compiled
        compiled += self._records[first:end].tobytes().count(b"\n")
        return record(self, first, end)

    monkeypatch.setattr(Simulation, "_delivered", delivered)
    monkeypatch.setattr(Bulk, "_record", recorded)
    path = tmp_path / "line.toml"
    path.write_text(EXPERIMENT)
    with (tmp_path / "output").open("w") as output:
        run_dir = simulate(load_experiment(path, {}), tmp_path, Progress(Console(file=output)), "all", True)
    found = Counter(
        (event["node"], event["app"]) for event in application_events(run_dir) if event["event"] == "deliver"
    )
    # Of node 3: 1 and 3 before its change; 4 and 6 after it.
    assert found == {(1, "workload"): 5, (2, "a"): 3, (2, "b"): 2, (3, "workload"): 4}
    assert by_core == {2: 5}
    assert compiled == 9


def test_a_copy_is_left_to_the_core() -> None:
    core = set_up(RouterOptions())
    core.handle(SetPredicate(1, parse_predicate("a any integer")), 0.0)
    reported: list[bytes] = []
    under_way = Bulk(
        [core],
        np.array([[0, 1, 0, port] for port in (1, 2, 3)], np.int64),
        [{port: port - 1 for port in (1, 2, 3)}],
        np.zeros(1, np.int64),
        None,
        lambda _node, _at_ns, frame: pytest.fail(f"not delivered in compiled code: {frame}"),
        lambda _, records: reported.append(records),
        lambda node, _: delivery_head(node, "workload"),
        [11, 12, 13],
        None,
    )
    for number, (issuer, seq) in enumerate(((11, 1), (11, 1), (21, 7))):
        under_way.send(number, number, 0, 0, 2, msg(issuer, seq=seq, a=1), 60)
    copies = 0
    while under_way.head is not None:
        if under_way.run(9, (9, 0), 9, 1000, Piece(0, 0.0, 1.0)).core:
            *_, frame = under_way.take()
            assert (frame.issuer, frame.seq) == (11, 1)
            copies += 1
    assert copies == 1
    records = [json.loads(line) for line in b"".join(reported).splitlines()]
    assert [(each["source"], each["seq"]) for each in records] == [(11, 1), (21, 7)]
