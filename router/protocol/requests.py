"""The issuer's side of the SR/UR protocol: what is outstanding, and what becomes of its replies.

Protocol paper, section 3.5.2. Each interface is a machine of its own: one SR may go out of many interfaces,
and each brings one UR back. `TRANSITIONS` is the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from router.predicates.covering.builder import PredicateBuilder
from router.predicates.model import Predicate
from router.protocol.counters import Counters, Drop
from router.protocol.knowledge import Knowledge
from router.protocol.round_trips import Timing


class State(Enum):
    IDLE = auto()
    WAITING = auto()


class Input(Enum):
    ASK = auto()
    REPLY = auto()
    OTHER_REPLY = auto()
    TIMEOUT = auto()
    NEW_EPOCH = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """A UR as its receiver reads it."""

    interface: int
    number: int
    epoch: int
    predicate: Predicate
    partial: bool


@dataclass(slots=True)
class _Outstanding:
    number: int
    epoch: int
    sent_at: float
    deadline: float
    heard: PredicateBuilder = field(default_factory=PredicateBuilder)


@dataclass(frozen=True, slots=True)
class _Occasion:
    """One input to the machine of one interface; `request` for ASK, `reply` for replies."""

    interface: int
    now: float = 0.0
    request: _Outstanding | None = None
    reply: Reply | None = None


class Requests:
    """The SRs that this router issued and waits for."""

    def __init__(self, knowledge: Knowledge, timing: Timing, counters: Counters) -> None:
        self._knowledge = knowledge
        self._timing = timing
        self._counters = counters
        self._outstanding: dict[int, _Outstanding] = {}
        self._last_number = 0

    @property
    def waiting(self) -> frozenset[int]:
        """Interfaces through which an SR is outstanding."""
        return frozenset(self._outstanding)

    def next_deadline(self) -> float | None:
        if not self._outstanding:
            return None
        return min(request.deadline for request in self._outstanding.values())

    def ask(self, interfaces: Iterable[int], number: int, epoch: int, now: float, timeout: float) -> None:
        """An SR with this number went out of `interfaces` at `now`."""
        self._last_number = number
        for interface in interfaces:
            request = _Outstanding(number, epoch, now, now + timeout)
            self._enter(Input.ASK, _Occasion(interface, now, request=request))

    def reply(self, reply: Reply, now: float) -> None:
        """A UR came in that names this router as the issuer of its SR."""
        request = self._outstanding.get(reply.interface)
        matches = request is not None and (request.number, request.epoch) == (reply.number, reply.epoch)
        self._enter(
            Input.REPLY if matches else Input.OTHER_REPLY, _Occasion(reply.interface, now, reply=reply)
        )

    def heard(self, interface: int, predicate: Predicate) -> None:
        """An RA came in. A UR on its way may have been written before the RA was."""
        request = self._outstanding.get(interface)
        if request is not None:
            request.heard.add(predicate)

    def tick(self, now: float) -> None:
        for interface in [i for i, request in self._outstanding.items() if now >= request.deadline]:
            self._enter(Input.TIMEOUT, _Occasion(interface, now))

    def new_epoch(self) -> None:
        for interface in list(self._outstanding):
            self._enter(Input.NEW_EPOCH, _Occasion(interface))

    def _enter(self, given: Input, occasion: _Occasion) -> None:
        state = State.WAITING if occasion.interface in self._outstanding else State.IDLE
        act, following = TRANSITIONS[state, given]
        act(self, occasion)
        if following is State.IDLE:
            self._outstanding.pop(occasion.interface, None)

    # What the transitions do.

    def _wait(self, occasion: _Occasion) -> None:
        assert occasion.request is not None
        self._outstanding[occasion.interface] = occasion.request

    def _learn(self, occasion: _Occasion) -> None:
        request, reply = self._outstanding[occasion.interface], occasion.reply
        assert reply is not None
        if not reply.partial:
            self._timing.measured(reply.interface, occasion.now - request.sent_at)
        self._counters.urs_applied += 1
        told = self._knowledge.told(reply.predicate, request.heard.predicate)
        self._knowledge.learn(reply.interface, reply.epoch, told, reply.partial, occasion.now)

    def _count(self, occasion: _Occasion) -> None:
        assert occasion.reply is not None
        asked = occasion.reply.number <= self._last_number
        self._counters.drop(Drop.UR_LATE if asked else Drop.UR_UNEXPECTED)

    def _miss(self, _occasion: _Occasion) -> None:
        self._counters.urs_missed += 1

    def _give_up(self, _occasion: _Occasion) -> None:
        """The trees that the SR went out on are no longer those in use."""


_Act = Callable[[Requests, _Occasion], None]

#: (state, input) -> what is done, and the state after it. A pair that is not here cannot occur.
TRANSITIONS: Mapping[tuple[State, Input], tuple[_Act, State]] = {
    (State.IDLE, Input.ASK): (Requests._wait, State.WAITING),
    (State.IDLE, Input.OTHER_REPLY): (Requests._count, State.IDLE),
    (State.WAITING, Input.ASK): (Requests._wait, State.WAITING),
    (State.WAITING, Input.REPLY): (Requests._learn, State.IDLE),
    (State.WAITING, Input.OTHER_REPLY): (Requests._count, State.WAITING),
    (State.WAITING, Input.TIMEOUT): (Requests._miss, State.IDLE),
    (State.WAITING, Input.NEW_EPOCH): (Requests._give_up, State.IDLE),
}
