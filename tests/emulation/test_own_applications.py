"""Applications that are no part of the workload: the routers' records account for every one of them."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.runtime.client import Client
from tests.support.applications import application_events
from tests.support.command import Cbcb, Held
from tests.support.polling import TIMEOUT, wait_for

pytestmark = pytest.mark.emulation


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
    cbcb: Callable[..., Cbcb], held: Callable[..., Held]
) -> None:
    run = held("line,2")
    at = [run.own / f"r{node}.sock" for node in (0, 1)]
    plain = PlainProgram(at[1])
    assert plain.ask(op="set_predicate", predicate="x > 0")["ok"]
    _known(at[0], 1)
    for x in (1, 2):
        status, printed = cbcb("pub", "0", f"x = {x}").wait()
        assert status == 0, printed
    with Client(at[0]) as client:
        sent = [client.send_message(f"x = {x}") for x in (3, 4, 0)]
    lines = [plain.ask(op="send_message", message="x = 5"), *(plain.read() for _ in range(5))]
    # The last one is this node's own: it may overtake one that is still under way.
    assert sorted(line["attributes"]["x"] for line in lines if "event" in line) == [1, 2, 3, 4, 5]
    plain.close()
    summary = run.end()
    assert summary["verdict_reasons"] == []
    keys = ("messages_sent", "deliveries_expected", "deliveries_made", "messages_unrecorded")
    assert [summary[key] for key in keys] == [6, 5, 5, 0]
    assert summary["reconciliation"]["applications"] == {"expected": 11, "found": 11, "differences": []}
    events = application_events(run.folder.path)
    assert [(line["source"], line["seq"]) for line in events if line["event"] == "send_message"][2:5] == sent
    senders = Counter(line["app"].split("-")[0] for line in events if line["event"] == "send_message")
    assert senders == {"pub": 2, "app": 4}
