"""Frames sent at given times by compiled code, each with the time of its sending."""

from __future__ import annotations

from time import CLOCK_REALTIME

from router.forwarding.layout import HEADER_WIDTH
from router.native.compiler import I64, Address, Compiler
from router.native.memory import clock_gettime, long_at, put_byte, sendmmsg

_COMPILER = Compiler("bench", "tests.bench.injecting", "router.forwarding.layout")
_REALTIME = int(CLOCK_REALTIME)
#: Offset of the sequence number in an Ethernet frame.
_SEQ = 14 + 8
#: Frames that are due and are sent by one system call, at most. The time of each is that of the call.
_BATCH = 16


@_COMPILER.kernel
def inject(
    descriptor: I64, frames: Address, headers: Address, times: Address, count: I64, scratch: Address
) -> I64:
    """Sends frames and puts the time into each as its sequence number: ns since 1970.

    Returns the number of frames sent: fewer than `count` if the socket has refused one.

    Args:
        descriptor: a socket that blocks.
        frames: int64 [count, 2], address and length of each frame.
        headers: int64 [count, HEADER_WIDTH], struct mmsghdr of each frame.
        times: int64 [count], when to send each, ns since 1970, in ascending order.
        scratch: int64 [2].
    """
    number = 0
    while number < count:
        now = 0
        while now < long_at(times, number):
            clock_gettime(_REALTIME, scratch)
            now = long_at(scratch, 0) * 1_000_000_000 + long_at(scratch, 1)
        due = number
        while due < min(count, number + _BATCH) and long_at(times, due) <= now:
            frame = long_at(frames, 2 * due)
            for place in range(8):
                put_byte(frame, _SEQ + place, now >> (56 - 8 * place))
            due += 1
        sent = sendmmsg(descriptor, headers + 8 * HEADER_WIDTH * number, due - number, 0)
        if sent < 1:
            break
        number += sent
    return number
