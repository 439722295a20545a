"""A router's session with the controller: HELLO, tables, epochs (docs/reference/wire-format.md)."""

from __future__ import annotations

from router.protocol.broadcast import EPOCH_LEAD
from router.protocol.context import Context, Part
from router.protocol.counters import Drop
from router.protocol.events import Action, SendToController, Started
from router.wire.frames import COUNTER_BITS, Ack, BroadcastTable, Commit, Frame, FrameType, Hello


class ControllerSession(Part):
    """Repeats HELLO until a table comes, takes tables and commits, and acknowledges them.

    The high half of the number of a TABLE or COMMIT is the incarnation of the router that it is for. Frames
    of another run, or from before a restart, are dropped. A router that has tables answers them with a HELLO:
    the controller may take another start of it for the present one. A COMMIT of epoch 0 asks for an ACK.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hellos = 0
        # When the next HELLO is due; None: no more.
        self._hello_at: float | None = None

    def started(self, _event: Started, now: float) -> list[Action]:
        return self._hello(now)

    @property
    def idle(self) -> bool:
        """True if the router has an epoch."""
        return self._context.tables.current is not None

    def next_deadline(self) -> float | None:
        return self._hello_at

    def tick(self, now: float) -> list[Action]:
        if self._hello_at is None or now < self._hello_at:
            return []
        return self._hello(now)

    def _hello(self, now: float) -> list[Action]:
        self._hello_at = now + self._context.options.hello_interval_s
        return [self._hello_frame()]

    def _hello_frame(self) -> Action:
        self._hellos += 1
        return self._to_controller(FrameType.HELLO, self._hellos, 0, Hello(self._context.incarnation))

    def received(self, _node: int, frame: Frame, now: float) -> list[Action]:
        """A TABLE or COMMIT came in."""
        if frame.seq >> COUNTER_BITS != self._context.incarnation:
            self._context.drop(Drop.OTHER_RUN)
            # A router without tables repeats its HELLO already.
            return [self._hello_frame()] if self._hello_at is None else []
        if isinstance(frame.body, BroadcastTable):
            return self._table_received(frame, frame.body)
        assert isinstance(frame.body, Commit)
        return self._commit_received(frame, frame.body, now)

    def _table_received(self, frame: Frame, table: BroadcastTable) -> list[Action]:
        tables = self._context.tables
        # A router that has no table cannot know what is far ahead.
        if tables.newest and frame.epoch > tables.newest + EPOCH_LEAD:
            return self._context.drop(Drop.EPOCH_AHEAD)
        try:
            tables.store(frame.epoch, table)
        except ValueError:
            return self._context.drop(Drop.BAD_TABLE)
        self._hello_at = None
        return [self._acknowledge(frame, tables.newest)]

    def _commit_received(self, frame: Frame, commit: Commit, now: float) -> list[Action]:
        tables = self._context.tables
        if frame.epoch == 0:
            return [self._acknowledge(frame, self._context.epoch)]
        first = tables.current is None
        try:
            changed = tables.commit(frame.epoch, commit.oldest_epoch)
        except KeyError:
            return self._context.drop(Drop.UNKNOWN_EPOCH)
        actions = [self._acknowledge(frame, self._context.epoch)]
        if changed:
            actions += self._context.parts.epoch_changed(now, first)
        return actions

    def _acknowledge(self, frame: Frame, epoch: int) -> Action:
        """The ACK of a frame that left the router in `epoch`, which need not be the frame's."""
        return self._to_controller(FrameType.ACK, frame.seq, epoch, Ack(frame.type))

    def _to_controller(self, frame_type: FrameType, seq: int, epoch: int, body: Hello | Ack) -> Action:
        return SendToController(Frame(frame_type, self._context.node, seq, epoch, 1, body))
