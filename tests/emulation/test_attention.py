"""The attention-limited service on real routers: deliveries as in the simulation; recordings replay."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from captures.pcap.reader import PcapReader
from captures.rundir.layout import RunLayout
from router.protocol.attention.strategies import STRATEGIES
from router.recording.replay import check
from router.wire.header import decode_header
from tests.support.attention_experiment import DELIVERIES, deliveries, experiment, outcomes
from tests.support.command import CBCB
from tests.support.paths import ROOT

pytestmark = pytest.mark.emulation

_ETHERNET = 14


def _run(command: str, path: Path, runs: Path) -> Path:
    done = subprocess.run(
        [*CBCB, command, str(path), "--runs", str(runs), "--no-account"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = runs.iterdir()
    return folder


@pytest.mark.parametrize("strategy", tuple(STRATEGIES))
def test_real_routers_deliver_as_simulated_routers_do(tmp_path: Path, strategy: str) -> None:
    path = experiment(tmp_path / f"{strategy}.toml", strategy, 3)
    emulated = _run("run", path, tmp_path / "emulated")
    simulated = _run("simulate", path, tmp_path / "simulated")
    assert deliveries(emulated) == deliveries(simulated) == DELIVERIES
    assert outcomes(emulated) == outcomes(simulated)
    run = RunLayout(emulated)
    frames = {
        decode_header(record.data[_ETHERNET:]).type.name
        for capture in run.captures_folder.glob("link-*.pcap")
        for record in PcapReader(capture).records()
    }
    assert frames == {"SUB", "PUB", "OVERLOAD"} if strategy == "eon" else {"SUB", "PUB"}
    for node in range(5):
        replayed = check(run.recording(node))
        assert (replayed.difference, replayed.cut) == (None, None)
