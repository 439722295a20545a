"""Compiled forwarding uses the memory that the matching engine has at the time."""

from __future__ import annotations

import math
import socket
from dataclasses import replace

from router.clock.clock import ExperimentClock
from router.clock.meter import Meter
from router.forwarding.layout import FrameBuffers
from router.forwarding.plane import DataPlane
from router.predicates import Message
from router.wire.frames import Frame
from tests.support.one_router import msg, ra, received, set_up
from tests.support.packets import ethernet

MTU = 20_000


def long_message(strings: int, length: int) -> Frame:
    attributes = {f"s{number}": "x" * length for number in range(strings)}
    return replace(msg(11), body=Message({"a": 1, **attributes}))


def test_a_message_that_no_longer_fits_the_memory_for_matching_is_left_to_the_core() -> None:
    """A message of megabytes, which came in fragments, makes the engine release its memory."""
    router = set_up(matcher="compiled")
    received(router, 12, ra(12, "a = 1"))
    state = router.forwarding()
    assert state is not None
    buffers, meter, clock = FrameBuffers(1, MTU + 14), Meter(), ExperimentClock()
    longest, long = long_message(1, 15_000), long_message(1, 14_000)
    (data,) = ethernet(long, 11, MTU)
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        plane = DataPlane(state, clock, buffers, far.fileno(), MTU, None, lambda _: None, meter, math.inf)

        def undecided() -> bytes | None:
            near.send(data)
            return plane.receive(hold=True)

        received(router, 11, longest)
        assert undecided() is None
        assert len(plane.unsent()) == 1
        received(router, 11, long_message(16, 65_000))
        assert undecided() == data
        received(router, 11, long)
        assert undecided() is None
