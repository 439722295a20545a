"""The live view: its page, served on loopback only and shown by a real browser, and its terminal."""

from __future__ import annotations

import http.client
import json
import operator
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from io import BytesIO, StringIO
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlencode, urlsplit

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.clock import read_clock
from captures.rundir.faults import COMMANDS, FAULTS, CommandRecord, FaultRecord
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.live import view
from testbed.results.live.server import HOST, LiveServer, _take_terminal
from testbed.results.live.state import SLOT_NS, LiveState
from testbed.results.live.view import LiveView, live_line, live_table
from testbed.results.live.watch import Watcher
from testbed.support.errors import InputError
from testbed.support.processes import Child
from testbed.terminal.progress import Progress
from tests.support.applications import application_events, delivery_event, message_event, predicate_event
from tests.support.attention_experiment import DELIVERIES, experiment
from tests.support.browser import contrasts, driven, needs_chromium
from tests.support.polling import TIMEOUT, poll
from tests.support.simulated import simulated


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = load_experiment(find_experiment("ring5"))
    return simulated(experiment, tmp_path_factory.mktemp("runs"), "none").path


@pytest.fixture
def state(run_dir: Path) -> LiveState:
    """The logs of a run without captures have been followed; some frames have been counted."""
    state = LiveState(run_dir)
    with Watcher(state):
        poll(lambda: state.snapshot()["messages"]["judged"] or None, TIMEOUT, "messages are judged")
    state.set_stream("running")
    slot = read_clock(RunLayout(run_dir)).start_ns // SLOT_NS + 1
    state.take_counts([(0, "MSG", slot, 30, 3000), (1, "RA", slot + 1, 10, 900)])
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
    COMMANDS.append(run, CommandRecord(at_s=4.26, time_ns=1, command="link 0 1 set loss=20"))
    state = LiveState(run.path)
    with Watcher(state):
        snapshot = state.snapshot()
    assert (snapshot["messages"]["sent"], snapshot["messages"]["delivered"]) == (5, len(DELIVERIES))
    assert (snapshot["senders"], snapshot["receivers"]) == ([0, 1, 2, 3, 4], [0, 1])
    assert snapshot["receiving"] == []  # each round is over
    assert snapshot["events"][-1] == {"t_s": 4.3, "text": "command: link 0 1 set loss=20"}


def test_roles_follow_what_applications_do(state: LiveState, monkeypatch: pytest.MonkeyPatch) -> None:
    before, at_ns = state.snapshot(), time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: at_ns)
    assert before["sending"] == []  # the simulation is over
    state.take_applications([predicate_event(node, at_ns, "a = 1", "mine") for node in (0, 1)])
    state.take_applications([predicate_event(0, at_ns, "a = 2", "other"), message_event(1, at_ns)])
    state.take_applications([predicate_event(node, at_ns, "none", "mine") for node in (0, 1)])
    after = state.snapshot()
    assert after["sending"] == [0] and after["receiving"] == sorted({*before["receiving"], 0})
    assert after["receivers"] == sorted({*before["receivers"], 0, 1})
    monkeypatch.setattr(time, "time_ns", lambda: at_ns + 6 * 10**9)
    assert (state.snapshot()["sending"], 0 in state.snapshot()["senders"]) == ([], True)


def test_missed_deliveries_and_changes_that_no_log_has_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "shaped.toml"
    file.write_text(
        'duration_s = 9\n[topology]\ngenerator = "line"\nnodes = 3\nnames = { 0 = "Berlin" }\n'
        '[[events]]\nat_s = 1\naction = "link_impair"\nlink = [0, 1]\nloss_percent = 100\n'
        '[[events]]\nat_s = 0\naction = "set_predicate"\nnode = 2\npredicate = "a = 1"\n'
        '[[events]]\nat_s = 3\naction = "send_message"\nnode = 0\nmessage = "a = 1"\n'
    )
    run = simulated(load_experiment(file), tmp_path / "runs")
    FAULTS.append(run, FaultRecord(t_ns=1, at_s=2.0, what="killed", part="router", node=1))
    state = LiveState(run.path)
    with Watcher(state):
        snapshot = poll(
            lambda: (found := state.snapshot())["missed"] and found, TIMEOUT, "a delivery is missed"
        )
    assert [{**one, "t_s": round(one["t_s"])} for one in snapshot["missed"]] == [
        {"t_s": 3, "message": "0:1", "node": "2", "app": "workload"}
    ]
    texts = [event["text"] for event in snapshot["events"]]
    assert {"router 1 killed", "link 0 Berlin-1 set loss_percent=100"} <= set(texts)


def test_what_goes_wrong_is_said(state: LiveState) -> None:
    deliver = delivery_event(0, 1, 1, source=99, app="workload")
    state.take_applications([deliver, deliver])
    state.take_counts([(0, "undecodable", 1, 2, 100)])
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
    later = [(0, "MSG", now + number * 10**6, 1, 100) for number in range(1, 50)]
    state.take_counts([(1, "MSG", now, 5, 500), *later])
    snapshot = state.snapshot()
    assert [link["recent"] > 0 for link in snapshot["links"]][:3] == [True, True, False]
    assert sum(snapshot["series"]["types"]["MSG"]) == 30 + 5 + len(later)


def test_the_terminal_shows_the_same(state: LiveState) -> None:
    snapshot = state.snapshot()
    console = Console(file=StringIO(), width=120)
    console.print(live_table(snapshot, state.topology, "http://127.0.0.1:1/"))
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
        assert server.failure is None
        monkeypatch.setitem(state._experiment, "name", {1})  # no JSON
        poll(lambda: not _answers(server) or None, TIMEOUT, "the server refuses")
        assert server.failure is not None
    with pytest.raises(TypeError, match="set"), LiveServer(state, 0):
        pass


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


def test_streams_send_snapshots_as_they_come_and_leave_room_and_end_with_the_last(state: LiveState) -> None:
    with LiveServer(state, 0) as server:
        netloc = urlsplit(server.url).netloc
        held = [http.client.HTTPConnection(netloc, timeout=TIMEOUT) for _ in range(49)]
        for connection in held:
            connection.request("GET", "/events")
        answers = [connection.getresponse() for connection in held]
        assert sorted(answer.status for answer in answers) == [*[200] * 48, 503]
        assert _answers(server)
        streams = [answer for answer in answers if answer.status == 200]
        assert {answer.getheader("Content-Type") for answer in streams} == {"text/event-stream"}
        state.take_counts([(0, "MSG", 1, 5, 10)])

        def grown() -> bool | None:
            line, _ = streams[0].readline(), streams[0].readline()
            return True if json.loads(line.removeprefix(b"data: "))["frames"]["MSG"] == 35 else None

        poll(grown, TIMEOUT, "the next snapshot has the new frames")
        state.set_stream("failed", "at the very end")
    for answer in streams:
        *_, last, end = answer.read().decode().removesuffix("\n\n").split("\n\n")
        assert end == "event: end\ndata: {}"
        assert json.loads(last.removeprefix("data: "))["stream"]["detail"] == "at the very end"
    for connection in held:
        connection.close()


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


@needs_chromium
def test_a_browser_shows_it(server: LiveServer, tmp_path: Path) -> None:
    with driven(server.url, tmp_path / "profile") as evaluate:
        texts = {name: evaluate(f"$('{name}').textContent") for name in ("verdict", "name", "types", "links")}
        assert texts.pop("links").startswith("0–1")
        assert texts == {"verdict": "holds so far", "name": "ring5", "types": "MSG 30RA 10"}
        assert "40" in evaluate("$('tiles').textContent")
        # Links and nodes; a curve for each type and for what was sent and delivered.
        counts = [
            evaluate(f"document.querySelectorAll('{shape}').length") for shape in ("line", "circle", "path")
        ]
        assert counts[0] >= 5 and counts[1] >= 5 and counts[2] == 4
        assert evaluate("$('stream').textContent").startswith("Frames: of the growing captures")
        # A script that came in otherwise than in the page does not run.
        foreign = "Object.assign(document.createElement('script'), { text: 'window.ran = 1' })"
        assert evaluate(f"document.body.append({foreign}); typeof ran") == "undefined"
        # Consoles are for the address with a token.
        assert evaluate("$('control').hidden && !document.querySelector('[data-pick]')")


@needs_chromium
def test_names_hide_no_node_and_no_name(server: LiveServer, tmp_path: Path) -> None:
    nodes = [{"id": n, "label": f"{n} Saint-Denis", "at": [n % 12, n // 12]} for n in range(144)]
    drawn = json.dumps({"nodes": nodes, "links": [], "radius": 12})
    box = "(({ x, y, width, height }) => [x, y, x + width, y + height])"
    with driven(server.url, tmp_path / "profile") as evaluate:
        evaluate(f"drawNetwork({drawn})")
        shapes = "[...document.querySelectorAll('#network .ring, #network .name')]"
        boxes = evaluate(f"{shapes}.map((shape) => shape.getBBox()).map{box}")
    assert 144 < len(boxes) < 2 * 144
    for (left, top, right, bottom), other in combinations(boxes, 2):
        apart_px = max(left - other[2], other[0] - right, top - other[3], other[1] - bottom)
        assert apart_px > -2  # of the ring, and of the ground of letters


@pytest.fixture
def controlled(state: LiveState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    """The page with consoles, of a run that goes on by its state, but takes no commands."""
    monkeypatch.setattr("testbed.results.live.state.STATE_ROOT", tmp_path)
    (tmp_path / "gone").mkdir()
    state._manifest["tag"] = "gone"
    with LiveServer(state, 0, control=True) as serving:
        yield serving


def _upgraded(server: LiveServer, change: dict[str, str], **query: str) -> int:
    """The status of the request of a console, some headers of which are changed ("": left out)."""
    place = urlsplit(server.url)
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Origin": f"http://{place.netloc}",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    connection = http.client.HTTPConnection(place.netloc, timeout=TIMEOUT)
    words = urlencode({"token": place.fragment, "word": "sub", **query})
    kept = {name: value for name, value in {**headers, **change}.items() if value}
    connection.request("GET", f"/console?{words}", headers=kept)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.attack("console of the live page")
def test_a_console_is_for_the_page_with_the_token_alone(controlled: LiveServer, state: LiveState) -> None:
    own = urlsplit(controlled.url).netloc
    assert len(urlsplit(controlled.url).fragment) >= 32
    assert _upgraded(controlled, {}) == 101
    assert [_upgraded(controlled, {}, token=token) for token in ("", "x", "\xe4")] == [403] * 3
    foreign = (
        "",
        "null",
        "http://attacker.example",
        f"https://{own}",
        "http://127.0.0.1:1",
        "http://localhost",
    )
    assert [_upgraded(controlled, {"Origin": origin}) for origin in foreign] == [403] * 6
    # A foreign page whose name resolves to this machine.
    rebound = {"Host": "attacker.example", "Origin": "http://attacker.example"}
    assert _upgraded(controlled, rebound) == 421
    assert _upgraded(controlled, {"Upgrade": ""}) == 400
    assert [_upgraded(controlled, {}, word=word) for word in ("", "run", "exec", "clean")] == [400] * 4
    for path in ("/", "/state", "/topology"):
        assert controlled.token.encode() not in get(controlled.url, path)[2]
    with LiveServer(state, 0) as server:
        assert (_upgraded(server, {}), server.url.partition("#")[1]) == (404, "")


def test_a_command_gets_the_signals_of_its_terminal_also_under_nohup() -> None:
    script = "import signal; print(signal.SIG_IGN in map(signal.getsignal, (signal.SIGHUP, signal.SIGINT)))"
    terminal, end = os.openpty()
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGHUP, signal.SIGINT)]
    try:
        command = [sys.executable, "-c", script]
        said = subprocess.check_output(command, stdin=end, start_new_session=True, preexec_fn=_take_terminal)
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        os.close(terminal)
        os.close(end)
    assert said == b"False\n"


def test_a_run_that_is_over_has_no_consoles(state: LiveState) -> None:
    with pytest.raises(InputError, match="no emulation that is running"):
        LiveServer(state, 0, control=True)


@needs_chromium
def test_the_page_starts_a_command_and_shows_its_lines_and_its_end(
    controlled: LiveServer, tmp_path: Path
) -> None:
    address, _, token = controlled.url.partition("#")
    with driven(address, tmp_path / "profile") as evaluate:
        evaluate(f"location.hash = '{token}'")
        shown = "!!document.querySelector('#control:not([hidden])') && document.readyState === 'complete'"
        poll(lambda: evaluate(shown) or None, TIMEOUT, "the page has taken the token")
        evaluate("place.nodes.get(3).dispatchEvent(new Event('click'))")
        assert evaluate("$('picked').textContent") == "node 3"
        evaluate("document.querySelector('#acts form + form input').value = 'a = 1'")
        evaluate("document.querySelector('#acts form + form').requestSubmit()")

        def ended() -> str | None:
            shown: str = evaluate("$('consoles').textContent")
            return shown if "exit status" in shown else None

        shown = poll(ended, TIMEOUT, "the command has ended")
        assert shown.startswith("sub 3 a = 1 exit status 2") and "cbcb: no live run gone" in shown
        # Colours, a title, lines written over and over, a character taken back.
        lines = "'one\\r\\n\\x1b[1mtwo\\x1b]0;title\\x07', ' 10 %\\r 20 %x\\x08\\r 30 %\\r\\nz\\rend\\r'"
        assert evaluate(f"printed({lines})") == "one\n 30 %\nend\r"


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_is_legible(controlled: LiveServer, state: LiveState, tmp_path: Path, dark: bool) -> None:
    deliver = delivery_event(0, 1, 1, source=99, app="workload")
    state.take_applications([deliver, deliver])
    poll(lambda: b"1 duplicate deliveries" in controlled.snapshot or None, TIMEOUT, "the page has it")
    labels = Path(__file__).with_name("labels.js").read_text()
    found = contrasts(controlled.url, tmp_path / "profile", dark, labels)
    expected = {"does not hold so far", "so far", "receiver up", "receiver down", "1 duplicate deliveries"}
    assert expected | {"shell", "Ctrl-C", "of a command"} <= set(found)
    assert {text: ratio for text, ratio in found.items() if ratio < 4.5} == {}


BEGIN = json.dumps({"url": "http://127.0.0.1:8000/", "topology": {}}) + "\n"
SNAPSHOT = json.dumps({"phase": "running"}) + "\n"


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        *(("", ["did not start: see "]), (BEGIN[:30], ["did not start: see "])),
        (
            BEGIN + SNAPSHOT + SNAPSHOT[:8],
            ["live: http://127.0.0.1:8000/", "phase running", "no longer shown"],
        ),
    ],
)
def test_half_a_line_of_a_process_that_ends_is_left_out(
    monkeypatch: pytest.MonkeyPatch, printed: str, expected: list[str]
) -> None:
    monkeypatch.setattr(view, "live_line", lambda snapshot: f"phase {snapshot['phase']}")
    output = StringIO()
    child = SimpleNamespace(process=SimpleNamespace(stdout=BytesIO(printed.encode())))
    LiveView(Progress(Console(file=output)), 0)._follow(cast("Child", child), RunLayout(Path("run")))
    assert all(map(operator.contains, output.getvalue().splitlines(), expected))
