"""Intake of RAs and URs: bounds on the work and on the size of the predicates that other routers send.

A small predicate is handled in the turn in which it arrives. A larger one is read chunk by chunk, one chunk
in each turn (`Tick`), while the router goes on with messages and other frames; then its frame is handled as
if it had arrived at that time. RAs and URs of one neighbour are handled in the order of their arrival.

A predicate that exceeds its bounds is widened and counted (`router.predicates.covering.budget`): it matches
more messages, so no receiver is lost. All bounds are counts of filters, constraints and pairs, and the clock
is that of the events, so a replay of the events gives the same answers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from router.predicates.covering.bitset import Bits
from router.predicates.covering.budget import Allowance, Chunk, chunks, fits_in_turn, weight_of
from router.predicates.model import EVERYTHING, Filter, Predicate
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action, FrameReceived
from router.protocol.parts import Part
from router.wire.frames import Frame

#: Takes a frame of another router, and the time.
Dispatch = Callable[[FrameReceived, float], list[Action]]


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Reading:
    """A frame whose predicate is being read.

    Attributes:
        filters: the filters read so far, some of them widened.
        members, numbers: their numbers in the pool, which keeps them until the frame is handled.
        whole: whether all filters were read.
        searched: how many of `numbers` had their relations looked up since.
        widened: whether filters were widened.
    """

    frame: Frame
    chunks: Iterator[Chunk]
    filters: list[Filter] = field(default_factory=list)
    members: Bits = 0
    numbers: list[int] = field(default_factory=list)
    searched: int = 0
    whole: bool = False
    widened: bool = False


class Intake(Part):
    """Reads the predicates of RAs and URs within the router's limits.

    Args:
        context: of the router.
        dispatch: handles a frame.
    """

    def __init__(self, context: Context, dispatch: Dispatch) -> None:
        self._context = context
        self._limits = context.options.limits
        self._dispatch = dispatch
        self._pool = context.content.pool
        self._types = frozenset({context.content.advertisement_frame, context.content.reply_frame})
        #: The frames that wait, by neighbour; the neighbour whose turn is next comes first.
        self._waiting: OrderedDict[int, deque[Frame]] = OrderedDict()
        self._reading: dict[int, _Reading] = {}
        #: When the first of the waiting frames arrived.
        self._since = 0.0
        #: What neighbours, and issuers, may still send.
        self._neighbours: dict[int, Allowance] = {}
        self._issuers: dict[int, Allowance] = {}

    @property
    def idle(self) -> bool:
        """True if every predicate that arrived was read."""
        return not self._waiting

    def next_deadline(self) -> float | None:
        return self._since if self._waiting else None

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        current = self._context.tables.current
        if current is not None:
            nodes = set(current.interfaces)
            self._neighbours = {node: each for node, each in self._neighbours.items() if node in nodes}
            self._issuers = {node: each for node, each in self._issuers.items() if node in current.branches}
        return []

    def frame_received(self, event: FrameReceived, now: float) -> list[Action]:
        """Handles a frame of another router, or puts it aside until its predicate has been read."""
        frame = event.frame
        if frame.type not in self._types:
            return self._dispatch(event, now)
        sender, predicate = event.sender, frame.body
        if not isinstance(predicate, Predicate):
            return self._dispatch(event, now)
        table = self._context.tables.get(frame.epoch)
        if table is None or sender not in table.interfaces or frame.issuer not in table.branches:
            return self._dispatch(event, now)  # It will be dropped.
        queue = self._waiting.get(sender)
        if queue is None and fits_in_turn(predicate, self._limits):
            weight = sum(map(weight_of, predicate))
            if weight <= self._allowed(sender, frame.issuer, now):
                self._use(sender, frame.issuer, weight)
                return self._handle(sender, frame, now)
        if queue is None:
            self._since = min(self._since, now) if self._waiting else now
            queue = self._waiting[sender] = deque()
        if len(queue) < self._limits.waiting:
            queue.append(frame)
            return []
        if not self._context.content.widens:
            return self._context.drop(Drop.INTAKE_FULL)
        # A predicate that matches everything may overtake the waiting ones: they add nothing to it.
        self._context.counters.predicates_widened += 1
        return self._handle(sender, replace(frame, body=EVERYTHING, received=None), now)

    def tick(self, now: float) -> list[Action]:
        """Reads one chunk of one predicate, or looks up the relations of some of its filters."""
        if not self._waiting:
            return []
        sender, queue = next(iter(self._waiting.items()))
        self._waiting.move_to_end(sender)
        reading = self._reading.get(sender)
        if reading is None:
            reading = self._reading[sender] = self._begin(sender, queue[0], now)
            self._pool.register(reading)
        if not reading.whole:
            self._read(reading, sender)
            return []
        step = self._limits.turn_weight // 2
        self._pool.search(reading.numbers[reading.searched : reading.searched + step])
        reading.searched += step
        if reading.searched < len(reading.numbers):
            return []
        del self._reading[sender]
        queue.popleft()
        if not queue:
            del self._waiting[sender]
        frame = reading.frame
        if reading.widened:
            self._context.counters.predicates_widened += 1
            frame = replace(frame, body=Predicate(tuple(reading.filters)), received=None)
        assert isinstance(frame.body, Predicate)
        self._pool.assume(frame.body, reading.numbers)
        return self._handle(sender, frame, now)

    def _read(self, reading: _Reading, sender: int) -> None:
        chunk = next(reading.chunks)
        self._use(sender, reading.frame.issuer, chunk.weight)
        reading.filters += chunk.predicate.filters
        reading.whole, reading.widened = chunk.last, chunk.widened
        for number in self._pool.numbers(chunk.predicate):
            if not reading.members >> number & 1:
                reading.members |= 1 << number
                reading.numbers.append(number)

    def _begin(self, sender: int, frame: Frame, now: float) -> _Reading:
        assert isinstance(frame.body, Predicate)
        limits = self._limits
        if self._context.content.widens:
            allowed = self._allowed(sender, frame.issuer, now)
        else:
            limits, allowed = limits.unbounded(), limits.unbounded().predicate_weight
        return _Reading(frame, chunks(frame.body, limits, allowed))

    def _handle(self, sender: int, frame: Frame, now: float) -> list[Action]:
        with self._pool.bounded(self._limits.turn_pairs):
            return self._dispatch(FrameReceived(sender, frame), now)

    def _allowed(self, sender: int, issuer: int, now: float) -> int:
        """The weight that the sender and the issuer may send at this time."""
        of_neighbour = self._neighbours.setdefault(sender, Allowance(self._limits, now))
        of_issuer = self._issuers.setdefault(issuer, Allowance(self._limits, now))
        return min(of_neighbour.left(now), of_issuer.left(now))

    def _use(self, sender: int, issuer: int, weight: int) -> None:
        for allowances, node in ((self._neighbours, sender), (self._issuers, issuer)):
            if node in allowances:
                allowances[node].use(weight)
