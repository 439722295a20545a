"""Control frames that neighbours confirm (`reliable_control`): RECEIPTs, sendings, copies, bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.predicates.parser import parse_predicate
from router.protocol.core import reliable_control
from router.protocol.core.reliable_control import SENDINGS, ReliableControl
from router.protocol.events import RequestUpdate, Tick
from router.protocol.options import RouterOptions
from router.wire.frames import Ack, Commit, Flags, Frame, FrameType, SenderRequest
from tests.support.one_router import (
    NEXT_TABLE,
    control,
    in_first_epoch,
    msg,
    new_router,
    ra,
    received,
    sent,
    set_up,
)
from tests.support.whole_frames import decode, encode

OPTIONS = RouterOptions(reliable_control=True, control_retry_s=0.5)


def _set_up(options: RouterOptions = OPTIONS) -> ReliableControl:
    router = ReliableControl(new_router(options))
    in_first_epoch(router)
    return router


def _reliable(frame: Frame) -> Frame:
    return replace(frame, flags=frame.flags | Flags.RELIABLE)


def _receipt(frame: Frame) -> Frame:
    return Frame(FrameType.RECEIPT, frame.issuer, frame.seq, frame.epoch, 1, Ack(frame.type))


def _forwarding() -> tuple[ReliableControl, Frame]:
    """A router that has sent an RA of node 11 to nodes 12 and 13, and that RA."""
    router = _set_up(OPTIONS)
    (_, (interfaces, frame)) = sent(received(router, 11, _reliable(ra(11, "x > 3"))))
    assert interfaces == {2, 3}
    return router, frame


def _ticks(router: ReliableControl) -> list[tuple[float, set[int], Frame]]:
    """The frames that a router sends by itself until it is idle: time, interfaces, frame."""
    found = []
    while (due := router.next_deadline()) is not None:
        found += [(due, *each) for each in sent(router.handle(Tick(), due))]
    return found


def test_a_taken_frame_is_confirmed_before_it_goes_on() -> None:
    router = _set_up(OPTIONS)
    frame = _reliable(ra(11, "x > 3"))
    (back, receipt), (on, forwarded) = sent(received(router, 11, frame))
    assert (back, receipt) == ({1}, _receipt(frame))
    assert on == {2, 3}
    assert forwarded == replace(frame, hop_limit=8)
    assert decode(encode(receipt)) == receipt


def test_without_the_option_frames_go_out_once_and_unmarked() -> None:
    router = set_up()
    assert sent(received(router, 11, ra(11, "x > 3"))) == [({2, 3}, ra(11, "x > 3", hop_limit=8))]
    assert router.next_deadline() is None
    assert sent(received(router, 12, _receipt(ra(11, "x > 3")))) == []
    assert router.core.counters.dropped == {"not_handled": 1}


def test_a_frame_without_the_flag_gets_no_receipt() -> None:
    router = _set_up(OPTIONS)
    assert [frame.type for _, frame in sent(received(router, 11, ra(11, "x > 3")))] == [FrameType.RA]


def test_a_copy_is_confirmed_again_and_changes_nothing() -> None:
    router, _ = _forwarding()
    frame = _reliable(ra(11, "x > 3"))
    assert sent(received(router, 11, frame)) == [({1}, _receipt(frame))]
    assert (router.core.counters.control_copies, router.core.counters.ras_received) == (1, 1)


def test_a_frame_is_sent_again_to_those_that_did_not_confirm_it() -> None:
    router, frame = _forwarding()
    assert not router.idle
    assert received(router, 12, _receipt(frame), 0.1) == []
    assert sent(router.handle(Tick(), 0.4)) == []
    assert sent(router.handle(Tick(), 0.5)) == [({3}, frame)]
    assert received(router, 13, _receipt(frame), 0.6) == []
    assert router.idle
    assert router.next_deadline() is None
    assert (router.core.counters.control_repeated, router.core.counters.control_unconfirmed) == (1, 0)


def test_waits_double_and_end() -> None:
    router, frame = _forwarding()
    found = _ticks(router)
    times = [at for at, _, _ in found]
    assert times == [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5]
    assert [(on, each) for _, on, each in found] == [({2, 3}, frame)] * (SENDINGS - 1)
    assert router.idle
    assert router.core.counters.control_unconfirmed == 2


def test_a_receipt_counts_once_and_only_from_those_that_were_asked() -> None:
    router, frame = _forwarding()
    received(router, 12, _receipt(frame))
    for node, other in ((12, frame), (11, frame), (13, replace(frame, seq=9)), (13, replace(frame, epoch=7))):
        assert received(router, node, _receipt(other)) == []
    assert router.core.counters.dropped == {"receipt_late": 3, "unknown_epoch": 1}
    assert sent(router.handle(Tick(), 0.5)) == [({3}, frame)]


def test_own_advertisements_and_requests_are_confirmed_too() -> None:
    router = _set_up(OPTIONS)
    ((interfaces, request),) = sent(router.handle(RequestUpdate(), 0.0))
    assert (interfaces, request.type, request.flags) == ({1, 2, 3}, FrameType.SR, Flags.RELIABLE)
    for node in (11, 12, 13):
        received(router, node, _receipt(request))
    # What the router waits for now are URs.
    assert router.next_deadline() == OPTIONS.sr_timeout_s


def test_a_request_that_is_sent_again_has_less_time() -> None:
    router = _set_up(replace(OPTIONS, sr_timeout_s=2.0))
    router.handle(RequestUpdate(), 0.0)
    found = [(at, frame.body) for at, _, frame in _ticks(router) if isinstance(frame.body, SenderRequest)]
    assert found == [(0.5, SenderRequest(1_500_000)), (1.5, SenderRequest(500_000))]
    assert router.idle


def test_a_frame_of_an_unknown_epoch_is_not_confirmed() -> None:
    router = _set_up(OPTIONS)
    early = _reliable(ra(11, "x > 3", epoch=2))
    assert sent(received(router, 11, early)) == []
    control(router, FrameType.TABLE, 2, NEXT_TABLE)
    assert sent(received(router, 11, early))[0] == ({1}, _receipt(early))


def test_a_frame_that_every_copy_of_would_be_dropped_is_confirmed() -> None:
    router = _set_up(OPTIONS)
    sideways = _reliable(ra(11, "x > 3"))
    assert sent(received(router, 12, sideways)) == [({2}, _receipt(sideways))]
    assert router.core.counters.dropped == {"reverse_path": 1}


def test_a_new_epoch_gives_up_the_frames_of_older_ones() -> None:
    router, frame = _forwarding()
    control(router, FrameType.TABLE, 2, NEXT_TABLE)
    newer = _reliable(ra(11, "y > 3", epoch=2, seq=2))
    received(router, 11, newer, 0.1)
    control(router, FrameType.COMMIT, 2, Commit(1), 0.2)
    found = [each for _, _, each in _ticks(router) if each.type is FrameType.RA]
    assert set(found) == {replace(newer, hop_limit=8)}
    assert frame not in found


def test_messages_are_not_confirmed() -> None:
    router, _ = _forwarding()
    received(router, 12, ra(12, "x > 3"))
    frame = replace(msg(11, x=4), flags=Flags.RELIABLE)
    assert {each.type for _, each in sent(received(router, 11, frame))} <= {FrameType.MSG}


def test_a_neighbour_has_so_many_frames_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reliable_control, "NEIGHBOUR_FRAMES", 3)
    router = _set_up(OPTIONS)
    flags = []
    for seq in range(1, 6):
        (_, (_, frame)) = sent(received(router, 11, _reliable(ra(11, f"x > {-seq}", seq=seq))))
        flags.append(frame.flags)
    assert flags == [Flags.RELIABLE] * 3 + [Flags.NONE] * 2
    assert router.core.counters.control_unconfirmed == 4
    # The first was forgotten as taken: it is handled as without RECEIPTs.
    received(router, 11, _reliable(ra(11, "x > -1")))
    assert router.core.counters.control_copies == 0
    assert router.core.counters.dropped == {"ra_covered": 1}


def test_a_silent_neighbour_takes_no_receipts_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reliable_control, "NEIGHBOUR_FRAMES", 3)
    router = _set_up(OPTIONS)
    for seq in range(1, 6):
        (_, (on, frame)) = sent(received(router, 11, _reliable(ra(11, f"x > {-seq}", seq=seq))))
        assert (on, frame.flags) == ({2, 3}, Flags.RELIABLE)
        if seq < 5:
            received(router, 12, _receipt(frame))
    assert router.core.counters.control_unconfirmed == 2
    # The last is sent again to the neighbour that did not confirm it, and has confirmed the others.
    again = [(on, each.seq) for on, each in sent(router.handle(Tick(), 0.5))]
    assert again == [({3}, 1), ({3}, 2), ({3}, 3), ({2}, 5)]


def test_a_silent_neighbour_takes_no_bytes_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the bytes for kept bodies, each of three neighbours has a third: here two bodies."""
    body = encode(Frame(FrameType.RA, 11, 1, 1, 9, parse_predicate("x > 3")))[32:]
    monkeypatch.setattr(reliable_control, "KEPT_BYTES", 3 * 2 * len(body))
    router = _set_up(OPTIONS)
    for seq in range(1, 6):
        ra_11 = Frame(FrameType.RA, 11, seq, 1, 9, parse_predicate(f"x > {-seq}"), Flags.RELIABLE, body)
        (_, (on, frame)) = sent(received(router, 11, ra_11))
        assert (on, frame.flags) == ({2, 3}, Flags.RELIABLE)
        received(router, 12, _receipt(frame))
    assert router.core.counters.control_unconfirmed == 3
    assert [(on, each.seq) for on, each in sent(router.handle(Tick(), 0.5))] == [({3}, 1), ({3}, 2)]
    assert +router._kept_bytes == {3: 2 * len(body)}
