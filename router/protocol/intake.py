"""Intake of RAs and URs: bounds on the work and on the size of the predicates that other routers send.

A small predicate is handled in the turn in which it arrives. A larger one is read chunk by chunk, in several
turns each (`Tick`), while the router goes on with messages and other frames; then its frame is handled as
if it had arrived at that time. RAs and URs of one neighbour are handled in the order of their arrival.

A predicate that exceeds its bounds is widened and counted (`router.predicates.covering.budget`): it matches
more messages, so no receiver is lost. All bounds are counts of filters, constraints and pairs, and the clock
is that of the events, so a replay of the events gives the same answers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Generator
from dataclasses import dataclass, field, replace

from router.predicates.covering.bitset import Bits
from router.predicates.covering.budget import Allowances
from router.predicates.model import Filter, Predicate
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, ControllerFrame, FrameReceived, Tick
from router.protocol.frame_table import FrameTable
from router.protocol.parts import Part
from router.protocol.routing import RoutingTable
from router.wire.addresses import CONTROLLER
from router.wire.codec import encode_body
from router.wire.frames import EncodedPredicate, Frame
from router.wire.header import DecodeError
from router.wire.predicate import with_classes

#: Filters that are freed in one turn.
_FREED = 500
#: Bytes of an encoded predicate that count as one unit of weight while it waits.
_BYTES_A_WEIGHT = 16


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Reading:
    """A frame whose predicate is being read.

    Attributes:
        filters: the filters read so far, some of them widened.
        members, numbers: their numbers in the pool, which keeps them until the frame is handled.
        widened: whether filters were widened.
        whole: the frame with all filters, when it is to be handled.
        steps: what is left of the reading; a turn makes a step.
    """

    frame: Frame
    filters: list[Filter] = field(default_factory=list)
    members: Bits = 0
    numbers: list[int] = field(default_factory=list)
    widened: bool = False
    whole: Frame | None = None
    steps: Generator[None, None, None] = field(init=False)


class Intake(Part):
    """Reads the predicates of RAs and URs within the router's limits.

    Args:
        context: of the router.
        table: checks frames and passes them to the parts that take them.
        routing: the routing table, whose size is bounded.
    """

    def __init__(self, context: Context, table: FrameTable, routing: RoutingTable) -> None:
        self._routing = routing
        self._context = context
        self._limits = context.options.limits
        self._table = table
        self._pool = context.content.pool
        self._content = content = context.content
        self._message, self._advertisement = content.message_frame, content.advertisement_frame
        self._types = frozenset({content.advertisement_frame, content.reply_frame})
        #: The frames that wait, each with its weight, by neighbour; the neighbour whose turn is next comes
        #: first.
        self._waiting: OrderedDict[int, deque[tuple[Frame, int]]] = OrderedDict()
        self._reading: dict[int, _Reading] = {}
        #: What neighbours, and issuers, may still send.
        self._neighbours = Allowances(self._limits)
        self._issuers = Allowances(self._limits)

    @property
    def neighbours(self) -> Allowances:
        """The weight that each neighbour may still send."""
        return self._neighbours

    @property
    def idle(self) -> bool:
        """True if every predicate that arrived was read."""
        return not self._waiting

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        current = self._context.tables.current
        if current is not None:
            self._neighbours.keep_only(current.interfaces.__contains__)
            self._issuers.keep_only(current.branch)
        return []

    def controller_frame(self, event: ControllerFrame, now: float) -> list[Action]:
        """Handles a frame of the controller."""
        if self._context.refuses(event.frame, CONTROLLER, CONTROLLER):
            return []
        return self._table.from_controller(event, now)

    def tick_all(self, event: Tick, now: float) -> list[Action]:
        """Does what is due: a UR unites what other routers sent."""
        with self._routing.bounded(self._limits.turn_pairs):
            return self._context.parts.tick(event, now)

    def frame_received(self, event: FrameReceived, now: float) -> list[Action]:
        """Handles a frame of another router, or puts it aside until its predicate has been read."""
        sender, frame = event.sender, event.frame
        if frame.type is self._message:
            return self._table.from_router(event, now)
        predicate = frame.body
        whole = isinstance(predicate, Predicate)
        if frame.type not in self._types or not (whole or isinstance(predicate, EncodedPredicate)):
            if self._context.signatures.asked_for:
                admitted = self._table.admitted(sender, frame)
                if isinstance(admitted, Drop):
                    return self._context.drop(admitted)
                if self._context.refuses(frame, sender, frame.issuer):
                    return []
            return self._handle(event, now)
        # A frame that will be dropped must not use up what its neighbour and its issuer may send. The check
        # of a frame needs a body of its class.
        checked = frame if whole else replace(frame, body=self._content.nothing)
        admitted = self._table.admitted(sender, checked)
        if isinstance(admitted, Drop):
            return self._context.drop(admitted)
        queue = self._waiting.get(sender)
        if isinstance(predicate, EncodedPredicate):
            weight = len(predicate.encoded) // _BYTES_A_WEIGHT
        else:
            assert isinstance(predicate, Predicate)
            weight = self._content.weight(predicate)
        # An RA without filters counts too: the number of RAs in a second is bounded.
        weight = max(weight, 1)
        may_wait = self._may_wait(queue or (), weight)
        if not may_wait and not self._content.widens:
            # Before its signature is verified, which would make a second sending of the frame a replay.
            return self._context.drop(Drop.INTAKE_FULL)
        signer = frame.issuer if frame.type is self._advertisement else sender
        if self._context.refuses(frame, sender, signer):
            return []
        if self._content.widens and self._routing.is_full(self._limits.table_filters):
            return self._handle_everything(sender, frame, now)
        if queue is None and whole and weight <= self._limits.turn_weight:
            neighbour = self._neighbours.of(sender, now)
            issuer = self._issuers.of(frame.issuer, now) if frame.type is self._advertisement else None
            if weight <= neighbour.left(now) and (issuer is None or weight <= issuer.left(now)):
                neighbour.use(weight)
                if issuer is not None:
                    issuer.use(weight)
                handle, place = admitted
                with self._routing.bounded(self._limits.turn_pairs):
                    return handle(place, frame, now)
        if may_wait:
            self._waiting.setdefault(sender, deque()).append((frame, weight))
            return []
        # A predicate that matches everything may overtake the waiting ones: they add nothing to it.
        return self._handle_everything(sender, frame, now)

    def step(self, now: float) -> list[Action]:
        """Makes a step of the reading of one predicate, or handles the frame of a predicate that is read."""
        sender, queue = next(iter(self._waiting.items()))
        self._waiting.move_to_end(sender)
        reading = self._reading.get(sender)
        if reading is None:
            reading = self._reading[sender] = _Reading(queue[0][0])
            reading.steps = self._steps(reading, sender, now)
            self._pool.register(reading)
        try:
            next(reading.steps)
        except StopIteration:
            self._done(sender, queue)
        except DecodeError as error:
            # Nothing of the predicate is in a table.
            self._context.counters.dropped[error.reason.value] += 1
            self._done(sender, queue)
        whole, reading.whole = reading.whole, None
        if whole is None:
            return []
        if len(reading.filters) <= _FREED:
            self._done(sender, queue)
        assert isinstance(whole.body, Predicate)
        # In this turn: the pool forgets predicates when it removes filters.
        self._pool.assume(whole.body, reading.numbers, reading.members)
        return self._handle(FrameReceived(sender, whole), now)

    def _whole(self, reading: _Reading) -> Frame:
        """The frame with the predicate that was read."""
        frame = reading.frame
        predicate = frame.body
        if reading.widened:
            # Filters of several classes of nodes may be in one: it is of nodes of any class. Those of the
            # pool have their wire forms.
            predicate = self._content.predicate(self._pool.filters(reading.numbers))
            self._context.counters.predicates_widened += 1
        elif isinstance(predicate, EncodedPredicate):
            read = self._content.predicate(reading.filters)
            predicate = with_classes(read, predicate.frame_type, predicate.encoded)
        assert isinstance(predicate, Predicate)
        return replace(frame, body=predicate, received=_sent_on(frame) if reading.widened else frame.received)

    def _done(self, sender: int, queue: deque[tuple[Frame, int]]) -> None:
        """Ends the reading of the first predicate of a neighbour."""
        # The steps refer to the reading, and it to them: nothing else ends this cycle in a live router.
        self._reading.pop(sender).steps.close()
        queue.popleft()
        if not queue:
            del self._waiting[sender]

    def _handle_everything(self, sender: int, frame: Frame, now: float) -> list[Action]:
        """Handles an RA or UR as if its predicate matched everything."""
        self._context.counters.predicates_widened += 1
        wide = replace(frame, body=self._content.everything, received=_sent_on(frame))
        return self._handle(FrameReceived(sender, wide), now)

    def _may_wait(self, queue: Collection[tuple[Frame, int]], weight: int) -> bool:
        """Whether a predicate of this weight may wait behind others. The memory of those is bounded."""
        if len(queue) >= self._limits.waiting:
            return False
        if not queue:
            return True
        # The excess would be widened when it is read: it is more than the neighbour may send at once.
        return weight + sum(each for _, each in queue) <= self._limits.burst

    def _steps(self, reading: _Reading, sender: int, now: float) -> Generator[None, None, None]:
        """Reads a predicate in steps of bounded work.

        Raises DecodeError: its body breaks a rule of the format, at the step that reads the error.
        """
        limits, body, content, pool = self._limits, reading.frame.body, self._content, self._pool
        most = limits.turn_weight
        if content.widens:
            allowed = self._allowed(sender, reading.frame, now)
        else:
            limits, allowed = limits.unbounded(), limits.unbounded().predicate_weight
        assert isinstance(body, Predicate | EncodedPredicate)
        numbers = reading.numbers
        for chunk in content.chunks(body, limits, allowed):
            self._use(sender, reading.frame, max(chunk.weight, 1), self._context.now)
            reading.filters += chunk.predicate.filters
            reading.widened = chunk.widened
            yield
            yield from content.prepare(chunk.predicate.filters)
            for part in content.parts(chunk.predicate, most):
                for number in pool.numbers(part):
                    if not reading.members >> number & 1:
                        reading.members |= 1 << number
                        numbers.append(number)
                yield
        searched = 0
        while searched < len(numbers):
            searched = pool.search(numbers, searched, most)
            yield
        whole = self._whole(reading)
        yield
        if reading.widened and whole.type is self._advertisement:
            whole = replace(whole, received=encode_body(whole))
            yield
        reading.whole = whole
        del whole
        # To free many filters takes as long as to handle the frame, whose predicate has them too.
        yield
        while reading.filters:
            del reading.filters[-_FREED:]
            yield

    def _handle(self, event: FrameReceived, now: float) -> list[Action]:
        with self._routing.bounded(self._limits.turn_pairs):
            return self._table.from_router(event, now)

    def _allowed(self, sender: int, frame: Frame, now: float) -> int:
        """The weight that the sender and the issuer may send at this time."""
        left = self._neighbours.of(sender, now).left(now)
        if frame.type is not self._advertisement:
            return left  # The neighbour made the UR. Its issuer is that of the SR, and wrote none of it.
        return min(left, self._issuers.of(frame.issuer, now).left(now))

    def _use(self, sender: int, frame: Frame, weight: int, now: float) -> None:
        self._neighbours.of(sender, now).use(weight)
        if frame.type is self._advertisement:
            self._issuers.of(frame.issuer, now).use(weight)


def _sent_on(frame: Frame) -> bytes | None:
    """The body with which a frame goes on whose predicate was widened here.

    A signature stands for the body of its issuer: each router widens that by itself.
    """
    return frame.received if frame.signature else None
