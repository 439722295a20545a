"""Frames sent at given times by compiled code, each with the time of its sending."""

from __future__ import annotations

from time import CLOCK_REALTIME

from numba import types

from router.native.compiler import I64, Address, Compiler
from router.native.memory import long_at, put_byte
from router.native.system import clock_gettime

_COMPILER = Compiler("bench", "tests.bench.injecting")
_REALTIME = int(CLOCK_REALTIME)
#: Offset of the sequence number in an Ethernet frame.
_SEQ = 14 + 8

_send = types.ExternalFunction("send", types.intp(types.int32, types.intp, types.intp, types.int32))


@_COMPILER.kernel
def inject(descriptor: I64, frames: Address, times: Address, count: I64, scratch: Address) -> None:
    """Sends frames and puts the time into each as its sequence number: ns since 1970.

    Args:
        descriptor: a socket.
        frames: int64 [count, 2], address and length of each frame.
        times: int64 [count], when to send each, ns since 1970.
        scratch: int64 [2].
    """
    for number in range(count):
        now = 0
        while now < long_at(times, number):
            clock_gettime(_REALTIME, scratch)
            now = long_at(scratch, 0) * 1_000_000_000 + long_at(scratch, 1)
        frame = long_at(frames, 2 * number)
        for place in range(8):
            put_byte(frame, _SEQ + place, now >> (56 - 8 * place))
        _send(descriptor, frame, long_at(frames, 2 * number + 1), 0)
