"""The bounds on predicates and messages of others: what is widened, refused, or not read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router.content import MOST_ATTRIBUTES, MOST_BYTES, is_too_large
from router.predicates import EVERYTHING, NOTHING, Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.covering.widening import FILTER_WEIGHT_MAX, weight_of
from router.predicates.parser import ParseError, parse_message, parse_predicate
from router.protocol import bounds
from router.protocol.bounds import Allowances
from router.protocol.core.router import Router
from router.protocol.events import (
    ApplicationGone,
    Deliver,
    FrameReceived,
    Refused,
    RequestUpdate,
    SendMessage,
    SetPredicate,
    Tick,
)
from router.protocol.options import MAX_REQUEST_TIMEOUT, RouterOptions
from router.wire import predicate as wire_predicate
from router.wire.codec import encode_body, forwarded_frame, whole_frame
from router.wire.frames import (
    AddressedMessage,
    Commit,
    EncodedMessage,
    EncodedPredicate,
    Flags,
    Frame,
    FrameType,
)
from router.wire.header import HEADER_LENGTH, decode_header
from router.wire.message import encode_message
from tests.support.algebra import covers
from tests.support.one_router import BELOW, FIRST, NODE, TABLE, control, msg, ra, received, sent, set_up
from tests.support.tree_entries import TreeEntry, table_of, with_subtrees

_SMALL = RouterOptions(predicate_weight=1_000, predicate_burst=10_000, predicate_rate=10)


def _points(first: int, count: int) -> str:
    return " or ".join(f"x = {2 * number}" for number in range(first, first + count))


def _table(router: Router, interface: int) -> Predicate:
    return next((row.predicate for row in router.rows() if row.interface == interface), Predicate())


def test_beyond_its_weight_a_predicate_is_widened_counted_and_passed_on_widened() -> None:
    router = set_up(_SMALL)
    predicate = parse_predicate(_points(0, 1_000))
    frame = Frame(FrameType.RA, 11, 1, 1, 9, predicate, received=b"as received")
    actions = router.handle(FrameReceived(11, frame), 1.0)
    table = _table(router, 1)
    assert len(table) <= 501
    assert covers(table, predicate)
    assert router.counters.predicates_widened == 1
    ((_, forwarded),) = sent(actions)
    assert isinstance(forwarded.body, Predicate)
    assert forwarded.received is None
    assert covers(forwarded.body, table)


def test_a_neighbour_that_sends_more_than_its_allowance_is_widened_until_time_has_passed() -> None:
    limits = replace(_SMALL, predicate_burst=50)
    router = set_up(limits)
    router.handle(FrameReceived(11, ra(11, _points(0, 20))), 1.0)
    assert router.counters.predicates_widened == 0
    router.handle(FrameReceived(11, ra(11, _points(20, 9), seq=2)), 1.0)
    assert router.counters.predicates_widened == 1
    assert covers(_table(router, 1), parse_predicate(_points(0, 29)))
    router.handle(FrameReceived(11, ra(11, "y = 1", seq=3)), 20.0)
    assert router.counters.predicates_widened == 1
    assert router.idle


@pytest.mark.parametrize("frame_type", [FrameType.RA, FrameType.UR])
def test_frames_that_an_issuer_did_not_send_leave_its_allowance(frame_type: FrameType) -> None:
    router = set_up(replace(_SMALL, predicate_burst=100, predicate_rate=1))
    # The tree of 11 comes in from 11, and the issuer of a UR is the node that asked for it.
    for seq in range(1, 6):
        body = parse_predicate(_points(0, 30))
        router.handle(FrameReceived(13, Frame(frame_type, 11, seq, 1, 9, body)), 1.0)
    dropped, widened = router.counters.dropped, router.counters.predicates_widened
    assert dropped == ({"reverse_path": 5} if frame_type is FrameType.RA else {"ur_unexpected": 5})
    router.handle(FrameReceived(11, ra(11, _points(0, 30))), 1.0)
    assert router.counters.predicates_widened == widened
    assert _table(router, 1) == parse_predicate(_points(0, 30))


def _encoded(frame: Frame, damage: bytes = b"") -> Frame:
    """A frame as a router reads it from the wire, with damage at its end."""
    whole = b"".join(whole_frame(frame))
    header, body = decode_header(whole), whole[HEADER_LENGTH:] + damage
    return forwarded_frame(header._replace(total_length=len(body)), body)


def test_a_long_body_is_handled_as_a_decoded_one() -> None:
    decoded = ra(11, _points(0, 500))
    encoded = _encoded(decoded)
    assert isinstance(encoded.body, EncodedPredicate)
    found = []
    for frame in (decoded, encoded):
        router = set_up(_SMALL)
        actions = router.handle(FrameReceived(11, frame), 1.0)
        found.append((sent(actions), _table(router, 1), router.counters.as_dict()))
    assert found[0] == found[1]
    assert encoded.received == encode_body(decoded)


def test_literal_predicates_are_never_widened() -> None:
    router = set_up(replace(_SMALL, predicate_weight=10, predicate_burst=10, covering="none"))
    router.handle(FrameReceived(11, ra(11, _points(0, 100))), 1.0)
    assert len(_table(router, 1)) == 100
    assert router.counters.predicates_widened == 0


@pytest.mark.parametrize("bound", ["bytes", "filters"])
def test_a_vast_body_is_not_read(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(_SMALL, predicate_weight=100_000, predicate_filters=10_000)
    if bound == "bytes":
        monkeypatch.setattr(bounds, "PREDICATE_BYTES", 5_000)
    else:
        monkeypatch.setattr(bounds, "MERGED_MAX", 0)
        limits = replace(limits, predicate_filters=400)
    read: list[int] = []
    monkeypatch.setattr(wire_predicate, "decode_filter", lambda *_: read.append(1))
    router = set_up(limits)
    ((_, forwarded),) = sent(router.handle(FrameReceived(11, _encoded(ra(11, _points(0, 500)))), 1.0))
    assert forwarded.body == _table(router, 1) == EVERYTHING
    assert read == []
    assert router.counters.predicates_widened == 1


def test_a_malformed_body_is_charged_to_who_sent_it() -> None:
    router = set_up(replace(_SMALL, predicate_burst=500))
    router.handle(FrameReceived(11, _encoded(ra(11, _points(0, 500)), damage=b"\x07")), 1.0)
    assert router.counters.dropped == {"bad_tlv": 1}
    router.handle(FrameReceived(11, ra(11, _points(0, 50), seq=2)), 1.0)
    assert router.counters.predicates_widened == 1
    router.handle(FrameReceived(12, ra(12, _points(0, 50))), 1.0)
    assert router.counters.predicates_widened == 1


@pytest.mark.parametrize("scheme", ["psf", "ips", "drp"])
def test_the_predicates_of_nodes_are_bounded_as_a_table_is(scheme: str) -> None:
    options = replace(replace(_SMALL, table_filters=40), scheme=scheme)
    router = set_up(options, with_subtrees(TABLE, BELOW) if scheme != "drp" else TABLE)
    for number, issuer in enumerate((11, 12, 13)):
        frame = replace(ra(issuer, _points(100 * number, 20)), flags=Flags.IDENTIFIED)
        router.handle(FrameReceived(issuer, frame), 1.0)
        assert router.counters.predicates_widened == (number == 2)
    # There is room again.
    for seq, widened in ((2, 2), (3, 2)):
        frame = replace(ra(12, _points(0, 5), seq=seq), flags=Flags.IDENTIFIED)
        router.handle(FrameReceived(12, frame), 1.0)
        assert router.counters.predicates_widened == widened


def test_of_a_long_filter_no_more_is_decoded_than_is_kept() -> None:
    limits = replace(_SMALL, filter_weight=10)
    router = set_up(limits)
    frame = ra(11, " and ".join(f"a{number} = 1" for number in range(1_000)))
    router.handle(FrameReceived(11, _encoded(frame)), 1.0)
    (kept,) = _table(router, 1)
    assert [constraint.name for constraint in kept] == [f"a{number}" for number in range(9)]
    assert router.counters.predicates_widened == 1


def test_a_table_that_is_full_takes_predicates_as_matching_everything() -> None:
    router = set_up(replace(_SMALL, table_filters=11))
    router.handle(FrameReceived(11, ra(11, _points(0, 9))), 1.0)
    router.handle(FrameReceived(12, ra(12, "y = 1 or y = 3 or y = 5")), 1.0)
    assert router.counters.predicates_widened == 0
    ((_, forwarded),) = sent(router.handle(FrameReceived(12, ra(12, "z = 1", seq=2)), 1.0))
    assert forwarded.body == EVERYTHING
    assert _table(router, 2) == EVERYTHING
    assert router.counters.predicates_widened == 1
    # There is room again: the table has 9 filters and one.
    router.handle(FrameReceived(11, ra(11, _points(100, 1), seq=2)), 1.0)
    assert len(_table(router, 1)) == 10


def test_an_ingress_filter_that_is_full_takes_ras_as_matching_everything() -> None:
    """F is exact where p_i is over-simplified, so it is counted by itself."""
    router = set_up(replace(replace(_SMALL, table_filters=20), max_filters=3))
    for number in range(10):
        exact = ra(11, _points(5 * number, 2), seq=number + 1)
        assert sent(router.handle(FrameReceived(11, exact), 1.0)) == [({2, 3}, exact.one_hop_less())]
        assert len(_table(router, 1)) <= 6
    assert router.counters.predicates_widened == 0
    ((_, forwarded),) = sent(router.handle(FrameReceived(11, ra(11, "y = 1", seq=11)), 1.0))
    assert forwarded.body == EVERYTHING
    assert _table(router, 1) == EVERYTHING
    assert router.counters.predicates_widened == 1
    # There is room again: what matches everything covers the filters of its class, and further RAs.
    assert sent(router.handle(FrameReceived(11, ra(11, "z = 1", seq=12)), 1.0)) == []
    assert router.counters.predicates_widened == 1
    ((_, exact_again),) = sent(router.handle(FrameReceived(12, ra(12, "z = 1")), 1.0))
    assert exact_again.body == parse_predicate("z = 1")


def test_an_ingress_filter_that_no_longer_fits_is_forgotten() -> None:
    """Replies to this router's requests replace p_i, and leave F as it is: F grows while p_i does not."""
    router = set_up(replace(_SMALL, table_filters=20))
    for number in range(30):
        exact = ra(11, _points(5 * number, 2), seq=number + 1)
        assert sent(router.handle(FrameReceived(11, exact), 1.0)) == [({2, 3}, exact.one_hop_less())]
        router.handle(RequestUpdate(frozenset({1})), 1.0)
        reply = Frame(FrameType.UR, NODE, FIRST + number, 1, 9, NOTHING)
        router.handle(FrameReceived(11, reply), 1.0)
        assert _table(router, 1) == NOTHING
    # Of what was forgotten, no RA is dropped; of the rest, the repeated ones are.
    last = ra(11, _points(5 * 29, 2), seq=31)
    assert sent(router.handle(FrameReceived(11, last), 1.0)) == []
    assert sent(router.handle(FrameReceived(11, ra(11, _points(0, 2), seq=32)), 1.0))
    assert router.counters.predicates_widened == 0


@pytest.mark.parametrize("scheme", ["pif", "pif-classes", "pif-strict"])
def test_no_ra_is_covered_by_what_this_router_alone_has_widened(scheme: str) -> None:
    """An RA with a signature goes on as its issuer signed it: the routers beyond have no more than that."""
    options = replace(_SMALL, predicate_burst=2, predicate_rate=1, scheme=scheme)
    router = set_up(options, with_subtrees(TABLE, BELOW) if scheme == "pif-classes" else TABLE)
    for seq, text, now in ((1, "a = 1", 0.0), (2, "b = 2", 0.0), (3, "c = 3", 100.0)):
        frame = ra(11, text, seq=seq)
        frame = replace(frame, received=encode_body(frame), signature=b"s" * 64)
        ((_, forwarded),) = sent(router.handle(FrameReceived(11, frame), now))
        assert forwarded.received == encode_body(frame)
    assert router.counters.predicates_widened == 1
    assert EVERYTHING in [row.predicate for row in router.rows() if row.interface == 1]


def test_ras_without_filters_count_too() -> None:
    """The number of RAs in a second is bounded, whatever is in them."""
    limits = replace(_SMALL, predicate_weight=10, predicate_burst=10)
    router = set_up(replace(limits, scheme="psf"), with_subtrees(TABLE, BELOW))
    for number in range(15):
        frame = Frame(FrameType.RA, 11, FIRST + number, 1, 9, NOTHING, Flags.IDENTIFIED)
        router.handle(FrameReceived(11, frame), 0.0)
        assert router.counters.predicates_widened == max(0, number - 9)


def test_what_an_issuer_sends_by_several_neighbours_counts_in_sum() -> None:
    """Its RAs come by node 11 in one epoch, by node 12 in the next; neither neighbour sends too much."""
    router = set_up(replace(_SMALL, predicate_burst=200))
    entries = (TreeEntry(NODE, 0, (1, 2), 0), TreeEntry(21, 2, (1,), 1), TreeEntry(11, 1, (2,), 2))
    control(router, FrameType.TABLE, 2, table_of(((1, 11), (2, 12)), entries), 1.0)
    control(router, FrameType.COMMIT, 2, Commit(1), 1.0)
    # Of the weight 120 each, of at most 200.
    for number, (sender, epoch, widened) in enumerate(((11, 1, 0), (12, 2, 1)), 1):
        frame = Frame(FrameType.RA, 21, number, epoch, 9, parse_predicate(_points(100 * number, 60)))
        router.handle(FrameReceived(sender, frame), 1.0)
        assert router.counters.ras_received == number
        assert router.counters.predicates_widened == widened
    assert len(_table(router, 1)) == 60
    assert len(_table(router, 2)) < 60
    # Another issuer may use what the neighbour has left.
    frame = Frame(FrameType.RA, 11, 3, 2, 9, parse_predicate(_points(300, 20)))
    router.handle(FrameReceived(11, frame), 1.0)
    assert router.counters.predicates_widened == 1
    assert len(_table(router, 1)) == 80


def test_applications_that_exceed_the_bounds_together_widen_p0_and_get_what_they_ask_for() -> None:
    router = set_up(replace(_SMALL, predicate_filters=10))
    for app in range(3):
        router.handle(SetPredicate(app, parse_predicate(_points(5 * app, 5))), 1.0)
    router.handle(Tick(), 1.0)
    # The second `Tick` has nothing to narrow, and counts nothing.
    router.handle(Tick(), 1.0)
    p0 = _table(router, 0)
    assert router.counters.predicates_widened == 1
    assert len(p0) <= 11
    assert covers(p0, parse_predicate(_points(0, 15)))
    deliveries = [
        action.apps
        for x in (0, 20, 21)
        for action in router.handle(SendMessage(9, Message({"x": x})), 1.0)
        if isinstance(action, Deliver)
    ]
    assert deliveries == [(0,), (2,)]
    router.handle(ApplicationGone(2), 2.0)
    router.handle(Tick(), 2.0)
    assert _table(router, 0) == parse_predicate(_points(0, 10))
    assert router.counters.predicates_widened == 1


def test_an_allowance_grows_with_time_up_to_the_burst_and_is_exact_at_every_time() -> None:
    allowances = Allowances(burst=100, rate=10)
    assert allowances.left(1, 5.0) == 100
    allowances.charge(1, 130, 5.0)
    assert allowances.left(1, 5.0) == 0
    assert allowances.left(1, 7.0) == 20
    assert allowances.left(1, 1e6) == 100
    for start in range(2_000):
        now = start * 0.37
        allowances = Allowances(burst=30, rate=7)
        for left in (30, 20, 10):
            assert allowances.left(1, now) == left
            allowances.charge(1, 10, now)


def test_small_charges_admit_no_more_than_the_rate() -> None:
    allowances, admitted = Allowances(burst=30, rate=1_000), 0
    for step in range(10_000):
        now = 7.0 + step * 0.0006
        if allowances.left(1, now) >= 1:
            allowances.charge(1, 1, now)
            admitted += 1
    assert admitted <= 30 + 1_000 * 10_000 * 0.0006 + 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("filter_weight", 0), ("predicate_burst", -1), ("predicate_rate", 0)),
        *(("hop_limit", 0), ("hop_limit", 256), ("ra_period_s", 0.0), ("hello_interval_s", 0.0)),
        *(("sr_policy", "often"), ("sr_period_s", 0.0), ("sr_threshold", -1), ("sr_min_interval_s", -1.0)),
        *(("sr_timeout_s", 0.0), ("sr_timeout_s", MAX_REQUEST_TIMEOUT + 1), ("ur_freshness_s", -1.0)),
        *(("ra_min_interval_s", -1.0), ("ra_jitter_s", -1.0)),
    ],
)
def test_options_outside_their_bounds_are_refused(field: str, value: object) -> None:
    given: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=field):
        RouterOptions(**given)


def test_the_bound_on_filters_of_an_entry_has_no_meaning_for_the_strict_rules() -> None:
    with pytest.raises(ValueError, match="max_filters: 0 is not valid; expected an integer, 1 or more"):
        RouterOptions(max_filters=0)
    with pytest.raises(ValueError, match='max_filters: excludes the scheme "pif-strict"'):
        RouterOptions(max_filters=5, scheme="pif-strict")


def test_a_filter_whose_texts_are_not_read_exceeds_every_bound_on_its_weight() -> None:
    greatest = FILTER_WEIGHT_MAX
    assert RouterOptions(filter_weight=greatest).filter_weight == greatest
    many = tuple(Constraint(f"a{n}", Type.INTEGER, Operator.EQ, n) for n in range(greatest + 1))
    assert weight_of(Filter(many)) > greatest
    with pytest.raises(ValueError, match="filter_weight"):
        RouterOptions(filter_weight=greatest + 1)


_FITS = Message({f"a{number}": number for number in range(MOST_ATTRIBUTES)})
_MANY = Message({**_FITS, "one": 1})
_LONG = Message({f"s{number}": "é" * 32_000 for number in range(17)})


@pytest.mark.parametrize("message", [_MANY, _LONG], ids=["attributes", "bytes"])
def test_a_message_that_is_too_large_is_refused(message: Message) -> None:
    router = set_up()
    received(router, 12, ra(12, "a1 = 1 or s1 any string"))
    assert sent(router.handle(SendMessage(1, _FITS), 0.0))
    (refused,) = router.handle(SendMessage(1, message), 0.0)
    assert isinstance(refused, Refused)
    assert "at most" not in refused.reason
    assert f"more than {MOST_ATTRIBUTES} attributes or {MOST_BYTES} bytes" in refused.reason
    for body in (message, EncodedMessage(encode_message(message))):
        assert received(router, 11, Frame(FrameType.MSG, 11, 9, 1, 9, body)) == []
        assert is_too_large(AddressedMessage((11,), body))
    assert router.counters.dropped["message_refused"] == 3
    assert sent(received(router, 11, msg(11, a1=1)))


def test_the_largest_messages_that_are_taken() -> None:
    for message in (_FITS, Message({f"s{number}": "a" * 65_000 for number in range(16)})):
        assert not is_too_large(message)
        assert not is_too_large(EncodedMessage(encode_message(message)))
    # Frames that break a rule of the format are counted as such, not here.
    assert not is_too_large(EncodedMessage(encode_message(_MANY)[:-1]))


def test_a_text_is_read_no_further_than_a_message_may_go() -> None:
    text = ", ".join(f"a{number} = {number}" for number in range(MOST_ATTRIBUTES))
    assert parse_message(f"[{text},]", MOST_ATTRIBUTES) == _FITS
    with pytest.raises(ParseError, match=f"more than {MOST_ATTRIBUTES} attributes"):
        parse_message(f"{text}, one = 1, two = 2", MOST_ATTRIBUTES)
    with pytest.raises(ParseError, match="more than 900 attributes"):
        parse_message(f"{text} ??", 900)
    assert len(parse_message(f"{text}, one = 1")) == MOST_ATTRIBUTES + 1
