"""Flooding on a real network: the check of the crossings that the accounting ascribes to pure broadcast."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from testbed.controller.trees import LAYERS
from tests.support.judged_run import judged_run

pytestmark = pytest.mark.emulation

_EXPERIMENT = """\
seed = 3
duration_s = 60
time_scale = 20
[topology]
generator = "waxman"
nodes = 6
[routing]
scheme = "flooding"
[broadcast]
layer = "{layer}"
[workload]
senders_percent = 50
messages_per_minute = 20
first_message_s = 10
"""


@pytest.mark.parametrize("layer", LAYERS)
def test_flooding_crosses_what_broadcast_is_said_to(layer: str, tmp_path: Path) -> None:
    path = tmp_path / "flooding.toml"
    path.write_text(_EXPERIMENT.format(layer=layer))
    folder = judged_run(path, tmp_path / "runs")
    with Direct(folder) as run:
        summary = run.summary()
        of_messages = run.sql("select cbcb, broadcast from savings").to_pylist()
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    crossings = summary["message_crossings"]
    assert crossings["messages"] == summary["messages_sent"] == len(of_messages) > 0
    assert all(row["cbcb"] == row["broadcast"] for row in of_messages)
    assert crossings["cbcb"] == summary["frames_by_type"]["MSG"]
