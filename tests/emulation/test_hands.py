"""Commands and programs on a running emulation (docs/how-to/running-network.md), and its verdict."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from captures.pcap.reader import PcapReader
from captures.rundir.faults import COMMANDS
from tests.support.applications import application_events
from tests.support.command import CBCB, Cbcb, Held, example, left_behind, output_of
from tests.support.paths import DOCS, ROOT
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation

_PROMPT = "cbcb> "


def _transcript() -> list[str]:
    """The lines of the documented session."""
    _, _, rest = (DOCS / "how-to/running-network.md").read_text().partition(f"```\n{_PROMPT}")
    return (_PROMPT + rest.partition("```")[0]).splitlines()


def _steady(lines: list[str]) -> list[str]:
    """The lines without times and numbers that differ from run to run."""
    text = "\n".join(lines)
    for pattern, instead in (
        (r"[+-][\d.]+ ms", "+T ms"),
        (r"[\d.]+ s( \(experiment time\)| after its sending)", r"T s\1"),
        (r"sequence number \d+, epoch \d+", "sequence number N, epoch N"),
        (r"cli-\d+", "cli-PID"),
    ):
        text = re.sub(pattern, instead, text)
    return text.splitlines()


def _cbcb(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CBCB, *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=240, check=False
    )


def test_the_documented_session_works_and_is_accounted_for(held: Callable[..., Held]) -> None:
    run = held("ring,5", waits=False)
    tag = run.tag
    assert "takes no commands" in _cbcb("link", "--run", tag, "0", "1", "down").stderr
    run.wait()
    assert (run.own / "control.sock").stat().st_mode & 0o777 == 0o600

    expected = _transcript()
    lines = [line.removeprefix(_PROMPT) for line in expected if line.startswith(_PROMPT)]
    session = output_of("cli", "--run", tag, stdin="\n".join([*lines, ""]))
    assert _steady(session.splitlines()) == _steady(expected)

    entered = output_of("exec", "--run", tag, "2", "--", "ip", "-brief", "link")
    assert sorted(line.split("@")[0].split()[0] for line in entered.splitlines()) == ["lo", "r2-eth0"]
    assert _cbcb("exec", "--run", tag, "r2", "--", "sh", "-c", "exit 7").returncode == 7
    refused = _cbcb("link", "--run", tag, "0", "2", "down")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "nodes 0 and 2 are not joined" in refused.stderr
    wrong = _cbcb("cli", "--run", tag, stdin="links\nlink 0 1 sideways\nnodes\n")
    assert (wrong.returncode, "nodes" in wrong.stdout) == (2, False)
    assert "sideways: expected up or down" in wrong.stderr

    summary = run.end()
    assert [one["command"] for one in COMMANDS.read_all(run.folder)] == [
        "exec 0 -- echo node $CBCB_NODE",
        "link 0 1 down",
        "link 0 1 up",
        "node 4 down",
        "node 4 up",
        "exec 2 -- ip -brief link",
        "exec 2 -- sh -c 'exit 7'",
    ]
    assert summary["held"]
    assert (summary["messages_sent"], summary["deliveries_made"]) == (2, 2)
    changed = [event for change in summary["recovery_s"] for event in change["events"]]
    # The controller may see the link go and come within one epoch, and a node by the ends of its links.
    seen = {f"link_{way} {link}" for way in ("down", "up") for link in ("0-1", "3-4", "4-0")}
    assert changed
    assert set(changed) <= seen | {"node_down 4", "node_up 4"}


# Applications: `cbcb pub` and `cbcb sub`, accounted for like any other application.


#: Example -> what it prints. The applications' order of arrival is not fixed; what they agree on is.
EXAMPLES = {
    "sensors.py": [
        "5 readings",
        'quantity = "temperature" and celsius > 23.0: [24.0, 31.5]',
        'quantity = "temperature" and room = "lab": [18.5, 24.0]',
    ],
    "monitoring.py": [
        "severity above 6: [('agent-0', 7), ('agent-0', 9), ('agent-1', 7), ('agent-1', 9)]",
        "severity above 8: [('agent-0', 9), ('agent-1', 9)]",
    ],
}


def test_examples_and_a_published_message_reach_subscribers(
    cbcb: Callable[..., Cbcb], held: Callable[..., Held]
) -> None:
    run = held("ring,5")
    timeout = ("--timeout-s", "200")
    run_dir = run.folder.path

    subscriber = cbcb("sub", "3", 'dest = "ORD" and price < 400', 'gate = "B7"', "--count", "2", *timeout)
    doomed = cbcb("sub", "1", 'dest = "ORD"', "--app", "doomed", *timeout)

    def subscribed() -> bool | None:
        return True if [e["event"] for e in application_events(run_dir)].count("subscribe") == 3 else None

    poll(subscribed, TIMEOUT, "the predicates are set")

    def delivered() -> str | None:
        # The advertisement travels while we publish: publish until two messages have arrived.
        output_of("pub", "r0", 'dest = "ORD", price = 300')
        return "yes" if subscriber.process.poll() is not None else None

    poll(delivered, 120, "the messages arrive")
    printed = subscriber.ends()
    first, *_, last = printed.splitlines()
    assert first.startswith("cbcb: run ")
    assert last.startswith("0:")
    assert 'dest = "ORD"' in printed

    # It can tell nobody that it no longer wants anything.
    doomed.kill()
    doomed.wait()

    def left() -> list[dict[str, Any]]:
        return [e for e in application_events(run_dir) if (e["app"], e["event"]) == ("doomed", "disconnect")]

    poll(lambda: left() or None, TIMEOUT, "the router notices")
    left_ns = time.time_ns()

    def later() -> bool | None:
        # Longer than the oracle's window.
        return True if time.time_ns() > left_ns + 200_000_000 else None

    poll(later, TIMEOUT, "a while passes")
    for _ in range(3):
        output_of("pub", "0", 'dest = "ORD", price = 500')

    assert {name: example(name) for name in EXAMPLES} == EXAMPLES
    summary = run.end()
    assert summary["messages_sent"] >= 5 + 5 + 2 * 2 * 6
    assert summary["deliveries_made"] >= 2 + 4 + 6
    assert [line["node"] for line in left()] == [1]
    judged = [json.loads(line) for line in run.folder.oracle.read_text().splitlines()]
    assert not [line for line in judged if line["app"] == "doomed" and line["sent_ns"] > left_ns]
    assert "Replay: 5 routers" in output_of("replay", str(run_dir))


def test_no_emulation_is_said_clearly(cbcb: Callable[..., Cbcb]) -> None:
    status, output = cbcb("pub", "0", "a = 1", "--run", "zzz").wait()
    assert status == 2
    assert output.strip() == "cbcb: no live run zzz"


# IP beside CBCB: programs on hosts reach each other, and the accounting of CBCB is as without them.


#: Ends with status 0 when the host of an address refuses a connection: it is there.
_REACH = """
import errno, socket, sys
with socket.socket() as asking:
    asking.settimeout(1)
    sys.exit(asking.connect_ex((sys.argv[1], 7)) != errno.ECONNREFUSED)
"""
#: A megabyte over TCP, from the address to whoever connects, and its receiver.
_SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as server:
    print("listening", flush=True)
    with server.accept()[0] as connection:
        connection.sendall(bytes(1 << 20))
"""
_FETCH = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=30) as connection:
    size = 0
    while data := connection.recv(65536):
        size += len(data)
print(size)
"""
_MORE = """\
[network]
ip = true
[workload]
messages_per_minute = 600
first_message_s = 0
"""


def test_hosts_talk_while_cbcb_runs_and_the_verdict_holds(held: Callable[..., Held]) -> None:
    run = held("ring,5", more=_MORE)
    tag, folder = run.tag, run.folder

    def on(node: str, code: str, address: str) -> list[str]:
        return [*CBCB, "exec", "--run", tag, node, "--", sys.executable, "-c", code, address]

    def reaches(node: str, address: str) -> bool:
        command = on(node, _REACH, address)
        return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240).returncode == 0

    def answers(node: str, address: str) -> None:
        poll(lambda: reaches(node, address) or None, 240, f"{address} answers {node}")

    for address in ("10.0.0.2", "10.0.0.3", "10.0.0.5"):
        answers("r0", address)
    with subprocess.Popen(
        on("r2", _SERVE, "10.0.0.3"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        fetched = subprocess.run(
            on("r0", _FETCH, "10.0.0.3"), cwd=ROOT, capture_output=True, text=True, timeout=120
        )
    assert fetched.stdout == f"{1 << 20}\n", fetched.stderr
    # The link of the way is gone, and a longer way serves; a node that was cut off has its address again.
    for words in (["link", "0", "1", "down"], ["node", "4", "down"], ["node", "4", "up"]):
        output_of(words[0], "--run", tag, *words[1:])
    answers("r0", "10.0.0.2")
    answers("r4", "10.0.0.3")
    summary = run.end()
    compared = summary["reconciliation"]["ovs"]
    assert compared["expected"] == compared["found"] > 0
    assert compared["differences"] == []
    # A megabyte in segments, over two links.
    assert summary["ip_frames"] > 2 * (1 << 20) / 1500
    assert sorted(path.name for path in folder.ip_captures_folder.iterdir()) == sorted(
        path.name for path in folder.captures_folder.glob("*.pcap")
    )


# The live view: the display while the network runs, equal numbers in the accounting, and no remains.


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
    file = Path(__file__).with_name("small.toml")
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
