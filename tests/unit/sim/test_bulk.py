"""The arrays of messages under way grow with the number of messages."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from router.clock.pieces import Piece
from router.predicates.covering import pool as pool_module
from router.predicates.covering.pool import FilterPool
from router.predicates.parser import parse_predicate
from router.protocol.options import RouterOptions
from router.protocol.router import Router
from router.protocol.schemes.per_interface import PerInterface
from router.protocol.schemes.subtree_filter import SubtreeFilter
from router.wire.frames import Commit, Frame, FrameType
from testbed.sim import adverts, bulk
from testbed.sim.layout import LEVELS_MAX, Advert
from tests.support.one_router import NODE, TABLE, control, msg, ra, received, set_up
from tests.support.tree_entries import TreeEntry, table_of

#: Three nodes are beyond interface 2, so that F of the classes of 11 and 21 is kept by hops.
DEEP = table_of(
    neighbours=((1, 11), (2, 12), (3, 13)),
    entries=(
        TreeEntry(NODE, 0, (1, 2, 3), 0),
        TreeEntry(11, 1, (2, 3), 1),
        TreeEntry(21, 1, (2,), 2),
        *(TreeEntry(source, 2, (1,), 3) for source in (12, 31, 32)),
        TreeEntry(13, 3, (), 4),
    ),
)
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
        None,
        lambda *_: b"",
        [1, 2],
        None,
    )
    for number in range(ARRIVALS):
        # The link was cut since: the frame is lost.
        under_way.send(number, number, 0, -1, 2, msg(11, a=number), 60)
    found = under_way.run(ARRIVALS, (ARRIVALS, 0), ARRIVALS, 1000, Piece(0, 0.0, 1.0))
    assert found.done == ARRIVALS
    assert under_way.head is None


def _with_adverts(core: Router) -> tuple[bulk.Bulk, adverts.Adverts]:
    ports = {port: port - 1 for port in (1, 2, 3)}
    wires = np.array([[0, 1, port - 1, port] for port in ports], np.int64)
    # What the router sends to interfaces 2 and 3 is lost.
    cuts, limits = np.array([0, 1, 1], np.int64), core.options.limits
    senders = [11, 12, 13]
    under_way = bulk.Bulk(
        [core], wires, [ports], cuts, None, lambda *_: None, None, lambda *_: b"", senders, limits
    )
    assert under_way.adverts is not None
    return under_way, under_way.adverts


def test_further_epochs_take_no_further_room_for_classes() -> None:
    core = set_up(RouterOptions())
    under_way, state = _with_adverts(core)
    under_way._lay_out(0)
    before = state._heads.nbytes
    assert before > 0
    for epoch in range(2, 12):
        control(core, FrameType.TABLE, epoch, TABLE)
        control(core, FrameType.COMMIT, epoch, Commit(epoch))
        under_way._lay_out(0)
    assert state._heads.nbytes == before


@pytest.mark.parametrize("levels", [2 * LEVELS_MAX, 1 << 16])
def test_further_epochs_take_no_further_room_for_filters(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adverts, "_LEVELS", levels)
    core, alone = set_up(RouterOptions(), DEEP), set_up(RouterOptions(), DEEP)
    under_way, state = _with_adverts(core)
    collected, number = 0, 0
    for epoch in range(1, 50):
        if epoch > 1:
            if state.lent[0]:
                under_way.give_back(0)
            for each in (core, alone):
                control(each, FrameType.TABLE, epoch, DEEP)
                control(each, FrameType.COMMIT, epoch, Commit(epoch))
            under_way.stale[0] = 1
        for step in range(12):
            number += 1
            # Of two classes and of several numbers of hops; some cover others.
            issuer, hops, text = (11, 21)[step % 2], 2 + step // 2 % 3, f"x > {(7 * number) % 11}"
            frame = ra(issuer, text, epoch=epoch, hop_limit=hops, seq=number)
            received(alone, 11, frame)
            under_way.send(number, number, 0, 0, 2, frame, 60)
            before = int(state.array[Advert.LEVEL_COUNT])
            found = under_way.run(number, (number + 1, 0), number, 1, Piece(0, 0.0, 1.0))
            assert found.done == 1
            collected += state.array[Advert.LEVEL_COUNT] < before
    assert len(state._levels) == levels
    assert bool(collected) == (levels == 2 * LEVELS_MAX)
    kept = _ingress(core)
    kept.recall()
    assert kept._advertised == _ingress(alone)._advertised


def test_compiled_code_counts_the_pairs_of_a_pattern_as_the_pool_does() -> None:
    """An interval of strings covers ten suffixes, which are compared only if the bound on pairs allows it."""
    left: list[int] = []
    for pairs in (40, 200):
        options = RouterOptions(turn_pairs=pairs)
        core, alone = set_up(options), set_up(options)
        under_way, _ = _with_adverts(core)
        texts = [f's > "a" and s < "c" and s *= "{n}"' for n in range(10)]
        for number, text in enumerate((*texts, 's > "a" and s < "d"'), 1):
            frame = ra(11, text, seq=number)
            received(alone, 11, frame)
            under_way.send(number, number, 0, 0, 2, frame, 60)
            assert under_way.run(number, (number + 1, 0), number, 1, Piece(0, 0.0, 1.0)).done == 1
        under_way.give_back(0)
        found, expected = (next(row.predicate for row in each.rows()) for each in (core, alone))
        assert found == expected
        left.append(len(found))
    assert left == [11, 1]


def _ingress(core: Router) -> SubtreeFilter:
    state = core.forwarding()
    assert state is not None
    assert isinstance(state.scheme, PerInterface)
    assert isinstance(state.scheme.ingress, SubtreeFilter)
    return state.scheme.ingress


def test_relations_are_forgotten_when_numbers_go_to_other_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = FilterPool()
    monkeypatch.setattr(adverts, "POOL", pool)
    monkeypatch.setattr(pool_module, "_CLEARED", 1)
    under_way, state = _with_adverts(set_up(RouterOptions()))
    state.expect([parse_predicate(f"a = {number}") for number in range(8)])
    (last,) = pool.numbers(parse_predicate("a = 7"))
    removed = {pool.numbers(parse_predicate(f"a > {-number}"))[0] for number in range(1, 9)}
    pool.compared(last)
    # Each predicate makes a step of the removal; the relations of `last` are cleared in a late one.
    pool._sweep_at = 1
    pool.numbers(parse_predicate("a = 0"))
    assert pool.sweeping
    state.forget_swept()
    state.array[Advert.FILTER] = last
    assert state.relate(1, under_way._put)
    taken: set[int] = set()
    number = 0
    while not taken & removed:
        number += 1
        taken |= set(pool.numbers(parse_predicate(f"b = {number}")))
        assert number < 1_000
    state.forget_swept()
    # Otherwise compiled code has relations of `last` to the filter that had the number before.
    assert state._places[last] == -1


def test_only_filters_that_exist_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that has met other networks has no filter 0 any more."""
    pool = FilterPool()
    monkeypatch.setattr(adverts, "POOL", pool)
    pool.numbers(parse_predicate("a = 0 | a = 1"))
    pool.sweep()
    under_way, state = _with_adverts(set_up(RouterOptions(), DEEP))
    held = state.expect([parse_predicate("b = 1")])
    under_way.send(1, 1, 0, 0, 2, ra(11, "b = 1", hop_limit=3), 60)
    assert under_way.run(1, (2, 0), 1, 1, Piece(0, 0.0, 1.0)).done == 1
    assert state.array[Advert.STORED] > 0
    pool.sweep()
    assert state.members == held
