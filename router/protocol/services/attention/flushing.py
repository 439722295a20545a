"""Flushing: publications that a full cache replaces go to neighbours (attention paper, section 4.1.2).

The paper floods copies, in the neighbourhood of a router or in the whole network. A copy of a pending
publication would make two routers hold it as pending, and a refreshed subscription could get it twice. So a
pending publication that no subscription has had moves to one neighbour, which takes custody of it and says
so; until then its former holder repeats the FLUSH, and uses the publication no more. Of every other
publication all neighbours get a copy, with the flag PF off, which each router sends on once if `flushing` is
"network". A copy is not flushed a second time, and what a copy replaces is not flushed: evictions do not
cascade.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.predicates import Message
from router.protocol.bounds import Recent
from router.protocol.context import Timer
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.services.attention import Index
from router.protocol.services.attention.cache import Cached, PublicationId
from router.protocol.services.attention.rounds import State, microseconds
from router.wire.frames import Frame, FrameType, Publication, PublicationFlags

#: FLUSHes of one custody that are sent to a neighbour before it is given up, and seconds between them.
_ATTEMPTS = 3
_INTERVAL_S = 1.0
#: Publications of which a router remembers that it sent a copy.
_FLOODED = 16_384
#: Publications whose custody may be open at once; further ones are dropped.
_OPEN_MAX = 256
_EMPTY = Message({})


@dataclass(slots=True)
class _Transfer:
    """A publication whose custody is offered.

    Attributes:
        interfaces: the neighbours to ask; the first is asked now.
        attempts: FLUSHes that it has been sent.
    """

    cached: Cached
    interfaces: list[int]
    attempts: int
    timer: Timer


class Flushing:
    """Sends what the cache replaces, and keeps what is pending until a neighbour has taken custody.

    Args:
        state: of the router.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._context = state.context
        self._sent = 0
        self._open: dict[PublicationId, _Transfer] = {}
        #: Publications of which this router has sent a copy.
        self._flooded: Recent[PublicationId] = Recent(_FLOODED)

    @property
    def idle(self) -> bool:
        """True if no custody is open."""
        return not self._open

    def evict(self, now: float, flush: bool = True) -> list[Action]:
        """Makes the cache no larger than its capacity.

        Args:
            flush: what the cache replaces may be flushed.
        """
        actions: list[Action] = []
        for cached in self._state.cache.evict():
            self._context.counters.publications_evicted += 1
            actions += self._evicted(cached, flush, now)
        return actions

    def _evicted(self, cached: Cached, flush: bool, now: float) -> list[Action]:
        state = self._state
        interfaces = self._interfaces()
        flush = flush and state.options.flushing != "off" and not cached.flushed and not state.settled
        if not flush or not interfaces:
            return state.cache.left(cached, "evicted", now)
        actions = state.cache.left(cached, "flushed", now)
        if cached.index is not Index.PPT or cached.dispatched:
            self._flooded.add(cached.id)
            return [*actions, self._flush(frozenset(interfaces), cached, PublicationFlags.NONE, now)]
        if len(self._open) >= _OPEN_MAX:
            self._context.counters.custody_lost += 1
            return actions
        self._context.rng.shuffle(interfaces)
        return actions + self._offer(cached, interfaces, 0, now)

    def flood(self, interface: int, frame: Frame, id_: PublicationId) -> list[Action]:
        """Sends a copy that a neighbour flushed to the other neighbours, with `flushing = "network"`."""
        others = frozenset(self._interfaces()) - {interface}
        goes_on = self._state.options.flushing == "network" and frame.hop_limit > 1 and others
        if not goes_on or not self._flooded.add(id_):
            return []
        self._context.counters.flushes_sent += 1
        return [Send(others, frame.one_hop_less())]

    def answered(self, interface: int, body: Publication, now: float) -> list[Action]:
        """A neighbour has taken custody of a publication, or refuses it."""
        id_ = (body.source, body.seq)
        transfer = self._open.get(id_)
        if transfer is None or transfer.interfaces[0] != interface:
            return self._context.drop(Drop.FLUSH_UNEXPECTED)
        transfer.timer.cancel()
        del self._open[id_]
        if body.flags & PublicationFlags.TAKEN:
            return []
        if not transfer.interfaces[1:]:
            self._context.counters.custody_lost += 1
            return []
        # The neighbour does not have it: another may.
        return self._offer(transfer.cached, transfer.interfaces[1:], 0, now)

    def answer(self, interface: int, body: Publication, answer: PublicationFlags) -> list[Action]:
        """The answer to a FLUSH that offers custody."""
        reply = Publication(body.source, body.seq, body.age_us, _EMPTY, answer)
        return [Send(frozenset({interface}), self._frame(reply))]

    def _offer(self, cached: Cached, interfaces: list[int], attempts: int, now: float) -> list[Action]:
        timer = self._state.timers.set(now + _INTERVAL_S, lambda at: self._unanswered(cached.id, at))
        self._open[cached.id] = _Transfer(cached, interfaces, attempts + 1, timer)
        return [self._flush(frozenset(interfaces[:1]), cached, PublicationFlags.CUSTODY, now)]

    def _unanswered(self, id_: PublicationId, now: float) -> list[Action]:
        """Repeats a FLUSH; in the end the publication is lost, for the neighbour may have taken it."""
        transfer = self._open.pop(id_)
        interface = transfer.interfaces[0]
        if transfer.attempts >= _ATTEMPTS or interface not in self._interfaces() or self._state.settled:
            self._context.counters.custody_lost += 1
            return []
        return self._offer(transfer.cached, transfer.interfaces, transfer.attempts, now)

    def _interfaces(self) -> list[int]:
        current = self._context.tables.current
        return [] if current is None else sorted(current.neighbours)

    def _flush(
        self, interfaces: frozenset[int], cached: Cached, flags: PublicationFlags, now: float
    ) -> Action:
        age_us = microseconds(now - cached.uploaded_at)
        return Send(interfaces, self._frame(Publication(*cached.id, age_us, cached.message, flags)))

    def _frame(self, body: Publication) -> Frame:
        context = self._context
        self._sent += 1
        context.counters.flushes_sent += 1
        return context.issued(FrameType.FLUSH, context.sequence_number(self._sent), body)
