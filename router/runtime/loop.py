"""The event loop of a live router: its link, its applications, its deadlines, and the signal to stop."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from router.clock.clock import ExperimentClock, FixedClock
from router.clock.meter import DEADLINE, NOTHING, REQUEST, Meter
from router.protocol.events import (
    Action,
    Event,
    FrameReceived,
    HandlingTime,
    Send,
    SendToController,
    Started,
    Tick,
)
from router.protocol.router import Router
from router.recording.file import Recorder
from router.records.applications import ApplicationRecords
from router.records.counters import router_counters
from router.runtime.applications import Applications
from router.runtime.link import Link
from router.runtime.packet_socket import PacketSocket
from router.wire.frames import FrameType

#: Seconds in which a router handles input that had arrived when it was stopped.
_STOP_GRACE = 1.0
#: Seconds after which a turn takes no further frame of its batch.
_TURN_S = 0.01
#: Wall seconds between two looks at how long the oldest frame has waited.
_LAG_LOOK_S = 0.005
#: Event in a router's log: its recording has ended early (`error`).
RECORDING_FAILED = "recording_failed"
#: Types of frames whose handling time the protocol uses.
_TIMED = frozenset({FrameType.SR, FrameType.UR})


class RouterLoop:
    """Drives one `Router`.

    Args:
        router: the protocol core.
        packets: a socket on the device that leads to the switch.
        socket_path: where applications connect.
        log: is called with the events for the operator: (event, fields).
        records: see `Applications`.
        recorder: records every event and the actions that answer it (None: no recording).
        clock: gives the experiment seconds of the protocol core; None: wall seconds. The link and the
            applications are served in wall seconds.
        meter: is given the lag of this loop and its longest turn.
    """

    def __init__(
        self,
        router: Router,
        packets: PacketSocket,
        socket_path: Path,
        log: Callable[[str, dict[str, Any]], None],
        records: ApplicationRecords,
        recorder: Recorder | None = None,
        clock: ExperimentClock | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._router = router
        self._clock = FixedClock() if clock is None else clock
        self._meter = Meter() if meter is None else meter
        self._lag_look_at = 0.0
        #: What this turn has done, for the meter.
        self._work = NOTHING
        self._log = log
        self._recorder = recorder
        self._selector = selectors.DefaultSelector()
        self._link = Link(router.node, packets, log)
        self._link_mask = selectors.EVENT_READ
        self._applications = Applications(
            router.node,
            socket_path,
            self._selector,
            router.session,
            self._requested,
            self.status,
            records,
        )
        self._selector.register(packets, selectors.EVENT_READ, self._link_ready)
        self._stop_receiver, self._stop_sender = socket.socketpair()
        self._stop_receiver.setblocking(False)
        self._stop_sender.setblocking(False)
        self._selector.register(self._stop_receiver, selectors.EVENT_READ, self._stop_asked)
        self._stopping = False

    # Queries.

    def counters(self) -> dict[str, Any]:
        """Returns the counters of this router: see `router.records.counters`."""
        link = self._link
        return router_counters(
            self._router.counters,
            frames_received=link.frames_received,
            frames_sent=link.frames_sent,
            bytes_received=link.bytes_received,
            bytes_sent=link.bytes_sent,
            dropped=link.dropped(),
            socket_drops=link.packets.drops(),
            applications_disconnected_slow=self._applications.disconnected_slow,
            records_lost=self._applications.records.lost,
        )

    def status(self, tables: bool) -> dict[str, Any]:
        """Returns the answer to a `status` request; the keys of JSON objects are text.

        `idle` means that this router has nothing to do: it has an epoch, no frame is held, partly received,
        or waiting to be sent, and no RA is due (except periodic RAs).

        Args:
            tables: include `table` (rows of interface, scope, predicate) and `interfaces`, which may be long.
        """
        router = self._router
        status: dict[str, Any] = {
            "node": router.node,
            "epoch": router.epoch,
            "counters": self.counters(),
            "idle": router.idle and self._link.idle and self._applications.idle,
        }
        if tables:
            status["table"] = [row.as_json() for row in router.rows()]
            status["interfaces"] = {str(i): node for i, node in sorted(router.interfaces().items())}
        return status

    # Running.

    def stop(self) -> None:
        """Makes `run` return soon.

        May be called from a signal handler, any number of times.
        """
        try:
            self._stop_sender.send(b"\0")
        except BlockingIOError:
            # The pipe is full of wake-up bytes already.
            return

    def run(self) -> None:
        """Runs until `stop` is called; then handles input that has already arrived, and returns."""
        self._handle(Started())
        while not self._stopping:
            self._turn(self._timeout())
        deadline = time.monotonic() + _STOP_GRACE
        while time.monotonic() < deadline and self._turn(0):
            pass
        self._record(Recorder.end)
        # Before the counters are read: they count the records that could not be written.
        self._applications.close()

    def close(self) -> None:
        self._record(Recorder.flush)
        if self._recorder is not None:
            self._recorder.close()
        self._applications.close()
        self._selector.close()
        self._stop_receiver.close()
        self._stop_sender.close()
        self._link.packets.close()

    def _turn(self, timeout: float | None) -> bool:
        """Waits for input or a deadline and handles it. Returns False if there was neither."""
        ready = self._selector.select(timeout)
        began = time.monotonic()
        self._work = NOTHING
        for key, mask in ready:
            key.data(mask)
        now = time.monotonic()
        self._link.tick(now)
        self._applications.tick(now)
        self._tick()
        self._watch_link()
        self._record(Recorder.flush)
        self._meter.turn(time.monotonic() - began, self._work, self._clock)
        return bool(ready)

    def _tick(self) -> None:
        due = self._router.next_deadline()
        if due is None:
            return
        now = self._clock.now()
        if now >= due:
            self._meter.late((now - due) / self._clock.rate, self._clock)
            self._work = DEADLINE
            self._handle(Tick())

    def _timeout(self) -> float | None:
        deadlines = (self._link.next_deadline(), self._applications.next_deadline())
        earliest = min((at for at in deadlines if at is not None), default=None)
        timeout = None if earliest is None else max(0.0, earliest - time.monotonic())
        due = self._router.next_deadline()
        if due is None:
            return timeout
        sleep = self._clock.timeout(due)
        return sleep if timeout is None else min(sleep, timeout)

    def _watch_link(self) -> None:
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._link.wants_write else 0)
        if mask != self._link_mask:
            self._link_mask = mask
            self._selector.modify(self._link.packets, mask, self._link_ready)

    def _link_ready(self, mask: int) -> None:
        now = time.monotonic()
        if mask & selectors.EVENT_WRITE:
            self._link.flush(now)
        if mask & selectors.EVENT_READ:
            # One batch a turn, and no longer than applications and deadlines can wait: the socket stays
            # readable while frames are left, and `receive` reads each frame only when it is asked for.
            for event, wire in self._link.receive(now):
                if now >= self._lag_look_at:
                    # The oldest frame of those that waited: what the loop is behind.
                    self._lag_look_at = now + _LAG_LOOK_S
                    self._meter.late(self._link.packets.waited_s(), self._clock)
                self._work = event.frame.type
                self._handle(event, wire)
                if time.monotonic() - now > _TURN_S:
                    break

    def _stop_asked(self, _mask: int) -> None:
        self._stopping = True
        self._selector.unregister(self._stop_receiver)

    def _handle(self, event: Event, wire: bytes | None = None) -> None:
        self._applications.perform(self._handle_request(event, wire))

    def _handle_request(self, event: Event, wire: bytes | None = None) -> Iterable[Action]:
        """Passes an event to the core, sends the frames among its actions, and returns the actions."""
        now = self._clock.now()
        actions = self._ask_core(event, now, wire)
        for action in actions:
            if isinstance(action, Send):
                self._link.send(action.interfaces, action.frame, time.monotonic())
            elif isinstance(action, SendToController):
                self._link.send_to_controller(action.frame, time.monotonic())
        if isinstance(event, FrameReceived) and event.frame.type in _TIMED:
            finished = self._clock.now()
            self._ask_core(HandlingTime(finished - now), finished)
        return actions

    def _requested(self, event: Event) -> Iterable[Action]:
        self._work = REQUEST
        return self._handle_request(event)

    def _ask_core(self, event: Event, now: float, wire: bytes | None = None) -> list[Action]:
        recorder = self._recorder
        if recorder is None:
            return self._router.handle(event, now)
        recorder.event(event, now, wire)
        actions = self._router.handle(event, now)
        recorder.actions(event, actions)
        return actions

    def _record(self, do: Callable[[Recorder], None]) -> None:
        """Ends a recording that cannot be written, on a full disk for instance; the router continues."""
        if self._recorder is None:
            return
        try:
            do(self._recorder)
        except OSError as error:
            self._log(RECORDING_FAILED, {"error": str(error)})
            self._recorder.close()
            self._recorder = None
