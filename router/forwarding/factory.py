"""The data plane of a router, where there can be one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from router.clock.clock import ExperimentClock
from router.forwarding.buffers import FrameBuffers
from router.matching.factory import COMPILED, why_not_compiled
from router.protocol.router import Router
from router.recording.file import Recorder

if TYPE_CHECKING:  # it comes with Numba
    from router.forwarding.plane import DataPlane


@cache
def why_no_data_plane() -> str | None:
    """Why the core must forward all messages on this machine, or None.

    Loads the data plane; compiles it where that was not done before.
    """
    reason = why_not_compiled()
    if reason is not None:
        return reason
    try:
        from router.forwarding.warm import warm

        warm()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def data_plane(
    router: Router,
    matcher: str,
    clock: ExperimentClock,
    buffers: FrameBuffers,
    descriptor: int,
    mtu: int,
    log: Recorder | None,
) -> DataPlane | None:
    """The data plane of a router, or None: its service, scheme, content or engine, or this machine, has none.

    Args:
        matcher: the name of the router's matching engine.
        clock, buffers, descriptor, mtu, log: see `router.forwarding.plane.DataPlane`.
    """
    if matcher != COMPILED or not router.sends_messages or why_no_data_plane() is not None:
        return None
    state = router.forwarding()
    if state is None:
        return None
    from router.forwarding.plane import DataPlane

    return DataPlane(state, clock, buffers, descriptor, mtu, log)
