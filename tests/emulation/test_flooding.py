"""Flooding on a real network: the check of the crossings that the accounting ascribes to pure broadcast."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.accounting.direct import Direct
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
layer = "rpf"
[workload]
senders_percent = 50
messages_per_minute = 20
first_message_s = 10
"""


def test_flooding_crosses_what_broadcast_is_said_to(tmp_path: Path) -> None:
    """On reverse paths, where frames go in vain; tests/spark simulates every layer."""
    path = tmp_path / "flooding.toml"
    path.write_text(_EXPERIMENT)
    folder = judged_run(path, tmp_path / "runs")
    with Direct(folder) as run:
        summary = run.summary()
        of_messages = run.sql("select cbcb, broadcast from savings").to_pylist()
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    crossings = summary["message_crossings"]
    assert crossings["messages"] == summary["messages_sent"] == len(of_messages) > 0
    assert all(row["cbcb"] == row["broadcast"] for row in of_messages)
    assert crossings["cbcb"] == summary["frames_by_type"]["MSG"]
