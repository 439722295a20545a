"""FLUSHes that come in: copies to be cached, custody of pending publications, and answers."""

from __future__ import annotations

from router.options import SECONDS_MAX
from router.protocol.attention.cache import Cached, PublicationId
from router.protocol.attention.events import Index, Whence
from router.protocol.attention.flushing import Flushing
from router.protocol.attention.relay import Relay
from router.protocol.attention.state import State
from router.protocol.counters import Drop
from router.protocol.events import Action
from router.wire.frames import Frame, Publication, PublicationFlags

#: Answers to offers of custody that a router remembers: the FLUSH may be repeated.
_ANSWERS_REMEMBERED = 4096
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
        #: Interface and publication -> the answer to the FLUSH that offered custody.
        self._answers: dict[tuple[int, PublicationId], PublicationFlags] = {}

    def received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        """A neighbour flushes a publication, or answers."""
        state, body = self._state, frame.body
        assert isinstance(body, Publication)
        state.context.counters.flushes_received += 1
        if body.flags & _ANSWERS:
            return self._flushing.answered(interface, body, now)
        if self._relay.forged(body):
            return state.context.drop(Drop.PUBLICATION_FORGED)
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
        # The first answer holds: the neighbour asks others after a refusal, and may have repeated its FLUSH.
        answered = self._answers.get((interface, id_))
        if answered is not None:
            return self._flushing.answer(interface, body, answered)
        # Who is known to have had the publication contradicts that it is pending at the neighbour.
        unknown = state.cache.get(id_) is None and id_ not in state.delivered
        if not unknown:
            state.context.drop(Drop.FLUSH_UNEXPECTED)
        taken = unknown and admitted
        answer = PublicationFlags.TAKEN if taken else PublicationFlags.REFUSED
        self._remember((interface, id_), answer)
        actions = self._flushing.answer(interface, body, answer)
        if taken:
            actions += self._relay.admit(id_, body.message, uploaded_at, Whence.REMOTE, now, flushed=True)
        return actions

    def _remember(self, offer: tuple[int, PublicationId], answer: PublicationFlags) -> None:
        if len(self._answers) >= _ANSWERS_REMEMBERED:
            del self._answers[next(iter(self._answers))]
        self._answers[offer] = answer
