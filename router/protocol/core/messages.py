"""Messages as a part of a router: taking them from applications and neighbours, and sending them on.

Protocol paper, sections 2 and 3.3. The scheme says where a message goes, the service which
applications get it.
"""

from __future__ import annotations

from collections import deque

from router.predicates import Message
from router.protocol.bounds import Recent
from router.protocol.broadcast import Branch
from router.protocol.context import Context, Part
from router.protocol.counters import Drop
from router.protocol.events import Accepted, Action, Deliver, DeliveryRefused, Refused, SendMessage
from router.protocol.schemes import Scheme
from router.protocol.services import Service
from router.wire.frames import Frame
from router.wire.header import DecodeError

#: Deliveries that are remembered: the last.
MESSAGES_REMEMBERED = 1 << 14


class Messages(Part):
    """Sends, forwards and delivers messages; holds those that applications send before the first epoch.

    Attributes:
        delivered: source and number of the messages of other nodes that were delivered last, so that a copy
            is not delivered again. Numbers are not compared with greater numbers: a message that others
            overtook is delivered, and a forged number shuts no source out.
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
        self._accepted = 0
        self.delivered: Recent[tuple[int, int]] = Recent(MESSAGES_REMEMBERED)

    @property
    def idle(self) -> bool:
        return not self._held

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        """Sends what was held."""
        actions: list[Action] = []
        while self._held:
            actions += self._originate(*self._held.popleft(), now)
        return actions

    def send(self, event: SendMessage, now: float) -> list[Action]:
        """Takes a message of a local application: `Accepted` with its number, or `Refused`."""
        context, app, message = self._context, event.app, event.message
        reason = self._content.refusal(message)
        if reason is not None:
            context.drop(Drop.MESSAGE_REFUSED)
            return [Refused(app, reason)]
        ready = context.tables.current is not None
        if not ready and len(self._held) >= context.options.held_messages:
            context.drop(Drop.HELD_QUEUE_FULL)
            return [Refused(app, "the router has no broadcast table yet, and holds no more messages")]
        self._accepted += 1
        context.counters.messages_sent += 1
        seq = context.sequence_number(self._accepted)
        accepted = Accepted(app, context.node, seq)
        if not ready:
            self._held.append((seq, message))
            return [accepted]
        return [accepted, *self._originate(seq, message, now)]

    def _originate(self, seq: int, message: Message, now: float) -> list[Action]:
        """Sends a message of this node down its own tree; the node itself is among its receivers."""
        context = self._context
        content = context.content
        frame = context.issued(content.message_frame, seq, content.message_body(message))
        outputs = self._scheme.outputs(context.own_branch(), frame)
        actions: list[Action] = []
        if outputs.interfaces:
            actions += self._scheme.sends(outputs, frame)
            actions += context.parts.message_sent(outputs.interfaces, now)
        delivery = self._deliver(context.node, seq, message) if outputs.local else []
        if not outputs.interfaces and not delivery:
            context.counters.messages_unmatched += 1
        return actions + delivery

    def received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        """A message came in on its source's tree."""
        counters, content = self._counters, self._content
        if content.refusal(frame.body) is not None:
            # Before it is read: the router of its application should have refused it.
            counters.drop(Drop.MESSAGE_REFUSED)
            return []
        try:
            outputs = self._scheme.outputs(branch, frame)
            message = content.message_of(content.message_in(frame)) if outputs.local else None
        except DecodeError as error:
            counters.dropped[error.reason.value] += 1
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
        return actions + self.came_in(frame.issuer, frame.seq, message, bool(outputs.interfaces))

    def came_in(self, source: int, seq: int, message: Message | None, forwarded: bool) -> list[Action]:
        """Delivers a message of another node, and counts it as unwanted if nobody gets it.

        Args:
            message: None: p0 does not select it.
            forwarded: whether p_i of another interface selects it.
        """
        delivery = [] if message is None else self._deliver(source, seq, message)
        if not forwarded and not delivery:
            self._counters.messages_unwanted += 1
        return delivery

    def delivery_refused(self, event: DeliveryRefused, _now: float) -> list[Action]:
        """Takes back a delivery."""
        self.delivered.discard((event.source, event.seq))
        self._counters.messages_delivered -= 1
        if not event.forwarded:
            self._counters.messages_unwanted += 1
        return []

    def _deliver(self, source: int, seq: int, message: Message) -> list[Action]:
        """Passes a message that p0 selects to the applications, unless it was delivered before."""
        if (source, seq) in self.delivered:
            return self._context.drop(Drop.MESSAGE_DUPLICATE)
        apps = self._service.receivers(message)
        if not apps:
            return []
        if source != self._context.node:
            self.delivered.add((source, seq))
        self._context.counters.messages_delivered += 1
        return [Deliver(apps, source, seq, message)]
