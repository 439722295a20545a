"""A network of protocol cores with the attention-limited service, checked after every event.

The checks are the invariants I1 to I4 of docs/explanation/attention.md, and what each subscription may get:
nothing twice over all rounds (RQ), no more than `max` in a round, nothing that does not match or is too old,
and nothing after the deadline.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import get_args

from hypothesis import strategies as st

from router.predicates import Message, matches
from router.predicates.parser import parse_predicate
from router.protocol.events import Action, Event, Send
from router.protocol.options import RouterOptions
from router.protocol.services.attention import (
    DeliverPublication,
    Index,
    Outcome,
    Refresh,
    Register,
    Registered,
    RoundEnded,
    Unregister,
    Unregistered,
    Upload,
    Uploaded,
)
from router.protocol.services.attention.cache import PublicationId
from router.protocol.services.attention.dissemination import (
    AttentionOptions,
    FanOut,
    Flushed,
    PolicyName,
    Scheduler,
    StrategyName,
)
from router.protocol.services.attention.rounds import State
from router.protocol.services.attention.service import Attention
from router.wire.frames import FrameType, Publication, PublicationFlags
from tests.support.protocol_network import Graph, Network

#: Rounding of ages and lifetimes to microseconds, at every hop.
_ROUNDING_S = 1e-4
APP = 1
Key = tuple[int, int]


#: Every option of the service.
ANY_OPTIONS = st.builds(
    AttentionOptions,
    strategy=st.sampled_from(get_args(StrategyName)),
    remote=st.sampled_from(["pending", "all"]),
    fan_out=st.sampled_from(get_args(FanOut)),
    cache_publications=st.sampled_from([1, 2, 5, 1000]),
    selection=st.sampled_from(get_args(PolicyName)),
    selection_types=st.booleans(),
    replacement=st.sampled_from(get_args(PolicyName)),
    replacement_types=st.sampled_from(["ignored", "pending-first", "disseminated-first"]),
    en_route=st.booleans(),
    flushing=st.sampled_from(get_args(Flushed)),
    pace_mbps=st.sampled_from([None, 0.01]),
    scheduler=st.sampled_from(get_args(Scheduler)),
    queue_publications=st.sampled_from([1, 3, 64]),
    beta_s=st.sampled_from([0.0, 0.2, 1.0]),
    top_up_s=st.sampled_from([None, 0.3]),
    history=st.sampled_from(["none", "exact"]),
    count_in_transit=st.booleans(),
    record_caches=st.booleans(),
)


@dataclass
class Round:
    """A round of a subscription as the test sees it."""

    began: Registered
    got: list[PublicationId] = field(default_factory=list)
    outcome: RoundEnded | None = None


class AttentionNetwork(Network):
    """Routers with the service; `now` passes only by `wait`.

    Attributes:
        rounds: subscription -> its rounds.
        uploads: publication -> its message, its time, and the node.
        duplication: probability that a frame comes a second time.
    """

    def __init__(self, graph: Graph, options: AttentionOptions, seed: int) -> None:
        self.rounds: dict[Key, list[Round]] = {}
        self.uploads: dict[PublicationId, tuple[Message, float, int]] = {}
        self.duplication = 0.0
        self._delivered_at: defaultdict[int, set[PublicationId]] = defaultdict(set)
        self._pending_at: defaultdict[int, set[PublicationId]] = defaultdict(set)
        self._pending_sends: defaultdict[PublicationId, set[Key]] = defaultdict(set)
        super().__init__(graph, RouterOptions(service="attention", service_options=options), seed)

    def state(self, node: int) -> State:
        service = self.routers[node].service
        assert isinstance(service, Attention)
        return service.state

    # What applications do.

    def register(
        self,
        node: int,
        predicate: str,
        most: int,
        lifetime_s: float,
        freshness_s: float,
        refreshed: bool = False,
    ) -> Key:
        event = Register(APP, parse_predicate(predicate), most, lifetime_s, freshness_s, refreshed)
        actions = self.handle(node, event)
        (began,) = [each for each in actions if isinstance(each, Registered)]
        return node, began.subscription

    def refresh(self, key: Key) -> None:
        self.handle(key[0], Refresh(APP, key[1]))

    def unregister(self, key: Key) -> None:
        self.handle(key[0], Unregister(APP, key[1]))
        del self.rounds[key]

    def publish(self, node: int, **attributes: int) -> PublicationId:
        actions = self.handle(node, Upload(APP, Message(attributes)))
        (uploaded,) = [each for each in actions if isinstance(each, Uploaded)]
        return uploaded.source, uploaded.seq

    def lost(self, node: int) -> None:
        """A router has restarted: it knows of no delivery, and of no subscription."""
        self._delivered_at[node].clear()
        self._pending_at[node].clear()
        for key in [key for key in self.rounds if key[0] == node]:
            del self.rounds[key]

    # The network.

    def step(self) -> bool:
        if self.duplication and self.rng.random() < self.duplication:
            busy = [queue for queue in self._queues.values() if queue]
            if busy:
                queue = self.rng.choice(busy)
                queue.append(queue[0])
        return super().step()

    def handle(self, node: int, event: Event) -> list[Action]:
        actions = super().handle(node, event)
        for action in actions:
            self._look_at(node, action)
        self._check_indexes(node)
        return actions

    # Checks.

    def _look_at(self, node: int, action: Action) -> None:
        if isinstance(action, Registered):
            self.rounds.setdefault((node, action.subscription), []).append(Round(action))
        elif isinstance(action, Uploaded):
            self.uploads[action.source, action.seq] = (action.attributes, self.now, node)
        elif isinstance(action, RoundEnded):
            self.rounds[node, action.subscription][-1].outcome = action
            assert action.got == len(self.rounds[node, action.subscription][-1].got)
        elif isinstance(action, DeliverPublication):
            self._check_delivery(node, action)
        elif isinstance(action, Unregistered):
            pass
        elif isinstance(action, Send) and isinstance(action.frame.body, Publication):
            frame, body = action.frame, action.frame.body
            if frame.type is FrameType.PUB and body.flags & PublicationFlags.PENDING:
                # I4: forwarded copies have the issuer and number of the one PUB that has the flag.
                sends = self._pending_sends[body.source, body.seq]
                sends.add((frame.issuer, frame.seq))
                assert len(sends) == 1, f"{body.source}/{body.seq} was sent as pending twice: {sends}"

    def _check_delivery(self, node: int, action: DeliverPublication) -> None:
        rounds = self.rounds[node, action.subscription]
        current, id_ = rounds[-1], (action.source, action.seq)
        message, uploaded_at, _ = self.uploads[id_]
        assert current.outcome is None
        assert current.began.round == action.round
        assert matches(current.began.predicate, message)
        # The age in a frame leaves the time on links out.
        assert action.age_s <= current.began.freshness_s
        assert action.age_s <= self.now - uploaded_at + _ROUNDING_S
        assert self.now <= current.began.at_s + current.began.lifetime_s
        assert all(id_ not in each.got for each in rounds), f"{id_} twice to {node}/{action.subscription}"
        current.got.append(id_)
        assert len(current.got) <= current.began.max
        self._delivered_at[node].add(id_)

    def _check_indexes(self, node: int) -> None:
        """The invariants I1 to I3 at the router that handled the last event."""
        sizes: Counter[Index] = Counter()
        pending = set()
        cache, delivered = self.state(node).cache, self._delivered_at[node]
        for cached in cache:
            sizes[cached.index] += 1
            if cached.index is Index.OPT or (cached.index is Index.PPT and not cached.dispatched):
                what = f"I2: {cached.id} in {cached.index} of {node} was delivered there"
                assert cached.id not in delivered, what
            if cached.index is Index.PPT:
                pending.add(cached.id)
        assert +cache.sizes == +sizes, "I1: a publication is in the one index that counts it"
        self._pending_at[node] = pending
        for other in self.routers:
            if other != node:
                twice = pending & self._pending_at[other]
                assert not twice, f"I3: {twice} pending at {node} and {other}"
                elsewhere = pending & self._delivered_at[other]
                assert not elsewhere, f"I3: {elsewhere} pending at {node}, delivered at {other}"
                elsewhere = self._pending_at[other] & delivered
                assert not elsewhere, f"I3: {elsewhere} pending at {other}, delivered at {node}"

    def available(self, which: Round) -> int:
        """M_S of a round: matching publications that were uploaded in its lifetime (proposition 1)."""
        began = which.began
        until = began.at_s + began.lifetime_s
        return sum(
            began.at_s <= uploaded_at < until and matches(began.predicate, message)
            for message, uploaded_at, _ in self.uploads.values()
        )

    def check_no_state(self) -> None:
        """After all deadlines no router knows a subscription of another, and no box collects."""
        for node in self.routers:
            state = self.state(node)
            assert not len(state.table)
            assert state.table.weight == 0
            assert state.timers.next_deadline() is None


def predicate_of(values: tuple[int, ...]) -> str:
    return " or ".join(f"x = {value}" for value in values)


def play(network: AttentionNetwork, rng: random.Random, steps: int, epochs: bool = True) -> None:
    """Random applications on a random network: nothing waits for anything else."""
    nodes = sorted(network.graph)
    network.new_epoch()
    keys: list[Key] = []
    for _ in range(steps):
        chance = rng.random()
        if chance < 0.3:
            network.publish(rng.choice(nodes), x=rng.randrange(3))
        elif chance < 0.4 or not keys:
            predicate = predicate_of(tuple(rng.sample(range(3), rng.randint(1, 2))))
            keys.append(
                network.register(
                    rng.choice(nodes),
                    rng.choice((predicate, predicate, "x < 2", "x >= 0 and x < 2 or x = 2")),
                    rng.randint(1, 4),
                    rng.choice((0.5, 2.0, 8.0)),
                    rng.choice((1.0, 100.0)),
                )
            )
        elif chance < 0.55:
            key = rng.choice(keys)
            if network.rounds[key][-1].outcome is not None:
                network.refresh(key)
        elif chance < 0.57:
            key = keys.pop(rng.randrange(len(keys)))
            network.unregister(key)
        elif chance < 0.65:
            network.wait(rng.choice((0.01, 0.3, 1.0)))
        elif chance < 0.66 and epochs:
            down = rng.choice(sorted(network.graph.edges))
            network.new_epoch((down,) if rng.random() < 0.5 else ())
        else:
            for _ in range(rng.randrange(12)):
                network.step()
    network.settle()
    network.wait(20.0)
    network.settle()
    network.wait(20.0)
    network.check_no_state()
    for rounds in network.rounds.values():
        for each in rounds:
            assert each.outcome is not None
            assert (each.outcome.outcome is Outcome.SATISFIED) == (len(each.got) == each.began.max)
