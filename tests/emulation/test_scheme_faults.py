"""Every routing scheme on a real ring that loses a link and gets it back: epochs, deliveries, frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.summary import read_summary

pytestmark = pytest.mark.emulation

_EXPERIMENT = """\
seed = 11
duration_s = 90
time_scale = 20
[topology]
generator = "ring"
nodes = 5
[routing]
scheme = "{scheme}"
[workload]
senders_percent = 100
receivers_percent = 100
messages_per_minute = 60
changing_receivers_percent = 40
predicate_change_interval_s = 60
first_message_s = 10
[oracle]
in_flight_window_s = 0.5
[[events]]
at_s = 35
action = "link_down"
link = [0, 1]
[[events]]
at_s = 65
action = "link_up"
link = [0, 1]
"""


# `pif` goes through more faults in test_recovery.
@pytest.mark.parametrize("scheme", ["pif-classes", "psf", "ips", "drp"])
def test_a_link_fails_and_returns(emulated: Callable[..., Path], scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "fault.toml"
    path.write_text(_EXPERIMENT.format(scheme=scheme))
    summary = read_summary(RunLayout(emulated(str(path), "--engine", "duckdb")))
    assert summary["epochs"] == 3
    assert [change["events"] for change in summary["recovery_s"]] == [["link_down 0-1"], ["link_up 0-1"]]
    assert summary["deliveries_decided"] > 50
    if scheme != "pif-classes":
        # On the trees of each epoch, whatever the predicates are.
        assert summary["excess_crossings"] == 0
