"""Distribution of the broadcast tables to all routers: epochs, acknowledgements, retransmission.

A state machine without input or output: `handle(event, now)` returns the actions to perform, and
`next_deadline()` the time of the next call. `now` is in seconds of any clock that does not go back.

An epoch goes through the stages of `Stage`:

    COMPUTING -> TABLES (every member acknowledges its TABLE) -> COMMITS (… its COMMIT) -> COMMITTED

With a verifier, HELLOs and ACKs must be signed by their routers, and a HELLO must be newer than the last one
of its router. An ACK that answers no frame under way has no effect: to repeat an ACK changes nothing.

A HELLO alone has no effect on a network that has an epoch: anybody on the host may have sent it
(docs/adr/0028 says how a start is asked).

The members of an epoch are the nodes that were up when it started. A change of topology starts a new epoch
and abandons one that is not committed yet. Every event that may have cost a router an advertisement starts a
new epoch as well, since in a new epoch all routers advertise: the outage of a link, node or switch, however
short, a router that did not answer, and a router that has restarted. Readers of the log rely on this rule
(`captures.rundir.epochs`). A COMMIT lets routers forget the epochs before the last one that was committed
everywhere, since no router can still originate in those epochs.

A controller that is started after another one takes over (`testbed.controller.liveness`, "A controller that
takes over" in docs/explanation/faults.md).

An ACK names the epoch that its router is in. A router counts as in an epoch only if its ACKs name that epoch.
A router that is ahead, because of a frame that this controller never sent, gets a new epoch with a higher
number, together with all others. A router that is too far ahead counts as one that does not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import inf

from captures.rundir import epochs
from captures.rundir.controller import (
    AllSwitchesReady,
    Committed,
    EpochStarted,
    LinkEvent,
    NodeEvent,
    Rejection,
    RouterHello,
    RouterUnresponsive,
    TableAcknowledged,
    TakenOver,
)
from router.protocol.broadcast import EPOCH_LEAD
from router.protocol.core.layers import Signatures, Verifier
from router.protocol.counters import Drop
from router.wire.frames import COUNTER_BITS, Ack, BroadcastTable, Commit, Frame, FrameType, Hello
from testbed.controller import events
from testbed.controller.liveness import Change, Legacy, Liveness
from topos import Link, Topology

_EPOCH_MAX = 0xFFFF_FFFF
#: More numbers than a controller uses between two legacies: a few for each router.
_SEQ_LEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Delays in seconds, and the size of the window.

    Attributes:
        settle_s: how long the topology must be unchanged before a new epoch starts. One failure shows up as
            several events (both ends of a link, all ports of a switch).
        retry_s: wait for an acknowledgement before the first retransmission; doubles each time.
        retry_max_s: longest wait between retransmissions.
        give_up_s: before the first epoch is committed, a router that has acknowledged nothing for this time
            counts as down until it acknowledges; its frame is retransmitted every `retry_max_s`.
        patience_s: likewise once there is an epoch to repair, all have been sent their frames, and no other
            router has acknowledged one in that time: as long as some do, the machine may be what is slow.
        window: frames that may be unacknowledged at once, over all routers.
        restart_s: time after which a router may restart once more, or name a foreign epoch. More often, it is
            taken no notice of until then: each time makes an epoch for all routers.
        restarts: how often it may do so at once.
        take_over_s: for which a controller that takes over waits for the switches.
    """

    settle_s: float = 0.05
    retry_s: float = 0.5
    retry_max_s: float = 4.0
    give_up_s: float = 30.0
    patience_s: float = 2.0
    window: int = 64
    restart_s: float = 10.0
    restarts: int = 3
    take_over_s: float = 15.0


class Stage(Enum):
    """Progress of an epoch."""

    COMPUTING = auto()
    TABLES = auto()
    COMMITS = auto()
    COMMITTED = auto()


@dataclass(slots=True)
class _Router:
    #: 0, which is no start, while it has sent no HELLO.
    incarnation: int = 0
    #: The time from which on it may restart any number of times at once (`Timing.restarts`).
    rested_at: float = 0.0
    #: Incarnation and number of its last HELLO with a signature.
    last_hello: tuple[int, int] = (-1, -1)
    #: The low half of the numbers of COMMITs that ask starts which HELLOs have named; None: none was asked
    #: since the router last became present.
    asked: int | None = None


@dataclass(frozen=True, slots=True)
class _Cause:
    """The state that an epoch is made for; a state that differs from the current epoch's requires a new
    epoch.

    `losses` counts, from the controller's start on, the events that may have cost a router advertisements.
    """

    members: frozenset[int]
    down_links: frozenset[int]
    losses: int


@dataclass(slots=True)
class _Epoch:
    number: int
    started: float
    cause: _Cause
    stage: Stage = Stage.COMPUTING
    tables: Mapping[int, BroadcastTable] = field(default_factory=dict)
    #: Members that have not acknowledged the frame of this stage.
    pending: set[int] = field(default_factory=set)

    @property
    def members(self) -> frozenset[int]:
        return self.cause.members


@dataclass(slots=True)
class _Outstanding:
    frame: Frame
    wait: float
    due: float
    sent: float


class Distribution:
    """The controller's state machine for one declared topology.

    Attributes:
        refused: numbers of frames that were of no use, by the node whose switch delivered them and by reason.

    Args:
        legacy: the state that another controller has left.
        incarnations: of the routers that another controller has logged a HELLO of, by node.
        verifier: has the public keys of the routers; None: signatures are not required.
    """

    def __init__(
        self,
        topology: Topology,
        timing: Timing | None = None,
        legacy: Legacy | None = None,
        verifier: Verifier | None = None,
        incarnations: Mapping[int, int] | None = None,
    ) -> None:
        self.refused: Counter[tuple[int, str]] = Counter()
        self._signatures = None if verifier is None else Signatures(verifier)
        self._timing = timing or Timing()
        self._liveness = Liveness(topology)
        self._nodes = frozenset(node.id for node in topology.nodes)
        self._routers = {node: _Router() for node in self._nodes}
        #: Routers that were given up, and the frames that are retransmitted to them every `retry_max_s`.
        self._unresponsive: dict[int, _Outstanding] = {}
        self._epoch: _Epoch | None = None
        self._committed_epoch = 0
        self._losses = 0
        #: The highest epoch that a router named in an ACK while the controller was not that far.
        self._foreign_epoch = 0
        #: The present cause, until something of it changes; to compute it takes time for every node.
        self._present: _Cause | None = None
        # The cause of the next epoch, and the time at which it will have settled.
        self._seen: _Cause | None = None
        self._settled_at: float | None = None
        self._first_connection: float | None = None
        self._queue: dict[int, None] = {}  # routers that wait for a frame; an ordered set
        self._outstanding: dict[int, _Outstanding] = {}
        #: When a router last acknowledged a frame that was under way.
        self._answered_at = 0.0
        #: No frame is due before.
        self._due = inf
        self._seq = 0
        self._actions: list[events.Action] = []
        #: Switches that must connect, and by when, before this controller has taken over.
        self._awaited: set[int] = set()
        self._take_over_by: float | None = None
        for node, incarnation in (incarnations or {}).items():
            if node in self._nodes:
                self._routers[node].incarnation = incarnation
                self._routers[node].last_hello = incarnation, -1
        if legacy is not None:
            self._inherit(legacy)

    def _inherit(self, legacy: Legacy) -> None:
        """Begins where another controller ended."""
        self._seq = legacy.seq + _SEQ_LEAD
        self._actions.append(events.Bequeath(replace(legacy, seq=self._seq)))
        self._committed_epoch = legacy.committed_epoch
        # An epoch of this controller gets the next number.
        self._foreign_epoch = legacy.epoch
        if not legacy.settled or not legacy.members:
            return
        self._liveness.down_ports |= legacy.down_ports
        cause = _Cause(legacy.members, self._liveness.down_links, self._losses)
        self._epoch = _Epoch(legacy.epoch, 0.0, cause, Stage.COMMITTED)
        self._awaited = set(legacy.members)

    def handle(self, event: events.Event, now: float) -> list[events.Action]:
        """Handles one event and all deadlines that have passed; returns the actions, in order."""
        if self._awaited and self._take_over_by is None:
            self._take_over_by = now + self._timing.take_over_s
        match event:
            case events.SwitchConnected():
                self._switch_connected(event, now)
            case events.PipelineInstalled(node):
                self._pipeline_installed(node, now)
            case events.SwitchDisconnected(node):
                self._liveness.ready.discard(node)
                self._log(epochs.SWITCH_DISCONNECTED.name, NodeEvent(node=node))
                self._lost()
            case events.PortChanged(node, port, up):
                self._present = None
                self._changed(self._liveness.port_changed(node, port, up))
            case events.FrameReceived(node, frame):
                self._frame_received(node, frame, now)
            case events.TablesComputed(epoch, tables):
                self._tables_computed(epoch, tables)
            case events.Tick():
                pass
        self._stop_waiting(now)
        self._retransmit(now)
        self._watch_topology(now)
        self._fill_window(now)
        actions, self._actions = self._actions, []
        return actions

    @property
    def settled(self) -> bool:
        """Returns whether every router that is up has the trees of the present network and nothing is due."""
        committed = self._epoch is not None and self._epoch.stage is Stage.COMMITTED
        return committed and self._settled_at is None

    def next_deadline(self) -> float | None:
        """Returns the time at which `handle(Tick(), now)` is to be called if no event comes first."""
        due = self._due if self._outstanding or self._unresponsive else inf
        if self._settled_at is not None:
            due = min(due, self._settled_at)
        if self._awaited and self._take_over_by is not None:
            due = min(due, self._take_over_by)
        return None if due == inf else due

    # --- switches and the topology

    def _switch_connected(self, event: events.SwitchConnected, now: float) -> None:
        node = event.node
        if self._first_connection is None:
            self._first_connection = now
        self._present = None
        changes = self._liveness.switch_connected(node, event.up_ports)
        # A switch that connects to the next controller has lost nothing, unless it restarted before that.
        taken_over = node in self._awaited and not event.emptied
        self._log("switch_taken_over" if taken_over else "switch_connected", NodeEvent(node=node))
        if event.emptied:
            self._lost()
        self._changed(changes)
        self._actions.append(events.InstallPipeline(node))

    def _pipeline_installed(self, node: int, now: float) -> None:
        self._present = None
        was_ready = self._liveness.all_ready
        self._liveness.ready.add(node)
        self._log("pipeline_installed", NodeEvent(node=node))
        self._awaited.discard(node)
        if self._liveness.all_ready and not was_ready:
            assert self._first_connection is not None
            seconds = round(now - self._first_connection, 6)
            ready = AllSwitchesReady(switches=len(self._nodes), seconds=seconds)
            self._log("all_switches_ready", ready)

    def _stop_waiting(self, now: float) -> None:
        """Ends the take-over when every switch has its pipeline, or the time has passed."""
        if self._take_over_by is None or (self._awaited and now < self._take_over_by):
            return
        self._take_over_by = None
        for node in sorted(self._awaited):
            self._log(epochs.SWITCH_DISCONNECTED.name, NodeEvent(node=node))
            self._lost()
        self._awaited.clear()
        self._present = None
        assert self._epoch is not None
        self._log("taken_over", TakenOver(epoch=self._epoch.number))

    def _changed(self, changes: list[Change]) -> None:
        if self._epoch is None:
            return  # not complete yet; the first epoch reports what is down
        for what, up in changes:
            if isinstance(what, Link):
                event = epochs.LINK_UP if up else epochs.LINK_DOWN
                self._log(event.name, LinkEvent(link=what.index, u=what.u, v=what.v))
            else:
                event = epochs.NODE_UP if up else epochs.NODE_DOWN
                self._log(event.name, NodeEvent(node=what))
            self._lost()

    def _watch_topology(self, now: float) -> None:
        """Starts a new epoch when its cause differs from the current one's and has settled."""
        if self._awaited or (self._epoch is None and not self._liveness.all_ready):
            self._settled_at = self._seen = None
            return
        if self._present is None:
            members = self._nodes - self._liveness.down_nodes - self._unresponsive.keys()
            self._present = _Cause(members, self._liveness.down_links, self._losses)
        cause = self._present
        wanted = self._epoch is None or self._epoch.cause != cause
        if not wanted:
            self._settled_at = self._seen = None
        elif self._settled_at is None or self._seen != cause:
            self._settled_at = now + self._timing.settle_s
            self._seen = cause
        elif now >= self._settled_at:
            self._start_epoch(cause, now)

    def _lost(self) -> None:
        """Counts an event that may have cost routers advertisements, or that changed what is up."""
        self._losses += 1
        self._present = None

    # --- epochs

    def _start_epoch(self, cause: _Cause, now: float) -> None:
        number = max(0 if self._epoch is None else self._epoch.number, self._foreign_epoch) + 1
        down_nodes = self._nodes - cause.members
        self._epoch = _Epoch(number, now, cause)
        self._settled_at = self._seen = None
        self._queue.clear()
        self._outstanding.clear()
        self._bequeath_unsettled(number)
        self._log(
            "epoch_started",
            EpochStarted(
                epoch=number,
                routers=len(cause.members),
                down_links=sorted(cause.down_links),
                down_nodes=sorted(down_nodes),
            ),
        )
        self._actions.append(events.ComputeTables(number, cause.down_links, down_nodes))

    def _tables_computed(self, number: int, tables: Mapping[int, BroadcastTable]) -> None:
        epoch = self._epoch
        if epoch is None or epoch.number != number:
            return  # superseded by a newer epoch
        epoch.tables = tables
        epoch.stage = Stage.TABLES
        epoch.pending = set(epoch.members)
        for node in sorted(epoch.members):
            # Before there is an epoch, routers may take any time to start.
            if self._committed_epoch or self._routers[node].incarnation:
                self._queue[node] = None

    def _finish_commit(self, epoch: _Epoch, now: float) -> None:
        epoch.stage = Stage.COMMITTED
        epoch.tables = {}  # a router that restarts gets the tables of a new epoch
        if epoch.members:
            self._committed_epoch = epoch.number
        legacy = Legacy(
            epoch=epoch.number,
            committed_epoch=self._committed_epoch,
            settled=epoch.members == self._nodes - self._liveness.down_nodes,
            members=epoch.members,
            down_ports=frozenset(self._liveness.down_ports),
            seq=self._seq,
        )
        self._actions.append(events.Bequeath(legacy))
        seconds = round(now - epoch.started, 6)
        committed = Committed(epoch=epoch.number, routers=len(epoch.members), seconds=seconds)
        self._log(epochs.COMMITTED.name, committed)

    def _bequeath_unsettled(self, number: int) -> None:
        """Leaves the state for a next controller, which is to begin an epoch above `number`."""
        self._actions.append(
            events.Bequeath(Legacy(number, self._committed_epoch, settled=False, seq=self._seq))
        )

    # --- frames from routers

    def _frame_received(self, node: int, frame: Frame, now: float) -> None:
        if frame.issuer != node:
            self.refused[node, Rejection.WRONG_ISSUER] += 1
        elif not isinstance(frame.body, Hello | Ack):
            self.refused[node, Rejection.UNEXPECTED_TYPE] += 1
        elif (reason := self._refusal(node, frame)) is not None:
            self.refused[node, reason.value] += 1
        elif isinstance(frame.body, Hello):
            self._hello(node, frame.body.incarnation, now)
        else:
            self._acknowledged(node, frame.body.acknowledged, frame, now)

    def _refusal(self, node: int, frame: Frame) -> Drop | None:
        """Why a HELLO or ACK is not authentic; None: it is, or signatures are not required."""
        if self._signatures is None:
            return None
        hello = (frame.body.incarnation, frame.seq) if isinstance(frame.body, Hello) else None
        router, first = self._routers[node], self._signatures.verifier.floor >> COUNTER_BITS
        if hello is not None and (hello <= router.last_hello or hello[0] < first):
            return Drop.ISSUER_REPLAYED
        reason = self._signatures.refusal(frame, node)
        if reason is None and hello is not None:
            router.last_hello = hello
        return reason

    def _hello(self, node: int, incarnation: int, now: float) -> None:
        router = self._routers[node]
        if router.incarnation == incarnation and node not in self._unresponsive:
            return  # a repeated HELLO, or sent before the router received the answer
        if not self._may_disturb(node, now):
            self.refused[node, Rejection.HELLO_RATE] += 1
            return  # it repeats its HELLO
        if not self._committed_epoch:
            self._started(node, incarnation, now)
            return
        if router.asked is None:
            router.asked = self._next_number()
        seq = incarnation << COUNTER_BITS | router.asked
        question = Frame(FrameType.COMMIT, node, seq, 0, 1, Commit(0))
        self._actions.append(events.SendFrame(node, question))

    def _started(self, node: int, incarnation: int, now: float) -> None:
        """Takes a start of a router for the present one, and the router for one that answers."""
        router, epoch = self._routers[node], self._epoch
        restarted = router.incarnation > 0
        if restarted:
            self._disturbs(node, now)
        self._heard_of(node)
        if router.incarnation == incarnation:
            return
        # Other routers may have advertised already, and this router has not received their advertisements.
        if restarted or self._committed_epoch:
            self._lost()
            # Before the log has the start: the next controller takes a router that it knows for one of the
            # epoch, if the epoch is settled.
            self._bequeath_unsettled(max(0 if epoch is None else epoch.number, self._foreign_epoch))
        self._log("hello", RouterHello(node=node, incarnation=incarnation, restarted=restarted))
        router.incarnation = incarnation
        self._outstanding.pop(node, None)
        self._queue.pop(node, None)
        if epoch is not None and node in epoch.members and epoch.stage is Stage.TABLES:
            epoch.pending.add(node)
            self._queue[node] = None

    def _may_disturb(self, node: int, now: float) -> bool:
        timing = self._timing
        rested_at = max(self._routers[node].rested_at, now)
        return rested_at <= now + (timing.restarts - 1) * timing.restart_s

    def _disturbs(self, node: int, now: float) -> None:
        """Counts that a router makes a new epoch for all."""
        router = self._routers[node]
        router.rested_at = max(router.rested_at, now) + self._timing.restart_s

    def _heard_of(self, node: int) -> None:
        self._routers[node].asked = None
        if node in self._unresponsive:
            del self._unresponsive[node]
            self._log(epochs.ROUTER_RESPONSIVE.name, NodeEvent(node=node))
            self._lost()

    def _acknowledged(self, node: int, acknowledged: FrameType, ack: Frame, now: float) -> None:
        incarnation, number = divmod(ack.seq, 1 << COUNTER_BITS)
        if (acknowledged, number) == (FrameType.COMMIT, self._routers[node].asked):
            self._started(node, incarnation, now)
            return
        asked = self._outstanding.get(node) or self._unresponsive.get(node)
        answers = asked is not None and (acknowledged, ack.seq) == (asked.frame.type, asked.frame.seq)
        if asked is not None and answers and ack.epoch != asked.frame.epoch:
            self._in_other_epoch(node, ack.epoch, now)
            return
        if not answers:
            return  # acknowledges a needless retransmission or an abandoned epoch, or is repeated
        if node in self._unresponsive:
            if self._may_disturb(node, now):
                self._disturbs(node, now)
                self._heard_of(node)
            return
        self._answered_at = now
        del self._outstanding[node]
        epoch = self._epoch
        assert epoch is not None
        epoch.pending.discard(node)
        if acknowledged is FrameType.TABLE:
            self._log("table_acknowledged", TableAcknowledged(node=node, epoch=epoch.number))

    def _in_other_epoch(self, node: int, epoch: int, now: float) -> None:
        """A router took no notice of the frame that it acknowledges, since it is in another epoch."""
        self.refused[node, Rejection.OTHER_EPOCH] += 1
        assert self._epoch is not None
        lead = epoch - self._epoch.number
        # The other routers refuse a table that is farther ahead, and the number has 32 bits.
        if not 0 < lead <= EPOCH_LEAD or epoch + EPOCH_LEAD > _EPOCH_MAX:
            return
        if epoch > self._foreign_epoch and self._may_disturb(node, now):
            self._disturbs(node, now)
            self._heard_of(node)
            self._foreign_epoch = epoch
            self._lost()

    # --- frames to routers

    def _fill_window(self, now: float) -> None:
        self._advance(now)
        while self._queue and len(self._outstanding) < self._timing.window:
            node = next(iter(self._queue))
            del self._queue[node]
            frame = self._next_frame(node)
            wait = self._timing.retry_s
            self._outstanding[node] = _Outstanding(frame, wait, now + wait, now)
            self._due = min(self._due, now + wait)
            self._actions.append(events.SendFrame(node, frame))

    def _advance(self, now: float) -> None:
        """Moves the epoch to its next stage when no member's acknowledgement is missing."""
        epoch = self._epoch
        if epoch is None or epoch.pending:
            return
        if epoch.stage is Stage.TABLES and epoch.members:
            epoch.stage = Stage.COMMITS
            epoch.pending = set(epoch.members)
            self._queue |= dict.fromkeys(sorted(epoch.members))
        elif epoch.stage in (Stage.TABLES, Stage.COMMITS):
            self._finish_commit(epoch, now)

    def _next_frame(self, node: int) -> Frame:
        """Returns the frame that a router gets in the stage of the epoch."""
        epoch = self._epoch
        assert epoch is not None
        # The high half names the start: another start refuses the frame.
        seq = self._routers[node].incarnation << COUNTER_BITS | self._next_number()
        if epoch.stage is Stage.TABLES:
            return Frame(FrameType.TABLE, node, seq, epoch.number, 1, epoch.tables[node])
        oldest = self._committed_epoch or epoch.number
        return Frame(FrameType.COMMIT, node, seq, epoch.number, 1, Commit(oldest))

    def _next_number(self) -> int:
        self._seq += 1
        return self._seq % (1 << COUNTER_BITS)

    def _retransmit(self, now: float) -> None:
        if now < self._due:
            return
        timing = self._timing
        if now > self._due + timing.retry_s:
            # This controller was stopped: answers may wait to be read.
            self._answered_at = now
        # While others wait for their frames, as many are silent as the window holds: the machine is slow.
        patient = not self._committed_epoch or bool(self._queue)
        patience_s = timing.give_up_s if patient else timing.patience_s
        for node, outstanding in list(self._outstanding.items()):
            if now < outstanding.due:
                continue
            give_up = max(outstanding.sent, self._answered_at) + patience_s
            if now >= give_up:
                del self._outstanding[node]
                outstanding.due = now + timing.retry_max_s
                self._unresponsive[node] = outstanding
                # The router may answer at once, and must still get the frames that it has missed.
                self._lost()
                given_up = RouterUnresponsive(node=node, waited_s=patience_s)
                self._log(epochs.ROUTER_UNRESPONSIVE.name, given_up)
                continue
            outstanding.wait = min(2 * outstanding.wait, timing.retry_max_s)
            outstanding.due = min(now + outstanding.wait, give_up)
            self._actions.append(events.SendFrame(node, outstanding.frame))
        # A router that has a table sends nothing unprompted: the frame is retransmitted until it answers.
        for node, probe in self._unresponsive.items():
            if now >= probe.due:
                probe.due = now + self._timing.retry_max_s
                self._actions.append(events.SendFrame(node, probe.frame))
        frames = (*self._outstanding.values(), *self._unresponsive.values())
        self._due = min((frame.due for frame in frames), default=inf)

    def _log(self, event: str, fields: Mapping[str, object]) -> None:
        self._actions.append(events.Log(event, fields))
