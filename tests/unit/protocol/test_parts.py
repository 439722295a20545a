"""The list of parts, and the table of frames and events that they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

import pytest

from router.protocol.broadcast import Branch
from router.protocol.context import Context, Part
from router.protocol.core.dispatch import EVENTS, FRAMES
from router.protocol.core.intake import on_tree
from router.protocol.events import Action, Event, RequestUpdate, Send, ServiceEvent, Settle, Tick
from router.protocol.options import SCHEMES, RouterOptions
from router.protocol.routing import RoutingTable
from router.protocol.schemes.base import Flooding
from router.wire.frames import Frame, FrameType, SenderRequest
from tests.support.one_router import msg, received, set_up


class _Beacon(Part):
    """Takes SR frames as beacons: passes them on, and sends one of its own each second."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._due_at: float | None = None
        self.sent_through: list[frozenset[int]] = []

    @property
    def idle(self) -> bool:
        return self._due_at is None

    def next_deadline(self) -> float | None:
        return self._due_at

    def tick(self, now: float) -> list[Action]:
        return self._send(now) if self._due_at is not None and now >= self._due_at else []

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        return self._send(now) if first else []

    def message_sent(self, interfaces: frozenset[int], now: float) -> list[Action]:  # noqa: ARG002
        self.sent_through.append(interfaces)
        return []

    def settle(self) -> None:
        self._due_at = None

    def _send(self, now: float) -> list[Action]:
        self._due_at = now + 1
        frame = self._context.issued(FrameType.SR, 1, SenderRequest(0))
        return [Send(self._context.own_branch().children, frame)]

    def asked(self, _event: RequestUpdate, now: float) -> list[Action]:
        return self._send(now)

    def received(self, branch: Branch, frame: Frame, _now: float) -> list[Action]:
        return [Send(branch.children, frame.one_hop_less())]


class _Beacons(Flooding):
    """Flooding, and a part with frames, events and deadlines."""

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self.beacon = _Beacon(context)

    def parts(self) -> Sequence[Part]:
        return (self.beacon,)


@pytest.fixture
def beacons(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    SCHEMES.register("beacons", _Beacons)
    monkeypatch.setitem(FRAMES, FrameType.SR, on_tree(_Beacon.received, SenderRequest))
    monkeypatch.setitem(EVENTS, RequestUpdate, _Beacon.asked)
    yield
    SCHEMES.unregister("beacons")


@pytest.mark.usefixtures("beacons")
def test_a_part_joins_by_a_line_of_its_scheme_and_one_for_each_frame_and_event() -> None:
    router = set_up(RouterOptions(scheme="beacons"))
    assert not router.idle
    assert router.next_deadline() == 1.0
    assert router.handle(Tick(), 0.5) == []
    (own,) = router.handle(Tick(), 1.0)
    assert isinstance(own, Send)
    assert (own.interfaces, own.frame.type) == (frozenset({1, 2, 3}), FrameType.SR)
    # Of another router: down its tree, checked against the reverse path.
    beacon = Frame(FrameType.SR, 11, 1, 1, 9, SenderRequest(0))
    (passed_on,) = received(router, 11, beacon)
    assert isinstance(passed_on, Send)
    assert (passed_on.interfaces, passed_on.frame.hop_limit) == (frozenset({2, 3}), 8)
    assert received(router, 12, beacon) == []
    assert received(router, 11, Frame(FrameType.SR, 11, 1, 1, 9, msg(11, x=1).body)) == []
    assert received(router, 11, Frame(FrameType.UR, 11, 1, 1, 9, SenderRequest(0))) == []
    assert router.counters.dropped == {"reverse_path": 1, "malformed": 1, "not_handled": 1}
    assert len(router.handle(RequestUpdate(), 1.5)) == 1
    received(router, 11, msg(11, x=1))
    router.handle(Settle(), 2.0)
    assert router.idle
    assert router.next_deadline() is None


def test_each_frame_of_a_router_and_each_event_has_a_row() -> None:
    """Types to the controller have none, nor has RECEIPT, which a layer takes."""
    assert set(FrameType) - FRAMES.keys() == {FrameType.HELLO, FrameType.ACK, FrameType.RECEIPT}
    assert set(get_args(Event)) - {ServiceEvent} <= EVENTS.keys()
