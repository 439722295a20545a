"""The queue of frames for one device: long protocol frames are sent in parts."""

from __future__ import annotations

import errno
from collections import Counter
from typing import cast

from router.runtime.link import SENT_IN_A_TURN, SendQueue
from router.runtime.packet_socket import PacketSocket


class _Device:
    """Takes frames while it has room."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.taken: list[bytes] = []

    def send(self, frame: bytes) -> None:
        if len(self.taken) >= self.room:
            raise BlockingIOError(errno.EAGAIN, "no room")
        self.taken.append(frame)


class _Queue(SendQueue):
    def __init__(self, device: _Device, limit: int = 10_000, first: SendQueue | None = None) -> None:
        self.device = device
        self.counts: Counter[str] = Counter()
        super().__init__(
            cast(PacketSocket, device),
            limit,
            lambda kind, _length: self.counts.update([kind]),
            lambda why, _kind, count: self.counts.update({why: count}),
            first,
        )


def _numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_a_long_frame_is_sent_in_parts_and_others_wait_behind_it() -> None:
    queue, count = _Queue(_Device()), 2 * SENT_IN_A_TURN + 10
    queue.send("RA", _numbered(0, count), 1.0)
    assert len(queue.device.taken) == SENT_IN_A_TURN
    assert len(queue) == count - SENT_IN_A_TURN
    queue.send("SR", [b"behind"], 1.0)
    # The next turn goes on: nothing need come from the device.
    assert queue.retry_at == 1.0
    assert not queue.wants_write
    queue.flush(1.0)
    assert len(queue.device.taken) == 2 * SENT_IN_A_TURN
    queue.flush(1.0)
    assert queue.device.taken == [*_numbered(0, count), b"behind"]
    assert (len(queue), queue.wants_write) == (0, False)
    assert queue.counts == {"RA": count, "SR": 1}


def test_messages_wait_while_a_full_device_keeps_frames_that_go_first() -> None:
    control = _Queue(_Device(room=1))
    messages = _Queue(_Device(), first=control)
    for queue in (control, control, messages, messages):
        queue.send("SR" if queue is control else "MSG", [b"frame"], 1.0)
    assert (len(control), len(messages)) == (1, 2)
    # Room in the socket of messages does not help: their turn has not come.
    assert (control.wants_write, messages.wants_write, messages.retry_at) == (True, False, None)
    messages.flush(1.0)
    assert messages.device.taken == []
    control.device.room = 10
    control.flush(2.0)
    assert messages.wants_write
    messages.flush(2.0)
    assert (control.device.taken, messages.device.taken) == ([b"frame"] * 2, [b"frame"] * 2)


def test_messages_pass_the_rest_of_a_long_frame_that_the_next_turn_sends() -> None:
    control = _Queue(_Device())
    messages = _Queue(_Device(), first=control)
    control.send("RA", _numbered(0, SENT_IN_A_TURN + 10), 1.0)
    assert control
    messages.send("MSG", [b"frame"], 1.0)
    assert messages.device.taken == [b"frame"]


def test_a_frame_is_kept_whole_or_dropped_whole() -> None:
    queue = _Queue(_Device(room=0), limit=10)
    queue.send("RA", _numbered(0, 12), 1.0)  # in an empty queue
    queue.send("RA", _numbered(20, 3), 1.0)
    assert queue.counts == {"send_queue_full": 3}
    queue.device.room = 100
    queue.flush(1.0)
    assert queue.device.taken == _numbered(0, 12)
