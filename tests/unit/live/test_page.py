"""The live view: its page, served on loopback only and shown by a real browser, and its terminal."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from captures.rundir.faults import CommandRecord, append_command
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.live import view
from testbed.results.live.server import HOST, LiveServer
from testbed.results.live.state import SLOT_NS, LinkCount, LiveState
from testbed.results.live.view import LiveView, live_line, live_table
from testbed.results.live.watch import Watcher, open_state
from testbed.support.processes import Child
from testbed.terminal.progress import Progress
from tests.support.applications import application_events, delivery_event
from tests.support.attention_experiment import DELIVERIES, experiment
from tests.support.browser import contrasts, needs_chromium, shown
from tests.support.polling import TIMEOUT, poll
from tests.support.simulated import simulated


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = load_experiment(find_experiment("ring5"))
    return simulated(experiment, tmp_path_factory.mktemp("runs"), "none").path


@pytest.fixture
def state(run_dir: Path) -> LiveState:
    """The logs of a run without captures have been followed; some frames have been counted."""
    state = open_state(run_dir)
    with Watcher(state):
        poll(lambda: state.snapshot()["messages"]["judged"] or None, TIMEOUT, "messages are judged")
    state.set_stream("running")
    slot = read_clock(RunLayout(run_dir)).start_ns // SLOT_NS + 1
    state.take_counts([LinkCount(0, "MSG", slot, 30, 3000), LinkCount(1, "RA", slot + 1, 10, 900)])
    return state


@pytest.fixture
def server(state: LiveState) -> Iterator[LiveServer]:
    with LiveServer(state, 0) as serving:
        yield serving


def get(url: str, path: str, host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_a_snapshot_says_what_is_known(state: LiveState, run_dir: Path) -> None:
    snapshot = state.snapshot()
    lines = application_events(run_dir)
    messages = snapshot["messages"]
    assert messages["sent"] == sum(line["event"] == "send_message" for line in lines)
    assert messages["delivered"] == sum(line["event"] == "deliver" for line in lines)
    assert messages["expected"] == messages["made"] > 0
    assert (snapshot["frames"]["MSG"], snapshot["frames"]["RA"], snapshot["bytes"]) == (30, 10, 3900)
    assert [link["frames"] for link in snapshot["links"]][:3] == [30, 10, 0]
    series = snapshot["series"]
    assert sum(series["types"]["MSG"]) == 30
    assert sum(series["sent"]) == messages["sent"]
    assert {len(values) for values in (series["sent"], series["delivered"], *series["types"].values())} == {
        len(series["missing"])
    }
    assert snapshot["verdict"] == {"state": "holds so far", "reasons": []}
    assert snapshot["phase"] == "accounting"


def test_publications_senders_receivers_and_commands_of_a_session_are_shown(tmp_path: Path) -> None:
    loaded = load_experiment(experiment(tmp_path / "attention.toml", "eon", 3))
    run = simulated(loaded, tmp_path / "runs")
    append_command(run, CommandRecord(at_s=4.26, time_ns=1, command="link 0 1 set loss=20"))
    state = open_state(run.path)
    with Watcher(state):
        snapshot = state.snapshot()
    assert (snapshot["messages"]["sent"], snapshot["messages"]["delivered"]) == (5, len(DELIVERIES))
    assert (snapshot["senders"], snapshot["receivers"]) == ([0, 1, 2, 3, 4], [0, 1])
    assert snapshot["events"][-1] == {"t_s": 4.3, "text": "command: link 0 1 set loss=20"}


def test_what_goes_wrong_is_said(state: LiveState) -> None:
    deliver = delivery_event(0, 1, 1, source=99, app="workload")
    state.take_applications([deliver, deliver])
    state.take_counts([LinkCount(0, "undecodable", 1, 2, 100)])
    verdict = state.snapshot()["verdict"]
    assert verdict["state"] == "does not hold so far"
    assert verdict["reasons"] == ["1 duplicate deliveries", "2 undecodable frames"]


def test_links_and_nodes_that_fail_are_shown(state: LiveState) -> None:
    state.take_controller(
        [
            {"t_ns": 1, "event": "link_down", "link": 2, "u": 2, "v": 3},
            {"t_ns": 2, "event": "node_down", "node": 4},
        ]
    )
    snapshot = state.snapshot()
    assert [link["index"] for link in snapshot["links"] if not link["up"]] == [2]
    assert snapshot["down_nodes"] == [4]
    assert [event["text"] for event in snapshot["events"]][-1] == "node 4 down"


def test_frames_of_the_future_leave_the_loads_of_now(
    state: LiveState, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    now = now_ns // SLOT_NS
    later = [LinkCount(0, "MSG", now + number * 10**6, 1, 100) for number in range(1, 50)]
    state.take_counts([LinkCount(1, "MSG", now, 5, 500), *later])
    snapshot = state.snapshot()
    assert [link["recent"] > 0 for link in snapshot["links"]][:3] == [True, True, False]
    assert sum(snapshot["series"]["types"]["MSG"]) == 30 + 5 + len(later)


def test_the_terminal_shows_the_same(state: LiveState) -> None:
    snapshot = state.snapshot()
    console = Console(file=StringIO(), width=120)
    console.print(live_table(snapshot, state.topology(), "http://127.0.0.1:1/"))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("holds so far", "40 (MSG 30, RA 10)", "0 missed", "http://127.0.0.1:1/"):
        assert expected in printed
    assert "frames: 40 (MSG 30, RA 10); " in live_line(snapshot)
    assert "\n" not in live_line(snapshot)
    short = {**snapshot, "clock_s": 2.5, "run": {**snapshot["run"], "duration_s": 2.5}}
    assert live_line(short).startswith("live: 2.5 of 2.5 s;")


def test_serves_the_page_and_its_data(server: LiveServer) -> None:
    status, headers, page = get(server.url, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=UTF-8")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    # The page loads no other file: its only address is the name space of SVG.
    assert set(re.findall(rb"https?://[^\"' ]+", page)) == {b"http://www.w3.org/2000/svg"}
    status, headers, document = get(server.url, "/state")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(document)["frames"]["MSG"] == 30
    assert len(json.loads(get(server.url, "/topology")[2])["nodes"]) == 5
    assert get(server.url, "/../../etc/passwd")[0] == 404


def test_tells_nothing_to_pages_of_other_hosts(server: LiveServer) -> None:
    status, _, document = get(server.url, "/state", host="attacker.example:80")
    assert status == 421
    assert b"frames" not in document
    # As browsers name this host where the page is at port 80.
    assert get(server.url, "/state", host="127.0.0.1")[0] == 200


def test_text_of_the_run_cannot_end_the_script(state: LiveState) -> None:
    state.set_stream("failed", "</script><!--<script><b>x")
    with LiveServer(state, 0) as server:
        page = get(server.url, "/")[2].decode()
    inside = page.partition('id="first">')[2].partition("</script>")[0]
    assert "<" not in inside
    assert json.loads(inside)["stream"]["detail"] == "</script><!--<script><b>x"


def test_a_label_that_is_a_marker_of_the_page_stays(state: LiveState) -> None:
    with LiveServer(state, 0) as server:
        server.topology = b'["{{state}}"]'
        page = get(server.url, "/")[2].decode()
    assert '["{{state}}"]' in page and json.loads(page.partition('id="first">')[2].partition("</script>")[0])


def test_a_summary_without_a_verdict_is_shown(state: LiveState, tmp_path: Path) -> None:
    state.run_dir = tmp_path
    RunLayout(tmp_path).summary.write_text("{}")
    assert state.snapshot()["verdict"] == {"state": "", "reasons": []}


def test_a_server_without_a_snapshot_refuses_and_raises(
    state: LiveState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the snapshots end later, and if there is none at first."""
    with pytest.raises(TypeError, match="set"), LiveServer(state, 0) as server:
        assert server.is_alive()
        monkeypatch.setattr(state, "_bytes", {1})  # no JSON
        poll(lambda: not _answers(server) or None, TIMEOUT, "the server refuses")
        assert not server.is_alive()
    with pytest.raises(TypeError, match="set"), LiveServer(state, 0):
        pass


def test_streams_leave_room_for_other_connections(server: LiveServer) -> None:
    netloc = urlsplit(server.url).netloc
    held = [http.client.HTTPConnection(netloc, timeout=TIMEOUT) for _ in range(49)]
    for connection in held:
        connection.request("GET", "/events")
    statuses = [connection.getresponse().status for connection in held]
    assert sorted(statuses) == [*[200] * 48, 503]
    assert _answers(server)
    for connection in held:
        connection.close()


def test_connections_beyond_a_number_are_closed(server: LiveServer) -> None:
    place = urlsplit(server.url)
    held = [socket.create_connection((place.hostname, place.port), timeout=TIMEOUT) for _ in range(64)]
    with socket.create_connection((place.hostname, place.port), timeout=TIMEOUT) as further:
        assert further.recv(1) == b""
    for connection in held:
        connection.close()
    # Their threads end, and others may come.
    poll(lambda: _answers(server) or None, TIMEOUT, "the page is served")


def _answers(server: LiveServer) -> bool:
    try:
        return get(server.url, "/state")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_sends_snapshots_as_they_come_and_says_when_it_ends(state: LiveState) -> None:
    with LiveServer(state, 0) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"

        def next_snapshot() -> dict[str, Any]:
            line = answer.readline()
            assert answer.readline() == b"\n"
            document: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            return document

        first = next_snapshot()
        state.take_counts([LinkCount(0, "MSG", 1, 5, 10)])

        def grown() -> bool | None:
            return True if next_snapshot()["frames"]["MSG"] == first["frames"]["MSG"] + 5 else None

        poll(grown, TIMEOUT, "the next snapshot has the new frames")
    assert b"event: end" in answer.read()
    connection.close()


def snapshots(stream: bytes) -> list[dict[str, Any]]:
    """Those of a stream that was read to its end, which says that it is one."""
    *messages, end = stream.decode().removesuffix("\n\n").split("\n\n")
    assert end == "event: end\ndata: {}"
    return [json.loads(message.removeprefix("data: ")) for message in messages]


def test_a_process_that_ends_gives_its_readers_the_last_snapshot_first(run_dir: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import testbed.results.live.server\n"
        "from testbed.results.live.server import LiveServer\n"
        "from testbed.results.live.watch import open_state\n"
        f"testbed.results.live.server._FAREWELL_S = {TIMEOUT}\n"
        "state = open_state(Path(sys.argv[1]))\n"
        "with LiveServer(state, 0) as server:\n"
        "    print(server.url, flush=True)\n"
        "    sys.stdin.readline()\n"
        "    state.set_stream('failed', 'at the very end')\n"
        "os._exit(0)\n"
    )
    command = [sys.executable, "-c", script, str(run_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        address = urlsplit(process.stdout.readline().strip()).netloc
        readers = []
        for _ in range(30):
            connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
            connection.request("GET", "/events")
            answer = connection.getresponse()
            readers.append((connection, answer, answer.readline() + answer.readline()))
        process.stdin.close()
        for connection, answer, first in readers:
            assert snapshots(first + answer.read())[-1]["stream"]["detail"] == "at the very end"
            connection.close()
    assert process.returncode == 0


def test_a_reader_that_does_not_read_does_not_keep_the_server(
    state: LiveState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.results.live.server._FAREWELL_S", 0.1)
    # More than the buffers of both ends hold.
    state.set_stream("failed", "x" * 20_000_000)
    with LiveServer(state, 0) as server:
        reader = socket.create_connection((HOST, urlsplit(server.url).port or 0), timeout=TIMEOUT)
        reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reader.recv(15).startswith(b"HTTP/1.1 200")
    # The server has ended, and the reader still has not read.
    reader.close()


def test_another_port_if_one_is_in_use(state: LiveState) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with LiveServer(state, port) as server:
            assert urlsplit(server.url).port not in (port, None)
            assert get(server.url, "/state")[0] == 200


class _Page(HTMLParser):
    """The page as shown by a browser: texts by the id of their element, and the shapes drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.shapes: dict[str, int] = {}
        self._inside: list[str | None] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.shapes[tag] = self.shapes.get(tag, 0) + 1
        if tag not in ("meta", "link", "br"):
            self._inside.append(dict(attributes).get("id"))

    def handle_endtag(self, tag: str) -> None:
        del tag
        if self._inside:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        for name in self._inside:
            if name is not None:
                self.texts[name] = self.texts.get(name, "") + data


@needs_chromium
def test_a_browser_shows_it(server: LiveServer, state: LiveState, tmp_path: Path) -> None:
    page = _Page()
    page.feed(shown(server.url, tmp_path))
    assert page.texts["verdict"] == "holds so far"
    assert page.texts["name"] == "ring5"
    assert "40" in page.texts["tiles"]
    assert page.texts["types"] == "MSG 30RA 10"
    assert page.texts["links"].startswith("0–1")
    # Links and nodes; a curve for each type and for what was sent and delivered.
    assert page.shapes["line"] >= 5
    assert page.shapes["circle"] >= 5
    assert page.shapes["path"] == 4
    assert page.texts["stream"].startswith("Frames: of the growing captures")
    assert state.snapshot()["messages"]["missing"] == 0


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_is_legible(state: LiveState, tmp_path: Path, dark: bool) -> None:
    deliver = delivery_event(0, 1, 1, source=99, app="workload")
    state.take_applications([deliver, deliver])
    with LiveServer(state, 0) as server:
        page = get(server.url, "/")[2].decode()
    # Labels in the picture, said in HTML's terms: its circles are what the numbers stand on.
    labels = """<script>
      const receiver = document.querySelector("#network .receives").parentElement;
      for (const how of ["up", "down"]) {
        receiver.classList.toggle("down", how === "down");
        const fill = (name) => getComputedStyle(receiver.querySelector(name)).fill;
        const style = `background:${fill("circle.node")};color:${fill("text")}`;
        document.querySelector("main").prepend(element("b", { style }, `receiver ${how}`));
      }
    </script></body>"""
    found = contrasts(page.replace("</body>", labels), tmp_path / "browser", dark)
    assert {
        "does not hold so far",
        "so far",
        "receiver up",
        "receiver down",
        "1 duplicate deliveries",
    } <= set(found)
    assert {text: ratio for text, ratio in found.items() if ratio < 4.5} == {}


BEGIN = json.dumps({"url": "http://127.0.0.1:8000/", "topology": {}}) + "\n"
SNAPSHOT = json.dumps({"phase": "running"}) + "\n"


def _printed_beside(printed: str) -> str:
    """Returns the lines of a run beside a process that has printed this, and has ended."""
    output = StringIO()
    child = SimpleNamespace(process=SimpleNamespace(stdout=BytesIO(printed.encode())))
    LiveView(Progress(Console(file=output)), 0)._follow(cast("Child", child))
    return output.getvalue()


@pytest.mark.parametrize("printed", ["", BEGIN[:30]])
def test_a_process_that_ends_before_its_first_line_did_not_start(printed: str) -> None:
    assert _printed_beside(printed).startswith("the live view did not start: see ")


def test_half_a_snapshot_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "live_line", lambda snapshot: f"phase {snapshot['phase']}")
    live, first, end = _printed_beside(BEGIN + SNAPSHOT + SNAPSHOT[:8]).splitlines()
    assert (live, first) == ("live: http://127.0.0.1:8000/", "phase running")
    assert end.startswith("the live view is no longer shown here: see ")


def test_an_error_of_the_display_is_no_half_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_snapshot: Any) -> str:
        raise ValueError("of the display")

    monkeypatch.setattr(view, "live_line", fails)
    with pytest.raises(ValueError, match="of the display"):
        _printed_beside(BEGIN + SNAPSHOT)
