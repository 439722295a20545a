"""The cost of a frame in each mode of authentication: tags made and verified, a message forwarded."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable

from router.clock.clock import FixedClock
from router.forwarding.layout import FrameBuffers
from router.matching.engines import factory
from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.protocol.core.layers import make_router
from router.protocol.core.router import Router
from router.protocol.events import ControllerFrame, Deliver, FrameReceived, Send, SetPredicate
from router.protocol.options import RouterOptions
from router.security.guard import Guard
from router.security.signatures import PublicKeys, Signer
from router.wire.codec import DEFAULT_MTU, forwarded_frame, fragment
from router.wire.frames import Commit, Frame, FrameType
from router.wire.header import CONTROLLER, node_address, port_addresses
from router.wire.intake import FrameIntake
from tests.support.guarded import head, opened, private_key, public_keys, router_guard, sealed
from tests.support.one_router import CONTROL, NODE, TABLE, ra, received, set_up
from tests.support.two_ways import MTU
from tests.support.whole_frames import encode

_ROUNDS = 5
_BATCH = 64
#: Node 11 sends; nodes 12 and 13 get the message.
_MESSAGE = Message({"class": "alert", "severity": 6, "load": 0.75, "web": True, "device": "web-server"})
_TO_PORT, _TO_TWO = port_addresses([1])[0], port_addresses([2, 3])[0]


def _message(number: int) -> Frame:
    # Routers count from 1 on.
    return Frame(FrameType.MSG, 11, number + 1, 1, 9, _MESSAGE)


def _microseconds(action: Callable[[int], object], times: int) -> float:
    """The median over some rounds of the CPU time of one of `times` calls; each has a number of its own."""
    rounds = []
    for first in range(0, _ROUNDS * times, times):
        began = time.process_time()
        for number in range(first, first + times):
            action(number)
        rounds.append((time.process_time() - began) / times * 1e6)
    return statistics.median(rounds)


def main(messages: int = 20_000) -> None:
    """Prints medians of five rounds, in microseconds of CPU.

    Args:
        messages: in a round.
    """
    print(f"{'':34}{'us':>8}")
    for text, size in (("100", 60), ("1400", 1360)):
        payload = encode(Frame(FrameType.MSG, 3, 1, 1, 9, Message({"s": "x" * size})))
        for count in (1, 4, 16):
            receivers = [node_address(node) for node in range(100, 100 + count)]
            sender = router_guard(3)
            cost = _microseconds(_sealing(sender, payload, receivers), messages)
            print(f"{f'tagged, {text} bytes, {count} receivers':34}{cost:8.2f}")
        cost = _microseconds(_opening(router_guard(100), _tagged(payload, messages)), messages)
        print(f"{f'verified, {text} bytes':34}{cost:8.2f}")
    print("signatures:")
    signer, keys = Signer(11, private_key(11)), PublicKeys(public_keys())
    control = messages // 20
    signed = [signer.signed(_message(number)) for number in range(_ROUNDS * control)]
    print(f"{'made':34}{_microseconds(lambda number: signer.signed(_message(number)), control):8.2f}")
    print(f"{'verified':34}{_microseconds(lambda number: keys.stands(signed[number], 11), control):8.2f}")
    print("a message received, matched and made ready to be sent to two neighbours, without system calls:")
    plain, tagged = (_arrivals(guard, messages) for guard in (None, router_guard(11)))
    print(f"{'off, the core':34}{_by_the_core(None, plain, messages):8.2f}")
    print(f"{'mac, the core':34}{_by_the_core(router_guard(NODE), tagged, messages):8.2f}")
    few = messages // 10
    both = _arrivals(router_guard(11, signs=True), few)
    print(f"{'signed, the core':34}{_by_the_core(router_guard(NODE, signs=True), both, few):8.2f}")
    print(f"{'off, compiled':34}{_compiled(plain, messages):8.2f}")
    print("the same, and delivered to an application in place of one neighbour:")
    for mode in ("off", "mac", "signed"):
        guard = None if mode == "off" else router_guard(11, signs=mode == "signed")
        cost = _delivered(mode, _arrivals(guard, few), few)
        print(f"{f'{mode}, the core':34}{cost:8.2f}")


def _sealing(sender: Guard, payload: bytes, receivers: list[bytes]) -> Callable[[int], object]:
    at = head(_TO_PORT, node_address(3))
    return lambda _: sender.seal(at, payload, receivers, message=True)


def _opening(receiver: Guard, frames: list[bytes]) -> Callable[[int], object]:
    return lambda number: opened(receiver, frames[number])


def _tagged(payload: bytes, messages: int) -> list[bytes]:
    sender, at = router_guard(3), head(_TO_PORT, node_address(3))
    return [sender.seal(at, payload, [node_address(100)], message=True) for _ in range(_ROUNDS * messages)]


def _arrivals(sender: Guard | None, messages: int) -> list[bytes]:
    """The Ethernet frames of all rounds, as node 11 sends them."""
    frames = map(_message, range(_ROUNDS * messages))
    if sender is None:
        return [head(_TO_PORT, node_address(11)) + encode(frame) for frame in frames]
    receivers = [node_address(NODE)]
    return [sealed(sender, _TO_PORT, node_address(11), frame, receivers)[0] for frame in frames]


def _router(matcher: str) -> Router:
    router = set_up(matcher=matcher)
    for node in (12, 13):
        received(router, node, ra(node, 'class = "alert" and severity > 3'))
    return router


def _by_the_core(guard: Guard | None, arrivals: list[bytes], messages: int) -> float:
    router, intake = _router("compiled"), FrameIntake(forwarded_frame, guard=guard)
    receivers = [node_address(node) for node in (12, 13)]
    at, out = head(_TO_TWO, node_address(NODE)), [b""]

    def forward(number: int) -> None:
        taken = intake.take(arrivals[number], 0.0)
        assert taken is not None
        (action,) = router.handle(FrameReceived(taken[0], taken[1]), 0.0)
        assert isinstance(action, Send)
        if guard is None:
            out[0] = at + fragment(action.frame)[0]
        else:
            out[0] = sealed(guard, _TO_TWO, node_address(NODE), action.frame, receivers)[0]

    return _microseconds(forward, messages)


def _delivered(mode: str, arrivals: list[bytes], messages: int) -> float:
    verifier = PublicKeys(public_keys()) if mode == "signed" else None
    router = make_router(NODE, RouterOptions(), factory("compiled"), 3, random.Random(1), verifier)
    own = Signer(CONTROLLER, private_key(CONTROLLER))
    for kind, body in ((FrameType.TABLE, TABLE), (FrameType.COMMIT, Commit(1))):
        router.handle(ControllerFrame(own.signed(Frame(kind, NODE, CONTROL | 1, 1, 1, body))), 0.0)
    wanted = parse_predicate('class = "alert" and severity > 3')
    router.handle(SetPredicate(1, wanted), 0.0)
    received(router, 12, Signer(12, private_key(12)).signed(Frame(FrameType.RA, 12, 1, 1, 9, wanted)))
    guard = None if mode == "off" else router_guard(NODE, signs=mode == "signed")
    intake = FrameIntake(forwarded_frame, guard=guard)
    receivers, (to_one,) = [node_address(12)], port_addresses([2])
    at, out = head(to_one, node_address(NODE)), [b""]

    def forward(number: int) -> None:
        taken = intake.take(arrivals[number], 0.0)
        assert taken is not None
        sent, delivered = router.handle(FrameReceived(taken[0], taken[1]), 0.0)
        assert isinstance(sent, Send)
        assert isinstance(delivered, Deliver)
        if guard is None:
            out[0] = at + fragment(sent.frame)[0]
        else:
            (out[0],) = guard.frames(at, guard.signed(sent.frame), receivers, DEFAULT_MTU)

    return _microseconds(forward, messages)


def _compiled(arrivals: list[bytes], messages: int) -> float:
    from router.forwarding.plane import DataPlane

    router = _router("compiled")
    state = router.forwarding()
    assert state is not None
    plane = DataPlane(
        state, FixedClock(), FrameBuffers(_BATCH, MTU + 14), -1, MTU, None, lambda _actions: None, math.inf
    )
    # The core gives the matcher the predicates with the first message.
    router.handle(FrameReceived(11, _message(2**32)), 0.0)

    def forward(batch: int) -> None:
        assert plane.put(arrivals[_BATCH * batch : _BATCH * (batch + 1)]) is None

    return _microseconds(forward, messages // _BATCH) / _BATCH
