"""The application socket and its client, over a real router core that has no network."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import selectors
import socket
import threading
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from captures.rundir.applications import read_applications
from captures.rundir.attention import read_attention
from captures.rundir.layout import RunLayout
from router.content.bloom import Bloom
from router.content.plain import Plain
from router.matching.factory import factory
from router.predicates.encoded.model import BloomPredicate
from router.predicates.lexer import ParseError
from router.predicates.model import NOTHING, Message, Predicate, Value
from router.predicates.parser import parse_predicate
from router.privacy.application import PrivateApplication
from router.privacy.keys import EncodingParameters, KeyRing, read_keys, write_keys
from router.privacy.member import Member
from router.protocol.events import ControllerFrame, Event, Tick
from router.protocol.options import RouterOptions
from router.protocol.router import Router
from router.protocol.services.exhaustive import ExhaustiveSession
from router.records.applications import ApplicationRecords, ConnectionRecords
from router.runtime.applications import Applications
from router.runtime.async_client import AsyncClient
from router.runtime.client import Client, ClientError, Delivery, RoundOver
from router.runtime.lines import REQUEST_LIMIT
from router.runtime.listener import Listener
from router.wire.frames import BroadcastTable, Commit, Frame, FrameType
from testbed.cli import pub, sub
from testbed.control.prompt import Prompt
from testbed.control.running import Running
from testbed.errors import InputError
from testbed.network import state
from testbed.terminal import printable
from tests.support.applications import application_events, records_in, service_records_in
from tests.support.polling import TIMEOUT, wait_for
from tests.support.router_tables import predicates_of
from tests.support.tree_entries import TreeEntry, table_of
from topos.generators import line

OUTPUT_LIMIT = 256 * 1024
ALONE = table_of((), (TreeEntry(4, 0, (), 0),))


def _failed(error: OSError) -> None:
    raise error


def arrived(client: Client) -> list[Delivery]:
    """The deliveries of everything that the router had answered before: it serves requests one by one."""
    client.status()
    return client.read_events()


class Node:
    """A router that a thread serves, by default alone in its network.

    The thread owns router and applications until `events` or `close` ends it; what a test reads of them
    meanwhile, other than in answers, may change a moment after an answer or the end of a connection.
    """

    def __init__(
        self, path: Path, service: str = "exhaustive", privacy: str = "off", table: BroadcastTable = ALONE
    ) -> None:
        self.path = path
        self.folder = path.parent
        engine = factory("counting") if privacy == "off" else None
        records = records_in(path.parent, 4)
        if privacy != "off":
            records = ConnectionRecords(RunLayout(path.parent).applications_of(4), _failed)
        self.router = Router(4, RouterOptions(service=service, privacy=privacy), engine, 1)
        for kind, body in ((FrameType.TABLE, table), (FrameType.COMMIT, Commit(1))):
            self.router.handle(ControllerFrame(Frame(kind, 4, 1 << 32 | 1, 1, 1, body)), 0.0)
        self.selector = selectors.DefaultSelector()
        self.applications = Applications(
            4,
            path,
            self.selector,
            self.router.session,
            self._handle,
            lambda _tables: {"node": 4},
            records,
            OUTPUT_LIMIT,
            service_records=service_records_in(path.parent, 4) if service == "attention" else None,
            fields_of=Plain.delivery if privacy == "off" else Bloom.delivery,
        )
        self._waker, self._wakes = socket.socketpair()
        self.selector.register(self._wakes, selectors.EVENT_READ, lambda _mask: self._wakes.recv(1))
        #: The router's clock, seconds; see `advance`.
        self._now = 0.0
        self._running = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _handle(self, event: Event) -> list[Any]:
        return self.router.handle(event, self._now)

    def advance(self, seconds: float) -> None:
        """Lets time pass for the router."""
        self._now += seconds
        self._waker.send(b"x")

    def _stop(self) -> None:
        self._running = False
        self._waker.send(b"x")
        self._thread.join()
        self.applications.close()

    def _run(self) -> None:
        while self._running:
            due = self.applications.next_deadline()
            timeout = None if due is None else due - time.monotonic()
            if self.applications.behind or self._is_due():
                timeout = 0
            for key, mask in self.selector.select(timeout):
                key.data(mask)
            self.applications.serve(time.monotonic())
            self.applications.tick(time.monotonic())
            if self._is_due():
                self.applications.perform(self.router.handle(Tick(), self._now))

    def _is_due(self) -> bool:
        due = self.router.next_deadline()
        return due is not None and due <= self._now

    def events(self) -> list[dict[str, Any]]:
        """Ends the service; returns the records of the applications."""
        self._stop()
        return application_events(self.folder)

    def deliveries(self) -> list[int]:
        """The sequence numbers of the recorded deliveries."""
        return [each["seq"] for each in application_events(self.folder) if each["event"] == "deliver"]

    def close(self) -> None:
        self._stop()
        self.selector.close()
        self._waker.close()
        self._wakes.close()

    def client(self, app: str | None = None, **options: Any) -> Client:
        return Client(self.path, app, **options)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "r4.sock")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def private_node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "r4.sock", privacy="bloom")
    try:
        yield made
    finally:
        made.close()


def test_an_application_with_keys(private_node: Node) -> None:
    with private_node.client(key=KeyRing.new(EncodingParameters(bits=4_096))) as client:
        client.set_predicate("a = 1")
        # A request that is too long is not sent, and the next one has its number.
        for request in (client.subscribe, client.set_predicate):
            with pytest.raises(ValueError, match="a router accepts"):
                request(" or ".join(f"b = {number}" for number in range(1_100)))
        client.send_message("a = 1")
        client.send_message("b = 1")
        assert [delivery.attributes for delivery in arrived(client)] == [{"a": 1}]
        assert client.private is not None
        assert client.private.declared == "a = 1"


def test_sub_takes_the_keys_of_a_file_that_is_replaced(
    private_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, old = tmp_path / "ring.keys", KeyRing.new()
    write_keys(file, old)
    new = old.rotated()

    @contextmanager
    def connected(_arguments: Namespace) -> Iterator[Client]:
        with private_node.client(key=read_keys(file)) as client:
            yield client

    def suites() -> set[int]:
        own = predicates_of(private_node.router).get(0, BloomPredicate())
        assert isinstance(own, BloomPredicate)
        return {filter_.suite.key_id for filter_ in own.encoded}

    def rotate() -> None:
        wait_for(lambda: None if suites() == {old.sending} else str(suites()))
        file.chmod(0o644)
        write_keys(file, new, replacing=True)
        wait_for(lambda: None if suites() == {key.key_id for key in new.keys} else str(suites()))
        with private_node.client(key=new.rotated()) as sender:
            sender.send_message("x = 1")

    monkeypatch.setattr(sub, "connected", connected)
    monkeypatch.setattr(sub, "_RENEW_S", 0.01)
    rotation = threading.Thread(target=rotate)
    rotation.start()
    options = {"max": None, "refresh": False, "lifetime": None, "freshness": None, "key_file": file}
    status = sub.main(Namespace(predicate=["x = 1"], count=1, timeout_s=2 * TIMEOUT, **options))
    rotation.join()
    assert status == 0
    assert capsys.readouterr().out.endswith("x = 1\n")


def test_applications_of_a_private_run_record_what_its_routers_cannot_read(
    private_node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a Python program and of the prompt."""
    folder = private_node.folder
    monkeypatch.setattr(state, "STATE_ROOT", folder.parent)
    monkeypatch.setattr(Running, "topology", line(5))
    running = Running(state.RunState(folder.name, state.ProcessId.of(os.getpid()), str(folder)))
    assert running.keys() is None
    write_keys(RunLayout(folder).keys, KeyRing.new())
    with running.client(4, "program", running.keys()) as client:
        client.subscribe("a = 1")
        with Prompt(running, interactive=False) as prompt:
            prompt.onecmd("pub 4 a = 1")
        assert next(client.deliveries(TIMEOUT)).attributes == {"a": 1}
        records = client.private.records if client.private is not None else None
        assert records is not None

    async def received() -> Message | Any:
        async with running.async_client(4, "loop", running.keys()) as client:
            await client.subscribe("b = 1")
            await client.send_message("b = 1")
            return (await anext(aiter(client))).attributes

    assert asyncio.run(received()) == {"b": 1}
    # The file is closed with the connection.
    records.delivered(1, 4, "program", 4, 1)
    assert records.lost == 1
    RunLayout(folder).keys.chmod(0o644)
    with pytest.raises(InputError, match="mode 0644"):
        running.keys()
    assert capsys.readouterr().out.startswith("4:")
    wait_for(lambda: "clients are connected" if len(private_node.applications) else None)
    assert Counter(each["event"] for each in private_node.events()) == {
        "connect": 3,
        "subscribe": 2,
        "send_message": 2,
        "deliver": 2,
        "disconnect": 3,
    }


def test_the_prompt_waits_for_no_message_that_it_has_shown(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(state, "STATE_ROOT", node.folder.parent)
    monkeypatch.setattr(Running, "topology", line(5))
    running = Running(state.RunState(node.folder.name, state.ProcessId.of(os.getpid()), str(node.folder)))
    printed = ""

    def shown() -> str | None:
        nonlocal printed
        prompt.onecmd("")
        printed += capsys.readouterr().out
        return None if printed.endswith("got 4:1 a = 1\n") else printed

    with Prompt(running, interactive=True) as prompt:
        prompt.onecmd("sub 4 a = 1")
        prompt.onecmd("pub 4 a = 1")
        wait_for(shown)
        prompt.onecmd("wait 1 0")
        assert capsys.readouterr() == ("", "")
        prompt.onecmd("wait 1 0")
        assert capsys.readouterr().err == "cbcb: 0 of 1 messages in 0 s\n"


def test_the_records_of_a_member_and_of_its_router_add_up(private_node: Node) -> None:
    run, ring = RunLayout(private_node.folder), KeyRing.new()
    write_keys(run.keys, ring)
    records = ApplicationRecords(run.application_of_member(4, 1), _failed)
    client = private_node.client("doomed", key=PrivateApplication(Member(ring), records))
    client.subscribe("a = 1")
    client.send_message("a = 1")
    client.send_message("b = 1")
    assert next(client.deliveries(TIMEOUT)).attributes == {"a": 1}
    records.close()
    # As the system does it for a process that was killed: the member writes nothing of it.
    client._lines.close()
    wait_for(lambda: "the member is connected" if len(private_node.applications) else None)
    events = [each["event"] for each in private_node.events()]
    assert (events[0], events[-1]) == ("connect", "disconnect")
    assert sorted(events[1:-1]) == ["deliver", "send_message", "send_message", "subscribe"]
    changes = [each.change.in_force for _, each in read_applications(run) if each.change is not None]
    assert changes == [parse_predicate("a = 1"), NOTHING]


def test_an_asynchronous_application_with_keys(private_node: Node) -> None:
    async def received() -> Message | Any:
        async with AsyncClient(private_node.path, key=KeyRing.new()) as client:
            await client.subscribe("a = 1")
            await client.send_message("a = 1")
            return (await anext(aiter(client))).attributes

    assert asyncio.run(received()) == {"a": 1}


def test_with_keys_nothing_is_sent_in_the_clear(tmp_path: Path) -> None:
    node = Node(tmp_path / "r4.sock", "attention")
    try:
        with node.client(key=KeyRing.new()) as client:
            for request in (
                lambda: client.publish("secret = 1"),
                lambda: client.register("secret = 1", 1, 10.0, 10.0),
            ):
                with pytest.raises(ClientError, match="connect without keys"):
                    request()
    finally:
        node.close()


def test_the_service(node: Node) -> None:
    with node.client("a") as first, node.client() as second:
        assert (first.app, first.node) == ("a", 4)
        assert second.app == "app-2"
        first.set_predicate('name =* "x" or number < 2.5')
        second.set_predicate("flag = true")
        assert first.send_message('name = "xy", flag = true') == (4, (1 << 32) + 1)
        assert second.send_message(Message({"number": 1.0})) == (4, (1 << 32) + 2)
        second.send_message("number = 1")
        got = arrived(first)
        assert [(each.seq & 0xFFFF_FFFF, each.attributes) for each in got] == [
            (1, {"name": "xy", "flag": True}),
            (2, {"number": 1.0}),
        ]
        assert [each.seq & 0xFFFF_FFFF for each in arrived(second)] == [1]
        assert first.status()["node"] == 4
        first.set_predicate("none")
        second.send_message("number = 1.0")
        assert arrived(first) == []


def test_subscriptions_of_several_applications(node: Node) -> None:
    with node.client("a") as first, node.client("b") as second:
        assert [first.subscribe("x = 1"), first.subscribe("x > 5"), second.subscribe("x = 1")] == [1, 2, 1]
        first.set_predicate("x = 3")
        assert first.subscriptions() == {1: parse_predicate("x = 1"), 2: parse_predicate("x > 5")}

        def gets(client: Client, *wanted: int) -> None:
            for x in (1, 3, 7):
                client.send_message(Message({"x": x}))
            assert [each.attributes["x"] for each in arrived(client)] == list(wanted)

        def difference(predicates: dict[int, Predicate]) -> str | None:
            found = predicates_of(node.router)
            return None if found == predicates else f"{found} in place of {predicates}"

        gets(first, 1, 3, 7)
        gets(second, 1, 1)
        assert [each.attributes["x"] for each in arrived(first)] == [1, 3, 7]
        first.unsubscribe(2)
        # The other application's subscription keeps the number and the node's predicate what they were.
        first.unsubscribe(1)
        gets(first, 3)
        gets(second, 1, 1)
        assert predicates_of(node.router)[0] == parse_predicate("x = 1 or x = 3")
        # Numbers are not given twice.
        assert first.subscribe("x = 9") == 3
        for number in (1, 7):
            with pytest.raises(ClientError, match=f"subscription: {number} is none of this application's"):
                first.unsubscribe(number)
        second.close()
        # A connection ends before the turn that lowers the node's predicate.
        wait_for(lambda: difference({0: parse_predicate("x = 3 or x = 9")}))
    wait_for(lambda: difference({}))
    requests = [
        (event["event"], event.get("subscription"), event.get("predicate"))
        for event in node.events()
        if event["app"] == "a" and event["event"] not in ("send_message", "deliver")
    ]
    assert requests == [
        ("connect", None, None),
        ("subscribe", 1, "x = 1"),
        ("subscribe", 2, "x > 5"),
        ("set_predicate", None, "x = 3"),
        ("unsubscribe", 2, None),
        ("unsubscribe", 1, None),
        ("subscribe", 3, "x = 9"),
        ("disconnect", None, None),
    ]


def ask(connection: socket.socket, **request: Any) -> dict[str, Any]:
    """Sends a request and returns the answer."""
    connection.sendall(json.dumps(request).encode() + b"\n")
    with connection.makefile("rb") as answers:
        answer: dict[str, Any] = json.loads(answers.readline())
    return answer


def test_every_connection_with_requests_is_recorded_from_begin_to_end(node: Node) -> None:
    for name, operations in (
        ("declares", ["set_predicate"]),
        ("subscribes", ["subscribe"]),
        ("only asks", ["status"]),
        ("takes it back", ["subscribe", "unsubscribe"]),
    ):
        with raw(node) as connection:
            for op in ("hello", *operations):
                assert ask(connection, op=op, app=name, predicate="x = 1")["ok"]
        wait_for(lambda: f"{len(node.applications)} are connected" if len(node.applications) else None)
    events = node.events()
    assert predicates_of(node.router) == {}
    assert [(event["app"], event["event"]) for event in events] == [
        ("declares", "connect"),
        ("declares", "set_predicate"),
        ("declares", "disconnect"),
        ("subscribes", "connect"),
        ("subscribes", "subscribe"),
        ("subscribes", "disconnect"),
        ("takes it back", "connect"),
        ("takes it back", "subscribe"),
        ("takes it back", "unsubscribe"),
        ("takes it back", "disconnect"),
    ]
    assert all(event.get("requested_ns", event["t_ns"]) <= event["t_ns"] for event in events)
    assert [event["t_ns"] for event in events] == sorted(event["t_ns"] for event in events)


def test_a_request_that_is_refused_is_not_recorded(node: Node) -> None:
    with raw(node) as connection:
        for request in (
            {"op": "set_predicate", "predicate": "x <"},
            {"op": "unsubscribe", "subscription": 3},
            {"op": "send_message", "message": "x"},
            {"op": "send_message", "attributes": {"x": [1]}},
        ):
            assert not ask(connection, **request)["ok"]
    assert node.events() == []


def test_the_records_have_what_a_plain_socket_program_does(node: Node) -> None:
    before = time.time_ns()
    with raw(node) as connection:
        assert ask(connection, op="subscribe", predicate='x > 1 and s = "q"') == {
            "id": None,
            "ok": True,
            "subscription": 1,
        }
        sent = [
            ask(connection, op="send_message", message='x = 2, s = "r"'),
            ask(connection, op="send_message", attributes={"x": 1, "s": "é"}),
        ]
    events = node.events()
    assert all(before <= event["t_ns"] <= time.time_ns() for event in events)
    for event in events:
        del event["t_ns"]
        event.pop("requested_ns", None)
    application = {"node": 4, "app": "app-1"}
    assert events == [
        {"event": "connect", **application},
        {"event": "subscribe", **application, "subscription": 1, "predicate": 'x > 1 and s = "q"'},
        *(
            {"event": "send_message", **application, "source": 4, "seq": answer["seq"], "attributes": content}
            for answer, content in zip(sent, ({"x": 2, "s": "r"}, {"x": 1, "s": "é"}), strict=True)
        ),
        {"event": "disconnect", **application},
    ]


def test_a_delivery_is_recorded_when_the_socket_has_taken_it(node: Node) -> None:
    with raw(node) as reader, node.client("sender") as sender:
        assert ask(reader, op="subscribe", predicate="*")["ok"]
        # More than the socket holds, and less than an application may leave unread.
        count = 12
        for _ in range(count):
            sender.send_message(Message({"s": "x" * 30_000}))
        wait_for(lambda: None if 0 < len(node.deliveries()) < count else "no delivery is recorded")
        with reader.makefile("rb") as lines:
            got = [json.loads(lines.readline())["seq"] for _ in range(count)]
        wait_for(lambda: None if node.applications.idle else "a delivery waits")
        assert [each["seq"] for each in node.events() if each["event"] == "deliver"] == got


def test_a_delivery_that_finds_the_connection_broken_is_recorded_as_lost(node: Node) -> None:
    with raw(node) as reader, node.client("sender") as sender:
        assert ask(reader, op="subscribe", predicate="*")["ok"]
        sent = []
        while not node.applications.disconnected_slow:
            sent.append(sender.send_message(Message({"s": "x" * 30_000}))[1])
        later = sender.send_message("s = 1")
    events = node.events()
    delivered, lost = (
        [each["seq"] for each in events if each["event"] == event] for event in ("deliver", "lose")
    )
    assert len(delivered) > 0 and len(lost) > 1
    # The answer to a message comes before its delivery: one more may have been sent.
    assert delivered + lost in (sent, sent[:-1])
    assert later[1] not in delivered + lost
    assert [each["event"] for each in events if each["app"] == "app-1"][-1] == "disconnect"


def test_names_are_unique_and_stay(node: Node) -> None:
    with raw(node) as first, ExitStack() as later:
        assert ask(first, op="hello", app="app-2")["ok"]
        second = later.enter_context(raw(node))
        # The name that the router would give is taken.
        assert ask(second, op="subscribe", predicate="x = 1")["ok"]
        answer = ask(second, op="hello", app="b")
        assert answer["error"] == 'app: the records of this run name this application "app-2\'" already'
        assert ask(second, op="hello", app="app-2'")["ok"]
        for name in ("", "x" * 201, "a\nb", "\ud800", 7):
            assert ask(first, op="hello", app=name)["error"].startswith(
                "app: expected a name of 1 to 200 printable characters, got "
            )


def test_an_update_can_be_requested(tmp_path: Path) -> None:
    # Node 5 lies behind interface 1.
    table = table_of(((1, 5),), (TreeEntry(4, 0, (1,), 0), TreeEntry(5, 1, (), 1)))
    node = Node(tmp_path / "r4.sock", table=table)
    try:
        with node.client() as client:
            assert client._wait(client.request("request_update"))["ok"] is True
    finally:
        node.close()
    assert node.router.counters.srs_issued == 1
    assert not node.router.idle


def test_types_survive_the_socket(node: Node) -> None:
    attributes: dict[str, Value] = {
        "b": True,
        "i": -(2**63),
        "d": 2.0,
        "tiny": 5e-324,
        "huge": 1.7976931348623157e308,
        "s": '\u0000"\\\n\u00e9\U0001f600',
        "odd name \u00e9": 1,
    }
    with node.client() as client:
        client.set_predicate("*")
        client.send_message(Message(attributes))
        got = next(client.deliveries(TIMEOUT)).attributes
    assert got == attributes
    assert {name: type(value) for name, value in got.items()} == {
        name: type(value) for name, value in attributes.items()
    }


def test_requests_may_be_pipelined_without_waiting(node: Node) -> None:
    clients = [node.client(f"driver-{number}") for number in range(20)]
    received = 0

    def read() -> None:
        nonlocal received
        for key, _mask in selector.select(0.1):
            client = key.fileobj
            assert isinstance(client, Client)
            received += len(client.read_events())

    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
            client.request_set_predicate("x >= 0")
        deadline = time.monotonic() + TIMEOUT
        while any(client.outstanding for client in clients):
            assert time.monotonic() < deadline
            read()
        for x in range(5):
            for client in clients:
                client.request_send_message(Message({"x": x}))
        while received < 20 * 5 * 20 or any(client.outstanding for client in clients):
            assert time.monotonic() < deadline, received
            read()
    for client in clients:
        client.close()
    # The router withdraws the last predicate a moment after it has forgotten the connection.
    wait_for(lambda: str(predicates_of(node.router)) if predicates_of(node.router) else None)
    assert len(node.applications) == 0


def test_a_large_predicate_is_answered_late_and_stops_no_other_application(node: Node) -> None:
    wanted = " or ".join(f"x = {2 * n}" for n in range(1_000))
    with node.client("many") as many, node.client("few") as few:
        request = many.request_set_predicate(wanted)
        behind = many.request_send_message(Message({"x": 2}))
        many.flush()
        few.set_predicate("x = 4")
        few.send_message(Message({"x": 1}))
        deadline = time.monotonic() + TIMEOUT
        delivered: list[Any] = []
        while behind.answer is None or not delivered:
            assert time.monotonic() < deadline
            delivered += many.read_events()
        assert request.answer is not None
        assert request.answer["ok"]
        # Its own message came after its predicate.
        assert [each.attributes["x"] for each in delivered] == [2]
        few.send_message(Message({"x": 1_998}))
        assert next(many.deliveries(TIMEOUT)).attributes["x"] == 1_998
        with pytest.raises(ClientError, match="a filter has the weight 615; at most 512"):
            many.subscribe(" and ".join(f"a{n} = 1" for n in range(600)))
        assert many.subscribe("y = 1") == 2
    assert [each["app"] for each in node.events() if each["event"] == "subscribe"] == ["many"]


def raw(node: Node) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(TIMEOUT)
    connection.connect(str(node.path))
    return connection


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"nonsense", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"[" * 60_000, "not a JSON object"),
        (b"[" * 100_000, "a request of more than 65536 bytes has at most 20000 parts"),
        (
            b'["\\"", 1' + b", {}" * 50_000 + b"]",
            "a request of more than 65536 bytes has at most 20000 parts",
        ),
        (b"[" + b"1 " * 50_000 + b"]", "numbers of at most 500 characters"),
        (b'"' + b'\\"' * 500_000, "not a JSON object"),
        (b'{"id":7,"op":"' + b'\\",[{' * 90_000 + b'"}', "is none of"),
        (b"[1]", "expected a JSON object, got list"),
        (b'{"id":7}', "op: None is none of"),
        (b'{"id":7,"op":["x"]}', "is none of"),
        (b'{"id":7,"op":"set_predicate"}', "predicate: expected a text"),
        (b'{"id":7,"op":"set_predicate","predicate":"x >"}', "line 1, column 4"),
        (b'{"id":7,"op":"subscribe","predicate":7}', "predicate: expected a text"),
        (b'{"id":7,"op":"unsubscribe","subscription":1}', "subscription: 1 is none of this application's"),
        (b'{"id":7,"op":"unsubscribe","subscription":[1]}', "subscription: [1] is none"),
        (b'{"id":7,"op":"unsubscribe","subscription":true}', "subscription: True is none"),
        (b'{"id":7,"op":"send_message"}', "either 'message' or 'attributes'"),
        (b'{"id":7,"op":"send_message","message":3}', "message: expected a text"),
        (b'{"id":7,"op":"send_message","attributes":[]}', "attributes: expected an object"),
        (b'{"id":7,"op":"send_message","attributes":{"a":null}}', "attributes: expected str"),
        (b'{"id":7,"op":"send_message","attributes":{"a":NaN}}', "not finite"),
        (b'{"id":7,"op":"send_message","attributes":{"a":99999999999999999999}}', "64 bits"),
        (b'{"id":7,"op":"send_message","attributes":{"a":"\\ud800"}}', "surrogates"),
        (b'{"id":7,"op":"hello","app":3}', "app: expected a name"),
        (b'{"id":7,"op":"hello","app":"taken"}', "in use"),
        (b'{"x":"' + b"a" * REQUEST_LIMIT + b'"}', "line longer than"),
        (b"a" * (3 * REQUEST_LIMIT), "line longer than"),
    ],
)
def test_a_bad_request_is_answered(node: Node, line: bytes, error: str) -> None:
    with node.client("taken"), raw(node) as connection:
        connection.sendall(line + b"\n" + b'{"id":8,"op":"status"}\n')
        with connection.makefile("rb") as answers:
            refusal, status = json.loads(answers.readline()), json.loads(answers.readline())
        assert refusal["ok"] is False
        assert error in refusal["error"]
        assert refusal["id"] in (7, None)
        assert status == {"id": 8, "ok": True, "node": 4}


def test_an_application_that_does_not_read_is_disconnected(node: Node) -> None:
    with raw(node) as deaf, node.client("sender") as sender, node.client("other") as other:
        deaf.sendall(b'{"id":1,"op":"set_predicate","predicate":"x any string"}\n')
        assert json.loads(deaf.recv(100))["ok"]
        other.set_predicate("x any string")
        message = Message({"x": "y" * 60_000})
        sent = 0
        while node.applications.disconnected_slow == 0:
            sender.send_message(message)
            sent += 1
            assert sent < 100
            # An application that reads is not affected.
            assert next(other.deliveries(TIMEOUT)).attributes == message
        assert node.applications.disconnected_slow == 1
        assert sum(1 for _ in iter(lambda: deaf.recv(65_536), b"")) > 0


def test_who_leaves_at_once_knows_what_it_has_sent(node: Node) -> None:
    client = node.client("a")
    request = client.request_send_message("x = 1")
    client.request("no such operation")
    client.close()  # as after Ctrl-C: nobody has waited for the answer
    assert request.answer is not None and request.answer["seq"] & 0xFFFF_FFFF == 1


def test_without_descriptors_a_connection_waits_and_costs_nothing(tmp_path: Path) -> None:
    selector = selectors.DefaultSelector()
    path = tmp_path / "r4.sock"
    applications = Applications(
        4,
        path,
        selector,
        lambda number: ExhaustiveSession(number, Plain()),
        lambda _event: [],
        lambda _tables: {},
        ApplicationRecords(os.devnull, print),
    )
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    waiting.connect(str(path))
    free = os.dup(0)
    os.close(free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        ((key, mask),) = selector.select(TIMEOUT)
        key.data(mask)
        assert selector.select(0) == []
        due = applications.next_deadline()
        assert due is not None
        applications.tick(due)
        ((key, mask),) = selector.select(TIMEOUT)
        key.data(mask)
        assert len(applications) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    applications.tick(time.monotonic() + 60)
    ((key, mask),) = selector.select(TIMEOUT)
    key.data(mask)
    assert len(applications) == 1
    assert applications.next_deadline() is None
    applications.close()
    waiting.close()
    selector.close()


@pytest.mark.parametrize("said", [b"{", b"[]", b"{}", b'{"id": 9, "ok": true}', b'{"id": 1, "ok": true}'])
def test_a_router_that_says_what_it_should_not_is_an_error(tmp_path: Path, said: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "odd.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.send(said + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ClientError, match="unexpected line from the router"):
            Client(tmp_path / "odd.sock")
        thread.join()


def test_a_client_says_why_it_cannot_go_on(node: Node, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="No such file"):
        Client(tmp_path / "nobody.sock")
    with node.client("a"), pytest.raises(ClientError, match="'a' is in use"):
        node.client("a")
    with node.client() as client:
        with pytest.raises(ValueError, match="a router accepts"):
            client.request("status", padding="x" * REQUEST_LIMIT)
        node.events()
        with pytest.raises(ClientError, match="closed the connection"):
            client.status()


def test_applications_that_pipeline_requests_are_served_in_turn(tmp_path: Path) -> None:
    """Each call of `serve` that has no time serves one request; those of one application keep their order."""
    served: list[int] = []
    with selectors.DefaultSelector() as selector:
        router = Router(4, RouterOptions(), factory("counting"), 1)
        applications = Applications(
            4,
            tmp_path / "r4.sock",
            selector,
            router.session,
            lambda event: router.handle(event, 0.0),
            lambda tables: {"node": 4, "tables": tables},
            records_in(tmp_path, 4),
        )
        with ExitStack() as stack:
            stack.callback(applications.close)
            peers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
            for number, peer in enumerate(peers):
                peer.connect(str(tmp_path / "r4.sock"))
                ids = [100 * number + place for place in range(4 + number)]
                peer.sendall(b"".join(b'{"op": "status", "id": %d}\n' % each for each in ids))

            def unread() -> str | None:
                for key, mask in selector.select(0):
                    key.data(mask)
                return None if len(applications) == 3 else "not connected"

            wait_for(unread)
            unread()
            assert not applications.idle
            while applications.behind:
                applications.serve(0.0)
                for peer in peers:
                    peer.setblocking(False)
                    with suppress(BlockingIOError):
                        served += [json.loads(line)["id"] for line in peer.recv(65_536).splitlines()]
            assert applications.idle
    assert served == [0, 100, 200, 1, 101, 201, 2, 102, 202, 3, 103, 203, 104, 204, 205]


def test_a_function_is_called_for_each_delivery_while_the_program_goes_on(node: Node) -> None:
    got: list[Delivery] = []
    with Client(node.path, "sender") as sender:
        with Listener(Client(node.path, "a"), "x > 1", got.append) as listener:
            assert (listener.app, listener.node) == ("a", 4)
            for number in range(1, 6):
                sender.send_message(f"x = {number}")
            wait_for(lambda: None if len(got) == 4 else f"{len(got)} deliveries")
            assert not listener.wait(0)
        assert [each.attributes for each in got] == [{"x": number} for number in range(2, 6)]
        # Its predicate has gone with it, and its name is free.
        sender.send_message("x = 9")
        with Listener(Client(node.path, "a"), "x > 1", got.append):
            pass
    assert len(got) == 4


def test_what_the_function_raises_ends_the_listener_and_is_raised_by_close(node: Node) -> None:
    def fails(delivery: Delivery) -> None:
        raise ValueError(f"{delivery.attributes}")

    with Client(node.path) as sender:
        listener = Listener(Client(node.path, "a"), "x > 1", fails)
        sender.send_message("x = 2")
        assert listener.wait(TIMEOUT)
        with pytest.raises(ValueError, match="'x': 2"):
            listener.close()
        listener.close()
        # The error of the block says more than that of the listener.
        with pytest.raises(KeyError), Listener(Client(node.path, "b"), "x > 1", fails) as listener:
            sender.send_message("x = 2")
            assert listener.wait(TIMEOUT)
            raise KeyError
        client = Client(node.path, "c")
        with pytest.raises(ParseError):
            Listener(client, "x >", fails)
        with pytest.raises(ClientError):
            client.status()


def test_a_listener_says_that_its_router_has_ended(node: Node) -> None:
    listener = Listener(Client(node.path, "a"), "x > 1", print)
    node.events()
    assert listener.wait(TIMEOUT)
    with pytest.raises(ClientError, match="closed the connection"):
        listener.close()


def test_an_asyncio_program_gets_deliveries_until_the_router_ends(node: Node) -> None:
    async def program() -> list[Delivery]:
        got = []
        async with AsyncClient(node.path, "a") as client:
            await client.subscribe("x > 1")
            sent = [await client.send_message(f"x = {number}") for number in (1, 2, 3)]
            async for delivery in client:
                got.append(delivery)
                if len(got) == 2:
                    break
            assert [(each.source, each.seq) for each in got] == sent[1:]
            node.events()
            for _ in range(2):
                with pytest.raises(ClientError, match="closed"):
                    async with asyncio.timeout(TIMEOUT):
                        async for _delivery in client:
                            pass
        return got

    assert [each.attributes for each in asyncio.run(program())] == [{"x": 2}, {"x": 3}]


def test_requests_behind_the_one_that_finds_the_application_gone_are_not_served(tmp_path: Path) -> None:
    with selectors.DefaultSelector() as selector:
        router = Router(4, RouterOptions(), factory("counting"), 1)
        for kind, body in (
            (FrameType.TABLE, table_of((), (TreeEntry(4, 0, (), 0),))),
            (FrameType.COMMIT, Commit(1)),
        ):
            router.handle(ControllerFrame(Frame(kind, 4, 1 << 32 | 1, 1, 1, body)), 0.0)
        applications = Applications(
            4,
            tmp_path / "r4.sock",
            selector,
            router.session,
            lambda event: router.handle(event, 0.0),
            lambda _tables: {"node": 4},
            records_in(tmp_path, 4),
        )

        def serve() -> None:
            for key, mask in selector.select(TIMEOUT):
                key.data(mask)
            applications.serve(time.monotonic() + TIMEOUT)

        with closing(applications), socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(tmp_path / "r4.sock"))
            peer.sendall(b'{"op": "subscribe", "predicate": "x = 1"}\n')
            while not predicates_of(router):
                serve()
            # The delivery of its own message finds the socket closed.
            peer.sendall(
                b'{"op": "send_message", "message": "x = 1"}\n{"op": "set_predicate", "predicate": "y = 1"}\n'
            )
            peer.close()
            serve()
            assert len(applications) == 0
            assert not applications.behind
        assert predicates_of(router) == {}


class _Direct:
    """Counts how often compiled code may serve an application."""

    deliverer = None

    def __init__(self) -> None:
        self.opened: dict[int, int] = {}
        self.is_open: dict[int, bool] = {}

    def open(self, number: int, _descriptor: int, _head: bytes) -> None:
        self.opened[number] = self.opened.get(number, 0) + 1
        self.is_open[number] = True

    def shut(self, number: int) -> None:
        self.is_open[number] = False


def test_compiled_code_serves_an_application_again_whose_socket_takes_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    from router.forwarding.applications import Waiting

    direct = _Direct()
    with selectors.DefaultSelector() as selector:
        router = Router(4, RouterOptions(), factory("counting"), 1)
        applications = Applications(
            4,
            tmp_path / "r4.sock",
            selector,
            router.session,
            lambda event: router.handle(event, 0.0),
            lambda _tables: {"node": 4},
            records_in(tmp_path, 4),
            direct=direct,  # type: ignore[arg-type]
        )
        with closing(applications), socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(tmp_path / "r4.sock"))
            peer.sendall(b'{"op": "subscribe", "predicate": "x = 1"}\n')
            while not direct.opened:
                for key, mask in selector.select(TIMEOUT):
                    key.data(mask)
                applications.serve(time.monotonic() + TIMEOUT)
            (number,) = direct.opened
            applications.left(number, b"the rest\n", [Waiting(9, 4, 1)])
            assert direct.opened[number] == 2
            assert direct.is_open[number]
            assert peer.recv(1000).endswith(b"the rest\n")


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "r4.sock", "attention")
    try:
        yield made
    finally:
        made.close()


def test_the_attention_limited_service(limited: Node) -> None:
    with limited.client("a") as first, limited.client("b") as second:
        assert first.commands == {"register", "refresh", "unregister", "publish"}
        number = first.register("x = 1", 2, 60, 300)
        published = [second.publish("x = 1"), second.publish(Message({"x": 1, "y": 2}))]
        second.publish("x = 1")
        got = arrived(first)
        assert [(each.source, each.seq) for each in got] == published
        assert {(each.subscription, each.round, each.age_s) for each in got} == {(number, 0, 0.0)}
        assert first.outcomes() == [RoundOver(number, 0, "satisfied", 2)]
        # The third publication was one too many for the first round.
        assert first.refresh(number) == 1
        assert [each.seq & 0xFFFF_FFFF for each in arrived(first)] == [3]
        with pytest.raises(ClientError, match="round 1 is not over"):
            first.refresh(number)
        with pytest.raises(ClientError, match="is none of this application's"):
            second.unregister(number)
        first.unregister(number)
        # The line of the outcome comes before the answer to a further request.
        first.status()
        assert first.outcomes() == [RoundOver(number, 1, "withdrawn", 1)]
        first.register("x = 2", 2, 60, 300)
    wait_for(lambda: "applications are connected" if len(limited.applications) else None)
    limited.events()
    recorded = [each for _, each in read_attention(RunLayout(limited.folder))]
    assert [each["event"] for each in recorded] == [
        *("register", "upload", "deliver", "upload", "deliver", "outcome", "upload"),
        *("refresh", "deliver", "outcome", "unregister", "register", "outcome", "unregister"),
    ]
    assert {each.get("app") for each in recorded} == {"a", "b"}


@pytest.fixture
def on_limited(limited: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cbcb pub` and `cbcb sub` find the router."""

    @contextmanager
    def connected(_arguments: Namespace) -> Iterator[Client]:
        with limited.client() as client:
            yield client

    for command in (pub, sub):
        monkeypatch.setattr(command, "connected", connected)


def _subscribed(*arguments: str) -> int:
    """The status of `cbcb sub 4` with arguments."""
    parser = ArgumentParser()
    sub.add_arguments(parser)
    return sub.main(parser.parse_args(["4", *arguments, "--timeout-s", str(TIMEOUT)]))


@pytest.mark.usefixtures("on_limited")
def test_sub_refreshes_subscriptions(capsys: pytest.CaptureFixture[str]) -> None:
    assert pub.main(Namespace(message=["x = 1", "y = 2", "x = 1"])) == 0
    capsys.readouterr()
    limits = ("--max", "1", "--lifetime", "60", "--freshness", "300")
    assert _subscribed("x = 1", *limits, "--refresh", "--count", "2") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["4:1 x = 1", "4:3 x = 1"]
    number = 1 << 32 | 1
    assert err.splitlines() == [
        f"cbcb: subscription {number}, round 0: x = 1",
        f"cbcb: subscription {number}, round 0 satisfied: 1 messages",
        f"cbcb: subscription {number}, round 1",
    ]
    # Without --refresh the command ends with the lifetimes of all subscriptions.
    assert _subscribed("y = 2", "y < 3", *limits) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["4:2 y = 2"] * 2
    assert err.splitlines()[2:] == [
        f"cbcb: subscription {number + 1}, round 0 satisfied: 1 messages",
        f"cbcb: subscription {number + 2}, round 0 satisfied: 1 messages",
    ]
    with pytest.raises(InputError, match="--refresh: expected --max, --lifetime and --freshness beside it"):
        _subscribed("x = 1", "--refresh")


@pytest.mark.usefixtures("on_limited")
@pytest.mark.parametrize("refresh", [False, True])
def test_sub_says_that_a_lifetime_is_over(
    limited: Node, refresh: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --refresh the next round gets what is published in it."""
    assert pub.main(Namespace(message=["x = 1"])) == 0
    capsys.readouterr()

    def put(text: str, **options: Any) -> None:
        written(text, **options)
        if text.startswith("4:1 "):
            limited.advance(60)
        elif text.endswith(", round 1"):
            assert pub.main(Namespace(message=["x = 1"])) == 0

    written = printable.put
    monkeypatch.setattr(sub, "put", put)
    limits = ("--max", "5", "--lifetime", "60", "--freshness", "300")
    assert _subscribed("x = 1", *limits, *(("--refresh", "--count", "2") if refresh else ())) == 0
    out, err = capsys.readouterr()
    deliveries, rounds = (["4:1 x = 1", "4:2 x = 1"], [", round 1"]) if refresh else (["4:1 x = 1"], [])
    assert [line for line in out.splitlines() if "x" in line] == deliveries
    subscription = f"cbcb: subscription {1 << 32 | 1}"
    expected = [", round 0: x = 1", ", round 0 expired: 1 messages", *rounds]
    assert err.splitlines() == [subscription + each for each in expected]


@pytest.mark.usefixtures("on_limited")
def test_sub_and_pub_serve_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert pub.main(Namespace(message=["x = 1", "x = 1"])) == 0
    options = {"count": None, "timeout_s": TIMEOUT, "refresh": False, "lifetime": 60.0, "freshness": 300.0}
    options["key_file"] = None
    assert sub.main(Namespace(predicate=["x = 1"], max=1, **options)) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].endswith("x = 1")
    assert "round 0 satisfied: 1 messages" in err
    with pytest.raises(InputError, match="expected all three, or none"):
        sub.main(Namespace(predicate=["x = 1"], max=None, **options))
