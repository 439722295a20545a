"""The arrays of messages under way grow with the number of messages."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from router.clock.pieces import Piece
from router.protocol.options import RouterOptions
from router.wire.frames import Commit, Frame, FrameType
from testbed.sim import bulk
from tests.support.one_router import TABLE, control, msg, set_up

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


def test_further_epochs_take_no_further_room_for_classes() -> None:
    core = set_up(RouterOptions())
    ports = {port: port - 1 for port in (1, 2, 3)}
    wires = np.array([[0, 1, 0, port] for port in ports], np.int64)
    limits = core.options.limits
    under_way = bulk.Bulk(
        [core], wires, [ports], np.zeros(1, np.int64), None, lambda *_: None, [11, 12, 13], limits
    )
    assert under_way.adverts is not None
    under_way._lay_out(0)
    before = under_way.adverts._heads.nbytes
    assert before > 0
    for epoch in range(2, 12):
        control(core, FrameType.TABLE, epoch, TABLE)
        control(core, FrameType.COMMIT, epoch, Commit(epoch))
        under_way._lay_out(0)
    assert under_way.adverts._heads.nbytes == before
