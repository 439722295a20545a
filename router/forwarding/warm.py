"""Loading of the data plane's machine code, before a process forks or measures."""

from __future__ import annotations

import random

from router.clock.clock import FixedClock
from router.forwarding.buffers import FrameBuffers
from router.forwarding.plane import DataPlane
from router.matching.factory import COMPILED, factory
from router.protocol.core.router import Router
from router.protocol.options import RouterOptions


def warm() -> None:
    """Loads the machine code, or compiles it (within a minute), and tests it on a frame that is no message.

    Raises:
        RuntimeError: the answer is wrong.
    """
    router = Router(0, RouterOptions(), factory(COMPILED), 0, random.Random(0))
    state = router.forwarding()
    assert state is not None
    plane = DataPlane(state, FixedClock(), FrameBuffers(1, 64), -1, 64, None)
    left = plane.put([bytes(60)])
    # No descriptor is valid: nothing is ready, and nothing is received.
    if left != bytes(60) or plane.wait(-1, 0, hold=False) or plane.receive(hold=False) is not None:
        raise RuntimeError("compiled forwarding took a frame that is no message")
