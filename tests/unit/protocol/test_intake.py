"""Large predicates of other routers: read in several turns, in order, and widened beyond their bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.options import options_of
from router.predicates.covering import normal
from router.predicates.covering.algebra import covers
from router.predicates.covering.bitset import numbers_in
from router.predicates.covering.budget import PredicateLimits
from router.predicates.covering.index import AttributeIndex
from router.predicates.covering.normal import NormalFilter
from router.predicates.covering.pool import POOL, FilterPool
from router.predicates.model import EVERYTHING, NOTHING, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.core.router import Router
from router.protocol.events import Action, FrameReceived, RequestUpdate, Send, Tick
from router.protocol.options import ChosenOptions, RouterOptions
from router.wire import predicate as wire_predicate
from router.wire.codec import encode_body, forwarded_frame, whole_frame
from router.wire.frames import Commit, EncodedPredicate, Flags, Frame, FrameType, SenderRequest
from router.wire.header import HEADER_LENGTH, decode_header
from tests.support.one_router import BELOW, FIRST, NODE, TABLE, control, msg, ra, sent, set_up
from tests.support.tree_entries import TreeEntry, table_of, with_subtrees

_SMALL = PredicateLimits(predicate_weight=1_000, turn_weight=20, burst=10_000, rate=10, waiting=3)


def _options(limits: PredicateLimits, covering: str = "full") -> RouterOptions:
    options = RouterOptions(
        filter_weight=limits.filter_weight,
        predicate_weight=limits.predicate_weight,
        predicate_filters=limits.predicate_filters,
        turn_weight=limits.turn_weight,
        turn_pairs=limits.turn_pairs,
        predicate_burst=limits.burst,
        predicate_rate=limits.rate,
        predicates_waiting=limits.waiting,
        table_filters=limits.table_filters,
        covering=covering,
    )
    assert options.limits == limits
    return options


def _points(first: int, count: int) -> str:
    return " or ".join(f"x = {2 * number}" for number in range(first, first + count))


def _until_idle(router: Router, now: float) -> tuple[int, list[Action]]:
    """The number of turns until no predicate waits, and what the router answered."""
    turns, actions = 0, []
    while not router.idle:
        deadline = router.next_deadline()
        assert deadline is not None
        assert deadline <= now
        actions += router.handle(Tick(), now)
        turns += 1
    return turns, actions


def _table(router: Router, interface: int) -> Predicate:
    return next((row.predicate for row in router.rows() if row.interface == interface), Predicate())


def test_a_large_ra_takes_several_turns_and_goes_on_whole() -> None:
    router = set_up(_options(_SMALL))
    frame = ra(11, _points(0, 100))
    assert router.handle(FrameReceived(11, frame), 1.0) == []
    assert not router.idle
    assert not _table(router, 1)
    turns, actions = _until_idle(router, 1.0)
    # Filters of weight 2 are read, 20 in a turn, normalised, encoded, and interned, for which their weight is
    # 3; then the relations of 7 are looked up in a turn, and the frame is put together and handled.
    assert turns == 10 * (1 + 2 + 2) + 15 + 1 + 1
    assert sent(actions) == [({2, 3}, frame.one_hop_less())]
    assert len(_table(router, 1)) == 100
    assert router.counters.predicates_widened == 0
    assert router.counters.ras_received == 1


def test_messages_are_forwarded_while_a_predicate_is_read() -> None:
    router = set_up(_options(_SMALL))
    router.handle(FrameReceived(12, ra(12, "x = 1")), 1.0)
    router.handle(FrameReceived(11, ra(11, _points(0, 100))), 1.0)
    assert [
        set(action.interfaces)
        for action in router.handle(FrameReceived(11, msg(11, x=1)), 1.0)
        if isinstance(action, Send)
    ] == [{2}]


def test_ras_of_one_neighbour_stay_in_order_and_others_do_not_wait() -> None:
    router = set_up(_options(_SMALL))
    router.handle(FrameReceived(11, ra(11, _points(0, 40))), 1.0)
    assert router.handle(FrameReceived(11, ra(11, "x = 1", seq=2)), 1.0) == []
    assert len(sent(router.handle(FrameReceived(12, ra(12, "x = 1")), 1.0))) == 1
    turns, actions = _until_idle(router, 1.0)
    assert turns == 4 * (1 + 2 + 2) + 6 + 1 + 1 + (1 + 2 + 1) + 1 + 1 + 1
    assert [frame.seq for _, frame in sent(actions)] == [1, 2]


def test_predicates_of_two_neighbours_are_read_in_alternation() -> None:
    router = set_up(_options(_SMALL))
    router.handle(FrameReceived(11, ra(11, _points(0, 100))), 1.0)
    router.handle(FrameReceived(12, ra(12, _points(200, 20))), 1.0)
    for _ in range(2 * (2 * (1 + 2 + 2) + 3 + 1 + 1)):
        router.handle(Tick(), 1.0)
    assert len(_table(router, 2)) == 20
    assert not _table(router, 1)


def test_beyond_its_weight_a_predicate_is_widened_counted_and_passed_on_widened() -> None:
    router = set_up(_options(_SMALL))
    predicate = parse_predicate(_points(0, 1_000))
    frame = Frame(FrameType.RA, 11, 1, 1, 9, predicate, received=b"as received")
    router.handle(FrameReceived(11, frame), 1.0)
    _, actions = _until_idle(router, 1.0)
    table = _table(router, 1)
    assert len(table) == 501
    assert covers(table, predicate)
    assert router.counters.predicates_widened == 1
    ((_, forwarded),) = sent(actions)
    assert isinstance(forwarded.body, Predicate)
    assert forwarded.received == encode_body(replace(forwarded, received=None))
    assert covers(forwarded.body, table)


def test_a_neighbour_that_sends_more_than_its_allowance_is_widened_until_time_has_passed() -> None:
    limits = replace(_SMALL, burst=50)
    router = set_up(_options(limits))
    router.handle(FrameReceived(11, ra(11, _points(0, 20))), 1.0)
    _until_idle(router, 1.0)
    assert router.counters.predicates_widened == 0
    router.handle(FrameReceived(11, ra(11, _points(20, 9), seq=2)), 1.0)
    _until_idle(router, 1.0)
    assert router.counters.predicates_widened == 1
    assert covers(_table(router, 1), parse_predicate(_points(0, 29)))
    router.handle(FrameReceived(11, ra(11, "y = 1", seq=3)), 20.0)
    assert router.counters.predicates_widened == 1
    assert router.idle


@pytest.mark.parametrize(
    ("limits", "taken"), [(replace(_SMALL, waiting=3), 3), (replace(_SMALL, burst=90), 2)]
)
@pytest.mark.parametrize("covering", ["full", "none"])
def test_predicates_that_wait_are_bounded_in_number_and_in_weight(
    limits: PredicateLimits, taken: int, covering: str
) -> None:
    router = set_up(_options(limits, covering=covering))
    for number in range(5):
        # Of weight 42 each.
        frame = ra(11, _points(21 * number, 21), seq=number + 1)
        actions = router.handle(FrameReceived(11, frame), 1.0)
        # What may not wait is taken as `*` at once, or dropped.
        if covering == "full":
            assert bool(actions) == (number == taken)
        else:
            assert actions == []
    counters = router.counters
    if covering == "full":
        assert counters.predicates_widened == 5 - taken
        assert _table(router, 1) == EVERYTHING
    else:
        assert counters.dropped == {"intake_full": 5 - taken}
    _until_idle(router, 1.0)
    assert len(_table(router, 1)) == (1 if covering == "full" else 21 * taken)


@pytest.mark.parametrize("frame_type", [FrameType.RA, FrameType.UR])
def test_frames_that_an_issuer_did_not_send_leave_its_allowance(frame_type: FrameType) -> None:
    router = set_up(_options(replace(_SMALL, burst=100, rate=1)))
    # The tree of 11 comes in from 11, and the issuer of a UR is the node that asked for it.
    for seq in range(1, 6):
        body = parse_predicate(_points(0, 30))
        router.handle(FrameReceived(13, Frame(frame_type, 11, seq, 1, 9, body)), 1.0)
    _until_idle(router, 1.0)
    dropped, widened = router.counters.dropped, router.counters.predicates_widened
    assert dropped == ({"reverse_path": 5} if frame_type is FrameType.RA else {"ur_unexpected": 5})
    router.handle(FrameReceived(11, ra(11, _points(0, 30))), 1.0)
    _until_idle(router, 1.0)
    assert router.counters.predicates_widened == widened
    assert _table(router, 1) == parse_predicate(_points(0, 30))


def test_an_ra_that_will_be_dropped_is_not_read() -> None:
    router = set_up(_options(_SMALL))
    assert router.handle(FrameReceived(13, ra(11, _points(0, 100))), 1.0) == []
    assert router.idle
    assert router.counters.dropped == {"reverse_path": 1}


def _boxes(first: int) -> str:
    """Overlapping boxes; none covers another, so that each has to be compared with the others."""
    return " or ".join(
        f"x > {first + n} and x < {first + n + 100} and y > {1_000 - n} and y < {1_100 - n}"
        for n in range(0, 100, 2)
    )


@pytest.mark.parametrize("late", ["timeout", "request"])
def test_a_ur_is_made_within_the_bound_of_a_turn(late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = 400
    # The pool of the process keeps what it has compared: each case has boxes of its own.
    offset = 10_000 if late == "timeout" else 20_000
    options = replace(_options(replace(_SMALL, turn_weight=200, turn_pairs=pairs)), ur_freshness_s=100.0)
    entries = (
        TreeEntry(11, 1, (2, 3), 1, (2, 3)),
        TreeEntry(12, 2, (1, 3), 2),
        TreeEntry(13, 3, (1, 2), 3),
    )
    router = set_up(options, table_of(TABLE.neighbours, (TreeEntry(NODE, 0, (1, 2, 3), 0), *entries)))
    ask = Frame(FrameType.SR, 11, 1, 1, 9, SenderRequest(10_000_000))
    router.handle(FrameReceived(11, ask), 1.0)
    for child, first in ((12, offset), (13, offset + 1)):
        body = parse_predicate(_boxes(first))
        if late == "timeout":
            frame = Frame(FrameType.RA, child, 1, 1, 9, body)
        else:
            frame = Frame(FrameType.UR, 11, 1, 1, 1, body)
        router.handle(FrameReceived(child, frame), 1.0)
        while not router.idle and (router.next_deadline() or 9.0) <= 1.0:
            router.handle(Tick(), 1.0)
    compared: list[int] = []
    whole = NormalFilter.failures

    def failures(one: NormalFilter, other: NormalFilter) -> object:
        compared.append(1)
        return whole(one, other)

    monkeypatch.setattr(NormalFilter, "failures", failures)
    if late == "timeout":
        actions = router.handle(Tick(), 50.0)
    else:
        actions = router.handle(FrameReceived(11, replace(ask, seq=2)), 50.0)
    (((ports, reply),)) = sent(actions)
    assert ports == {1}
    assert reply.type is FrameType.UR
    assert isinstance(reply.body, Predicate)
    # The last question within the bound is about the filters of the table at most.
    assert len(compared) <= pairs + 2 * 100
    assert covers(reply.body, parse_predicate(f"{_boxes(offset)} or {_boxes(offset + 1)}"))


def test_what_waits_is_bounded_and_the_rest_matches_everything() -> None:
    router = set_up(_options(_SMALL))
    for seq in range(1, 4):
        router.handle(FrameReceived(11, ra(11, _points(50 * seq, 50), seq=seq)), 1.0)
    actions = router.handle(FrameReceived(11, ra(11, "y = 7", seq=4)), 1.0)
    assert len(sent(actions)) == 1
    assert router.counters.predicates_widened == 1
    assert _table(router, 1) == parse_predicate("*")
    _until_idle(router, 1.0)
    assert _table(router, 1) == parse_predicate("*")


def test_the_weight_of_what_waits_is_bounded() -> None:
    router = set_up(_options(replace(_SMALL, burst=250)))
    # Each weighs 100: two wait, and a third only when one has been read.
    for seq in range(1, 3):
        assert router.handle(FrameReceived(11, ra(11, _points(50 * seq, 50), seq=seq)), 1.0) == []
    while not _table(router, 1):
        router.handle(Tick(), 1.0)
    assert router.handle(FrameReceived(11, ra(11, _points(150, 50), seq=3)), 1.0) == []
    assert router.counters.predicates_widened == 0
    actions = router.handle(FrameReceived(11, ra(11, _points(200, 50), seq=4)), 1.0)
    assert len(sent(actions)) == 1
    assert router.counters.predicates_widened == 1
    assert _table(router, 1) == parse_predicate("*")
    _until_idle(router, 1.0)
    assert _table(router, 1) == parse_predicate("*")


def test_a_predicate_of_any_weight_waits_if_no_other_does() -> None:
    router = set_up(_options(replace(_SMALL, burst=10)))
    assert router.handle(FrameReceived(11, ra(11, _points(0, 100))), 1.0) == []
    _until_idle(router, 1.0)
    assert _table(router, 1) != parse_predicate("*")


def test_literal_predicates_are_read_in_several_turns_but_never_widened() -> None:
    limits = replace(_SMALL, predicate_weight=10, burst=10)
    router = set_up(_options(limits, covering="none"))
    router.handle(FrameReceived(11, ra(11, _points(0, 100))), 1.0)
    turns, _ = _until_idle(router, 1.0)
    assert turns == 10 * (1 + 1 + 1) + 1 + 1 + 1
    assert len(_table(router, 1)) == 100
    assert router.counters.predicates_widened == 0


def test_a_turn_interns_no_more_than_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    interned: list[int] = []
    whole = FilterPool.number

    def number(self: FilterPool, filter_: object) -> int:
        interned.append(1)
        return whole(self, filter_)  # type: ignore[arg-type]

    monkeypatch.setattr(FilterPool, "number", number)
    router = set_up(_options(_SMALL))
    router.handle(FrameReceived(11, ra(11, " or ".join(f's ** "text{n:04}"' for n in range(90)))), 1.0)
    assert interned == []
    while not router.idle:
        interned.clear()
        router.handle(Tick(), 1.0)
        assert len(interned) <= 10


def test_a_heavy_filter_is_decoded_normalised_encoded_and_interned_in_turns_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    def counted(owner: object, name: str) -> None:
        whole = getattr(owner, name)

        def call(*arguments: object) -> object:
            done.append(name)
            return whole(*arguments)

        monkeypatch.setattr(owner, name, call)

    counted(wire_predicate, "_constraint")
    counted(normal, "value_set")
    counted(normal, "constraints_of")
    counted(wire_predicate, "_encode_constraint")
    counted(AttributeIndex, "add")
    router = set_up(RouterOptions())
    heavy = " and ".join(f"heavy{n:03} = {n}" for n in range(450))
    frame = _encoded(ra(11, heavy))
    router.handle(FrameReceived(11, frame), 1.0)
    turns = []
    while not router.idle:
        done.clear()
        router.handle(Tick(), 1.0)
        turns.append({name: done.count(name) for name in set(done)})
    assert [each for each in turns if each] == [
        {"_constraint": 450},
        {"value_set": 450},
        {"constraints_of": 450, "_encode_constraint": 450},
        {"add": 450},
    ]
    assert _table(router, 1) == parse_predicate(heavy)


def test_the_turn_of_a_frame_leaves_the_filters_that_were_read_to_later_turns() -> None:
    router = set_up(RouterOptions())
    router.handle(FrameReceived(11, _encoded(ra(11, _points(0, 1_200)))), 1.0)
    while not sent(router.handle(Tick(), 1.0)):
        assert not router.idle
    turns, _ = _until_idle(router, 1.0)
    assert turns == 3 + 1
    assert len(_table(router, 1)) == 1_200


def test_no_turn_interns_a_whole_predicate_if_the_pool_removes_filters_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbered: list[NormalFilter] = []
    number = FilterPool.number

    def counted(self: FilterPool, filter_: NormalFilter) -> int:
        numbered.append(filter_)
        return number(self, filter_)

    monkeypatch.setattr(FilterPool, "number", counted)
    router = set_up(_options(_SMALL))
    router.handle(FrameReceived(11, ra(11, _points(0, 100))), 1.0)
    while not router.idle:
        numbered.clear()
        router.handle(Tick(), 1.0)
        assert len(numbered) <= 20
        POOL.sweep()
    assert len(_table(router, 1)) == 100


def _encoded(frame: Frame, damage: bytes = b"") -> Frame:
    """A frame as a router reads it from the wire, with damage at its end."""
    whole = b"".join(whole_frame(frame))
    header, body = decode_header(whole), whole[HEADER_LENGTH:] + damage
    return forwarded_frame(header._replace(total_length=len(body)), body)


def test_a_long_body_is_decoded_in_turns_and_handled_as_a_decoded_one() -> None:
    decoded = ra(11, _points(0, 500))
    encoded = _encoded(decoded)
    assert isinstance(encoded.body, EncodedPredicate)
    found = []
    for frame in (decoded, encoded):
        router = set_up(_options(_SMALL))
        assert router.handle(FrameReceived(11, frame), 1.0) == []
        turns, actions = _until_idle(router, 1.0)
        found.append((turns, sent(actions), _table(router, 1), router.counters.as_dict()))
    assert found[0] == found[1]
    assert encoded.received == encode_body(decoded)


def test_a_long_body_that_does_not_decode_is_dropped_whole_and_counted() -> None:
    router = set_up(_options(_SMALL))
    router.handle(FrameReceived(11, _encoded(ra(11, _points(0, 500)), damage=b"\x07")), 1.0)
    router.handle(FrameReceived(11, _encoded(ra(11, _points(2_000, 500), seq=2))), 1.0)
    _, actions = _until_idle(router, 1.0)
    assert [frame.seq for _, frame in sent(actions)] == [2]
    assert len(_table(router, 1)) == 500
    assert router.counters.dropped["bad_tlv"] == 1
    assert router.counters.ras_received == 1


def test_of_a_long_filter_no_more_is_decoded_than_is_kept() -> None:
    limits = replace(_SMALL, filter_weight=10)
    router = set_up(_options(limits))
    frame = ra(11, " and ".join(f"a{number} = 1" for number in range(1_000)))
    router.handle(FrameReceived(11, _encoded(frame)), 1.0)
    _until_idle(router, 1.0)
    (kept,) = _table(router, 1)
    assert [constraint.name for constraint in kept] == [f"a{number}" for number in range(9)]
    assert router.counters.predicates_widened == 1


def test_a_long_body_from_a_place_where_it_may_not_come_from_is_not_read() -> None:
    router = set_up(_options(_SMALL))
    assert router.handle(FrameReceived(12, _encoded(ra(11, _points(0, 500)))), 1.0) == []
    assert router.idle
    assert router.counters.dropped["reverse_path"] == 1


def test_a_table_that_is_full_takes_predicates_as_matching_everything() -> None:
    router = set_up(_options(replace(_SMALL, table_filters=11)))
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
    router = set_up(replace(_options(replace(_SMALL, table_filters=20)), max_filters=3))
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
    router = set_up(_options(replace(_SMALL, table_filters=20)))
    others = router._routing.others
    assert others is not None
    held = []
    for number in range(30):
        exact = ra(11, _points(5 * number, 2), seq=number + 1)
        assert sent(router.handle(FrameReceived(11, exact), 1.0)) == [({2, 3}, exact.one_hop_less())]
        router.handle(RequestUpdate(frozenset({1})), 1.0)
        reply = Frame(FrameType.UR, NODE, FIRST + number, 1, 9, NOTHING)
        router.handle(FrameReceived(11, reply), 1.0)
        assert _table(router, 1) == NOTHING
        held.append(len(tuple(numbers_in(others.members))))  # type: ignore[attr-defined]
    assert max(held) == held[19] == 40
    assert held[20] == 2
    # Of what was forgotten, no RA is dropped; of the rest, the repeated ones are.
    last = ra(11, _points(5 * 29, 2), seq=31)
    assert sent(router.handle(FrameReceived(11, last), 1.0)) == []
    assert sent(router.handle(FrameReceived(11, ra(11, _points(0, 2), seq=32)), 1.0))
    assert router.counters.predicates_widened == 0


def test_ras_without_filters_count_too() -> None:
    """The number of RAs in a second is bounded, whatever is in them."""
    limits = replace(_SMALL, predicate_weight=10, burst=10)
    router = set_up(replace(_options(limits), scheme="psf"), with_subtrees(TABLE, BELOW))
    for number in range(15):
        frame = Frame(FrameType.RA, 11, FIRST + number, 1, 9, NOTHING, Flags.IDENTIFIED)
        router.handle(FrameReceived(11, frame), 0.0)
        assert router._intake.idle == (number < 10)
    # One is being read, and two wait; those beyond were taken as matching everything.
    assert router.counters.predicates_widened > 0


def test_the_bounds_are_keys_of_an_experiment_file() -> None:
    names = {each.key for each in options_of(ChosenOptions)}
    assert names >= {
        *("filter_weight", "predicate_weight", "predicate_filters", "turn_weight", "turn_pairs"),
        *("predicate_burst", "predicate_rate", "predicates_waiting", "table_filters"),
    }


@pytest.mark.parametrize("turn_weight", [20, 1_000], ids=["in turns", "at once"])
def test_what_an_issuer_sends_by_several_neighbours_counts_in_sum(turn_weight: int) -> None:
    """Its RAs come by node 11 in one epoch, by node 12 in the next; neither neighbour sends too much."""
    limits = replace(_SMALL, turn_weight=turn_weight, burst=200)
    router = set_up(_options(limits))
    entries = (TreeEntry(NODE, 0, (1, 2), 0), TreeEntry(21, 2, (1,), 1), TreeEntry(11, 1, (2,), 2))
    control(router, FrameType.TABLE, 2, table_of(((1, 11), (2, 12)), entries), 1.0)
    control(router, FrameType.COMMIT, 2, Commit(1), 1.0)
    # Of the weight 120 each, of at most 200.
    for number, (sender, epoch, widened) in enumerate(((11, 1, 0), (12, 2, 1)), 1):
        frame = Frame(FrameType.RA, 21, number, epoch, 9, parse_predicate(_points(100 * number, 60)))
        router.handle(FrameReceived(sender, frame), 1.0)
        _until_idle(router, 1.0)
        assert router.counters.ras_received == number
        assert router.counters.predicates_widened == widened
    assert len(_table(router, 1)) == 60
    assert len(_table(router, 2)) < 60
    # Another issuer may use what the neighbour has left.
    frame = Frame(FrameType.RA, 11, 3, 2, 9, parse_predicate(_points(300, 20)))
    router.handle(FrameReceived(11, frame), 1.0)
    _until_idle(router, 1.0)
    assert router.counters.predicates_widened == 1
    assert len(_table(router, 1)) == 80
