"""The arrays of messages under way grow with the number of messages."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from router.clock.pieces import Piece
from router.wire.frames import Frame
from testbed.sim import bulk
from tests.support.one_router import msg, set_up

#: Interfaces of the router, the arrivals for which there is room at first, and those under way.
PORTS, ROOM, ARRIVALS = 100, 128, 40


def test_there_is_room_for_what_a_router_of_many_interfaces_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_ARRIVALS", ROOM)
    drained = 0

    class Counted(bulk.Bulk):
        def _drain(self) -> None:
            nonlocal drained
            drained += 1
            assert drained < 10, "compiled code asks for room for ever"
            super()._drain()

    def deliver(_node: int, _at_ns: int, _frame: Frame) -> None:
        raise AssertionError

    wires = np.array([[0, 1, 0, 1], [0, 1, 0, PORTS]], np.int64)
    under_way = Counted(
        [set_up(matcher="counting")],
        wires,
        [{1: 0, PORTS: 1}],
        np.zeros(1, np.int64),
        None,
        deliver,
        [1, 2],
        None,
    )
    for number in range(ARRIVALS):
        # The link was cut since: the frame is lost.
        under_way.send(number, number, 0, -1, 2, msg(11, a=number), 60)
    found = under_way.run(ARRIVALS, (ARRIVALS, 0), ARRIVALS, 1000, Piece(0, 0.0, 1.0))
    assert found.done == ARRIVALS
    assert under_way.head is None
