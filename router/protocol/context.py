"""The parts of a router: the state that they share, their notifications, and the list that passes them on.

A part may have deadlines, and hears of what happens to the router as a whole. `Router` loops over its parts.
A part joins by a line in the list of a scheme, of a service or of the router; which frames and events it
takes stands in `router.protocol.core.dispatch`.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from router.content import Content
from router.protocol.broadcast import Branch, BroadcastTables
from router.protocol.counters import Counters, Drop
from router.protocol.events import Action, Settle, Tick
from router.protocol.options import RouterOptions
from router.wire.frames import COUNTER_BITS, Body, Flags, Frame, FrameType
from router.wire.header import LOCAL_INTERFACE

#: So few timers are not searched for those that are cancelled.
_FEW = 64


def earlier(a: float | None, b: float | None) -> float | None:
    if a is None:
        return b
    return a if b is None or a <= b else b


class Timer:
    """Something that is due once.

    Attributes:
        run: is called with the time; None: it was run or cancelled.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[[float], list[Action]]) -> None:
        self.run: Callable[[float], list[Action]] | None = run

    def cancel(self) -> None:
        self.run = None


class Timers:
    """Timers of one router, in order of time; of equal times, the earlier set first.

    Args:
        at_once: timers that a tick runs.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        #: Times, numbers and timers. Some are cancelled: at most as many as others, and a few.
        self._timers: list[tuple[float, int, Timer]] = []
        self._set = 0
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, at: float, run: Callable[[float], list[Action]]) -> Timer:
        """Adds a timer that is due at `at`, seconds of the router's clock."""
        timer = Timer(run)
        if len(self._timers) >= self._most:
            # Cancelled timers may be due in years: without this, they would pile up.
            self._timers = [each for each in self._timers if each[2].run is not None]
            heapify(self._timers)
            self._most = max(_FEW, 2 * len(self._timers))
        self._set += 1
        heappush(self._timers, (at, self._set, timer))
        return timer

    def next_deadline(self) -> float | None:
        while self._timers and self._timers[0][2].run is None:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def tick(self, now: float) -> list[Action]:
        """Runs timers that are due; the rest is due at once, in a further tick."""
        actions: list[Action] = []
        for _ in range(self._at_once):
            at = self.next_deadline()
            if at is None or at > now:
                break
            timer = heappop(self._timers)[2]
            run, timer.run = timer.run, None
            assert run is not None
            actions += run(now)
        return actions


class Period:
    """Something that is due again each `period_s` seconds (None: never), in the mean with exponential timers.

    Attributes:
        at: when it is due next; None: it was not started, or was stopped.
    """

    def __init__(self, options: RouterOptions, rng: random.Random, period_s: float | None) -> None:
        self._options, self._rng, self._period_s = options, rng, period_s
        self.at: float | None = None

    def start(self, now: float) -> None:
        """Begins, at random: routers that were set up together should not speak together."""
        if self._period_s is not None:
            options, rng, period_s = self._options, self._rng, self._period_s
            fixed = options.timers == "fixed"
            self.at = now + (rng.random() * period_s if fixed else options.time_drawn(rng, period_s))

    def stop(self) -> None:
        self.at = self._period_s = None

    def due(self, now: float) -> bool:
        """Whether it is due: once, however many periods were slept through; the answer yes settles it."""
        if self.at is None or self._period_s is None or now < self.at:
            return False
        period_s = self._options.time_drawn(self._rng, self._period_s)
        self.at = period_s + (self.at if self.at + period_s > now else now)
        return True


class MessageCounts:
    """Messages by interface, counted by the core and by compiled code.

    A part whose `message_sent` does no more than to add 1 to the count of each interface, as long as none is
    due, returns it from `message_counts`. An interface is due if its count is above the limit and its time
    has come.

    Attributes:
        counts: int64 by interface.
        due: double by interface: the time, in seconds of the router, from which a count above the limit makes
            something due; infinity: no count does.
        limit: see `due`.
    """

    def __init__(self, limit: int) -> None:
        self.counts = array("q", [0])
        self.due = array("d", [0.0])
        self.limit = limit

    def fit(self, interface: int) -> None:
        """Makes room for an interface; the addresses of counts and times change."""
        missing = interface + 1 - len(self.counts)
        if missing > 0:
            self.counts.extend([0] * missing)
            self.due.extend([0.0] * missing)

    def add(self, interfaces: Iterable[int]) -> None:
        for interface in interfaces:
            self.fit(interface)
            self.counts[interface] += 1

    def __getitem__(self, interface: int) -> int:
        return self.counts[interface] if interface < len(self.counts) else 0

    def reset(self, interface: int) -> None:
        if interface < len(self.counts):
            self.counts[interface] = 0

    def keep_only(self, interfaces: Iterable[int]) -> None:
        """Sets the counts of all other interfaces to 0."""
        kept = set(interfaces)
        for interface in range(len(self.counts)):
            if interface not in kept:
                self.counts[interface] = 0


class Part:
    """A part of a router.

    Every method has a default that does nothing.
    """

    __slots__ = ()

    @property
    def idle(self) -> bool:
        """True if the part owes nothing and awaits nothing."""
        return True

    def next_deadline(self) -> float | None:
        """When `tick` has something to do; the time may have passed.

        None: not before something comes in.
        """
        return None

    def tick(self, now: float) -> list[Action]:  # noqa: ARG002
        """Does what is due."""
        return []

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        """The current epoch changed, and perhaps older ones were retired.

        Args:
            first: the router had no epoch before.
        """
        return []

    def local_changed(self, now: float) -> list[Action]:  # noqa: ARG002
        """The predicate of this node, p0, changed."""
        return []

    def message_sent(self, interfaces: frozenset[int], now: float) -> list[Action]:  # noqa: ARG002
        """A message went out of `interfaces`."""
        return []

    def message_counts(self) -> MessageCounts | None:
        """How compiled code may stand in for `message_sent` (`router.forwarding`); None: it may not."""
        return None

    def settle(self) -> None:
        """Nothing more is to be started unasked."""


class Parts:
    """All parts of a router, in the order in which they hear."""

    __slots__ = ("_deadlines", "_message_sent", "_next", "_parts", "changed")

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._deadlines: list[Callable[[], float | None]] = []
        #: The earliest deadline, and whether a deadline may have changed since.
        self._next: float | None = None
        self.changed = True
        self._message_sent: list[Callable[[frozenset[int], float], list[Action]]] = []

    def join(self, parts: Iterable[Part]) -> None:
        """Adds parts, after those that are there."""
        self.changed = True
        for part in parts:
            self._parts.append(part)
            # Both are asked with each message: only of the parts that have something to say.
            if type(part).next_deadline is not Part.next_deadline:
                self._deadlines.append(part.next_deadline)
            if type(part).message_sent is not Part.message_sent:
                self._message_sent.append(part.message_sent)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    @property
    def idle(self) -> bool:
        return all(part.idle for part in self._parts)

    def next_deadline(self) -> float | None:
        if self.changed:
            # Compiled code may count messages in the place of a part.
            self.changed = bool(self._message_sent)
            self._next = min(
                [due for deadline in self._deadlines if (due := deadline()) is not None], default=None
            )
        return self._next

    def tick(self, _event: Tick, now: float) -> list[Action]:
        """Does what is due."""
        return [action for part in self._parts for action in part.tick(now)]

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        return [action for part in self._parts for action in part.epoch_changed(now, first)]

    def local_changed(self, now: float) -> list[Action]:
        return [action for part in self._parts for action in part.local_changed(now)]

    def message_sent(self, interfaces: frozenset[int], now: float) -> list[Action]:
        if not self._message_sent:
            return []
        return [action for heard in self._message_sent for action in heard(interfaces, now)]

    def message_counts(self) -> list[MessageCounts] | None:
        """The counts of all parts that receive `message_sent`; None: one of them has no counts."""
        hearing = [part for part in self._parts if type(part).message_sent is not Part.message_sent]
        found = [part.message_counts() for part in hearing]
        return None if None in found else [counts for counts in found if counts is not None]

    def settle(self, _event: Settle, _now: float) -> list[Action]:
        """Nothing more is to be started unasked."""
        for part in self._parts:
            part.settle()
        return []


_CUT_OFF = Branch(LOCAL_INTERFACE, frozenset(), 0, frozenset(), frozenset())


class Context:
    """The identity of a router, its options, broadcast tables, counters and randomness.

    Attributes:
        node: the router's node identifier.
        incarnation: the high half of its sequence numbers.
        rng: source of jitter.
        content: what predicates and messages are.
        tables: the broadcast tables by epoch.
        parts: all parts of the router: a part tells the others through it.
    """

    __slots__ = (*("content", "counters", "incarnation", "node", "options"), *("parts", "rng", "tables"))

    def __init__(
        self, node: int, options: RouterOptions, incarnation: int, rng: random.Random, content: Content
    ) -> None:
        self.node = node
        self.options = options
        self.incarnation = incarnation
        self.rng = rng
        self.content = content
        self.counters = Counters()
        self.tables = BroadcastTables(node)
        self.parts = Parts()

    @property
    def epoch(self) -> int:
        """The epoch in which this router originates; 0 before the first."""
        current = self.tables.current
        return current.epoch if current is not None else 0

    def own_branch(self) -> Branch:
        """The root's part in this router's own tree; no children if the router is cut off from everyone."""
        current = self.tables.current
        return (current.branch(self.node) if current is not None else None) or _CUT_OFF

    def sequence_number(self, count: int) -> int:
        """The `count`-th number of this incarnation, from 1."""
        return self.incarnation << COUNTER_BITS | count

    def issued(self, frame_type: FrameType, seq: int, body: Body, flags: Flags = Flags.NONE) -> Frame:
        """A frame of this router, in the current epoch."""
        return Frame(frame_type, self.node, seq, self.epoch, self.options.hop_limit, body, flags)

    def partition(
        self, branch: Branch, epoch: int, destinations: Iterable[int]
    ) -> dict[int, tuple[int, ...]]:
        """Groups destinations by the interface that leads to them (slides on routing, part III: DRP).

        The next hop to a node x is the parent on T_x. This router is left out; a destination to which no
        child of the branch leads, which no router with the same tables sends, is dropped and counted.

        Args:
            branch: this router's part in the tree of the frame.
            epoch: of the frame, which the router has tables of.
            destinations: nodes, in ascending order.

        Returns:
            Interface -> its destinations, in ascending order.
        """
        table = self.tables.get(epoch)
        assert table is not None
        parts: dict[int, list[int]] = {}
        for node in destinations:
            if node == self.node:
                continue
            towards = table.branch(node)
            if towards is None or towards.parent not in branch.on_tree:
                self.counters.drop(Drop.DESTINATION)
            else:
                parts.setdefault(towards.parent, []).append(node)
        return {interface: tuple(nodes) for interface, nodes in parts.items()}

    def drop(self, reason: Drop) -> list[Action]:
        """Counts what was dropped; no actions."""
        self.counters.drop(reason)
        return []
