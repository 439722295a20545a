"""The row of a router in compiled code: a counter raised, a clock read.

`state` is the address of the row (`layout.State`).
"""

from __future__ import annotations

from router.forwarding.compiler import callee
from router.forwarding.layout import State
from router.native.compiler import I64, Address
from router.native.memory import long_at, put_long
from router.native.system import clock_gettime

_TIME = int(State.TIME)


@callee
def add(state: Address, column: I64, value: I64) -> None:
    """Adds to a number of the row."""
    put_long(state, column, long_at(state, column) + value)


@callee
def time_of(state: Address, clock: I64) -> I64:
    """Nanoseconds of a clock of the system."""
    clock_gettime(clock, state + 8 * _TIME)
    return long_at(state, _TIME) * 1_000_000_000 + long_at(state, _TIME + 1)
