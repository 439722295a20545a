"""Compiled forwarding does what the core would have done: frames, counters, recordings, sender requests."""

from __future__ import annotations

import math
import random
import select
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from router.clock import SLOT_NUMBERS, ClockPage, Piece
from router.clock.clock import SharedClock
from router.clock.meter import Meter
from router.forwarding import layout
from router.predicates import EVERYTHING, NOTHING, Message, Predicate, Value
from router.protocol.events import RequestUpdate, SendMessage, SetPredicate, Settle, Tick
from router.protocol.options import CONTENTS, SCHEMES, RouterOptions
from router.recording.replay import check
from router.wire.codec import fragment
from router.wire.frames import Body, Commit, Frame, FrameType, SenderRequest
from router.wire.header import CONTROLLER_SOURCE, ROUTER_DESTINATION
from tests.support.fuzz import cases
from tests.support.mutated_frames import mutated
from tests.support.network_cases import PREDICATES, SEEDS
from tests.support.packets import ethernet
from tests.support.polling import wait_for
from tests.support.protocol_network import random_graph, tables_of
from tests.support.two_ways import MTU, CompiledRouter, CoreRouter

NODE, NODES = 0, 7
#: Applications of the router.
APPLICATIONS = 3
PATH = random_graph(random.Random(1), 2, 0)
OPTIONS = {
    "pif": RouterOptions(sr_timeout_s=1.0),
    "pif, SRs by count": RouterOptions(sr_policy="count", sr_threshold=3, sr_timeout_s=0.5),
    "pif, SRs by count, rarely": RouterOptions(sr_policy="count", sr_threshold=2, sr_min_interval_s=2.0),
    "pif-classes, SRs by count": RouterOptions(scheme="pif-classes", sr_policy="count", sr_threshold=3),
    "hop limits": RouterOptions(hop_limit=2),
    **{scheme: RouterOptions(scheme=scheme) for scheme in SCHEMES},
    **{f"covering {name}": RouterOptions(covering=name) for name in CONTENTS},
}
#: Names and values of attributes beside the common.
NAMES = ("price", 'quo"te', "back\\slash", "ümlaut", "new\nline")
VALUES = (
    *(2.5, -0.0, 1e300, 5e-324, 123456789.125, 0.1 + 0.2, -(2**63), 2**63 - 1, True, False),
    *("", 'a"b', "é"),
)
Play = Callable[[CoreRouter, float], None]
#: Ethernet frames of five messages of node 1.
MESSAGES = [
    ethernet(Frame(FrameType.MSG, 1, number, 1, 9, Message({"x": 1})), 1)[0] for number in range(1, 6)
]


@contextmanager
def _sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The device of a router, and its other end."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    near.setblocking(False)
    with near, far:
        yield near, far


@contextmanager
def _epoll(*sockets: socket.socket) -> Iterator[select.epoll]:
    with select.epoll() as epoll:
        for each in sockets:
            epoll.register(each, select.EPOLLIN)
        yield epoll


def _wait_during(act: Callable[[], None], router: CompiledRouter, near: socket.socket) -> None:
    stop, stopped = socket.socketpair()
    with stop, stopped, _epoll(near, stopped) as epoll, ThreadPoolExecutor(1) as apart:
        acting = apart.submit(act)
        acting.add_done_callback(lambda _: stop.send(b"0"))
        assert router.plane.wait(epoll, None) == [(stopped.fileno(), select.EPOLLIN)]
        acting.result()


def _unwanted(router: CompiledRouter, count: int) -> str | None:
    """Compiled code counts a message that nobody wants when its record is written."""
    found = router.plane._row[layout.UNWANTED]
    return None if found == count else f"{found} messages of {count}"


def _begin(router: CoreRouter, *plays: Play) -> None:
    """Lets a router of two commit epoch 1; then come `plays`."""
    table = _control(FrameType.TABLE, 1, tables_of("spt", PATH, PATH)[NODE])
    for play in (table, _control(FrameType.COMMIT, 1, Commit(1)), *plays):
        play(router, 0.0)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@settings(max_examples=cases(25))
@given(SEEDS, PREDICATES, PREDICATES, PREDICATES)
@example(2782512, NOTHING, NOTHING, NOTHING).via("a message comes with a signature")
def test_compiled_forwarding_equals_the_core(
    options: RouterOptions, seed: int, first: Predicate, second: Predicate, third: Predicate
) -> None:
    steps = list(_story(random.Random(seed), [first, second, third]))
    with tempfile.TemporaryDirectory() as folder:
        alone = CoreRouter(NODE, options, Path(folder) / "core")
        compiled = CompiledRouter(NODE, options, Path(folder) / "compiled")
        for number, step in enumerate(steps):
            for router in (alone, compiled):
                step(router, 0.1 * number)
            assert compiled.out == alone.out
            assert compiled.actions == alone.actions
            assert compiled.counters() == alone.counters()
        for router in (alone, compiled):
            router.recorder.end()
            router.recorder.close()
        recordings = [(Path(folder) / name).read_bytes() for name in ("core", "compiled")]
        assert recordings[0] == recordings[1]
        assert check(Path(folder) / "compiled").difference is None


@settings(max_examples=cases(25))
@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from([0.5, 1.0, 90.0])), min_size=2, max_size=9))
def test_records_of_one_wait_follow_the_rate_of_the_clock(steps: list[tuple[float, float]]) -> None:
    """Each step: experiment seconds since the message before, and the rate at which this message comes."""
    message = MESSAGES[:1]
    with _sockets() as (near, far), tempfile.TemporaryDirectory() as folder:
        alone = CoreRouter(NODE, RouterOptions(), Path(folder) / "core")
        compiled = CompiledRouter(NODE, RouterOptions(), Path(folder) / "compiled", (near, far))
        for router in (alone, compiled):
            _begin(router, _frames(message))

        def arrivals() -> None:
            for number, (since, rate) in enumerate(steps, start=2):
                for router in (alone, compiled):
                    router.clock.set(router.clock.at + since, rate)
                alone.frames(message, alone.clock.at)
                far.send(message[0])
                wait_for(partial(_unwanted, compiled, number))

        _wait_during(arrivals, compiled, near)
        assert alone.counters() == compiled.counters()
        assert compiled.decided == 1 + len(steps)
        for router in (alone, compiled):
            router.recorder.close()
        assert (Path(folder) / "core").read_bytes() == (Path(folder) / "compiled").read_bytes()


def test_a_wait_keeps_to_the_pieces_of_the_clock_and_to_the_room_for_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rise of the rate was announced before, a fall shows after its start, and a batch fills the room."""
    first, meter = Piece(time.monotonic_ns(), 0.0, 1.0), Meter()
    clock = SharedClock(ClockPage.create(tmp_path / "clock", 1, first))
    # Nothing takes longer: compiled code does not return for the meter.
    meter.restore([math.inf] * SLOT_NUMBERS)
    with _sockets() as (near, far):
        path = tmp_path / "compiled"
        router = CompiledRouter(NODE, RouterOptions(), path, (near, far), meter=meter, clock=clock)
        _begin(router, _frames(MESSAGES[:1]))
        reserve = router.recorder.reserve
        monkeypatch.setattr(router.recorder, "reserve", lambda length, at: (reserve(length, at)[0], length))
        rise = first.followed_by(time.monotonic_ns() + 200_000_000, 1e6)
        clock.page.append(rise)
        times, ends = list[float](), set[int]()

        def arrivals() -> None:
            wait_for(lambda: None if time.monotonic_ns() > rise.start_ns + 1_000_000 else "it has not begun")
            for number in (2, 3, 4):
                far.send(MESSAGES[0])
                wait_for(partial(_unwanted, router, number))
                times.append(router.plane._reals[layout.NOW])
                ends.add(router.plane._state[layout.LOG_AT])
                if number == 3:
                    clock.page.append(first)

        _wait_during(arrivals, router, near)
        times = [rise.experiment_s + 1_000, *times, clock.now()]
        assert times == sorted(times)
        assert len(ends) == 1
        router.recorder.close()


def test_an_application_that_leaves_with_a_message_gets_none_of_the_batch_behind_it(tmp_path: Path) -> None:
    """Its predicate is withdrawn between two records that compiled code writes."""
    alone = CoreRouter(NODE, RouterOptions(), tmp_path / "core")
    compiled = CompiledRouter(NODE, RouterOptions(), tmp_path / "compiled")
    for router in (alone, compiled):
        _begin(router, _event(SetPredicate(1, EVERYTHING)))
        # The first message is the core's, which gives the predicate to the engine.
        router.frames(MESSAGES[:1], 0.0)
        router.after_delivery = partial(router.handle, SetPredicate(1, NOTHING), 1.0)
        router.frames(MESSAGES[1:], 1.0)
        router.recorder.close()
    assert compiled.actions == alone.actions
    assert compiled.counters() == alone.counters()
    assert compiled.counters()["messages_delivered"] == 2
    # The third is the core's, which gives the change to the engine.
    assert compiled.decided == 3
    assert (tmp_path / "core").read_bytes() == (tmp_path / "compiled").read_bytes()


def test_a_wait_ends_when_what_a_delivery_has_left_is_due(tmp_path: Path) -> None:
    """Records of deliveries wait in memory for a while."""
    with _sockets() as (near, far):
        compiled = CompiledRouter(NODE, RouterOptions(), tmp_path / "compiled", (near, far))
        _begin(compiled, _event(SetPredicate(1, EVERYTHING)), _frames(MESSAGES[:1]))
        compiled.due = time.monotonic()
        far.send(MESSAGES[1])
        with _epoll(near) as epoll:
            assert compiled.plane.wait(epoll, None) == []
            far.send(MESSAGES[2])
            # A message that arrives after that time is left to the caller.
            assert compiled.plane.wait(epoll, compiled.due) == [(near.fileno(), select.EPOLLIN)]
        assert compiled.counters()["messages_delivered"] == 2
        compiled.recorder.close()


def test_a_batch_of_deliveries_ends_with_the_turn_and_the_core_gets_the_rest(tmp_path: Path) -> None:
    """The turn is over behind the first delivery; its CPU time is measured."""
    with _sockets() as (near, far):
        meter, path = Meter(), tmp_path / "compiled"
        compiled = CompiledRouter(NODE, RouterOptions(), path, (near, far), turn_s=0.0, meter=meter)
        # The first message is the core's, which gives the predicate to the engine.
        _begin(compiled, _event(SetPredicate(1, EVERYTHING)), _frames(MESSAGES[:1]))
        for frame in MESSAGES[1:]:
            far.send(frame)
        with _epoll(near) as epoll:
            assert compiled.plane.wait(epoll, None) == [(near.fileno(), select.EPOLLIN)]
        assert compiled.plane.has_stopped
        assert compiled.counters()["messages_delivered"] == 2
        assert meter.measured().turn_cpu_s > 0
        left = compiled.plane.receive(hold=True)
        assert left == MESSAGES[2]
        compiled.take(left, 0.0)
        assert compiled.plane.take_rest() == MESSAGES[3:]
        assert compiled.counters()["messages_delivered"] == 3
        compiled.recorder.close()


def test_most_messages_are_decided_by_compiled_code() -> None:
    """Otherwise the equality above would say little."""
    rng = random.Random(1)
    decided = received = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(30):
            router = CompiledRouter(NODE, RouterOptions(), Path(folder) / str(number))
            for step in _story(rng, [EVERYTHING, NOTHING, EVERYTHING]):
                step(router, 0.1)
            received += router.counters()["messages_received"]
            decided += router.decided
            router.recorder.close()
    assert decided > 0.25 * received > 100


@pytest.mark.parametrize("options", ["pif, SRs by count", "pif, SRs by count, rarely"])
def test_an_outstanding_sr_leaves_messages_to_compiled_code(options: str) -> None:
    """The next SR is due after more messages, and not before this one is answered or its time is over."""
    rng = random.Random(2)
    full = random_graph(rng, NODES, 3)
    neighbours = sorted(full[NODE])
    given = replace(OPTIONS[options], sr_timeout_s=4.0)
    with tempfile.TemporaryDirectory() as folder:
        router = CompiledRouter(NODE, given, Path(folder) / "compiled")
        steps = [_control(FrameType.TABLE, 1, tables_of("spt", full, full)[NODE])]
        steps.append(_control(FrameType.COMMIT, 1, Commit(1)))
        for issuer in range(1, NODES):
            frame = Frame(FrameType.RA, issuer, 1, 1, 9, EVERYTHING)
            steps += [_frames([ethernet(frame, sender)[0]]) for sender in neighbours]
        batches = [
            [ethernet(Frame(FrameType.MSG, sender, 20 * n + m, 1, 9, Message({"a": m})), sender)[0]]
            for n in range(40)
            for m in range(20)
            for sender in [rng.choice(neighbours)]
        ]
        for step in (*steps, *map(_frames, batches)):
            step(router, 1.0)
        counters = router.counters()
    assert counters["srs_issued"] >= 1
    assert counters["messages_received"] == 800
    # Four messages through each interface make an SR due, and the first message syncs the engine.
    assert router.decided >= 800 - 10 * len(neighbours)


def _story(rng: random.Random, predicates: list[Predicate]) -> Iterator[Play]:
    """The story of a router: tables of several epochs, RAs, applications, and batches of frames."""
    full = random_graph(rng, NODES, rng.randrange(6))
    wide = rng.random() < 0.3
    epoch = 0
    neighbours = sorted(full[NODE])
    for _ in range(rng.randint(4, 12)):
        if epoch == 0 or rng.random() < 0.2:
            epoch += 1
            alive = full.copy()
            if epoch > 1 and len(neighbours) > 1:
                alive.remove_edge(NODE, rng.choice(neighbours))
            table = tables_of("spt", full, alive)[NODE]
            yield _control(FrameType.TABLE, epoch, table)
            if rng.random() < 0.9:
                yield _control(FrameType.COMMIT, epoch, Commit(max(1, epoch - 1)))
        choice = rng.random()
        if choice < 0.35:
            yield _frames([_advertisement(rng, neighbours, epoch, rng.choice(predicates))])
        elif choice < 0.5:
            yield _event(SetPredicate(rng.randint(1, APPLICATIONS), rng.choice(predicates)))
        elif choice < 0.55:
            yield _event(RequestUpdate() if rng.random() < 0.5 else Settle())
        else:
            yield _event(Tick())
        yield _frames([_message(rng, neighbours, epoch, wide) for _ in range(rng.randint(1, 20))])
        if epoch:
            yield _event(SendMessage(rng.randint(1, APPLICATIONS), Message(_attributes(rng, wide))))


def _control(kind: FrameType, epoch: int, body: Body) -> Play:
    frame = Frame(kind, NODE, 1 << 32 | epoch, epoch, 1, body)
    head = ROUTER_DESTINATION + CONTROLLER_SOURCE + b"\x88\xb5"
    return _frames([head + payload for payload in fragment(frame, MTU)])


def _event(event: SetPredicate | SendMessage | RequestUpdate | Settle | Tick) -> Play:
    return lambda router, now: router.handle(event, now)


def _attributes(rng: random.Random, long: bool) -> dict[str, Value]:
    attributes: dict[str, Value] = {name: rng.randrange(-1, 5) for name in "abc" if rng.random() < 0.7}
    others = {name: rng.choice(VALUES) for name in NAMES if rng.random() < 0.1}
    text = {"s": "x" * rng.choice([1, 40, 600])} if long else {}
    return {**attributes, **others, **text}


def _frames(batch: list[bytes]) -> Play:
    return lambda router, now: router.frames(batch, now)


def _advertisement(rng: random.Random, neighbours: list[int], epoch: int, predicate: Predicate) -> bytes:
    sender, issuer = rng.choice(neighbours), rng.randrange(NODES)
    frame = Frame(FrameType.RA, issuer, rng.randrange(9), epoch, rng.randint(1, 9), predicate)
    return ethernet(frame, sender, MTU)[0]


def _message(rng: random.Random, neighbours: list[int], epoch: int, long: bool) -> bytes:
    """An Ethernet frame with a message, mostly an ordinary one; no longer than the device takes."""
    return _frame(rng, neighbours, epoch, long)[: MTU + 14]


def _frame(rng: random.Random, neighbours: list[int], epoch: int, long: bool) -> bytes:
    sender = rng.choice(neighbours) if rng.random() < 0.9 else rng.randrange(NODES + 2)
    issuer = rng.choice([sender, rng.randrange(NODES), rng.choice([NODE, NODES, 2**32 - 1])])
    of_epoch = epoch if rng.random() < 0.8 else rng.randrange(epoch + 2)
    hops = rng.choice([0, 1, 2, 9, 9, 9, 255])
    message = Message(_attributes(rng, long))
    frame = Frame(FrameType.MSG, issuer, rng.choice([rng.randrange(99), 2**64 - 1]), of_epoch, hops, message)
    if rng.random() < 0.03:
        frame = replace(frame, type=FrameType.SR, body=SenderRequest(1_000_000))
    data = rng.choice(ethernet(frame, sender, MTU))
    choice = rng.random()
    if choice < 0.05:
        return data[:14] + mutated(rng)
    if choice < 0.1:
        at = rng.randrange(len(data))
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if choice < 0.12:
        return data[: rng.randrange(len(data) + 1)]
    if choice < 0.2:
        return data + bytes(rng.randrange(30))
    return data
