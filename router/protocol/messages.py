"""Messages as a part of a router: taking them from applications and neighbours, and sending them on.

Protocol paper, sections 2 and 3.3. The scheme says where a message goes, the service which
applications get it.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from router.content.base import MOST_ATTRIBUTES
from router.predicates.model import Message
from router.protocol.broadcast import Branch
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.delivered import Delivered
from router.protocol.events import Accepted, Action, Deliver, DeliveryPostponed, Refused, SendMessage
from router.protocol.message_bounds import MOST_BYTES, is_too_large
from router.protocol.parts import Part
from router.protocol.scheme import Scheme
from router.protocol.service import Service
from router.wire.frames import Frame
from router.wire.header import DecodeError

_TOO_LARGE = f"the message has more than {MOST_ATTRIBUTES} attributes or {MOST_BYTES} bytes"


#: Messages that wait to be delivered, and their bytes, before more of applications are refused. Those of
#: neighbours stay in the socket from half of both on, so that they leave room for those of applications.
_MOST_WAITING, _MOST_BYTES = 10_000, 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Local:
    """A message that p0 selects and that waits for its delivery.

    Attributes:
        sent: whether it goes to other routers.
        received: the frame that a neighbour sent, and the neighbour; None: the message is this node's own.
        size: about its bytes in memory, with those of the frame.
    """

    source: int
    seq: int
    message: Message
    sent: bool
    received: tuple[Frame, int] | None
    size: int


class Messages(Part):
    """Sends, forwards and delivers messages; holds those that applications send before the first epoch.

    A message that takes long to compare with the predicates of applications is delivered in a later turn.
    Messages behind it are forwarded, and wait for their delivery, so that each application gets the messages
    in their order. When many wait, the driver takes no more of neighbours (`full`).

    Attributes:
        accepted: how many messages of applications were accepted, as an array of one number: compiled code
            accepts some (`router.forwarding`).
        delivered: the messages of others that were delivered last.
    """

    def __init__(self, context: Context, scheme: Scheme, service: Service) -> None:
        self._context = context
        self._scheme = scheme
        self._service = service
        self._counters = context.counters
        self._content = context.content
        self._parts = context.parts
        #: Number and content of the messages that wait for the first epoch.
        self._held: deque[tuple[int, Message]] = deque()
        #: The messages that wait to be delivered, in order, and the sum of their bytes.
        self._waiting: deque[_Local] = deque()
        self._bytes = 0
        #: The work on the first of them, once it has begun.
        self._search: Iterator[None] | None = None
        self.accepted = array("q", [0])
        self.delivered = Delivered()

    @property
    def idle(self) -> bool:
        return not self._held and not self._waiting

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        """Whether so many messages wait for their delivery that no more of neighbours should be taken."""
        return 2 * len(self._waiting) >= _MOST_WAITING or 2 * self._bytes > _MOST_BYTES

    def step(self, now: float) -> list[Action]:  # noqa: ARG002
        """Works on the delivery of the message that has waited longest."""
        waiting = self._waiting[0]
        if self._search is None:
            # Only now: while it waited, applications may have declared more, or a copy was delivered.
            self._search = self._search_of(waiting)
        if self._search is not None:
            for _ in self._search:
                return []
        self._search = None
        self._waiting.popleft()
        self._bytes -= waiting.size
        return self._deliver_or_count(waiting)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        """Sends what was held."""
        actions: list[Action] = []
        while self._held:
            actions += self._originate(*self._held.popleft(), now)
        return actions

    def send(self, event: SendMessage, now: float) -> list[Action]:
        """Takes a message of a local application: `Accepted` with its number, or `Refused`."""
        context, app, message = self._context, event.app, event.message
        if self._content.bounds_messages:
            reason = self._content.refusal(message)
        else:
            reason = _TOO_LARGE if is_too_large(message) else None
        if reason is not None:
            context.drop(Drop.MESSAGE_REFUSED)
            return [Refused(app, reason)]
        ready = context.tables.current is not None
        if not ready and len(self._held) >= context.options.held_messages:
            context.drop(Drop.HELD_QUEUE_FULL)
            return [Refused(app, "the router has no broadcast table yet, and holds no more messages")]
        if len(self._waiting) >= _MOST_WAITING or self._bytes > _MOST_BYTES:
            context.drop(Drop.HELD_QUEUE_FULL)
            return [Refused(app, "the applications of this router have predicates that take too long")]
        self.accepted[0] += 1
        context.counters.messages_sent += 1
        seq = context.sequence_number(self.accepted[0])
        accepted = Accepted(app, context.node, seq)
        if not ready:
            self._held.append((seq, message))
            return [accepted]
        return [accepted, *self._originate(seq, message, now)]

    def _originate(self, seq: int, message: Message, now: float) -> list[Action]:
        """Sends a message of this node down its own tree; the node itself is among its receivers."""
        context = self._context
        frame = context.issued(context.content.message_frame, seq, message)
        outputs = self._scheme.outputs(context.own_branch(), frame)
        actions: list[Action] = []
        if outputs.interfaces:
            actions += self._scheme.sends(outputs, frame)
            actions += context.parts.message_sent(outputs.interfaces, now)
        sent = bool(outputs.interfaces)
        if outputs.local:
            return actions + self._deliver_in_turn(context.node, seq, message, sent)
        if not sent:
            context.counters.messages_unmatched += 1
        return actions

    def received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        """A message came in on its source's tree."""
        counters, content = self._counters, self._content
        if not content.bounds_messages and is_too_large(frame.body):
            # Before it is read.
            counters.drop(Drop.MESSAGE_REFUSED)
            return []
        try:
            outputs = self._scheme.outputs(branch, frame)
            message = content.message_of(content.message_in(frame)) if outputs.local else None
        except DecodeError as error:
            counters.dropped[error.reason.value] += 1
            return []
        if content.bounds_messages and content.refusal(content.message_of(frame.body)) is not None:  # type: ignore[arg-type]
            # The router of its application should have refused it.
            counters.drop(Drop.MESSAGE_REFUSED)
            return []
        counters.messages_received += 1
        actions: list[Action] = []
        if outputs.interfaces:
            if frame.hop_limit > 1:
                counters.messages_forwarded += 1
                actions = self._scheme.sends(outputs, frame.one_hop_less())
                actions += self._parts.message_sent(outputs.interfaces, now)
            else:
                counters.drop(Drop.HOP_LIMIT)
        sent = bool(outputs.interfaces)
        if message is not None:
            return actions + self._deliver_in_turn(frame.issuer, frame.seq, message, sent, frame)
        if not sent:
            counters.messages_unwanted += 1
        return actions

    def _deliver_in_turn(
        self, source: int, seq: int, message: Message, sent: bool, frame: Frame | None = None
    ) -> list[Action]:
        """Delivers a message behind those that wait, and begins with what takes long."""
        first = not self._waiting
        # Without signatures nothing looks up where the message came from.
        signed = frame is not None and self._context.signatures.asked_for
        received = (frame, self._neighbour(frame)) if signed and frame is not None else None
        size = self._content.length(message)
        if received is not None:
            size += len(received[0].received or b"")
        local = _Local(source, seq, message, sent, received, size)
        if first:
            self._search = self._search_of(local)
            if self._search is None:
                return self._deliver_or_count(local)
        self._waiting.append(local)
        self._bytes += size
        actions = self.step(self._context.now) if first else []
        return [*actions, DeliveryPostponed(source, seq)] if self._waiting else actions

    def _search_of(self, local: _Local) -> Iterator[None] | None:
        """The work that comes before a delivery; a copy of what was delivered is not compared."""
        return None if (local.source, local.seq) in self.delivered else self._service.search(local.message)

    def deliver_waiting(self) -> list[Action]:
        """Delivers all messages that wait, however long that takes."""
        actions: list[Action] = []
        while self._waiting:
            actions += self.step(self._context.now)
        return actions

    def _deliver_or_count(self, local: _Local) -> list[Action]:
        actions = self.deliver(local.source, local.seq, local.message, local.received)
        if not actions and not local.sent:
            if local.source == self._context.node:
                self._counters.messages_unmatched += 1
            else:
                self._counters.messages_unwanted += 1
        return actions

    def deliver(
        self, source: int, seq: int, message: Message, received: tuple[Frame, int] | None = None
    ) -> list[Action]:
        """Passes a message that p0 selects to the applications at once, unless it was delivered before.

        Args:
            received: the frame whose signature is verified here, and the neighbour that sent it; None: there
                is no signature.
        """
        if (source, seq) in self.delivered:
            return self._context.drop(Drop.MESSAGE_DUPLICATE)
        apps = self._service.receivers(message)
        if not apps:
            return []
        if received is not None and self._context.refuses(*received, source):
            return []
        if source != self._context.node:
            self.delivered.add(source, seq)
        self._context.counters.messages_delivered += 1
        return [Deliver(apps, source, seq, message)]

    def _neighbour(self, frame: Frame) -> int:
        """The neighbour that a frame on its issuer's tree came from."""
        table = self._context.tables.get(frame.epoch)
        branch = None if table is None else table.branch(frame.issuer)
        assert table is not None
        assert branch is not None
        return table.neighbours[branch.parent]
