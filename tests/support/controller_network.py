"""A controller's state machine, driven by hand: no switch, no clock."""

from __future__ import annotations

from captures.rundir.controller import CONTROLLER_EVENTS
from captures.rundir.files import check
from router.records.forms import fields as record_fields
from router.security.signatures import PublicKeys
from router.wire.frames import Ack, Frame, FrameType, Hello
from router.wire.header import HOST_PORT
from testbed.controller.distribution import Distribution, Timing
from testbed.controller.events import (
    Action,
    Bequeath,
    ComputeTables,
    Event,
    FrameReceived,
    InstallPipeline,
    Log,
    PipelineInstalled,
    SendFrame,
    SwitchConnected,
    TablesComputed,
    Tick,
)
from testbed.controller.liveness import Legacy
from testbed.controller.trees import broadcast_tables, spt_trees
from topos import Topology

TIMING = Timing(settle_s=0.1, retry_s=1.0, retry_max_s=4.0, give_up_s=10.0, patience_s=5.0, window=64)


class Network:
    """A topology whose switches perform all actions, and whose routers acknowledge all frames."""

    def __init__(
        self, topology: Topology, timing: Timing = TIMING, verifier: PublicKeys | None = None
    ) -> None:
        self.topology = topology
        self.machine = Distribution(topology, timing, verifier=verifier)
        self.now = 0.0
        self.deaf: set[int] = set()
        #: Routers that are in an epoch of which this controller knows nothing.
        self.ahead: dict[int, int] = {}
        self.sent: list[SendFrame] = []
        self.logged: list[Log] = []
        self.legacies: list[Legacy] = []
        self.most_unacknowledged = 0

    def tell(self, *events: Event) -> None:
        """Handles events, and then the events that they cause, at the present time."""
        queue = list(events)
        while queue:
            unacknowledged = 0
            for action in self.machine.handle(queue.pop(0), self.now):
                unacknowledged += isinstance(action, SendFrame)
                queue += self._answer(action)
            self.most_unacknowledged = max(self.most_unacknowledged, unacknowledged)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= end:
            assert due >= self.now
            self.now = due
            self.tell(Tick())
        self.now = end

    def connect(self) -> None:
        for node in self.topology.nodes:
            self.tell(SwitchConnected(node.id, self.ports(node.id)))

    def ports(self, node: int) -> frozenset[int]:
        return frozenset({HOST_PORT, *self.topology.neighbours(node)})

    def hello(self, node: int, incarnation: int = 1) -> None:
        self.tell(FrameReceived(node, Frame(FrameType.HELLO, node, 0, 0, 1, Hello(incarnation))))

    def bring_up(self) -> None:
        self.connect()
        self.advance(1.0)
        for node in self.topology.nodes:
            self.hello(node.id)

    def events(self, name: str) -> list[dict[str, object]]:
        return [dict(log.fields) for log in self.logged if log.event == name]

    def frames(self, kind: FrameType, epoch: int) -> list[int]:
        """Returns the nodes to which a frame of a type and epoch was sent, in order."""
        return [sent.node for sent in self.sent if (sent.frame.type, sent.frame.epoch) == (kind, epoch)]

    def answers(self, node: int, frame: Frame) -> list[Event]:
        """The events by which a router that is not deaf answers a frame."""
        return [acknowledgement(frame, self.ahead.get(node, 0))]

    def _answer(self, action: Action) -> list[Event]:
        match action:
            case InstallPipeline(node):
                return [PipelineInstalled(node)]
            case ComputeTables(epoch, links, nodes):
                tables = broadcast_tables(self.topology, spt_trees(self.topology, links, nodes))
                return [TablesComputed(epoch, tables)]
            case SendFrame(node, frame):
                self.sent.append(action)
                return [] if node in self.deaf else self.answers(node, frame)
            case Bequeath(legacy):
                self.legacies.append(legacy)
            case Log(event, fields):
                # Exactly the fields that the record of the run folder has.
                check(CONTROLLER_EVENTS[event], event, fields)
                assert {field.name for field in record_fields(CONTROLLER_EVENTS[event])} == fields.keys()
                self.logged.append(action)
        return []


def ack(frame: Frame, own_epoch: int = 0) -> Frame:
    """The ACK of a router that had tables up to `own_epoch` before the frame came."""
    epoch = max(frame.epoch, own_epoch)
    return Frame(FrameType.ACK, frame.issuer, frame.seq, epoch, 1, Ack(frame.type))


def acknowledgement(frame: Frame, own_epoch: int = 0) -> FrameReceived:
    return FrameReceived(frame.issuer, ack(frame, own_epoch))


def brought_up(topology: Topology, timing: Timing = TIMING) -> Network:
    """A network with a first epoch; routers may hold an epoch back only later."""
    network = Network(topology, timing)
    network.bring_up()
    return network
