"""The CBCB router: one state machine, no IO, no clock.

`handle` takes an event and the time (any monotonic clock, seconds) and returns what to do about it, in
order. `next_deadline` says when a `Tick` is due at the latest. Nothing that comes in from the network
makes it raise: what cannot be used is counted by reason.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping

from router.matching.common.interface import Matcher
from router.predicates.model import NOTHING, Message, Predicate
from router.protocol.advertisements import ClassFilter, IngressFilter, PaperFilter
from router.protocol.broadcast import Branch, BroadcastTables
from router.protocol.clock import earlier
from router.protocol.counters import Counters, Drop
from router.protocol.events import (
    Accepted,
    Action,
    ApplicationGone,
    ControllerFrame,
    Deliver,
    Event,
    FrameReceived,
    HandlingTime,
    Refused,
    RequestUpdate,
    Send,
    SendMessage,
    SendToController,
    SetPredicate,
    Settle,
    Started,
    Tick,
)
from router.protocol.forwarding import Forwarding
from router.protocol.options import RouterOptions
from router.protocol.ra_schedule import AdvertisementSchedule
from router.protocol.routing import RoutingTable
from router.protocol.updates import Updates
from router.wire.addresses import LOCAL_INTERFACE
from router.wire.frames import (
    COUNTER_BITS,
    Ack,
    BroadcastTable,
    Commit,
    EncodedMessage,
    Frame,
    FrameType,
    Hello,
    SenderRequest,
)
from router.wire.header import DecodeError
from router.wire.message import message_of

_INCARNATIONS = 1 << 32
#: Types of the frames that travel down their issuer's tree.
_ON_TREES = (FrameType.MSG, FrameType.RA, FrameType.SR)


class Router:
    """One CBCB router.

    Args:
        node: its node identifier.
        options: see there.
        matcher: an empty matcher, which is told of the routing table what messages ask for, when they do; or
            None (`router.protocol.routing.RoutingTable`).
        incarnation: 32 bits, greater than at any earlier start of this node. It is the high half of
            every sequence number. Messages, RAs and SRs count separately, each from 1.
        rng: source of jitter; seeded with the node identifier if none is given.

    Raises:
        ValueError: the incarnation does not fit in 32 bits.
    """

    def __init__(
        self,
        node: int,
        options: RouterOptions,
        matcher: Matcher | None,
        incarnation: int,
        rng: random.Random | None = None,
    ) -> None:
        if not 0 <= incarnation < _INCARNATIONS:
            raise ValueError(f"incarnation {incarnation} does not fit in 32 bits")
        self.node = node
        self.options = options
        self.counters = Counters()
        self._incarnation = incarnation
        self._rng = rng if rng is not None else random.Random(node)
        self._tables = BroadcastTables(node)
        self._routing = RoutingTable(matcher, options.max_filters)
        self._forwarding = Forwarding(self._routing)
        self._filter: IngressFilter = (
            PaperFilter(self._routing) if options.strict_paper else ClassFilter(self._routing)
        )
        self._schedule = AdvertisementSchedule(options, self._rng)
        self._updates = Updates(
            node,
            options,
            self._tables,
            self._routing,
            self._filter,
            self.counters,
            self._next_request_number,
            self._rng,
        )
        self._held: deque[tuple[int, Message]] = deque()
        self._messages = 0
        self._advertisements = 0
        self._requests = 0
        self._hellos = 0
        # When the next HELLO is due; None: no more.
        self._hello_at: float | None = None

    # What an observer may ask.

    @property
    def epoch(self) -> int:
        """The epoch in which this router originates; 0 before the first."""
        current = self._tables.current
        return current.epoch if current is not None else 0

    @property
    def idle(self) -> bool:
        """True if the router is set up, owes the network nothing (periodic RAs apart) and awaits no UR."""
        settled = self._tables.current is not None and not self._held
        return settled and not self._schedule.pending and self._updates.idle

    def interfaces(self) -> Mapping[int, int]:
        """Interface -> neighbouring node, in the current epoch."""
        current = self._tables.current
        return dict(current.neighbours) if current is not None else {}

    def branches(self) -> Mapping[int, Branch]:
        """Source -> this router's part in its tree, in the current epoch."""
        current = self._tables.current
        return current.branches if current is not None else {}

    def predicates(self) -> Mapping[int, Predicate]:
        """Interface -> p_i, where p_i is not `NOTHING`; 0 is p0."""
        return self._routing.predicates()

    def next_deadline(self) -> float | None:
        """The time at which a `Tick` is due, which may have passed; None: not before something comes in."""
        at = earlier(self._schedule.next_deadline(), self._updates.next_deadline())
        return at if self._hello_at is None else earlier(self._hello_at, at)

    # Events.

    def handle(self, event: Event, now: float) -> list[Action]:
        """Takes one event at time `now` (seconds, monotonic). Returns what to do, in order."""
        if isinstance(event, FrameReceived):
            return self._frame_received(event.sender, event.frame, now)
        if isinstance(event, SendMessage):
            return self._send_message(event.app, event.message, now)
        if isinstance(event, SetPredicate):
            return self._set_predicate(event.app, event.predicate, now)
        if isinstance(event, ApplicationGone):
            return self._set_predicate(event.app, NOTHING, now)
        if isinstance(event, ControllerFrame):
            return self._controller_frame(event.frame, now)
        if isinstance(event, RequestUpdate):
            return self._updates.ask(event.interfaces, now)
        if isinstance(event, Settle):
            self._schedule.stop()
            self._updates.settle()
            return []
        if isinstance(event, HandlingTime):
            self._updates.computed(event.seconds)
            return []
        if isinstance(event, Started):
            return self._hello(now)
        return self._tick(event, now)

    def _tick(self, _event: Tick, now: float) -> list[Action]:
        actions: list[Action] = []
        if self._hello_at is not None and now >= self._hello_at:
            actions += self._hello(now)
        actions += self._advertise_if_due(now)
        return actions + self._updates.tick(now)

    # Frames of other routers.

    def _frame_received(self, sender: int, frame: Frame, now: float) -> list[Action]:
        kind = frame.type
        if kind is FrameType.UR:
            return self._reply_received(sender, frame, now)
        if kind not in _ON_TREES:
            return self._drop(Drop.NOT_FROM_CONTROLLER)
        branch = self._accepted_branch(sender, frame)
        if isinstance(branch, Drop):
            return self._drop(branch)
        if kind is FrameType.MSG and isinstance(frame.body, Message | EncodedMessage):
            return self._message_received(branch, frame, frame.body, now)
        if kind is FrameType.RA and isinstance(frame.body, Predicate):
            return self._advertisement_received(branch, frame, frame.body)
        if kind is FrameType.SR and isinstance(frame.body, SenderRequest):
            return self._updates.request_received(branch, frame, frame.body, now)
        return self._drop(Drop.MALFORMED)

    def _reply_received(self, sender: int, frame: Frame, now: float) -> list[Action]:
        """A UR goes against its tree: whether it comes from the right side is for its SR to say."""
        table = self._tables.get(frame.epoch)
        if table is None:
            return self._drop(Drop.UNKNOWN_EPOCH)
        interface = table.interfaces.get(sender)
        if interface is None:
            return self._drop(Drop.UNKNOWN_NEIGHBOUR)
        if not isinstance(frame.body, Predicate):
            return self._drop(Drop.MALFORMED)
        return self._updates.reply_received(interface, frame, frame.body, now)

    def _accepted_branch(self, sender: int, frame: Frame) -> Branch | Drop:
        """This router's part in the frame's tree, or why the frame must be dropped (section 3.1)."""
        table = self._tables.get(frame.epoch)
        if table is None:
            return Drop.UNKNOWN_EPOCH
        interface = table.interfaces.get(sender)
        if interface is None:
            return Drop.UNKNOWN_NEIGHBOUR
        if frame.issuer == self.node:
            return Drop.OWN_FRAME
        branch = table.branches.get(frame.issuer)
        if branch is None:
            return Drop.NO_TREE
        if branch.parent != interface:
            return Drop.REVERSE_PATH
        if frame.hop_limit < 1:
            return Drop.HOP_LIMIT
        return branch

    def _message_received(
        self, branch: Branch, frame: Frame, body: Message | EncodedMessage, now: float
    ) -> list[Action]:
        try:
            outputs = self._forwarding.outputs(branch, body)
            message = message_of(body) if outputs.local else None
        except DecodeError as error:
            self.counters.dropped[error.reason.value] += 1
            return []
        self.counters.messages_received += 1
        actions: list[Action] = []
        if outputs.interfaces:
            if frame.hop_limit > 1:
                self.counters.messages_forwarded += 1
                actions.append(Send(outputs.interfaces, frame.one_hop_less()))
                actions += self._updates.message_sent(outputs.interfaces, now)
            else:
                self.counters.drop(Drop.HOP_LIMIT)
        if message is not None:
            actions += self._deliver(frame.issuer, frame.seq, message)
        elif not outputs.interfaces:
            self.counters.messages_unwanted += 1
        return actions

    def _advertisement_received(self, branch: Branch, frame: Frame, predicate: Predicate) -> list[Action]:
        self.counters.ras_received += 1
        self._updates.advertisement_heard(branch.parent, predicate)
        spreads = frame.hop_limit > 1
        if not self._filter.accept(frame.epoch, branch, predicate, spreads):
            return self._drop(Drop.RA_COVERED)
        if not branch.children:
            return []
        if not spreads:
            return self._drop(Drop.HOP_LIMIT)
        self.counters.ras_forwarded += 1
        return [Send(branch.children, frame.one_hop_less())]

    # Applications.

    def _send_message(self, app: int, message: Message, now: float) -> list[Action]:
        if self._tables.current is None and len(self._held) >= self.options.held_messages:
            self.counters.drop(Drop.HELD_QUEUE_FULL)
            return [Refused(app, "the router has no broadcast table yet, and holds no more messages")]
        self._messages += 1
        self.counters.messages_sent += 1
        seq = self._sequence_number(self._messages)
        accepted = Accepted(app, self.node, seq)
        if self._tables.current is None:
            self._held.append((seq, message))
            return [accepted]
        return [accepted, *self._originate(seq, message, now)]

    def _originate(self, seq: int, message: Message, now: float) -> list[Action]:
        """Sends a message of this node down its own tree; the node itself is among its receivers."""
        outputs = self._forwarding.outputs(self._own_branch(), message)
        actions: list[Action] = []
        if outputs.interfaces:
            actions.append(Send(outputs.interfaces, self._issued(FrameType.MSG, seq, message)))
            actions += self._updates.message_sent(outputs.interfaces, now)
        if outputs.local:
            actions += self._deliver(self.node, seq, message)
        elif not outputs.interfaces:
            self.counters.messages_unmatched += 1
        return actions

    def _deliver(self, source: int, seq: int, message: Message) -> list[Action]:
        self.counters.messages_delivered += 1
        return [Deliver(self._routing.wanting(message), source, seq, message)]

    def _set_predicate(self, app: int, predicate: Predicate, now: float) -> list[Action]:
        changed = self._routing.set_application(app, predicate)
        # Before the first epoch it is held: each new epoch makes an RA.
        if not changed or not self.options.ra_on_change or self._tables.current is None:
            return []
        self._schedule.ask(now)
        return self._advertise_if_due(now)

    def _advertise_if_due(self, now: float) -> list[Action]:
        """An RA with p0, if the schedule says so (section 3.5.1)."""
        if not self._schedule.due(now):
            return []
        children = self._own_branch().children
        # An RA can only widen tables, so one that says "nothing" would say nothing.
        if not self._routing.local or not children:
            return []
        self._schedule.issued(now)
        self._advertisements += 1
        self.counters.ras_issued += 1
        seq = self._sequence_number(self._advertisements)
        return [Send(children, self._issued(FrameType.RA, seq, self._routing.local))]

    def _own_branch(self) -> Branch:
        """The root's part in this router's own tree; no children if it is cut off from everyone."""
        current = self._tables.current
        own = current.branches.get(self.node) if current is not None else None
        return own if own is not None else Branch(LOCAL_INTERFACE, frozenset(), 0, frozenset(), frozenset())

    # The controller.

    def _hello(self, now: float) -> list[Action]:
        self._hellos += 1
        self._hello_at = now + self.options.hello_interval
        return [self._to_controller(FrameType.HELLO, self._hellos, 0, Hello(self._incarnation))]

    def _controller_frame(self, frame: Frame, now: float) -> list[Action]:
        if frame.type not in (FrameType.TABLE, FrameType.COMMIT):
            return self._drop(Drop.NOT_FROM_ROUTER)
        if frame.issuer != self.node:
            return self._drop(Drop.NOT_ADDRESSED)
        if frame.type is FrameType.TABLE and isinstance(frame.body, BroadcastTable):
            return self._table_received(frame, frame.body)
        if frame.type is FrameType.COMMIT and isinstance(frame.body, Commit):
            return self._commit_received(frame, frame.body, now)
        return self._drop(Drop.MALFORMED)

    def _table_received(self, frame: Frame, table: BroadcastTable) -> list[Action]:
        try:
            self._tables.store(frame.epoch, table)
        except ValueError:
            return self._drop(Drop.BAD_TABLE)
        self._hello_at = None
        return [self._acknowledge(frame)]

    def _commit_received(self, frame: Frame, commit: Commit, now: float) -> list[Action]:
        first = self._tables.current is None
        try:
            changed = self._tables.commit(frame.epoch, commit.oldest_epoch)
        except KeyError:
            return self._drop(Drop.UNKNOWN_EPOCH)
        actions: list[Action] = [self._acknowledge(frame)]
        if not changed:
            return actions
        self._filter.retire(self._tables.epochs())
        self._routing.keep_only(self.interfaces())
        self._updates.new_epoch()
        if first:
            self._schedule.start(now)
            self._updates.start(now)
        if self._routing.local:
            # After the first epoch all routers change to a new one at the same moment.
            self._schedule.ask(now, None if first else self.options.readvertise_jitter)
        actions += self._advertise_if_due(now)
        while self._held:
            actions += self._originate(*self._held.popleft(), now)
        return actions

    def _acknowledge(self, frame: Frame) -> Action:
        return self._to_controller(FrameType.ACK, frame.seq, frame.epoch, Ack(frame.type))

    # Frames and numbers.

    def _to_controller(self, kind: FrameType, seq: int, epoch: int, body: Hello | Ack) -> Action:
        return SendToController(Frame(kind, self.node, seq, epoch, 1, body))

    def _issued(self, kind: FrameType, seq: int, body: Message | Predicate) -> Frame:
        return Frame(kind, self.node, seq, self.epoch, self.options.hop_limit, body)

    def _sequence_number(self, count: int) -> int:
        return self._incarnation << COUNTER_BITS | count

    def _next_request_number(self) -> int:
        self._requests += 1
        return self._sequence_number(self._requests)

    def _drop(self, reason: Drop) -> list[Action]:
        self.counters.drop(reason)
        return []
