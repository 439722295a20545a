"""Compiled code delivers messages at nodes with one application; the core does at nodes with several."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("numba")

from router.wire.frames import Frame
from testbed.config.load import load_experiment
from testbed.sim.bulk import Bulk
from testbed.sim.simulation import Simulation, simulate
from testbed.terminal.progress import Progress
from tests.support.applications import application_events

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
