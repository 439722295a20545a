"""The application socket, over a real router core that has no network."""

from __future__ import annotations

import gc
import json
import os
import resource
import selectors
import socket
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from router.predicates import Message, Predicate, Value
from router.predicates.parser import parse_predicate
from router.protocol.services.exhaustive import ExhaustiveSession
from router.runtime.client import Client, ClientError
from router.runtime.lines import REQUEST_LIMIT
from tests.support.cases import cases_beside
from tests.support.polling import TIMEOUT, wait_for
from tests.support.router_tables import predicates_of
from tests.support.served_router import OUTPUT_LIMIT, Node, arrived, unserved
from tests.support.tree_entries import TreeEntry, table_of


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


def ask(connection: socket.socket, **request: Any) -> dict[str, Any]:
    """Sends a request and returns the answer."""
    connection.sendall(json.dumps(request).encode() + b"\n")
    with connection.makefile("rb") as answers:
        answer: dict[str, Any] = json.loads(answers.readline())
    return answer


def test_every_connection_with_requests_is_recorded_from_begin_to_end(node: Node) -> None:
    connections = {
        "declares": ["set_predicate"],
        "only asks": ["status"],
        "takes it back": ["subscribe", "unsubscribe"],
    }
    for name, operations in connections.items():
        with raw(node) as connection:
            for op in ("hello", *operations):
                assert ask(connection, op=op, app=name, predicate="x = 1")["ok"]
        wait_for(lambda: f"{len(node.applications)} are connected" if len(node.applications) else None)
    events = node.events()
    assert predicates_of(node.router) == {}
    assert [(event["app"], event["event"]) for event in events] == [
        (name, event)
        for name, operations in connections.items()
        if name != "only asks"
        for event in ("connect", *operations, "disconnect")
    ]
    assert all(event.get("requested_ns", event["t_ns"]) <= event["t_ns"] for event in events)
    assert [event["t_ns"] for event in events] == sorted(event["t_ns"] for event in events)


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
    # A router that ends records no end of a connection that it has not noticed.
    wait_for(lambda: "an application is connected" if len(node.applications) else None)
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


def _kept(kind: type) -> str | None:
    """The objects of a class that the collector knows; None: there are none."""
    return str([each for each in gc.get_objects() if isinstance(each, kind)]).strip("[]") or None


def test_an_application_that_left_is_freed_without_the_collector(node: Node) -> None:
    gc.collect()
    gc.disable()
    try:
        with node.client() as client:
            client.set_predicate("x = 1")
            client.send_message("x = 1")
            with pytest.raises(ClientError):
                client.unsubscribe(7)
        wait_for(lambda: "the application is connected" if len(node.applications) else None)
        # The node's loop drops the request that it has read last.
        node.advance(0.0)
        wait_for(lambda: _kept(ExhaustiveSession))
    finally:
        gc.enable()


def test_names_are_unique_and_stay(node: Node) -> None:
    with raw(node) as first, ExitStack() as later:
        assert ask(first, op="hello", app="app-2")["ok"]
        second = later.enter_context(raw(node))
        # The name that the router would give is taken.
        assert ask(second, op="subscribe", predicate="x = 1")["ok"]
        answer = ask(second, op="hello", app="b")
        assert answer["error"] == 'app: the records of this run name this application "app-2\'" already'
        assert ask(second, op="hello", app="app-2'")["ok"]
        for name in ("", "x" * 201, "a\nb", 7):
            assert ask(first, op="hello", app=name)["error"].startswith(
                "app: expected a name of 1 to 200 printable characters, got "
            )


def test_an_update_can_be_requested(tmp_path: Path) -> None:
    # Node 5 lies behind interface 1.
    table = table_of(((1, 5),), (TreeEntry(4, 0, (1,), 0), TreeEntry(5, 1, (), 1)))
    with closing(Node(tmp_path / "r4.sock", table=table)) as node, node.client() as client:
        client.request_update()
    assert node.router.counters.srs_issued == 1
    assert not node.router.idle


def test_a_request_that_no_part_of_the_router_takes_is_refused(tmp_path: Path) -> None:
    with closing(Node(tmp_path / "r4.sock", scheme="flooding")) as node, raw(node) as connection:
        error = ask(connection, op="request_update")["error"]
        assert error.startswith("op: 'request_update' is of no use with the scheme \"flooding\"")
        assert ask(connection, op="settle")["ok"]


def test_types_survive_the_socket(node: Node) -> None:
    numbers: dict[str, Value] = {"b": True, "i": -(2**63), "d": 2.0, "tiny": 5e-324, "odd name \u00e9": 1}
    attributes = numbers | {"huge": 1.7976931348623157e308, "s": '\u0000"\\\n\u00e9\U0001f600'}
    with node.client() as client:
        client.set_predicate("*")
        client.send_message(Message(attributes))
        got = next(client.deliveries(TIMEOUT)).attributes
    # 1 == 1.0 == True: equality alone does not tell types apart.
    assert (got, [*map(type, got.values())]) == (attributes, [*map(type, attributes.values())])


def raw(node: Node) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(TIMEOUT)
    connection.connect(str(node.path))
    return connection


@pytest.mark.parametrize(
    ("line", "error"),
    [
        *cases_beside(__file__)["bad_requests"],
        ("\xff\xfe", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('"' + '\\"' * 500_000, "not a JSON object"),
        ('{"id":7,"op":"' + '\\",[{' * 90_000 + '"}', "is none of"),
        ('{"x":"' + "a" * REQUEST_LIMIT + '"}', "line longer than"),
        ("a" * (3 * REQUEST_LIMIT), "line longer than"),
    ],
)
def test_a_bad_request_is_answered_and_not_recorded(node: Node, line: str, error: str) -> None:
    with node.client("taken"), raw(node) as connection:
        connection.sendall(line.encode("latin-1") + b'\n{"id":8,"op":"status"}\n')
        with connection.makefile("rb") as answers:
            refusal, status = json.loads(answers.readline()), json.loads(answers.readline())
        assert refusal["ok"] is False
        assert error in refusal["error"]
        assert refusal["id"] in (7, None)
        assert status == {"id": 8, "ok": True, "node": 4}
    assert node.events() == []


@pytest.mark.parametrize("request_of", cases_beside(__file__)["nested"])
def test_a_request_nested_as_deep_as_json_may_be_is_answered(node: Node, request_of: str) -> None:
    with raw(node) as connection, connection.makefile("rb") as answers:
        for depth in range(900, 1001):
            connection.sendall(request_of.replace("%s", "[" * depth + "]" * depth).encode() + b"\n")
            assert len(answers.readline()) < 3_000


def test_an_error_repeats_little_of_a_request(node: Node) -> None:
    with raw(node) as connection:
        for request in (
            {"op": "\x01" * 100_000},
            {"op": "set_predicate", "predicate": "a" * 100_000},
            {"op": "send_message", "message": '"' + "a" * 100_000 + '"'},
            {"op": "unsubscribe", "subscription": "1" * 100_000},
        ):
            assert len(ask(connection, **request)["error"]) <= 1_000


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


def test_an_answer_longer_than_what_may_wait_is_sent(node: Node) -> None:
    with raw(node) as connection:
        long = "x" * (3 * OUTPUT_LIMIT)
        assert ask(connection, op="status", id=long)["id"] == long
    assert node.applications.disconnected_slow == 0


def test_without_descriptors_a_connection_waits_and_costs_nothing(tmp_path: Path) -> None:
    with selectors.DefaultSelector() as selector, socket.socket(socket.AF_UNIX) as waiting:

        def ready() -> None:
            ((key, mask),) = selector.select(TIMEOUT)
            key.data(mask)

        with closing(unserved(tmp_path, selector)[1]) as applications:
            waiting.connect(str(tmp_path / "r4.sock"))
            free = os.dup(0)
            os.close(free)
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                ready()
                assert selector.select(0) == []
                due = applications.next_deadline()
                assert due is not None
                applications.tick(due)
                ready()
                assert len(applications) == 0
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            applications.tick(time.monotonic() + 60)
            ready()
            assert len(applications) == 1
            assert applications.next_deadline() is None


def test_applications_that_pipeline_requests_are_served_in_turn(tmp_path: Path) -> None:
    """Each call of `serve` that has no time serves one request; those of one application keep their order."""
    served: list[int] = []
    with selectors.DefaultSelector() as selector:
        _, applications = unserved(tmp_path, selector)
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


def test_requests_behind_the_one_that_finds_the_application_gone_are_not_served(tmp_path: Path) -> None:
    with selectors.DefaultSelector() as selector:
        router, applications = unserved(tmp_path, selector)

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
