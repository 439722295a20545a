"""Receiver advertisements as a part of a router: issuing them, and passing on those of others.

Protocol paper, section 3.5.1. What an RA does to the tables, and whether it goes on, is the scheme's to say.

RA ingress filters decide which RAs go on to the routers below: the paper's own filter, and a filter that
loses no receiver (docs/adr/0002-ingress-filter-by-subtree.md).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from router.predicates import Predicate
from router.predicates.covering.bitset import Bits
from router.protocol.broadcast import Branch
from router.protocol.context import Context, Part, Period, earlier
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.options import RouterOptions
from router.protocol.routing import Report, RoutingTable
from router.wire.frames import Flags, Frame
from router.wire.header import LOCAL_INTERFACE


class AdvertisementSchedule:
    """Decides when the next RA is due.

    Two RAs of one router are at least `ra_min_interval_s` apart. Changes within that time wait and are
    advertised by one RA, which carries p0 as it then is: the last change is never lost.

    With exponential timers, a router that has issued an RA may issue the next at the points of a Poisson
    process, `ra_min_interval_s` apart in the mean, and the changes before a point wait for it.
    """

    def __init__(self, options: RouterOptions, rng: random.Random) -> None:
        self._options = options
        self._rng = rng
        self._due_at: float | None = None
        #: Of the periodic RAs; started with the first epoch.
        self.period = Period(options, rng, options.ra_period_s)
        self._issued_at: float | None = None
        #: The next point at which an RA may be issued, with exponential timers.
        self._point_at = 0.0

    @property
    def pending(self) -> bool:
        """True if an RA is due, now or later (periodic ones apart)."""
        return self._due_at is not None

    def next_deadline(self) -> float | None:
        return earlier(self._due_at, self.period.at)

    def ask(self, now: float, jitter: float | None = None) -> None:
        """p0 should be advertised, at random within `jitter` seconds (default: the option)."""
        within = self._options.ra_jitter_s if jitter is None else jitter
        at = self._allowed_at(now) + self._rng.random() * within
        self._due_at = at if self._due_at is None else min(self._due_at, at)

    def due(self, now: float) -> bool:
        """Whether p0 should be advertised at `now`; the answer yes settles what was asked."""
        if self.period.due(now):
            self.ask(now)
        if self._due_at is None or now < self._due_at:
            return False
        self._due_at = None
        return True

    def issued(self, now: float) -> None:
        """An RA went out."""
        self._issued_at = now

    def _allowed_at(self, now: float) -> float:
        """The earliest time, from `now` on, at which an RA may be issued."""
        least_s = self._options.ra_min_interval_s
        if self._issued_at is None:
            return now
        if self._options.timers == "fixed":
            return max(now, self._issued_at + least_s)
        # Without memory: the points that passed unused need not be drawn.
        if self._point_at <= now:
            self._point_at = now + self._options.time_drawn(self._rng, least_s)
        return self._point_at


class AdvertisementRules(Protocol):
    """The meaning of RAs in a scheme."""

    @property
    def ra_flags(self) -> Flags:
        """The flags of the RAs that this router issues."""

    def worth_advertising(self, filters: int) -> bool:
        """Whether an RA with a p0 of so many filters tells other routers anything."""

    def announced(self, local: Predicate) -> Predicate:
        """The predicate of an RA, which covers p0."""

    def advertised(self, branch: Branch, frame: Frame) -> Drop | None:
        """Takes an RA into the tables.

        Returns why it goes no further, or None: it goes on.
        """


class Advertising(Part):
    """Issues RAs by the schedule, and passes on those of other routers."""

    __slots__ = ("_context", "_counters", "_issued", "_routing", "_rules", "_schedule")

    def __init__(self, context: Context, routing: RoutingTable, rules: AdvertisementRules) -> None:
        self._context = context
        self._counters = context.counters
        self._routing = routing
        self._rules = rules
        self._schedule = AdvertisementSchedule(context.options, context.rng)
        self._issued = 0

    @property
    def idle(self) -> bool:
        """True if no RA is due (periodic ones apart)."""
        return not self._schedule.pending

    def next_deadline(self) -> float | None:
        return self._schedule.next_deadline()

    def tick(self, now: float) -> list[Action]:
        """An RA with p0, if the schedule says so."""
        context = self._context
        if not self._schedule.due(now):
            return []
        local = self._routing.local
        children = context.own_branch().children
        if not children or not self._rules.worth_advertising(len(local)):
            return []
        self._schedule.issued(now)
        self._issued += 1
        context.counters.ras_issued += 1
        number = context.sequence_number(self._issued)
        announced = self._rules.announced(local)
        frame = context.issued(context.content.advertisement_frame, number, announced, self._rules.ra_flags)
        return [Send(children, frame)]

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        if first:
            self._schedule.period.start(now)
        if self._rules.worth_advertising(len(self._routing.copy_of(LOCAL_INTERFACE))):
            # After the first epoch all routers change to a new one at the same moment.
            self._schedule.ask(now, None if first else self._context.options.readvertise_jitter_s)
        return self.tick(now)

    def local_changed(self, now: float) -> list[Action]:
        # Before the first epoch p0 waits: each new epoch makes an RA.
        if not self._context.options.ra_on_change or self._context.tables.current is None:
            return []
        self._schedule.ask(now)
        return self.tick(now)

    def settle(self) -> None:
        """No more periodic RAs."""
        self._schedule.period.stop()

    def received(self, branch: Branch, frame: Frame, _now: float) -> list[Action]:
        """An RA of another router came in."""
        counters = self._counters
        counters.ras_received += 1
        reason = self._rules.advertised(branch, frame)
        if reason is not None:
            return self._context.drop(reason)
        if not branch.children:
            return []
        if frame.hop_limit <= 1:
            return self._context.drop(Drop.HOP_LIMIT)
        counters.ras_forwarded += 1
        return [Send(branch.children, frame.one_hop_less())]


class CoveringFilter:
    """Section 3.5.1 to the letter: an RA is dropped when p_i covers it."""

    __slots__ = ("__weakref__", "_widened")

    def __init__(self, context: Context, routing: RoutingTable) -> None:  # noqa: ARG002
        #: Interfaces whose p_i claims what the routers beyond do not have.
        self._widened: set[int] = set()

    def accept(self, branch: Branch, frame: Frame, predicate: Predicate, changed: bool) -> bool:  # noqa: ARG002
        """Takes an RA that the table has; `Intake` has checked that the RA came in on `branch.parent`.

        Args:
            frame: the RA as it came in.
            predicate: its predicate, as the table took it.
            changed: whether p_i changed by it.

        Returns:
            False if the RA is covered and must go no further.
        """
        if frame.widened:
            # It goes on narrower, as its issuer signed it.
            self._widened.add(branch.parent)
        return changed or branch.parent in self._widened

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:
        """A UR to another router, about trees of `epoch`, says what is behind `interface`.

        Args:
            report: is not changed.
        """


class SubtreeFilter(CoveringFilter):
    """An RA is dropped when RAs of its own class cover it that the nodes below this router still know of.

    A class holds the issuers whose RAs come in on the same interface and whose trees have the same nodes
    below this router. F(class) is a predicate that every node below has in its table for the interface that
    leads to this router, or that is on its way there. p_i itself is the disjunction over all classes. It may
    cover an RA that still has to go on, and the table of a router says nothing of the tables of others: every
    RA goes into p_i, and SRs of this router leave F unchanged.

    **Hop limits.** An RA reaches the nodes that are as many hops below this router as it has hops left. F is
    therefore kept by hops: F(h) holds the RAs that had h hops left or more, and an RA with h hops left is
    compared with F(h). More hops than the subtree can be deep count as its depth (`Branch.depth`),
    so that hop limits that reach everywhere make no difference.

    **Signatures.** A signed RA that exceeds a bound of this router goes on as its issuer signed it, and only
    this router takes it widened: it goes into p_i, leaves F as it is, and always goes on.

    *Then every node at most h hops below this router w has F(h) in its table, or on its way there.* By
    induction on h: a child c of w takes each RA of F(h) with h - 1 hops left or more. It widens its table; it
    passes the RA on, or its own F(h - 1) covers the RA. The same sources are in one class at c, since the
    nodes below w, and so below c, are the same. A node at most h hops below w is c, or at most h - 1 hops
    below a child c. If w drops an RA with h hops left, the nodes that the RA could have reached know F(h),
    which covers it. What follows holds for each F(h): the RAs that stand in for another one have as many
    hops left as it has, and a UR from which a node is missing, because the SR had too few hops, is PARTIAL.

    **Trimming.** Let u, below this router w, send an SR through w. When it is answered in full, u replaces
    what it knew by its UR, and F may then claim too much: if r narrows p0 from p to q, u trims, and r widens
    back to p, an F that still covers p would drop an RA that u needs. So w intersects F with each whole
    UR that it takes from a child c for another's SR (`restrict_to`), and a router that collects a UR
    adds to it every RA that comes in on c in the meantime (`replies`).

    *Then nothing is lost*, if links do not lose; that they may reorder, docs/adr/0032 adds. Let the path from
    u to r be u = x0, x1, ..., xk = r, and let A_j be the time when x_j sends its UR towards u. What r
    advertised before A_k its UR says.
    Take an RA q that r issues after A_k. Either it reaches u (which widens its table, and adds to the UR the
    RAs that came in since its SR), or some x_j drops it:

    - before the UR of x_(j+1) came in. Then q left x_(j+1) before A_(j+1). Go down the path to the first x_m
      that took q after the UR of x_(m+1); there is one, as r sent q after its UR. It had not answered yet, so
      its UR contains q, and so does u's.
    - after that UR, before A_j: the UR of x_j contains q.
    - after A_j: F(x_j) covers q. F lay within the UR of x_(j+1) and the RAs added to it, all of which
      x_j's UR contains, and has grown by RAs that x_j took before A_j (its UR contains them) or passed on
      towards u behind its UR, and those u learns of, by induction on j.

    A router that answers for c from its own table bounds F by that answer in the same way; whatever F
    of a router further down covers has reached, or is on its way to, the one that answered. A PARTIAL UR
    trims no table, so it bounds nothing. The intersection need only be bounded from above: too small an F
    costs RAs, never receivers.

    **Size.** A UR that this router asked for replaces p_i, and leaves F as it is: F can grow while p_i does
    not. With more than twice `table_filters` filters F is forgotten, and later RAs go on as if none had come
    before.

    The branches of the tables keep F: the controller numbers the classes of each router and epoch.
    """

    __slots__ = ("_limit", "_most", "_pool", "_tables")

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        #: Filters of F over all its classes.
        self._limit = 2 * context.options.table_filters
        self._pool = context.content.pool
        self._tables = context.tables
        #: How many filters all F have at most.
        self._most = 0
        self._pool.register(self)
        routing.ingress_is_full = self.has_as_many

    @property
    def members(self) -> Bits:
        """All filters of all F."""
        found: Bits = 0
        for _, branch in self.branches():
            for known in branch.advertised.values():
                found |= known
        return found

    def branches(self) -> Iterator[tuple[int, Branch]]:
        """The classes that have F, of all epochs in use, each with its epoch."""
        for table in self._tables.held():
            for branch in table.classes.made:
                if branch is not None and branch.advertised:
                    yield table.epoch, branch

    def has_as_many(self, filters: int) -> bool:
        """Whether all F together have so many filters."""
        if self._most < filters:
            return False
        self._most = self.members.bit_count()
        return self._most >= filters

    def accept(self, branch: Branch, frame: Frame, predicate: Predicate, changed: bool) -> bool:  # noqa: ARG002
        """Widens F by an RA; returns whether F did not cover it."""
        if frame.widened:
            return True  # F must not claim what does not go on
        hops = min(frame.hop_limit - 1, branch.depth)
        if self._most >= self._limit and self.has_as_many(self._limit):
            for _, each in self.branches():
                each.advertised.clear()
            self._most = 0
        numbers = self._pool.numbers(predicate)
        self._most += len(numbers)
        # An entry holds what is in the entries of more hops as well.
        levels = branch.advertised
        known = levels.get(hops)
        if known is None:
            known = levels[min(above)] if (above := [level for level in levels if level > hops]) else 0
        widened = self._pool.add(known, numbers)
        if widened == known:
            return False
        for level, before in levels.items():
            if level < hops:
                levels[level] = widened if before == known else self._pool.add(before, numbers)
        levels[hops] = widened
        return True

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:  # noqa: ARG002
        """Intersects F with the report in every class of the interface: any may hold the SR's issuer."""
        bound = report[interface].members
        for _, branch in self.branches():
            if branch.parent == interface:
                self._restrict(branch, bound)

    def _restrict(self, branch: Branch, bound: Bits) -> None:
        for hops, known in branch.advertised.items():
            if not self._pool.covers_all(bound, known):
                branch.advertised[hops] = restricted = self._pool.restricted(known, bound)
                self._most += restricted.bit_count()
