"""The attention-limited service on real routers, judged and accounted for.

Deliveries and traffic are those of the simulation, and recordings replay.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.summary import read_summary
from router.protocol.services.attention.dissemination import FanOut, StrategyName
from router.recording.replay import check
from router.wire.header import decode_header
from tests.support.attention_experiment import DELIVERIES, deliveries, experiment, outcomes
from tests.support.command import output_of
from tests.support.questions import ask

pytestmark = pytest.mark.emulation

_ETHERNET = 14
#: The publications that break I4 of docs/explanation/attention.md.
_PENDING_TWICE = """SELECT attention.source, attention.seq FROM frames
WHERE type = 'PUB' AND attention.flags & 1 = 1 GROUP BY ALL HAVING count(DISTINCT (issuer, frames.seq)) > 1"""


def _held(run: RunLayout) -> dict[str, Any]:
    """The summary of a run whose verdict holds, and in which no delivery breaks a rule."""
    summary = read_summary(run)
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    assert set(summary["attention"]["violations"].values()) == {0}
    assert ask(run.path, _PENDING_TWICE) == []
    return summary


@pytest.mark.parametrize("fan_out", ["whole", "sequential"])
@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_real_routers_deliver_as_simulated_routers_do(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    emulated: Callable[..., Path],
    strategy: StrategyName,
    fan_out: FanOut,
) -> None:
    path = experiment(tmp_path_factory.getbasetemp() / f"{strategy}-{fan_out}.toml", strategy, 3, fan_out)
    run = RunLayout(emulated(str(path), "--engine", "duckdb"))
    output_of("simulate", str(path), "--runs", str(tmp_path / "simulated"), "--engine", "duckdb")
    (simulated,) = (tmp_path / "simulated").iterdir()
    assert deliveries(run.path) == deliveries(simulated) == DELIVERIES
    assert outcomes(run.path) == outcomes(simulated)
    summary = _held(run)
    assert summary["rests_on"]["frames"] == "captures"
    # beta_s of pdp is below the time for which frames may be under way.
    assert (summary["attention"]["undecided"] is None) == (strategy == "eon")
    assert summary["attention"] == _held(RunLayout(simulated))["attention"]
    frames = {
        decode_header(record.data[_ETHERNET:]).type.name
        for capture in run.captures_folder.glob("link-*.pcap")
        for record in PcapReader(capture).records()
    }
    assert frames == {"SUB", "PUB", "OVERLOAD"} if strategy == "eon" else {"SUB", "PUB"}
    for node in range(5):
        replayed = check(run.recording(node))
        assert (replayed.difference, replayed.cut) == (None, None)
