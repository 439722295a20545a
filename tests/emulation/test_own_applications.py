"""Applications that are no part of the workload: the routers' records account for every one of them."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.rundir.layout import RunLayout
from router.predicates.model import Message
from router.runtime.client import Client
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType
from router.wire.header import node_address, port_addresses
from testbed.support.names import port_device
from tests.support.applications import application_events
from tests.support.command import STATE, Cbcb
from tests.support.polling import TIMEOUT, poll, wait_for
from tests.support.runtime_wire import socket_in

pytestmark = pytest.mark.emulation


class Held:
    """An emulation of two routers without a workload, which stays up until `end`."""

    def __init__(self, cbcb: Callable[..., Cbcb], folder: Path) -> None:
        experiment = folder / "held.toml"
        experiment.write_text(
            'duration_s = 1\n[topology]\ngenerator = "line"\nnodes = 2\n[oracle]\nin_flight_window_s = 0.05\n'
        )
        self._folder = folder
        self._run = cbcb("run", str(experiment), "--hold", "--engine", "duckdb")
        self.state = self._run.state()
        run = RunLayout(Path(self.state["run_dir"]))
        # From then on Ctrl-C ends the workload and not the run.
        poll(lambda: run.clock.exists() or None, 300, "the clock of the workload runs")
        log = run.controller_log
        poll(lambda: (log.exists() and '"committed"' in log.read_text()) or None, 300, "routers have trees")

    @property
    def folder(self) -> Path:
        """The run's own files on this machine."""
        return STATE / str(self.state["tag"])

    def socket(self, node: int) -> Path:
        return self.folder / f"r{node}.sock"

    def end(self) -> tuple[Path, dict[str, Any]]:
        """Ends the emulation; returns its folder and its summary."""
        self._run.interrupt()
        _, output = self._run.wait()
        print(output)
        run_dir = next(self._folder.glob("*-held"))
        summary: dict[str, Any] = json.loads((run_dir / "summary.json").read_text())
        return run_dir, summary


class PlainProgram:
    """A program that knows of the testbed that there is a socket, and JSON on it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")

    def ask(self, **request: Any) -> dict[str, Any]:
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        return self.read()

    def read(self) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(self._lines.readline())
        return line

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def _known(path: Path, interface: int) -> None:
    """Waits until the table of a router has a predicate for an interface."""
    with Client(path) as client:
        wait_for(
            lambda: (
                None if any(row["interface"] == interface for row in client.status()["table"]) else "no row"
            )
        )


def test_pub_a_client_and_a_plain_program_are_accounted_for(
    cbcb: Callable[..., Cbcb], tmp_path: Path
) -> None:
    held = Held(cbcb, tmp_path)
    plain = PlainProgram(held.socket(1))
    assert plain.ask(op="set_predicate", predicate="x > 0")["ok"]
    _known(held.socket(0), 1)
    for x in (1, 2):
        status, printed = cbcb("pub", "0", f"x = {x}").wait()
        assert status == 0, printed
    with Client(held.socket(0)) as client:
        sent = [client.send_message(f"x = {x}") for x in (3, 4, 0)]
    lines = [plain.ask(op="send_message", message="x = 5"), *(plain.read() for _ in range(5))]
    # The last one is this node's own: it may overtake one that is still under way.
    assert sorted(line["attributes"]["x"] for line in lines if "event" in line) == [1, 2, 3, 4, 5]
    plain.close()
    run_dir, summary = held.end()

    assert summary["verdict_reasons"] == []
    keys = ("messages_sent", "deliveries_expected", "deliveries_made", "messages_unrecorded")
    assert [summary[key] for key in keys] == [6, 5, 5, 0]
    assert summary["reconciliation"]["applications"] == {"expected": 11, "found": 11, "differences": []}
    events = application_events(run_dir)
    assert [(line["source"], line["seq"]) for line in events if line["event"] == "send_message"][2:5] == sent
    senders = Counter(line["app"].split("-")[0] for line in events if line["event"] == "send_message")
    assert senders == {"pub": 2, "app": 4}


def test_a_message_that_no_router_recorded_fails_the_verdict(
    cbcb: Callable[..., Cbcb], tmp_path: Path
) -> None:
    held = Held(cbcb, tmp_path)
    frame = Frame(FrameType.MSG, 0, 77, 1, 64, Message({"x": 1}))
    (destination,) = port_addresses([1])
    (payload,) = fragment(frame)
    # Both switches are those of the first daemon; the end of node 0 of the link between them.
    daemon = int((held.folder / "switches" / "0.pid").read_text())
    with socket_in(Path(f"/proc/{daemon}/ns/net"), port_device(0, 1)) as link:
        link.send((destination + node_address(0) + b"\x88\xb5" + payload).ljust(60, b"\0"))
    _, summary = held.end()
    assert summary["verdict"] == "fails"
    assert summary["messages_unrecorded"] == 1
    assert (
        "1 captured messages that no router recorded as sent by an application" in summary["verdict_reasons"]
    )
    (difference,) = summary["reconciliation"]["applications"]["differences"]
    assert difference["where"] == "message 0/77: captured frames of a message that no router recorded"
