"""Tags of a hop: what a receiver takes, and what it refuses, by reason and by sender."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from router.predicates import Message
from router.privacy import KeyRing, write_keys
from router.security.guard import OTHERS, Guard, Refusal
from router.security.pairs import PairKeys, Windows
from router.wire.authentication import WINDOW, marked
from router.wire.codec import fragment, read_frame
from router.wire.format import MESSAGES
from router.wire.frames import Ack, Commit, Frame, FrameType, Publication, SenderRequest
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ROUTER_DESTINATION,
    DecodeError,
    node_address,
    port_addresses,
)
from router.wire.intake import FrameIntake, RefusedError
from tests.support.guarded import INCARNATION, RING, ROGUE, guard, head, opened, router_guard, sealed
from tests.support.mutated_frames import mutated
from tests.support.packets import read_trailer
from tests.support.promises import hold
from tests.support.whole_frames import decode, encode
from tests.vectors.wire_vectors import TAGGED, WHOLE, Tagged

MSG = Frame(FrameType.MSG, 3, 1, 1, 9, Message({"x": 1}))
PUB = Frame(FrameType.PUB, 3, 1, 1, 9, Publication(3, 1, 5, Message({"x": 1}), homes=(4,)))
SR = Frame(FrameType.SR, 3, 1, 1, 9, SenderRequest(1_000_000))
(TO_PORTS,) = port_addresses([1, 4])
NEIGHBOURS = [node_address(4), node_address(5)]


def from_three(ring: KeyRing = RING, incarnation: int = INCARNATION) -> bytes:
    """The Ethernet frame by which node 3 sends a message to nodes 4 and 5."""
    (data,) = sealed(router_guard(3, ring, incarnation), TO_PORTS, node_address(3), MSG, NEIGHBOURS)
    return data


def refusal(data: bytes, node: int = 4) -> str:
    with pytest.raises(RefusedError) as refused:
        opened(router_guard(node), data)
    return str(refused.value)


@pytest.mark.parametrize("vector", TAGGED, ids=lambda vector: vector.name)
def test_each_receiver_of_a_vector_takes_the_frame(vector: Tagged) -> None:
    for receiver in vector.receivers:
        # The counters of the vectors are those of incarnation 1.
        taken = Windows(None, 0)
        made = guard(receiver)
        made.windows = taken
        payload = opened(made, vector.ethernet)
        plain = {each.name: each.payload for each in WHOLE}
        assert payload == (encode(decode(payload)) if vector.plain is None else plain[vector.plain])


@pytest.mark.parametrize("vector", TAGGED, ids=lambda vector: vector.name)
def test_a_vector_is_made_byte_by_byte(vector: Tagged) -> None:
    sender = guard(vector.sender, incarnation=0)
    sender._counters = [vector.hop_counter - 1] * 2
    trailer = read_trailer(vector.ethernet[14:])
    assert trailer == (vector.hop_key, vector.hop_counter, tuple(vector.tags))
    frame = decode(vector.ethernet[14:])
    payload = bytearray(encode(frame))
    payload[2] = 0
    is_message = frame.type in MESSAGES
    made = sender.seal(vector.ethernet[:14], bytes(payload), vector.receivers, message=is_message)
    assert made == vector.ethernet


def test_all_neighbours_that_a_frame_is_for_take_it_and_no_other() -> None:
    data = from_three()
    assert opened(router_guard(4), data) == opened(router_guard(5), data) == encode(MSG)
    assert refusal(data, 6) == Refusal.BAD_TAG
    # Its receiver sends it back.
    assert refusal(data[:6] + node_address(4) + data[12:], 3) == Refusal.BAD_TAG


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_byte_that_is_covered_can_be_changed(place: int, change: int) -> None:
    data = bytearray(from_three())
    covered = len(data) - 2 * 16
    data[place % covered] ^= change
    receiver = router_guard(4)
    with pytest.raises((RefusedError, DecodeError)):
        opened(receiver, bytes(data))


@given(st.integers(0, 2**32), st.booleans(), st.binary(max_size=80))
def test_no_hostile_frame_raises_or_is_taken(seed: int, tagged: bool, behind: bytes) -> None:
    payload = mutated(random.Random(seed))
    data = (
        head(TO_PORTS, node_address(3))
        + (marked(payload) if tagged and len(payload) > 2 else payload)
        + behind
    )
    intake = FrameIntake(read_frame, verify=router_guard(4).open)
    assert intake.take(data, 0.0) is None
    assert sum(intake.dropped.values()) == 1


@pytest.mark.attack("a frame under a wrong key")
def test_a_frame_of_an_outsider_is_refused() -> None:
    assert refusal(head(TO_PORTS, node_address(3)) + encode(MSG)) == Refusal.UNTAGGED
    for mode in ("mac", "signed"):
        hold("a frame under a wrong key", "outsider", mode, False, [refusal(from_three(ring=ROGUE))])
    assert refusal(from_three(ring=KeyRing.new())) == Refusal.UNKNOWN_KEY


def test_a_trailer_that_is_cut_short_is_none_and_padding_behind_it_is_ignored() -> None:
    data = from_three()
    assert opened(router_guard(4), data + bytes(20)) == encode(MSG)
    trailer = len(data) - len(head(TO_PORTS, node_address(3))) - len(encode(MSG))
    assert {refusal(data[: len(data) - cut]) for cut in range(1, trailer + 1)} == {Refusal.UNTAGGED}


def test_a_sender_that_restarted_goes_on_and_frames_of_an_earlier_run_are_replays() -> None:
    assert refusal(from_three(incarnation=INCARNATION - 1)) == Refusal.REPLAYED
    receiver = router_guard(4)
    opened(receiver, from_three(incarnation=INCARNATION))
    opened(receiver, from_three(incarnation=INCARNATION + 1))
    with pytest.raises(RefusedError, match="replayed"):
        opened(receiver, from_three(incarnation=INCARNATION))


@pytest.mark.parametrize("data", [MSG, PUB], ids=["message", "publication"])
def test_control_frames_may_overtake_any_number_of_messages(data: Frame) -> None:
    sender, receiver = router_guard(3), router_guard(4)
    source = node_address(3)
    (first,) = sealed(sender, TO_PORTS, source, data, NEIGHBOURS)
    for _ in range(3 * WINDOW):
        (control,) = sealed(sender, TO_PORTS, source, SR, NEIGHBOURS)
    opened(receiver, control)
    assert opened(receiver, first) == encode(data)


def test_every_fragment_is_verified() -> None:
    frame = Frame(FrameType.MSG, 3, 1, 1, 9, Message({"s": "x" * 4000}))
    pieces = sealed(router_guard(3), TO_PORTS, node_address(3), frame, NEIGHBOURS)
    assert max(map(len, pieces)) <= 14 + 1500
    receiver = FrameIntake(read_frame, verify=router_guard(4).open)
    forged = head(TO_PORTS, node_address(3)) + fragment(frame)[1]
    taken = [receiver.take(data, 0.0) for data in (pieces[0], forged, *pieces[1:])]
    assert [None if each is None else each[:2] for each in taken] == [None] * len(pieces) + [(3, frame)]
    assert receiver.dropped == {"untagged": 1}
    assert receiver.frames == {"MSG": len(pieces) + 1}


def test_frames_of_controller_and_routers_are_theirs_alone() -> None:
    controller, router = guard(CONTROLLER_SOURCE), router_guard(3)
    commit = Frame(FrameType.COMMIT, 3, 1, 1, 1, Commit(1))
    ack = Frame(FrameType.ACK, 3, 1, 1, 1, Ack(FrameType.COMMIT))
    (down,) = sealed(controller, ROUTER_DESTINATION, CONTROLLER_SOURCE, commit, [node_address(3)])
    (up,) = sealed(router, CONTROLLER_DESTINATION, node_address(3), ack, [CONTROLLER_SOURCE])
    assert refusal(down, 4) == Refusal.BAD_TAG
    assert opened(router_guard(3), down) == encode(commit)
    assert opened(guard(CONTROLLER_SOURCE), up) == encode(ack)
    # A stolen table of another router, and one in the name of the controller by a neighbour.
    (forged,) = sealed(router_guard(4), ROUTER_DESTINATION, CONTROLLER_SOURCE, commit, [node_address(3)])
    receiver = router_guard(3)
    with pytest.raises(RefusedError, match="bad_tag"):
        opened(receiver, forged)
    assert receiver.refused_by_sender() == {"controller": {"bad_tag": 1}}


def test_forged_names_shut_no_neighbour_out_of_the_counts() -> None:
    receiver = router_guard(4)
    receiver.neighbours = lambda: [900, 901]
    for node in [*range(1000), 900, 901]:
        with pytest.raises(RefusedError):
            opened(receiver, head(TO_PORTS, node_address(node)) + encode(MSG))
    with pytest.raises(RefusedError):
        opened(receiver, head(ROUTER_DESTINATION, CONTROLLER_SOURCE) + encode(MSG))
    found = receiver.refused_by_sender()
    assert [found[name]["untagged"] for name in ("900", "901", "controller")] == [2, 2, 1]
    assert found[OTHERS]["untagged"] == 1000 - 2 - 256


@pytest.mark.attack("invented addresses")
def test_invented_addresses_take_a_bounded_number_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "r4.windows"
    receiver = guard(node_address(4), windows=path)
    receiver.neighbours = lambda: [3]
    taken = 0
    for node in range(100, 1100):
        (data,) = sealed(router_guard(node), TO_PORTS, node_address(node), MSG, NEIGHBOURS)
        with suppress(RefusedError):
            taken += opened(receiver, data) == encode(MSG)
    assert taken == 256
    assert path.stat().st_size <= 128 << 10
    assert sum(each.get("unknown_sender", 0) for each in receiver.refused_by_sender().values()) == 1000 - 256
    assert opened(receiver, from_three()) == encode(MSG)


@given(st.lists(st.integers(1, 4 * WINDOW), max_size=200))
@example([1, 5, 3, 2000, 2000 - WINDOW + 1, 2000 - WINDOW, 4, 2000, 3000]).via("overtaken and too old")
def test_no_counter_is_taken_twice_nor_one_within_the_window_refused(numbers: list[int]) -> None:
    windows = Windows(None, 0)
    taken: set[int] = set()
    for number in numbers:
        new = number not in taken and number > max(taken, default=0) - WINDOW
        assert windows.accept(node_address(3), 0, number) == new
        if new:
            taken.add(number)


def test_the_window_of_a_file_outlives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    first = Windows(path, 10)
    accepted = [(node_address(node), stream, 10 + node) for node in range(1, 60) for stream in (0, 1)]
    assert all(first.accept(*each) for each in accepted)
    # No call ends it: a process may be killed. The greater floor of a restart does not count.
    again = Windows(path, 10**6)
    assert not any(again.accept(*each) for each in accepted)
    assert not again.accept(node_address(77), 0, 10)
    assert again.accept(node_address(77), 0, 11)
    assert all(again.accept(sender, stream, number + 1) for sender, stream, number in accepted)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    path.write_bytes(b"x" * 4096)
    with pytest.raises(ValueError, match="no file of replay windows"):
        Windows(path, 0)


@pytest.mark.parametrize("left", [b"", bytes(10), bytes(24), bytes(4096), b"cbcbw", b"cbcbwin2" + bytes(9)])
def test_a_file_that_a_kill_or_a_full_disk_has_left_is_rewritten(tmp_path: Path, left: bytes) -> None:
    path, sender = tmp_path / "windows", node_address(3)
    path.write_bytes(left)
    # The senders have not restarted: their counters are below the floor of this start.
    windows = Windows(path, 10**6)
    assert windows.lost
    taken = [windows.accept(sender, 0, number) for number in (500, 500, 499, 1, 501, 503, 502)]
    assert taken == [True, False, False, False, True, True, True]
    again = Windows(path, 10**7)
    assert again.lost
    assert not again.accept(sender, 0, 503)
    assert again.accept(sender, 1, 77)
    assert not again.accept(sender, 1, 76)


def test_rows_that_are_left_of_a_file_count(tmp_path: Path) -> None:
    path, nodes = tmp_path / "windows", range(1, 40)
    first = Windows(path, 10)
    assert all(first.accept(node_address(node), 0, 20) for node in nodes)
    assert not first.lost
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 - 50)
    again = Windows(path, 10)
    assert again.lost
    assert not again.accept(node_address(1), 0, 20)
    # The stream of the last row is not known any more; a row that is known is not written over.
    assert again.accept(node_address(39), 0, 20)
    assert not any(Windows(path, 10).accept(node_address(node), 0, 20) for node in (1, 2, 39))


def test_of_a_row_that_was_cut_off_nothing_is_taken_a_second_time(tmp_path: Path) -> None:
    path, sender = tmp_path / "windows", node_address(1)
    first = Windows(path, 10)
    assert all(first.accept(sender, 0, number) for number in range(900, 1100))
    with path.open("r+b") as file:
        # The row ends after 16 bytes of fields and 8 of its bits.
        file.truncate(24 + 16 + 8)
    again = Windows(path, 10)
    assert again.lost
    assert again.accept(sender, 0, 1100)
    assert not any(again.accept(sender, 0, number) for number in range(900, 1101))


def test_a_disk_without_room_for_rows_ends_no_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "windows"
    windows = Windows(path, 0)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    assert all(windows.accept(node_address(node), 0, 1) for node in range(1, 100))
    assert not any(windows.accept(node_address(node), 0, 1) for node in range(1, 100))
    monkeypatch.undo()
    again = Windows(path, 0)
    assert not any(again.accept(node_address(node), 0, 1) for node in range(1, 17))
    with pytest.raises(OSError, match="No space"):
        monkeypatch.setattr("os.posix_fallocate", full)
        Windows(tmp_path / "other", 0)


class _Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _from_file(path: Path, node: int, clock: _Clock) -> Guard:
    own = node_address(node)
    return Guard(own, PairKeys(path, own, clock), INCARNATION, Windows(None, INCARNATION << 32))


def test_a_rotation_of_the_key_file_reaches_guards_that_run(tmp_path: Path) -> None:
    """In three steps, at other moments at each router: no frame is refused, and the old key is gone."""
    path, clocks = tmp_path / "keys", (_Clock(), _Clock())
    ring = RING
    write_keys(path, ring)
    old = ring.sending
    sender, receiver = _from_file(path, 3, clocks[0]), _from_file(path, 4, clocks[1])
    used = []

    def passes() -> None:
        (data,) = sealed(sender, TO_PORTS, node_address(3), SR, NEIGHBOURS)
        used.append(int.from_bytes(data[14 + len(encode(SR)) :][:4], "big"))
        opened(receiver, data)

    for step in range(3):
        ring = ring.rotated()
        write_keys(path, ring, replacing=True)
        passes()
        for clock in clocks if step % 2 else reversed(clocks):
            clock.now += 2.0
            passes()
    (new,) = ring.keys
    assert used == [old] * 4 + [new.key_id] * 5
    assert receiver.refused_by_sender() == {}
    (data,) = sealed(router_guard(3), TO_PORTS, node_address(3), SR, NEIGHBOURS)
    with pytest.raises(RefusedError, match="unknown_key"):
        opened(receiver, data)


def test_a_key_file_that_cannot_be_used_leaves_the_keys_as_they_are(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys", _Clock()
    write_keys(path, RING)
    sender, receiver = _from_file(path, 3, clock), router_guard(4)
    for spoil in (partial(path.write_text, "{}"), path.unlink):
        spoil()
        clock.now += 2.0
        (data,) = sealed(sender, TO_PORTS, node_address(3), SR, NEIGHBOURS)
        opened(receiver, data)
