"""FLUSHes that come in: copies to be cached, custody of pending publications, and answers."""

from __future__ import annotations

from router.options import SECONDS_MAX
from router.protocol.attention.cache import Cached, PublicationId
from router.protocol.attention.events import Index, Whence
from router.protocol.attention.flushing import Flushing
from router.protocol.attention.recent import Recent
from router.protocol.attention.relay import Relay
from router.protocol.attention.state import State
from router.protocol.counters import Drop
from router.protocol.events import Action
from router.wire.frames import Frame, Publication, PublicationFlags

#: Publications taken into custody that a router remembers: the FLUSH may be repeated.
_TAKEN_REMEMBERED = 4096
_ANSWERS = PublicationFlags.TAKEN | PublicationFlags.REFUSED


class FlushIntake:
    """Takes FLUSHes.

    Args:
        state: of the router.
        relay: delivers and caches.
        flushing: sends answers, and receives them.
    """

    def __init__(self, state: State, relay: Relay, flushing: Flushing) -> None:
        self._state = state
        self._relay = relay
        self._flushing = flushing
        self._taken: Recent[PublicationId] = Recent(_TAKEN_REMEMBERED)

    def received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        """A neighbour flushes a publication, or answers."""
        state, body = self._state, frame.body
        assert isinstance(body, Publication)
        state.context.counters.flushes_received += 1
        if body.flags & _ANSWERS:
            return self._flushing.answered(interface, body, now)
        id_ = (body.source, body.seq)
        uploaded_at = now - min(body.age_us / 1e6, SECONDS_MAX)
        admitted = state.cache.admits(
            Cached(id_, body.message, uploaded_at, now),
            Index.PPT if body.flags & PublicationFlags.CUSTODY else Index.DPT,
        )
        if not body.flags & PublicationFlags.CUSTODY:
            if state.cache.get(id_) is not None:
                return []
            # Row T4, or T1 if a local subscription takes it: a copy whose history is not known.
            actions = self._relay.arrived(body, now, False, False, {}, admitted, flushed=True)
            return actions + self._relay.evict(now, flush=False)
        if id_ in self._taken:
            return self._flushing.answer(interface, body, PublicationFlags.TAKEN)
        if state.cache.get(id_) is not None or id_ in state.delivered:
            # Who is known to have had it contradicts that it is pending at the neighbour.
            state.context.drop(Drop.FLUSH_UNEXPECTED)
            return self._flushing.answer(interface, body, PublicationFlags.REFUSED)
        if not admitted:
            return self._flushing.answer(interface, body, PublicationFlags.REFUSED)
        self._taken.add(id_)
        return [
            *self._flushing.answer(interface, body, PublicationFlags.TAKEN),
            *self._relay.admit(id_, body.message, uploaded_at, Whence.REMOTE, now, flushed=True),
        ]
