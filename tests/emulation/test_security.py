"""An emulation whose frames are tagged, and a rogue host without the key."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir.layout import RunLayout
from router.predicates.model import EVERYTHING, Message
from router.runtime.client import Client
from router.wire.addresses import CONTROLLER_DESTINATION, node_address, port_addresses
from router.wire.codec import encode
from router.wire.format import Flags
from router.wire.frames import Frame, FrameType, Hello
from tests.support.command import STATE, Cbcb, committed
from tests.support.guarded import head
from tests.support.polling import poll

pytestmark = pytest.mark.emulation

#: Sends the Ethernet frames that standard input has, a line of hex each, by the device of the host.
_SEND = """
import os, socket, sys
made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
made.bind((f"r{os.environ['CBCB_NODE']}-eth0", 0x88B5))
for line in sys.argv[1:]:
    made.send(bytes.fromhex(line))
"""


def test_the_verdict_holds_and_the_accounts_are_equal(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    chosen = ("--set", "security.mode=mac", "--set", "duration_s=120")
    status, printed = cbcb("run", "ring5", *chosen).wait()
    assert status == 0, printed
    (manifest,) = tmp_path.glob("*/manifest.json")
    run = RunLayout(manifest.parent)
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    assert summary["deliveries_expected"] == summary["deliveries_made"] > 0
    assert summary["reconciliation"]["routers"]["differences"] == []
    assert run.network_keys.stat().st_mode & 0o777 == 0o600
    counters = json.loads(run.routers_counters.read_text())
    assert not any("refused" in each for each in counters.values())
    # The recordings repeat what the routers did, without keys.
    status, printed = cbcb("replay", str(manifest.parent)).wait()
    assert status == 0, printed


def test_the_frames_of_a_rogue_host_without_the_key_are_refused_in_its_name(
    cbcb: Callable[..., Cbcb], tmp_path: Path
) -> None:
    experiment = tmp_path / "guarded.toml"
    experiment.write_text(
        'duration_s = 1\n[topology]\ngenerator = "line"\nnodes = 3\n[security]\nmode = "mac"\n'
        "[workload]\nmessages_per_minute = 1\n[oracle]\nin_flight_window_s = 0.05\n"
    )
    running = cbcb("run", str(experiment), "--hold", "--engine", "duckdb")
    state = running.state()
    run, tag = RunLayout(Path(state["run_dir"])), state["tag"]
    poll(lambda: committed(run.path), 300, "the emulation plays")
    control = STATE / tag / "control.sock"
    poll(lambda: control.exists() or None, 300, "the run takes commands")
    with Client(STATE / tag / "r0.sock", "victim") as victim:
        victim.set_predicate(EVERYTHING)
        epoch = victim.status()["epoch"]
        # To all ports of its switch, in the name of its own router, as switches demand.
        # Both neighbours get the frames.
        (ports,) = port_addresses([1, 2])
        frames = [
            Frame(FrameType.MSG, 1, 7 << 32, epoch, 9, Message({"forged": 1})),
            Frame(FrameType.RA, 1, 7 << 32, epoch, 9, EVERYTHING),
            Frame(FrameType.MSG, 1, 8 << 32, epoch, 9, Message({"forged": 2}), Flags.TAGGED),
        ]
        data = [head(ports, node_address(1)) + encode(frame) for frame in frames]
        hello = Frame(FrameType.HELLO, 1, 1, 0, 1, Hello(2**32 - 1))
        data.append(head(CONTROLLER_DESTINATION, node_address(1)) + encode(hello))
        sent = cbcb("exec", "--run", tag, "1", "--", sys.executable, "-c", _SEND, *map(bytes.hex, data))
        status, printed = sent.wait()
        assert status == 0, printed

        def refused() -> bool | None:
            return True if victim.status()["counters"].get("refused") == {"1": {"untagged": 3}} else None

        poll(refused, 300, "the victim counts the forged frames")
