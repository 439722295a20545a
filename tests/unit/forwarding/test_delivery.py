"""Compiled code delivers to applications what the core would, and leaves to the caller what it cannot."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

pytest.importorskip("numba")

from router.clock.clock import FixedClock
from router.forwarding import kernel, plane
from router.forwarding.applications import LocalApplications, Waiting
from router.forwarding.buffers import FrameBuffers
from router.forwarding.layout import NEVER
from router.forwarding.plane import DataPlane
from router.matching.compiled.engine import CompiledMatcher
from router.predicates.model import Filter, Message
from router.predicates.parser import parse_predicate
from router.protocol.events import Accepted, Deliver, DeliveryPostponed, SendMessage, SetPredicate, Tick
from router.protocol.services import applications
from router.records.applications import delivery_head
from tests.support.one_router import NODE, msg, ra, received, set_up
from tests.support.two_ways import MTU, ethernet

FRAMES = 64


class Node:
    """A router with applications 1 and 2, which get all messages with `a`, and keeps what is left to it.

    Node 12 gets all messages with `b`, over a link that takes few frames at a time.
    """

    def __init__(self) -> None:
        self.link = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.link[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        self.link[1].setblocking(False)
        router = self.router = set_up(matcher="compiled")
        for app in (1, 2):
            router.handle(SetPredicate(app, parse_predicate("a any integer")), 0.0)
        received(router, 12, ra(12, "b any integer"))
        state = router.forwarding()
        assert state is not None
        buffers = FrameBuffers(FRAMES, MTU + 14)
        self.plane = DataPlane(state, FixedClock(), buffers, self.link[0].fileno(), MTU, None)
        assert self.plane.applications is not None
        self.applications: LocalApplications = self.plane.applications
        self.applications.deliverer = self
        # The core gives the matcher the predicates with the first message.
        received(router, 11, msg(11, a=1))
        self.batches = 0
        self.records: list[dict[str, object]] = []
        self.rest: dict[int, bytes] = {}
        self.requests: dict[int, bytes] = {}
        self.waiting: dict[int, list[Waiting]] = {}
        self.sockets = {app: socket.socketpair() for app in (1, 2)}
        for app, (ours, theirs) in self.sockets.items():
            ours.setblocking(False)
            theirs.setblocking(False)
            self.applications.open(app, ours.fileno(), delivery_head(NODE, f"app {app}"))

    def recorded(self, records: bytes, since: float) -> None:
        assert since > 0
        self.records += map(json.loads, records.splitlines())

    def left(self, number: int, lines: bytes, deliveries: Sequence[Waiting]) -> None:
        self.rest[number] = lines
        self.waiting[number] = list(deliveries)

    def requested(self, number: int, data: bytes) -> None:
        self.requests[number] = data

    def request(self, data: bytes) -> None:
        self.sockets[1][1].send(data)
        self.plane.take_requests(1)

    def put(self) -> bytes | None:
        """Passes a batch of messages that are new; returns the first frame that is the core's."""
        self.batches += 1
        return self.plane.put([self.frame(number) for number in range(FRAMES)])

    def frame(self, number: int) -> bytes:
        """A frame of the last batch."""
        return ethernet(msg(11, seq=FRAMES * self.batches + number, a=number), 11)[0]

    def read(self, app: int) -> bytes:
        got = b""
        with suppress(BlockingIOError):
            while data := self.sockets[app][1].recv(1 << 16):
                got += data
        return got

    def recorded_for(self, app: int) -> int:
        return sum(record["app"] == f"app {app}" for record in self.records)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    for pair in (made.link, *made.sockets.values()):
        for each in pair:
            each.close()


def whole(lines: bytes) -> list[int]:
    """The messages of the lines."""
    return [json.loads(line)["attributes"]["a"] for line in lines.splitlines()]


def test_a_batch_is_delivered_and_recorded(node: Node) -> None:
    assert node.put() is None
    for app in (1, 2):
        assert whole(node.read(app)) == list(range(FRAMES))
        assert node.recorded_for(app) == FRAMES
    assert not node.rest


def test_a_large_predicate_is_laid_out_in_parts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last part, messages are the core's, and no call waits for input."""
    assert node.put() is None
    node.read(1)
    given: list[int] = []
    change = CompiledMatcher.change

    def counted(self: CompiledMatcher, app: int, gone: list[Filter], added: list[Filter]) -> None:
        if self is node.applications._matcher:
            given.append(len(gone) + len(added))
        change(self, app, gone, added)

    monkeypatch.setattr(CompiledMatcher, "change", counted)
    first = " or ".join(f"a = {2 * n}" for n in range(1_000))
    for text, delivered in ((first, 32), ("a < 7", 7), (first + " or a = 1", 33)):
        node.router.handle(SetPredicate(1, parse_predicate(text)), 0.0)
        while not node.router.idle:
            node.router.handle(Tick(), 0.0)
        parts = 0
        given.clear()
        while node.put() is not None or not node.applications.ready:
            parts += not node.applications.ready
            assert sum(given) <= 128
            given.clear()
            with select.epoll() as nothing:
                assert node.plane.wait(nothing.fileno(), time.monotonic_ns(), hold=False) == []
            parts += not node.applications.ready
            assert sum(given) <= 128
            given.clear()
            # The core gives its own matcher the changes of p0.
            received(node.router, 11, msg(11, b=1))
            while node.router.next_deadline() == 0.0:
                node.router.handle(Tick(), 0.0)
        assert parts >= 3
        node.read(1)
        node.read(2)
        assert node.put() is None
        assert len(whole(node.read(1))) == delivered


def test_heavy_filters_count_as_several(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matcher's time grows with the constraints."""
    given: list[int] = []
    change = CompiledMatcher.change

    def counted(self: CompiledMatcher, app: int, gone: list[Filter], added: list[Filter]) -> None:
        given.append(sum(map(len, added)))
        change(self, app, gone, added)

    monkeypatch.setattr(CompiledMatcher, "change", counted)
    filters = (" and ".join(f"a{each} = {n}" for each in range(100)) for n in range(40))
    node.router.handle(SetPredicate(1, parse_predicate(" or ".join(filters))), 0.0)
    while not node.router.idle:
        node.router.handle(Tick(), 0.0)
    node.applications.prepare()
    while not node.applications.ready:
        node.applications.prepare()
    assert sum(given) == 40 * 100 + 1
    assert max(given) <= 8 * 128 + 100


def test_requests_are_served_on_the_rows_that_were_laid_out_last(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a large predicate is laid out, each call makes new rows."""
    addresses: list[int] = []
    serve = kernel.forward

    def checked(state: int, fresh: int, app: int) -> int:
        addresses.append(app)
        assert app == node.applications.address(1)
        return int(serve(state, fresh, app))

    monkeypatch.setattr(plane, "forward", checked)
    node.router.handle(SetPredicate(2, parse_predicate(" or ".join(f"a = {n}" for n in range(300)))), 0.0)
    while not node.router.idle:
        node.router.handle(Tick(), 0.0)
    line = request(8, b=2)
    node.request(line)
    assert not node.applications.ready
    assert node.requests == {1: line}
    assert len(addresses) == 1


def test_a_socket_that_takes_a_part_leaves_the_rest_to_the_caller(node: Node) -> None:
    node.sockets[1][0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    while not node.rest:
        assert node.put() is None
    got = node.read(1)
    assert got
    assert node.recorded_for(1) == got.count(b"\n")
    messages = whole(got + node.rest[1])
    assert messages == list(range(FRAMES)) * (len(messages) // FRAMES)
    assert sum(each.length for each in node.waiting[1]) == len(node.rest[1])
    assert len(node.waiting[1]) == len(messages) - node.recorded_for(1)
    # The other application has all, and nothing more is compiled code's until the caller says so.
    assert node.recorded_for(2) == len(messages)
    assert node.put() == node.frame(0)


def test_a_message_that_is_replayed_is_delivered_once(node: Node) -> None:
    frame = ethernet(msg(11, seq=77, a=5), 11)[0]
    for _ in range(500 // FRAMES + 1):
        assert node.plane.put([frame] * FRAMES) is None
    assert whole(node.read(1)) == whole(node.read(2)) == [5]
    counters = node.router.counters
    node.plane.collect(counters)
    assert counters.dropped == {"message_duplicate": FRAMES * (500 // FRAMES + 1) - 1}
    # The core knows what compiled code has delivered, and the reverse.
    assert received(node.router, 11, msg(11, seq=77, a=5)) == []
    assert len(received(node.router, 11, msg(11, seq=78, a=5))) == 1
    assert node.plane.put([ethernet(msg(11, seq=78, a=5), 11)[0]]) is None
    assert node.read(1) == b""


@pytest.mark.parametrize("seq", [2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
def test_the_greatest_numbers_have_the_buckets_of_the_core(node: Node, seq: int) -> None:
    frame = ethernet(msg(11, seq=seq, a=5), 11)[0]
    assert node.plane.put([frame, frame]) is None
    (line,) = node.read(1).splitlines()
    assert json.loads(line)["seq"] == seq
    assert (11, seq) in node.router._messages.delivered
    assert received(node.router, 11, msg(11, seq=seq, a=5)) == []
    lower = seq - 2**62
    assert len(received(node.router, 11, msg(11, seq=lower, a=5))) == 1
    assert node.plane.put([ethernet(msg(11, seq=lower, a=5), 11)[0]]) is None
    counters = node.router.counters
    node.plane.collect(counters)
    assert counters.dropped == {"message_duplicate": 3}


def test_an_application_that_is_gone_leaves_all_to_the_caller(node: Node) -> None:
    node.sockets[1][1].close()
    assert node.put() is None
    assert whole(node.rest[1]) == list(range(FRAMES))
    assert node.recorded_for(1) == 0
    assert node.recorded_for(2) == FRAMES


def test_an_application_that_is_shut_is_the_core_s(node: Node) -> None:
    node.applications.shut(2)
    assert node.put() == node.frame(0)
    assert not node.records


def request(number: int, **attributes: int) -> bytes:
    content = {"id": number, "op": "send_message", "attributes": attributes}
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def test_requests_are_answered_before_their_messages_are_delivered(node: Node) -> None:
    before = node.router.handle(SendMessage(1, Message({"a": 0})), 0.0)[0]
    assert isinstance(before, Accepted)
    node.request(request(7, a=1) + request(8, b=2))
    answer, delivery, second = map(json.loads, node.read(1).splitlines())
    assert answer == {"id": 7, "ok": True, "source": NODE, "seq": before.seq + 1}
    assert (delivery["seq"], delivery["attributes"]) == (before.seq + 1, {"a": 1})
    assert second == {"id": 8, "ok": True, "source": NODE, "seq": before.seq + 2}
    # The core counts on where compiled code has stopped.
    after = node.router.handle(SendMessage(1, Message({"a": 0})), 0.0)[0]
    assert isinstance(after, Accepted)
    assert after.seq == before.seq + 3
    assert not node.requests


def test_each_message_of_many_requests_is_sent_once(node: Node) -> None:
    taken = []
    with select.epoll() as epoll:
        for each in (node.link[0], node.sockets[1][0]):
            epoll.register(each, select.EPOLLIN)
        node.sockets[1][1].send(b"".join(request(number, b=number) for number in range(FRAMES)))
        # The link takes a part of the batch; the caller sends the rest.
        assert node.plane.wait(epoll.fileno(), NEVER, hold=False) == [(node.link[0].fileno(), select.EPOLLIN)]
    with suppress(BlockingIOError):
        while True:
            taken.append(node.link[1].recv(MTU + 14))
    assert 0 < len(taken) < FRAMES
    rest = node.plane.unsent()
    assert len({*taken, *rest}) == len(taken) + len(rest) == FRAMES


@pytest.mark.parametrize(
    "unusual",
    [
        b'{"id":1,"op":"send_message","attributes":{"a":1}',
        b'{"id":1,"op":"send_message","attributes":{}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":1}}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":01}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":1.}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":1e999}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":null}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":-}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":99999999999999999999}}\n',
        b'{"id":1,"op":"send_message","attributes":{"":1}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":"\\u0041"}}\n',
        b'{"id":1,"op":"send_message","attributes":{"a":1,"a":2}}\n',
        b'{"id":-1,"op":"send_message","attributes":{"a":1}}\n',
        b'{"op":"send_message","id":1,"attributes":{"a":1}}\n',
        b'{"op":"status"}\n',
        b"\n",
    ],
)
def test_a_request_that_is_not_ordinary_is_left_to_the_caller(node: Node, unusual: bytes) -> None:
    rest = unusual + request(9, b=3)
    node.request(request(8, b=2) + rest)
    assert [json.loads(line)["id"] for line in node.read(1).splitlines()] == [8]
    assert node.requests[1] == rest
    assert node.router.handle(SendMessage(1, Message({"b": 0})), 0.0)


def test_the_end_of_an_application_is_left_to_the_caller(node: Node) -> None:
    node.sockets[1][1].close()
    node.plane.take_requests(1)
    assert node.put() == node.frame(0)
    assert not node.requests


def test_a_batch_whose_searches_take_long_is_left_to_the_core(node: Node) -> None:
    """The core looks at the clock between two messages."""
    lengths = " or ".join(f's ** "{"a" * length}b"' for length in range(1, 300))
    received(node.router, 12, ra(12, f"b any integer or {lengths}", seq=2))
    text = "a" * 300
    while (due := node.router.next_deadline()) is not None:
        node.router.handle(Tick(), due)
        received(node.router, 11, msg(11, s=text))
    frames = [ethernet(msg(11, seq=1_000 + number, s=text), 11)[0] for number in range(FRAMES)]
    left = node.plane.put(frames)
    assert left is not None
    first = frames.index(left)
    assert 0 < first < FRAMES // 2
    # As many again after the core has handled that one.
    assert node.plane.resume(hold=True) == frames[2 * first + 1]
    assert node.plane.take_rest() == frames[2 * first + 2 :]
    assert node.plane.take_rest() == []
    assert node.put() is None


def test_a_message_that_takes_long_to_compare_with_applications_is_left_to_the_core(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core compares it turn by turn; messages and requests behind it are the core's until then."""
    lengths = " or ".join(f's ** "{"a" * length}b"' for length in range(1, 400))
    node.router.handle(SetPredicate(1, parse_predicate(f"a any integer or {lengths}")), 0.0)
    text = "a" * 600
    while not node.router.idle or not node.applications.ready:
        node.router.handle(Tick(), 0.0)
        received(node.router, 11, msg(11, s="ab"))
        node.plane.put([])
    node.read(1)
    long, short = msg(11, seq=2_000, s=text + "b"), msg(11, seq=2_001, a=7)
    frames = [ethernet(each, 11)[0] for each in (long, short)]
    assert node.plane.put(frames) == frames[0]
    monkeypatch.setattr(applications, "_SELECTING", 10)
    assert DeliveryPostponed(11, 2_000) in received(node.router, 11, long)
    assert node.router.delivers
    # Behind the one that waits, nothing is decided here.
    assert node.plane.resume(hold=True) == frames[1]
    line = request(8, a=2)
    node.request(line)
    assert node.requests == {1: line}
    received(node.router, 11, short)
    got = []
    while node.router.delivers:
        got += node.router.handle(Tick(), 0.0)
    assert [(each.seq, each.apps) for each in got if isinstance(each, Deliver)] == [
        (2_000, (1,)),
        (2_001, (1, 2)),
    ]
    node.applications.open(1, node.sockets[1][0].fileno(), delivery_head(NODE, "app 1"))
    assert node.plane.put([ethernet(msg(11, seq=2_002, a=8), 11)[0]]) is None
    assert whole(node.read(1)) == [8]
