"""Runs on a stock kernel: the kernel datapath of Open vSwitch, and links that netem and TBF shape.

Where this machine's kernel lacks them, one guest runs all tests of this file (`.ci/stock-kernel`, User Mode
Linux), and each test here has the outcome of its namesake there.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from captures.rundir.layout import RunLayout
from router.wire.addresses import HOST_PORT
from testbed.machine.probes import datapath, kernel_features
from testbed.network.namespaces import Namespaces, run_inside
from testbed.network.ovs_counters import parse_ports
from testbed.network.switch_daemons import Group, SwitchDaemons
from tests.support.command import Cbcb
from tests.support.paths import ROOT

pytestmark = pytest.mark.emulation

Start = Callable[..., Cbcb]
_IN_GUEST = "CBCB_STOCK_KERNEL" in os.environ
#: Wall seconds of the guest, its boot included.
_GUEST_S = 600


def _here() -> bool:
    """Whether this kernel has what the tests need."""
    return _IN_GUEST or (datapath() == "kernel" and kernel_features().netem and kernel_features().tbf)


@functools.cache
def _outcomes() -> Mapping[str, str]:
    """Runs this file in a guest; returns the failures of its tests by name, empty for a test that passed."""
    # The guest shares this machine's compiled code, and would not keep its own.
    compile_all = [sys.executable, "-m", "testbed.machine.compiled"]
    subprocess.run(compile_all, cwd=ROOT, check=True, capture_output=True)
    folder = ROOT / "build" / "stock-kernel"
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "results.xml"
    report.unlink(missing_ok=True)
    inside = [
        sys.executable,
        "-m",
        "pytest",
        str(Path(__file__)),
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    guest = [str(ROOT / ".ci" / "stock-kernel"), "-m", "1500M", "-t", str(_GUEST_S), "-o", str(folder)]
    done = subprocess.run([*guest, *inside], capture_output=True, text=True, check=False)
    if done.returncode == 125:
        pytest.skip(f"no stock kernel here: {done.stderr.strip().splitlines()[-1]}")
    assert report.exists(), done.stdout[-4000:] + done.stderr[-2000:]
    return {
        case.get("name", ""): "\n".join(part.text or str(part.get("message")) for part in case)
        for case in ElementTree.parse(report).getroot().iter("testcase")
    }


def _on_stock_kernel(test: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(test)
    def outcome(*arguments: Any, **named: Any) -> None:
        if _here():
            test(*arguments, **named)
        else:
            assert _outcomes()[test.__name__] == ""

    return outcome


def _concluded(run: RunLayout) -> dict[str, Any]:
    """The summary of a run whose verdict holds, and which lost nothing in a switch."""
    summary: dict[str, Any] = json.loads(run.summary.read_text())
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    assert summary["datapath"] == "kernel"
    for name, account in summary["reconciliation"].items():
        assert (account["differences"], account["found"] > 0) == ([], True), name
    return summary


def _run(cbcb: Start, runs: Path, name: str, *more: str) -> dict[str, Any]:
    status, output = cbcb("run", name, *more, "--engine", "duckdb").wait()
    assert status == 0, output
    (folder,) = (path.parent for path in runs.glob("*/summary.json"))
    return _concluded(RunLayout(folder))


def _event(at_s: float, action: str, **values: object) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["", "[[events]]", f"at_s = {at_s}", f'action = "{action}"', *lines, ""])


@_on_stock_kernel
def test_the_default_experiment_holds_on_the_kernel_datapath(cbcb: Start, tmp_path: Path) -> None:
    summary = _run(cbcb, tmp_path, "default")
    assert summary["deliveries_made"] > 100
    assert summary["switch_drops"] == 0


_PAIR = """
seed = 3
duration_s = 8
time_scale = 1
workload = false
[topology]
name = "pair"
link = [{ u = 0, v = 1, delay_ms = 400 }]
[oracle]
in_flight_window_s = 1.5
"""


@_on_stock_kernel
def test_a_change_of_a_delay_loses_no_frame_under_way(cbcb: Start, tmp_path: Path) -> None:
    """Five messages are in netem's queue when the delay changes, and when it is taken away."""
    sendings = [4 + 0.05 * number for number in range(5)] + [5.5 + 0.05 * number for number in range(5)]
    file = tmp_path / "pair.toml"
    file.write_text(
        _PAIR
        + _event(0, "set_predicate", node=1, predicate="x > 0")
        + "".join(_event(at_s, "send_message", node=0, message="x = 1") for at_s in sendings)
        + _event(4.27, "link_impair", link=[0, 1], delay_ms=300)
        + _event(5.72, "link_impair", link=[0, 1], delay_ms=0)
    )
    summary = _run(cbcb, tmp_path, str(file))
    assert (summary["deliveries_made"], summary["false_negatives"]) == (10, 0)


@_on_stock_kernel
def test_an_ovs_vswitchd_that_is_restarted_sends_no_frame_of_its_own(tmp_path: Path) -> None:
    """Into the datapath of the one before it would send a frame of EtherType 0x1234, to try the kernel."""
    (namespace,) = (held := Namespaces()).make(1)
    for line in ("s0-e1 type veth peer name h1", "s0-h type veth peer name h0"):
        run_inside(namespace, ["ip", "link", "add", *line.split()])
    for device in ("s0-e1", "h1", "s0-h", "h0"):
        run_inside(namespace, ["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"])
        run_inside(namespace, ["ip", "link", "set", device, "up"])
    daemons = SwitchDaemons(tmp_path, [Group(namespace, {0: [1, HOST_PORT]})], "kernel")
    try:
        daemons.start(tmp_path / "controller")
        before = parse_ports(daemons.port_statistics())
        daemons.of(0).kill_switches()
        daemons.of(0).restart_switches()
        daemons.wait_for_database(0)
        assert parse_ports(daemons.port_statistics()) == before
        assert daemons.take_lost_upcalls() == {0: 0}
    finally:
        daemons.stop()
        held.close()
