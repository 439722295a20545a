"""Control frames that neighbours confirm: `reliable_control`, an option beside the papers' best effort.

A layer between codec and core (`router.protocol.core.layers`), of which the core does not know.
docs/explanation/protocol.md has the rules, "Receipts" in docs/reference/wire-format.md what is confirmed, and
docs/adr/0024 the reasons. The clock is that of the events, and nothing is drawn at random: a replay gives the
same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from router.protocol.bounds import Recent
from router.protocol.context import Timer, Timers, earlier
from router.protocol.core.router import Layer
from router.protocol.counters import Drop
from router.protocol.events import Action, ControllerFrame, Event, FrameReceived, Send, Tick
from router.wire.format import CONFIRMED
from router.wire.frames import Ack, Flags, Frame, FrameType, SenderRequest

#: How often a frame is sent at most: over a link that loses a fifth of all frames, one in ten million control
#: frames never arrives.
SENDINGS = 10
#: The longest wait for a RECEIPT, in first waits.
LONGEST_WAIT = 8
#: Frames of one neighbour whose RECEIPTs are awaited, and frames of it that are remembered as taken.
NEIGHBOUR_FRAMES = 4_096
#: Bytes of received bodies that are kept for another sending, in all; each neighbour has an equal share.
KEPT_BYTES = 64 * 1024 * 1024
#: Frames that are sent again, or given up, at once.
_AT_ONCE = 64
_MICROSECONDS = 1_000_000

#: Reasons for which a frame is dropped without a RECEIPT.
_UNCONFIRMED = (
    Drop.UNKNOWN_EPOCH,
    Drop.UNKNOWN_NEIGHBOUR,
    Drop.UNSIGNED,
    Drop.BAD_SIGNATURE,
    Drop.ISSUER_REPLAYED,
)

#: What makes a frame of a neighbour that frame: type, issuer, seq, epoch.
_Key = tuple[FrameType, int, int, int]


@dataclass(slots=True)
class _Awaited:
    """A frame that was sent.

    Attributes:
        interfaces: those on which no RECEIPT has come.
        sendings: how often it was sent.
        sent_at: when it was sent last.
        timer: sends it again.
        size: bytes of its body that are kept.
    """

    frame: Frame
    interfaces: frozenset[int]
    sendings: int
    sent_at: float
    timer: Timer
    size: int


class ReliableControl:
    """Sends the control frames of a router until they are confirmed, and confirms those of neighbours.

    Args:
        below: the router, or a layer around it.
    """

    def __init__(self, below: Layer) -> None:
        self._below = below
        self.core = core = below.core
        self._counters = core.counters
        self._first_wait = core.options.control_retry_s
        self._epoch = core.epoch
        self._awaited: dict[_Key, _Awaited] = {}
        self._timers = Timers(_AT_ONCE)
        #: Interface -> frames awaited on it.
        self._load: Counter[int] = Counter()
        #: Interface -> bytes of the bodies of these frames.
        self._kept_bytes: Counter[int] = Counter()
        #: Neighbour -> the frames that were taken from it last.
        self._taken: dict[int, Recent[_Key]] = {}

    @property
    def idle(self) -> bool:
        """True if every frame that was sent is confirmed, or given up, and the router is idle."""
        return not self._awaited and self._below.idle

    def next_deadline(self) -> float | None:
        return earlier(self._below.next_deadline(), self._timers.next_deadline())

    def handle(self, event: Event, now: float) -> list[Action]:
        if type(event) is FrameReceived:
            return self._frame_received(event, now)
        actions = self._passed_on(event, now)
        if type(event) is Tick:
            actions += self._timers.tick(now)
        return actions

    def _passed_on(self, event: Event, now: float) -> list[Action]:
        """The actions of the router, whose control frames are awaited from now on."""
        actions = self._below.handle(event, now)
        if type(event) is ControllerFrame and self.core.epoch != self._epoch:
            self._epoch = self.core.epoch
            self._epoch_changed()
        for place, action in enumerate(actions):
            if type(action) is Send and action.frame.type in CONFIRMED:
                actions[place] = self._sent(action, now)
        return actions

    def _epoch_changed(self) -> None:
        """Gives up the frames of older epochs; forgets nodes that are no neighbours any more."""
        for key in [key for key, each in self._awaited.items() if each.frame.epoch < self._epoch]:
            self._forget(key)
        neighbours = set(self.core.neighbours().values())
        self._taken = {node: taken for node, taken in self._taken.items() if node in neighbours}

    # Frames of this router.

    def _sent(self, action: Send, now: float) -> Send:
        """The action by which a frame is sent; it is awaited of the neighbours for which there is room."""
        frame = action.frame
        key = _key(frame)
        if key in self._awaited:
            self._forget(key)
        size = len(frame.received or b"")
        share = KEPT_BYTES // max(1, len(self.core.neighbours()))
        # A neighbour that confirms nothing takes no RECEIPTs from the others.
        interfaces = frozenset(
            each
            for each in action.interfaces
            if self._load[each] < NEIGHBOUR_FRAMES and self._kept_bytes[each] + size <= share
        )
        self._counters.control_unconfirmed += len(action.interfaces) - len(interfaces)
        if not interfaces:
            return Send(action.interfaces, replace(frame, flags=frame.flags & ~Flags.RELIABLE))
        if Flags.RELIABLE not in frame.flags:
            frame = replace(frame, flags=frame.flags | Flags.RELIABLE)
        timer = self._timers.set(now + self._first_wait, partial(self._send_again, key))
        self._awaited[key] = _Awaited(frame, interfaces, 1, now, timer, size)
        self._charge(interfaces, 1, size)
        return Send(action.interfaces, frame)

    def _send_again(self, key: _Key, now: float) -> list[Action]:
        """Sends a frame where it was not confirmed, or gives it up."""
        counters, awaited = self._counters, self._awaited[key]
        frame = _aged(awaited.frame, now - awaited.sent_at)
        if frame is None or awaited.sendings >= SENDINGS:
            counters.control_unconfirmed += len(awaited.interfaces)
            self._forget(key)
            return []
        counters.control_repeated += 1
        wait = self._first_wait * min(2**awaited.sendings, LONGEST_WAIT)
        awaited.frame, awaited.sent_at = frame, now
        awaited.timer = self._timers.set(now + wait, partial(self._send_again, key))
        awaited.sendings += 1
        return [Send(awaited.interfaces, frame)]

    def _receipt_received(self, interface: int, frame: Frame) -> Drop | None:
        """Takes a RECEIPT, or returns why it is dropped."""
        if not isinstance(frame.body, Ack):
            return Drop.MALFORMED
        key = (frame.body.acknowledged, frame.issuer, frame.seq, frame.epoch)
        awaited = self._awaited.get(key)
        if awaited is None or interface not in awaited.interfaces:
            return Drop.RECEIPT_LATE
        self._charge({interface}, -1, -awaited.size)
        awaited.interfaces -= {interface}
        if not awaited.interfaces:
            self._forget(key)
        return None

    def _forget(self, key: _Key) -> None:
        awaited = self._awaited.pop(key)
        awaited.timer.cancel()
        self._charge(awaited.interfaces, -1, -awaited.size)

    def _charge(self, interfaces: Collection[int], frames: int, size: int) -> None:
        """Adds frames and the bytes of their bodies to those awaited on each of some interfaces."""
        for each in interfaces:
            self._load[each] += frames
            self._kept_bytes[each] += size

    # Frames of neighbours.

    def _frame_received(self, event: FrameReceived, now: float) -> list[Action]:
        """Takes a RECEIPT, or passes a frame on that is no copy, and confirms it if it asks for that."""
        frame = event.frame
        is_receipt = frame.type is FrameType.RECEIPT
        if not is_receipt and (frame.type not in CONFIRMED or Flags.RELIABLE not in frame.flags):
            return self._passed_on(event, now)
        interface = self.core.interface(event.sender, frame)
        if is_receipt:
            drop = interface if isinstance(interface, Drop) else self._receipt_received(interface, frame)
            if drop is not None:
                self._counters.drop(drop)
            return []
        if isinstance(interface, Drop):
            return self._passed_on(event, now)  # The router drops the frame.
        taken = self._taken.setdefault(event.sender, Recent(NEIGHBOUR_FRAMES))
        key = _key(frame)
        receipt = Send(
            frozenset((interface,)),
            Frame(FrameType.RECEIPT, frame.issuer, frame.seq, frame.epoch, 1, Ack(frame.type)),
        )
        if key in taken:
            self._counters.control_copies += 1
            return [receipt]
        refused = self._refused()
        actions = self._passed_on(event, now)
        if self._refused() != refused:
            return actions
        taken.add(key)
        return [receipt, *actions]

    def _refused(self) -> int:
        """How many frames were dropped without a RECEIPT."""
        dropped = self._counters.dropped
        return sum(dropped[reason.value] for reason in _UNCONFIRMED)


def _aged(frame: Frame, seconds: float) -> Frame | None:
    """A frame that was sent some time ago; None: nobody waits for its answer any more."""
    if not isinstance(frame.body, SenderRequest):
        return frame
    # Its receiver must give up before this router does.
    left = frame.body.timeout_us - round(seconds * _MICROSECONDS)
    return replace(frame, body=SenderRequest(left), received=None) if left > 0 else None


def _key(frame: Frame) -> _Key:
    return frame.type, frame.issuer, frame.seq, frame.epoch
