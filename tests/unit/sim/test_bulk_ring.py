"""The ring of arrivals grows while it is wrapped, and keeps the order of events."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("numba")

from testbed.config.load import load_experiment
from testbed.sim import bulk
from testbed.sim.layout import PORT_COUNT, Control
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress

#: Files that differ between any two runs.
_OF_THE_RUN = {"manifest.json", "timings.json", "simulation.json"}
#: Messages of several nodes are under way at a time, more and more of them.
_SENDERS = (0, 3, 7, 11)
EXPERIMENT = """
seed = 3
duration_s = 14

[topology]
generator = "grid"
rows = 4
columns = 4
""" + "".join(
    f"""
[[events]]
at_s = {at}
action = "{action}"
node = {node}
{what}
"""
    for at, action, node, what in (
        *((1 + 0.2 * node, "set_predicate", node, 'predicate = "x > 0"') for node in range(16)),
        *(
            (10 + 0.0003 * number, "send_message", sender, f'message = "x = {number + 1}"')
            for number in range(24)
            for sender in _SENDERS[: 1 + number // 6]
        ),
    )
)


def _files(folder: Path, bulk_: bool) -> dict[str, bytes]:
    folder.mkdir()
    path = folder / "grid.toml"
    path.write_text(EXPERIMENT)
    with (folder / "output").open("w") as output:
        run_dir = simulate(load_experiment(path, {}), folder, Progress(Console(file=output)), "all", bulk_)
    return {
        str(each.relative_to(run_dir)): each.read_bytes()
        for each in run_dir.rglob("*")
        if each.is_file() and each.name not in _OF_THE_RUN
    }


def test_a_ring_that_grows_keeps_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _files(tmp_path / "one", False)
    first = 4
    grown: list[tuple[int, bool]] = []
    drain = bulk.Bulk._drain

    def noted(self: bulk.Bulk) -> None:
        queued, rows = int(self._control[Control.QUEUED]), len(self._queue)
        if queued + self._nodes[:, PORT_COUNT].max() >= rows:
            grown.append((rows, int(self._control[Control.FRONT]) + queued > rows))
        drain(self)

    monkeypatch.setattr(bulk, "_ARRIVALS", first)
    monkeypatch.setattr(bulk.Bulk, "_drain", noted)
    found = _files(tmp_path / "other", True)
    assert max(rows for rows, _ in grown) >= 4 * first
    assert any(wrapped for _, wrapped in grown), grown
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
