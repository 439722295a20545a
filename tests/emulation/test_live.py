"""`cbcb run --live`: the display while the network runs, equal numbers in the accounting, and no remains."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from captures.pcap.reader import PcapReader
from tests.support.command import Cbcb, left_behind
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation

EXPERIMENT = """
duration_s = 120
time_scale = 10
[topology]
generator = "ring"
nodes = 5
[workload]
messages_per_minute = 60
senders_percent = 60
receivers_percent = 100
first_message_s = 10
"""


def state_of(port: int) -> dict[str, Any] | None:
    with (
        suppress(OSError, http.client.HTTPException),
        urlopen(f"http://127.0.0.1:{port}/state", timeout=TIMEOUT) as answer,
    ):
        document: dict[str, Any] = json.load(answer)
        return document
    return None


def _page_of(run: Cbcb) -> tuple[int, str]:
    """The port of the page, and what the run has printed until it named the port."""
    printed = ""

    def port() -> int | None:
        nonlocal printed
        printed += run.process.stdout.readline()  # type: ignore[union-attr]
        found = re.search(r"live: http://127\.0\.0\.1:(\d+)/", printed)
        return int(found.group(1)) if found else None

    return poll(port, 300, "the page is served"), printed


async def _typed(page: int, token: str, text: str, expected: str) -> str:
    """Types a line into the shell of node 3, which stays open; returns the output up to the expected text."""
    place = f"127.0.0.1:{page}"
    request = HTTPRequest(
        f"ws://{place}/console?token={token}&word=shell&word=3", headers={"Origin": f"http://{place}"}
    )
    console = await websocket_connect(request)
    await console.write_message(text)
    shown = ""
    while expected not in shown:
        part = await asyncio.wait_for(console.read_message(), TIMEOUT)
        assert isinstance(part, bytes), shown
        shown += part.decode()
    return shown


def test_a_live_run_shows_what_its_accounting_finds(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    run = cbcb("run", str(file), "--hold", "--control", "--live-port", "0", "--engine", "duckdb")
    run_state = run.state()
    page, printed = _page_of(run)
    copy = tmp_path / "copy.pcapng"
    copying = cbcb("capture", "--run", run_state["tag"], "--all", "--write", str(copy))
    seen: list[dict[str, Any]] = []

    def while_it_runs() -> bool | None:
        snapshot = state_of(page)
        if snapshot is not None:
            seen.append(snapshot)
            live = snapshot["phase"] in ("running", "settling")
            if live and snapshot["frames"]["MSG"] and snapshot["messages"]["expected"]:
                return True
        return None

    poll(while_it_runs, 120, "frames and deliveries are shown while the network runs")
    (token,) = re.findall(rf":{page}/#(\S+)", printed)
    line = "cd /; echo $PWD $CBCB_NODE; cbcb link 0 1 down; cbcb link 0 1 up; echo all $((1 + 1))\r"
    assert "/ 3\r\n" in asyncio.new_event_loop().run_until_complete(_typed(page, token, line, "all 2"))
    run.interrupt()

    def all_read() -> dict[str, Any] | None:
        snapshot = state_of(page)
        return snapshot if snapshot is not None and snapshot["stream"]["state"] == "ended" else None

    last = poll(all_read, 120, "every frame has been read")
    status, output = run.wait()
    assert status == 0, printed + output
    summary = json.loads(next(tmp_path.glob("*-small/summary.json")).read_text())
    assert {name: number for name, number in last["frames"].items() if number} == {
        name: number for name, number in summary["frames_by_type"].items() if number
    }
    messages = last["messages"]
    assert messages["sent"] == summary["messages_sent"] > 0
    assert messages["delivered"] == summary["deliveries_made"] > 0
    assert (messages["missing"], messages["spurious"]) == (0, 0)
    assert last["verdict"] == {"state": "holds so far", "reasons": []}
    assert {"command: shell 3", "link 0-1 down", "command: link 0 1 up"} <= {
        one["text"] for one in last["events"]
    }
    assert copying.ends() == ""
    captures = next(tmp_path.glob("*-small/pcap")).glob("link-*.pcap")
    assert sorted(PcapReader(copy).records()) == sorted(
        each for file in captures for each in PcapReader(file).records()
    )
    assert "live: " in printed + output
    assert left_behind(run_state) == []
    assert state_of(page) is None
