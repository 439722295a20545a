"""The way of publications and subscriptions through a router.

Attention paper, sections 4.1 (indexes), 4.2 (scoped routing of subscriptions), 4.3 (dissemination) and 4.4.
PUBs name the homes that they are for, and are forwarded as the messages of the scheme "drp" are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from router.options import SECONDS_MAX
from router.predicates import Message
from router.protocol.bounds import Allowances, Recent
from router.protocol.broadcast import Branch
from router.protocol.counters import Drop
from router.protocol.events import Action, Send
from router.protocol.services.attention import Index, Origin, Upload, Uploaded
from router.protocol.services.attention.cache import Cached, PublicationId
from router.protocol.services.attention.dissemination import Trigger, fan_out, transition
from router.protocol.services.attention.flushing import Flushing
from router.protocol.services.attention.rounds import Homes, State, microseconds
from router.protocol.services.attention.subscriptions import NEVER, UNKNOWN, Entry, Walk, weight_of
from router.wire.attention import MAX_OFFERED
from router.wire.frames import (
    Frame,
    FrameType,
    Overload,
    Publication,
    PublicationFlags,
    Subscription,
    SubscriptionFlags,
)

_PENDING = frozenset({Index.PPT})
_ALL = frozenset(Index)
#: Constraints of the table with which publications that a SUB releases are compared at once, about.
_COMPARED_AT_ONCE = 2**16
#: SUBs of one round that a router takes; a home sends one, and one to top up.
_SUBS_A_ROUND = 8
#: Comparisons with publications of the cache that the SUBs of one neighbour may cause at once, and in a
#: second for long: a tenth of the time of a router.
_COMPARISONS_AT_ONCE, _COMPARISONS = 3_000_000, 300_000
_SEQ_BITS = 64
_ANSWERS = PublicationFlags.TAKEN | PublicationFlags.REFUSED
#: Answers to offers of custody that a router remembers: the FLUSH may be repeated.
_ANSWERS_REMEMBERED = 4096
#: PUBs of which a router remembers issuer and number.
_PUBS_REMEMBERED = 16_384


class Relay:
    """Takes uploads, SUBs, PUBs, OVERLOADs and FLUSHes.

    Args:
        state: of the router.
        homes: its local subscriptions.
        flushing: what becomes of publications that the cache replaces.
    """

    def __init__(self, state: State, homes: Homes, flushing: Flushing) -> None:
        self._state = state
        self._context = state.context
        self._homes = homes
        self._flushing = flushing
        self._uploaded = self._issued = 0
        #: Issuer and number, as one integer, of the PUBs that came: a copy may come after the publication was
        #: evicted.
        self._came: Recent[int] = Recent(_PUBS_REMEMBERED)
        #: Interface, publication, and the answer to the FLUSH that offered custody.
        self._answers: Recent[tuple[int, PublicationId, PublicationFlags]] = Recent(_ANSWERS_REMEMBERED)
        #: By the interface of a neighbour.
        self._allowances = Allowances(_COMPARISONS_AT_ONCE, _COMPARISONS)
        #: SUBs that came so far, and home -> the number of its last one.
        self._subs = 0
        self._last_sub: dict[int, int] = {}

    # Uploads.

    def upload(self, event: Upload, now: float) -> list[Action]:
        self._uploaded += 1
        self._context.counters.publications_uploaded += 1
        id_ = (self._context.node, self._context.sequence_number(self._uploaded))
        answer = Uploaded(event.app, *id_, event.message, now)
        return [answer, *self._admit(id_, event.message, now, Origin.UPLOAD, now)]

    def _admit(
        self,
        id_: PublicationId,
        message: Message,
        uploaded_at: float,
        origin: Origin,
        now: float,
        flushed: bool = False,
    ) -> list[Action]:
        """A publication that no subscription has had begins at this router (rows U1 to U4).

        Args:
            flushed: this router takes custody of it; what it replaces is not flushed.
        """
        state, age_s = self._state, now - uploaded_at
        boxes = state.boxes.takers(id_, message, age_s, NEVER, now)
        entries = self._reachable(state.table.matching(message, age_s, now))
        pushed = state.strategy.pushes((entry.deadline for entry in entries), now)
        cached = Cached(id_, message, uploaded_at, now, flushed)
        actions = state.cache.add(cached, transition(Trigger.UPLOAD, bool(boxes), pushed), now)
        actions += self._homes.deliver(boxes, id_, message, age_s, origin, now)
        if pushed:
            if state.strategy.counts_pushes:
                self._count(entries)
            actions += self._send(cached, entries, PublicationFlags.PENDING, now)
        return actions + self._flushing.evict(now, not flushed)

    def _count(self, entries: Iterable[Entry]) -> None:
        """A publication goes to subscriptions; those that lack no further one are satisfied."""
        for entry in entries:
            if entry.remaining:
                entry.remaining -= 1
            if not entry.remaining:
                self._state.table.deactivate(entry)

    def _reachable(self, entries: list[Entry]) -> list[Entry]:
        """The entries to whose homes this router's tree goes on, in the current epoch."""
        table = self._context.tables.current
        if table is None or not entries:
            return []
        on_tree = self._context.own_branch().on_tree
        found = []
        for entry in entries:
            towards = table.branch(entry.id[0])
            if towards is not None and towards.parent in on_tree:
                found.append(entry)
        return found

    def _send(
        self, cached: Cached, entries: Iterable[Entry], flags: PublicationFlags, now: float
    ) -> list[Action]:
        """Sends a publication of the cache to the homes of subscriptions."""
        context = self._context
        homes = sorted({entry.id[0] for entry in entries})
        for home in homes:
            cached.served[home] = self._subs
        self._state.cache.used(cached, now)
        self._issued += 1
        context.counters.pubs_issued += 1
        body = Publication(*cached.id, microseconds(now - cached.uploaded_at), cached.message, flags)
        frame = context.issued(FrameType.PUB, context.sequence_number(self._issued), body)
        return _sends(frame, body, context.partition(context.own_branch(), context.epoch, homes), 0)

    # SUBs.

    def sub_received(self, branch: Branch | int, frame: Frame, now: float) -> list[Action]:
        """A subscription of another router passes: takes what is cached here, and goes on for the rest."""
        state, context, body = self._state, self._context, frame.body
        assert isinstance(body, Subscription)
        id_ = (frame.issuer, frame.seq)
        context.counters.subs_received += 1
        if isinstance(branch, int):
            return self._sub_returned(branch, frame, body, now)
        known = state.table.get(id_, now)
        if known is not None and (
            body.round < known.round or (body.round == known.round and body.nonce in known.nonces)
        ):
            return context.drop(Drop.SUB_OLD)
        weight = weight_of(body.predicate)
        again = known is not None and known.round == body.round and len(known.nonces) >= _SUBS_A_ROUND
        keeps = state.keeps(weight, known, branch.parent)
        left, work = self._allowances.left(branch.parent, now), state.cache.comparisons(body.predicate)
        lives = body.lifetime_left_us and body.remaining
        if again or not keeps or not lives or work > left:
            context.drop(Drop.SUB_REFUSED)
            if state.options.fan_out != "sequential" or not lives:
                return []
            context.counters.subs_forwarded += 1
            return [Send(frozenset({branch.parent}), frame)]
        self._allowances.charge(branch.parent, work, now)
        deadline = now + min(body.lifetime_left_us / 1e6, SECONDS_MAX)
        freshness_s = min(body.freshness_us / 1e6, SECONDS_MAX)
        entry = Entry(
            id_, body.round, body.predicate, deadline, freshness_s, body.remaining, weight, branch.parent
        )
        if known is not None and known.round == body.round:
            entry.nonces = known.nonces
            entry.forwarded_to = known.forwarded_to
        entry.nonces += (body.nonce,)
        state.table.add(entry)
        self._subs += 1
        self._last_sub[frame.issuer] = self._subs
        push_at = state.strategy.push_at(deadline)
        if push_at is not None and push_at > now:
            entry.push = state.searches.set(push_at, lambda at: self._push(entry, at))
        return self._serve(entry, frame, body.offered, now)

    def _serve(
        self,
        entry: Entry,
        frame: Frame,
        known: tuple[PublicationId, ...],
        now: float,
        found: deque[Cached] | None = None,
    ) -> list[Action]:
        """Sends a subscription what it may take here, and the SUB on with the rest (section 4.2).

        Args:
            known: publications that the subscription has been offered before.
            found: of an earlier search of the cache, what is not sent yet; None: the cache is searched.
        """
        options, context, body = self._state.options, self._context, frame.body
        assert isinstance(body, Subscription)
        everything = options.remote == "all" and not body.flags & SubscriptionFlags.REFRESHED
        indexes = _ALL if everything else _PENDING
        left = self._found(entry, indexes, known, now) if found is None else found
        actions, offered = self._offer(entry, indexes, left, now)
        if everything:
            known += offered
        if left:
            entry.rest = self._state.searches.set(now, lambda at: self._serve(entry, frame, known, at, left))
            return actions
        if not entry.active or now >= entry.deadline:
            return actions
        # The SUB came in an epoch that may have been retired since.
        table = context.tables.get(frame.epoch)
        branch = None if table is None else table.branch(frame.issuer)
        if branch is None:
            return actions + context.drop(Drop.UNKNOWN_EPOCH)
        children = branch.on_tree
        if children and frame.hop_limit <= 1:
            children = frozenset()
            context.drop(Drop.HOP_LIMIT)
        if options.fan_out == "sequential":
            entry.walk = Walk.of(frame, body, children)
            return actions + self._walk(entry, entry.walk, known, now)
        if not children:
            return actions
        left_us = min(body.lifetime_left_us, microseconds(entry.deadline - now))
        for asked, through in fan_out(options.fan_out, entry.remaining, children).items():
            context.counters.subs_forwarded += 1
            entry.forwarded_to |= through
            rest = replace(body, remaining=asked, offered=known[:MAX_OFFERED], lifetime_left_us=left_us)
            actions.append(Send(through, frame.one_hop_less() if rest == body else _carrying(rest, frame)))
        return actions

    def _sub_returned(self, interface: int, frame: Frame, body: Subscription, now: float) -> list[Action]:
        """A child sends a SUB back: it and the routers behind it have nothing more for the subscription."""
        if frame.issuer == self._context.node:
            return self._homes.sub_returned(interface, frame, now)
        entry = self._state.table.get((frame.issuer, frame.seq), now)
        walk = None if entry is None else entry.walk
        if entry is None or walk is None or not walk.came_back(interface, frame):
            # An entry ends before those of its children, by the time on links.
            late = frame.issuer in self._last_sub if entry is None else entry.gave_up(body)
            late = late and self._state.options.fan_out == "sequential"
            return self._context.drop(Drop.SUB_OLD if late else Drop.REVERSE_PATH)
        if self._state.options.count_in_transit:
            # What the child offered may have been counted when it passed.
            entry.remaining = min(entry.remaining, body.remaining)
        else:
            entry.remaining = max(0, entry.remaining - max(0, walk.asked - body.remaining))
        goes_on = entry.active and entry.remaining
        return self._walk(entry, walk, body.offered, now) if goes_on else []

    def _walk(self, entry: Entry, walk: Walk, offered: tuple[PublicationId, ...], now: float) -> list[Action]:
        """Sends a SUB to the next child, or back where it came from when all have sent it back."""
        self._context.counters.subs_forwarded += 1
        asked = frozenset(walk.children[:1])
        walk.asked = entry.remaining
        entry.forwarded_to |= asked
        left_us = min(walk.body.lifetime_left_us, microseconds(entry.deadline - now))
        bare, offered = walk.body, offered[:MAX_OFFERED]
        rest = replace(bare, remaining=entry.remaining, lifetime_left_us=left_us, offered=offered)
        hops = 1 if asked else 0
        return [Send(asked or frozenset({entry.interface}), _carrying(rest, walk.frame, hops))]

    def _push(self, entry: Entry, now: float, found: deque[Cached] | None = None) -> list[Action]:
        """Sends the pending publications that a subscription may need, before its deadline (row P1)."""
        if not entry.active or self._state.settled:
            return []
        left = self._found(entry, _PENDING, (), now) if found is None else found
        actions, _ = self._offer(entry, _PENDING, left, now)
        if left:
            # Not `rest`: the SUB itself may still wait there.
            entry.push = self._state.searches.set(now, lambda at: self._push(entry, at, left))
        return actions

    def _found(
        self, entry: Entry, indexes: frozenset[Index], known: tuple[PublicationId, ...], now: float
    ) -> deque[Cached]:
        """The publications of the cache that a subscription may take, in the order of selection.

        Args:
            indexes: those that may be used.
            known: publications that the subscription has been offered before.
        """
        before, oldest_at = frozenset(known), now - entry.freshness_s
        return deque(
            self._state.cache.select(
                entry.predicate, entry.remaining, indexes, oldest_at, lambda cached: cached.id not in before
            )
        )

    def _offer(
        self, entry: Entry, indexes: frozenset[Index], found: deque[Cached], now: float
    ) -> tuple[list[Action], tuple[PublicationId, ...]]:
        """Sends a subscription the first of the publications found, as many at once as the table allows.

        A pending publication is compared with the whole table, so that other events come in between.

        Args:
            indexes: those that may be used.
            found: loses those that are sent, or no longer fit; all, if the subscription needs no more.

        Returns:
            The actions, and the publications that are sent.
        """
        state = self._state
        actions: list[Action] = []
        offered: list[PublicationId] = []
        most = 1 + _COMPARED_AT_ONCE // (64 + state.table.weight)
        takes = now < entry.deadline and bool(self._reachable([entry]))
        while takes and entry.active and found and len(offered) < most:
            cached = found.popleft()
            # It may have left the cache, or been sent to others, since the search.
            fresh = cached.uploaded_at >= now - entry.freshness_s
            if cached.place is None or cached.index not in indexes or not fresh:
                continue
            offered.append(cached.id)
            if cached.index is Index.PPT:
                # Row P1: for the first time, and to all homes at once.
                matching = state.table.matching(cached.message, now - cached.uploaded_at, now)
                # Rounding must not leave the subscription itself out.
                others = [each for each in self._reachable(matching) if each is not entry]
                if state.strategy.counts_pushes:
                    self._count(others)
                actions += state.cache.move(cached, transition(Trigger.SELECTED, cached.dispatched), now)
                actions += self._send(cached, [entry, *others], PublicationFlags.PENDING, now)
            else:
                actions += self._send(cached, [entry], PublicationFlags.NONE, now)
            self._count([entry])
        if not takes or not entry.active:
            found.clear()
        return actions, tuple(offered)

    # OVERLOADs.

    def overload_received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        """A home needs nothing more for a subscription in a round."""
        body, context = frame.body, self._context
        assert isinstance(body, Overload)
        context.counters.overloads_received += 1
        entry = self._state.table.get((frame.issuer, frame.seq), now)
        if entry is None or entry.round > body.round:
            return context.drop(Drop.OVERLOAD_LATE)
        self._state.table.deactivate(entry)
        interfaces, entry.forwarded_to = entry.forwarded_to & branch.on_tree, frozenset()
        if not interfaces:
            return []
        if frame.hop_limit <= 1:
            return context.drop(Drop.HOP_LIMIT)
        return [Send(interfaces, frame.one_hop_less())]

    # PUBs.

    def pub_received(self, branch: Branch, frame: Frame, now: float) -> list[Action]:
        """A publication of another router: for homes behind this one, for this one, or for both."""
        context, body = self._context, frame.body
        assert isinstance(body, Publication)
        context.counters.pubs_received += 1
        if not self._came.add(frame.issuer << _SEQ_BITS | frame.seq):
            return context.drop(Drop.PUB_DUPLICATE)
        if self._forged(body):
            return context.drop(Drop.PUBLICATION_FORGED)
        parts = context.partition(branch, frame.epoch, self._unserved(body))
        # Most have no flag, and enumerations combine flags in Python.
        pending = body.flags is not PublicationFlags.NONE and bool(body.flags & PublicationFlags.PENDING)
        actions = self._arrived(body, now, pending, parts, self._state.options.en_route)
        if parts:
            if frame.hop_limit > 1:
                context.counters.pubs_forwarded += 1
                actions += _sends(frame, body, parts, 1)
            else:
                context.drop(Drop.HOP_LIMIT)
        return actions + self._flushing.evict(now)

    def _forged(self, body: Publication) -> bool:
        """Whether a publication claims an identifier that an upload at this router is still to get."""
        context = self._context
        return body.source == context.node and body.seq > context.sequence_number(self._uploaded)

    def _unserved(self, body: Publication) -> list[int]:
        """The homes of a PUB that have not been sent the publication since they asked last (section 4.4)."""
        cached = self._state.cache.get((body.source, body.seq))
        if cached is None:
            return list(body.homes)
        homes = []
        for home in body.homes:
            if home != self._context.node and cached.served.get(home, -1) >= self._last_sub.get(home, 0):
                self._context.drop(Drop.HOME_SERVED)
            else:
                homes.append(home)
        return homes

    def _arrived(
        self,
        body: Publication,
        now: float,
        pending: bool,
        parts: Mapping[int, tuple[int, ...]],
        en_route: bool,
        flushed: bool = False,
    ) -> list[Action]:
        """Delivers a publication that a frame brought, and chooses its index (rows T1 to T6).

        Args:
            pending: the flag PF of the frame.
            parts: the homes to which it goes on, by interface.
            en_route: whether it may be cached although no subscription of this router needs it.
            flushed: it is a copy that another router flushed.
        """
        state = self._state
        id_ = (body.source, body.seq)
        age_s = min(body.age_us / 1e6, SECONDS_MAX)
        cached = state.cache.get(id_)
        number = state.delivered.number(id_)
        new = pending and cached is None and number is None
        first: float = UNKNOWN
        if (cached is not None and cached.untouched) or (pending and number is None):
            first = NEVER
        elif pending and number is not None:
            # A copy without the flag may overtake the one with it.
            first = number
        boxes = state.boxes.takers(id_, body.message, age_s, first, now)
        addressed = self._context.node in body.homes
        if addressed and not boxes:
            self._context.counters.publications_overload += 1
        actions: list[Action] = []
        if cached is not None:
            if boxes:
                actions += self._homes.taken(cached, now)
        else:
            # A flushed copy is for others, although it goes no further now: row T4 or T5.
            beyond = bool(parts) or flushed
            row = transition(Trigger.ARRIVAL, bool(boxes), new, beyond, addressed, en_route)
            if row.after is not None:
                cached = Cached(id_, body.message, now - age_s, now, flushed)
                actions = state.cache.add(cached, row, now)
        if cached is not None:
            for homes in parts.values():
                for home in homes:
                    cached.served[home] = self._subs
        if state.options.count_in_transit and parts:
            onward = {home for homes in parts.values() for home in homes}
            self._count(
                [each for each in state.table.matching(body.message, age_s, now) if each.id[0] in onward]
            )
        return actions + self._homes.deliver(boxes, id_, body.message, age_s, Origin.REMOTE, now)

    # FLUSHes.

    def flush_received(self, interface: int, frame: Frame, now: float) -> list[Action]:
        """A neighbour flushes a publication, or answers (section 4.1.2)."""
        state, body = self._state, frame.body
        assert isinstance(body, Publication)
        self._context.counters.flushes_received += 1
        if body.flags & _ANSWERS:
            return self._flushing.answered(interface, body, now)
        if self._forged(body):
            return self._context.drop(Drop.PUBLICATION_FORGED)
        id_, custody = (body.source, body.seq), bool(body.flags & PublicationFlags.CUSTODY)
        uploaded_at = now - min(body.age_us / 1e6, SECONDS_MAX)
        cached = Cached(id_, body.message, uploaded_at, now)
        admitted = state.cache.admits(cached, Index.PPT if custody else Index.DPT)
        known = state.cache.get(id_) is not None
        if not custody:
            flooded = self._flushing.flood(interface, frame, id_)
            if known:
                return flooded
            # Row T4, or T1 if a local subscription takes it: a copy whose history is not known.
            actions = self._arrived(body, now, False, {}, admitted, flushed=True)
            return flooded + actions + self._flushing.evict(now, flush=False)
        # The first answer holds: the neighbour asks others after a refusal, and may have repeated its FLUSH.
        for answered in (PublicationFlags.TAKEN, PublicationFlags.REFUSED):
            if (interface, id_, answered) in self._answers:
                return self._flushing.answer(interface, body, answered)
        # A publication that this router cached or delivered cannot be pending at the neighbour.
        known = known or id_ in state.delivered
        if known:
            self._context.drop(Drop.FLUSH_UNEXPECTED)
        taken = admitted and not known
        answer = PublicationFlags.TAKEN if taken else PublicationFlags.REFUSED
        self._answers.add((interface, id_, answer))
        actions = self._flushing.answer(interface, body, answer)
        if taken:
            actions += self._admit(id_, body.message, uploaded_at, Origin.REMOTE, now, flushed=True)
        return actions


def _sends(frame: Frame, body: Publication, parts: Mapping[int, tuple[int, ...]], hops: int) -> list[Action]:
    """The frames that carry a publication on, one for each interface.

    Args:
        hops: 0 at the router that issues the frame; 1 at those that send it on.
    """
    return [
        Send(
            frozenset({interface}),
            _carrying(body if homes == body.homes else replace(body, homes=homes), frame, hops),
        )
        for interface, homes in sorted(parts.items())
    ]


def _carrying(body: Subscription | Publication, frame: Frame, hops: int = 1) -> Frame:
    """The frame with another body, so many hops on."""
    return Frame(frame.type, frame.issuer, frame.seq, frame.epoch, frame.hop_limit - hops, body, frame.flags)
