"""The event loop of a live router: its link, its applications, its deadlines, and the signal to stop.

A wake-up for a message that compiled code forwards costs little more than the calls that receive and send it:
nothing runs in such a turn that need not. Deadlines are looked up again only when something may have changed
them.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from router.clock.clock import ExperimentClock
from router.clock.meter import DEADLINE, NOTHING, REQUEST, Meter
from router.matching.engines import COMPILED
from router.protocol import events
from router.protocol.core.router import Layer
from router.recording.file import Recorder
from router.records.applications import ApplicationRecords
from router.records.attention import ServiceRecords
from router.records.counters import router_counters
from router.runtime.applications import Applications
from router.runtime.link import Link, SendQueue
from router.runtime.packet_socket import PacketSockets
from router.wire.codec import WholeFrame
from router.wire.format import MESSAGES, REPLIES
from router.wire.frames import FrameType

if TYPE_CHECKING:
    from router.security.guard import Guard  # it comes with cryptography

#: Seconds in which a router handles input that had arrived when it was stopped.
_STOP_GRACE = 1.0
#: Seconds after which a turn takes no further control frame, then no further message, and then serves no
#: further request of applications.
_TURN_S = 0.005
#: Wall seconds between two looks at how long the oldest frame has waited.
_LAG_LOOK_S = 0.005
#: Descriptors that one wake-up reports, and bytes that signals leave behind.
_READY, _WAKE_BYTES = 64, 4096
#: Event in a router's log: its recording has ended early (`error`).
RECORDING_FAILED = "recording_failed"
#: Types of frames whose handling time the protocol uses.
_TIMED = frozenset({FrameType.SR, *REPLIES})
_MESSAGE = int(FrameType.MSG)


class RouterLoop:
    """Drives one router.

    Args:
        router: the protocol core, within its layers.
        matcher: the name of its matching engine.
        sockets: on the device that leads to the switch.
        socket_path: where applications connect.
        log: is called with the events for the operator: (event, fields).
        records: see `Applications`.
        recorder: records every event and the actions that answer it (None: no recording).
        clock: gives the experiment seconds of the protocol core. The link and the applications are served in
            wall seconds.
        meter: is given the lag of this loop and its longest turn.
        service_records: see `Applications`.
        guard: see `Link`. With a guard the core forwards all messages: compiled code makes no tags.
    """

    def __init__(
        self,
        router: Layer,
        matcher: str,
        sockets: PacketSockets,
        socket_path: Path,
        log: Callable[[str, dict[str, Any]], None],
        records: ApplicationRecords,
        recorder: Recorder | None,
        clock: ExperimentClock,
        meter: Meter,
        service_records: ServiceRecords | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._router = router
        self._core = core = router.core
        self._clock, self._meter = clock, meter
        self._lag_look_at = 0.0
        #: When this turn began (`time.monotonic`, `time.thread_time`), what it does, and what it did longest.
        self._began = self._began_cpu = self._since = self._longest_s = 0.0
        self._work = self._longest = NOTHING
        self._log = log
        self._recorder = recorder
        self._selector = selectors.EpollSelector()
        # The selector's own `select` costs more than some wake-ups' work.
        self._epoll = select.epoll.fromfd(os.dup(self._selector.fileno()))
        self._plane = None
        compiles = guard is None and matcher == COMPILED and core.service.sends_messages
        if compiles and (state := core.forwarding()) is not None:
            from router.forwarding.plane import DataPlane  # it comes with Numba

            descriptor = sockets.messages.fileno()
            self._plane = DataPlane(
                state,
                self._clock,
                sockets.buffers,
                descriptor,
                sockets.mtu,
                recorder,
                self._deliver,
                self._meter,
                _TURN_S,
            )
        self._guard = guard
        self._link = Link(core.node, sockets, log, plane=self._plane, guard=guard, neighbours=core.neighbours)
        self._applications = Applications(
            *(core, socket_path, self._selector, self._requested, self.status, records),
            service_records=service_records,
        )
        self._messages, self._control = sockets.messages.fileno(), sockets.control.fileno()
        self._masks: dict[int, int] = {}
        for each in (sockets.messages, sockets.control):
            self._selector.register(each, selectors.EVENT_READ)
            self._masks[each.fileno()] = selectors.EVENT_READ
        self._stop_receiver, self._stop_sender = socket.socketpair()
        self._stop_receiver.setblocking(False)
        self._stop_sender.setblocking(False)
        self._selector.register(self._stop_receiver, selectors.EVENT_READ, self._woken)
        self._stopping = False
        #: Descriptors of applications, and of the signal to stop, that were ready and have not been seen to;
        #: the one whose turn is next comes first.
        self._others: OrderedDict[int, int] = OrderedDict()
        #: Whether something may have changed a deadline, or what the link waits for, since the last look.
        self._changed = True
        #: When `link` or `applications` have something to do (wall seconds), and when the core has.
        self._wake_at: float | None = None
        self._due: float | None = None
        #: When the loop learned of `_due` (seconds of the clock).
        self._due_known_at = 0.0

    # Queries.

    def counters(self) -> dict[str, Any]:
        """Returns the counters of this router: see `router.records.counters`."""
        link = self._link
        link.collect(self._core.counters)
        counters = router_counters(
            self._core.counters,
            frames_received=link.intake.frames,
            frames_sent=link.frames_sent,
            bytes_received=link.intake.bytes,
            bytes_sent=link.bytes_sent,
            dropped=link.dropped(),
            socket_drops=link.sockets.drops(),
            applications_disconnected_slow=self._applications.disconnected_slow,
            records_lost=self._applications.records_lost,
            messages_compiled=link.compiled,
            refused={} if self._guard is None else self._guard.refused_by_sender(),
        )
        if (held := self._core.engine_bytes) is not None:
            counters["engine_bytes"] = held
        return counters

    def status(self, tables: bool) -> dict[str, Any]:
        """Returns the answer to a `status` request; the keys of JSON objects are text.

        `idle` means that this router has nothing to do: it has an epoch, no frame is held, awaits its
        next fragment or is to be sent, and no RA is due (except periodic RAs).

        Args:
            tables: include `table` (the rows of the routing table) and `interfaces`, which may be long.
        """
        core = self._core
        status: dict[str, Any] = {
            "node": core.node,
            "epoch": core.epoch,
            "counters": self.counters(),
            "idle": self._router.idle and self._link.idle and self._applications.idle,
        }
        if tables:
            status["table"] = [row.as_json() for row in self._core.rows()]
            status["interfaces"] = {str(i): node for i, node in sorted(core.interfaces().items())}
        return status

    # Running.

    def stop(self) -> None:
        """Makes `run` return soon.

        May be called from a signal handler, any number of times.
        """
        self._stopping = True
        # If the pipe is full of wake-up bytes already, one more is not needed.
        with suppress(BlockingIOError):
            self._stop_sender.send(b"\0")

    def run(self) -> None:
        """Runs until `stop` is called; then handles input that has already arrived, and returns.

        To be called in the main thread, where signals are handled.
        """
        # A signal that comes between two waits of compiled code ends the next, so that Python handles it.
        signal.set_wakeup_fd(self._stop_sender.fileno(), warn_on_full_buffer=False)
        self._handle(events.Started())
        while not self._stopping:
            self._turn(self._timeout())
        deadline = time.monotonic() + _STOP_GRACE
        while time.monotonic() < deadline and self._turn(0):
            pass
        # `close` closes the descriptor.
        signal.set_wakeup_fd(-1)
        self._record(Recorder.end)
        self._link.give_up_partial()
        # Before the counters are read: they count the records that could not be written.
        self._applications.close()

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
        self._applications.close()
        self._epoll.close()
        self._selector.close()
        self._stop_receiver.close()
        self._stop_sender.close()
        self._link.sockets.close()

    def _turn(self, timeout: float | None) -> bool:
        """Waits for input or a deadline, and handles it.

        Returns False if there was no input, and none is left.
        """
        ready = self._wait(timeout)
        began = self._began
        self._work = self._longest = NOTHING
        self._since, self._longest_s = began, 0.0
        control = messages = 0
        for descriptor, mask in ready:
            if descriptor == self._messages:
                messages = mask
            elif descriptor == self._control:
                control = mask
            else:
                self._others[descriptor] = mask
        # Control frames are never behind messages, of which there may be any number.
        if control or self._link.behind:
            self._control_ready(control, began)
        if messages or self._link.messages_behind:
            self._messages_ready(messages, time.monotonic())
        if self._others or self._applications.behind:
            self._applications_ready()
        if self._changed or self._link.changed or self._is_late(began):
            self._look_at_deadlines()
        self._does(NOTHING)
        self._meter.ends_turn(began, self._began_cpu, self._longest, self._clock)
        return bool(ready) or self._behind

    def _does(self, work: int) -> None:
        """Notes that the turn begins with other work."""
        now = time.monotonic()
        if self._work != NOTHING and now - self._since > self._longest_s:
            self._longest, self._longest_s = self._work, now - self._since
        self._work, self._since = work, now

    @property
    def _behind(self) -> bool:
        """Whether the next turn has something to do without waiting."""
        link = self._link
        waiting = link.behind or link.messages_behind or self._applications.behind
        return waiting or self._changed or link.changed

    def _applications_ready(self) -> None:
        """Reads from applications, accepts and serves them, and sees the signal to stop: a part of a turn.

        At least one descriptor is seen to. What is left is reported again, and comes first then, however many
        are ready.
        """
        until = time.monotonic() + _TURN_S
        keys, left = self._selector.get_map(), self._others
        while left:
            descriptor, mask = left.popitem(last=False)
            key = keys.get(descriptor)
            # An application may have been disconnected since.
            if key is not None:
                events = (selectors.EVENT_READ if mask & ~select.EPOLLOUT else 0) | (
                    selectors.EVENT_WRITE if mask & ~select.EPOLLIN else 0
                )
                key.data(events & key.events)
            if time.monotonic() >= until:
                break
        self._applications.serve(until)
        self._look_up_deadlines_after_messages()

    def _wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Waits for input or until the timeout; compiled code forwards messages while nothing else is ready.

        The turn begins at the end of the last wait.
        """
        plane, ready = self._plane, list[tuple[int, int]]()
        # Messages that were read come before those that arrive.
        hold = self._link.holds or self._link.messages_behind
        if plane is None or hold:
            ready = self._epoll.poll(timeout, _READY)
            self._began = time.monotonic()
        else:
            until = None if timeout is None else time.monotonic() + timeout
            ready = plane.wait(self._epoll, until)
            self._began = plane.woken
            if plane.log_error is not None:
                self._stop_recording(plane.log_error)
        self._began_cpu = time.thread_time()
        return ready

    def _is_late(self, now: float) -> bool:
        if self._wake_at is not None and now >= self._wake_at:
            return True
        return self._due is not None and self._clock.now() >= self._due

    def _look_up_deadlines_after_messages(self) -> None:
        """Looks up the deadlines that a message may change; the link marks itself changed if its own do."""
        self._link.note_waiting()
        self._look_up_due()
        self._wake_earlier(self._applications.next_deadline())

    def _look_at_deadlines(self) -> None:
        """Does what is due, and looks up what is due next."""
        now = time.monotonic()
        self._link.tick(now)
        self._applications.tick(now)
        self._tick()
        self._watch(self._link.control, self._control)
        self._watch(self._link.messages, self._messages)
        self._look_up_due()
        deadlines = (self._link.next_deadline(), self._applications.next_deadline())
        self._wake_at = min((at for at in deadlines if at is not None), default=None)
        self._changed = self._link.changed = False

    def _wake_earlier(self, at: float | None) -> None:
        if at is not None and (self._wake_at is None or at < self._wake_at):
            self._wake_at = at

    def _look_up_due(self) -> None:
        due = self._router.next_deadline()
        if due != self._due:
            self._due, self._due_known_at = due, self._clock.now()

    def _tick(self) -> None:
        self._look_up_due()
        due = self._due
        if due is not None and self._clock.now() >= due:
            # An event may make something due at a time that has passed: an SR that had to wait for a UR.
            self._meter.overdue(max(due, self._due_known_at), self._clock)
            self._does(DEADLINE)
            self._handle(events.Tick())

    def _timeout(self) -> float | None:
        if self._behind:
            return 0
        timeout = None if self._wake_at is None else max(0.0, self._wake_at - time.monotonic())
        if self._due is None:
            return timeout
        sleep = self._clock.timeout(self._due)
        return sleep if timeout is None else min(sleep, timeout)

    def _watch(self, queue: SendQueue, descriptor: int) -> None:
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if queue.wants_write else 0)
        if mask != self._masks[descriptor]:
            self._masks[descriptor] = mask
            self._selector.modify(descriptor, mask)

    def _control_ready(self, mask: int, now: float) -> None:
        self._changed = True
        link = self._link
        if mask & select.EPOLLOUT:
            link.control.flush(now)
        # Errors are read as frames are.
        if mask & ~select.EPOLLOUT or link.behind:
            self._look_at_lag(now, link.sockets.control.waited_s)
            for event, wire in link.receive_control(now):
                self._does(event.frame.type)
                self._handle(event, wire)
                if time.monotonic() - now > _TURN_S:
                    break

    def _messages_ready(self, mask: int, now: float) -> None:
        link = self._link
        if mask & select.EPOLLOUT:
            link.messages.flush(now)
            self._changed = True
        if mask & ~select.EPOLLOUT or link.messages_behind:
            if self._plane is None:
                self._look_at_lag(now, link.sockets.messages.waited_s)
            elif lag := self._plane.take_lag():
                self._meter.late(lag, self._clock)
            self._does(_MESSAGE)
            for event, wire in link.receive_messages(now):
                self._does(event.frame.type)
                self._handle(event, wire)
                if time.monotonic() - now > _TURN_S:
                    link.put_off_messages()
                    break
            self._look_up_deadlines_after_messages()

    def _look_at_lag(self, now: float, waited_s: Callable[[], float]) -> None:
        """Notes how long the frame has waited that is read next."""
        if now >= self._lag_look_at:
            self._lag_look_at = now + _LAG_LOOK_S
            self._meter.late(waited_s(), self._clock)

    def _woken(self, _mask: int) -> None:
        """Drops the bytes by which a signal has ended the wait; its handler has run."""
        self._stop_receiver.recv(_WAKE_BYTES)

    def _deliver(self, actions: list[events.Action]) -> float | None:
        """Performs the deliveries of a message that compiled code has decided; returns when to wake."""
        self._applications.perform(actions)
        self._wake_earlier(self._applications.next_deadline())
        return self._wake_at

    def _handle(self, event: events.Event, wire: WholeFrame | None = None) -> None:
        self._applications.perform(self._handle_request(event, wire))

    def _handle_request(self, event: events.Event, wire: WholeFrame | None = None) -> Iterable[events.Action]:
        """Passes an event to the core, sends the frames among its actions, and returns the actions."""
        message = isinstance(event, events.SendMessage) or (
            isinstance(event, events.FrameReceived) and event.frame.type in MESSAGES
        )
        self._changed |= not message
        now = self._clock.now()
        actions = self._ask_core(event, now, wire)
        for action in actions:
            if isinstance(action, events.Send):
                self._link.send(action.interfaces, action.frame, time.monotonic())
            elif isinstance(action, events.SendToController):
                self._link.send_to_controller(action.frame, time.monotonic())
        if isinstance(event, events.FrameReceived) and event.frame.type in _TIMED:
            finished = self._clock.now()
            self._ask_core(events.HandlingTime(finished - now), finished)
        return actions

    def _requested(self, event: events.Event) -> Iterable[events.Action]:
        self._does(REQUEST)
        return self._handle_request(event)

    def _ask_core(
        self, event: events.Event, now: float, wire: WholeFrame | None = None
    ) -> list[events.Action]:
        if self._recorder is None:
            return self._router.handle(event, now)
        self._record(lambda recorder: recorder.event(event, now, wire))
        actions = self._router.handle(event, now)
        self._record(lambda recorder: recorder.actions(event, actions))
        return actions

    def _record(self, do: Callable[[Recorder], None]) -> None:
        """Ends a recording that cannot be written, on a full disk for instance; the router continues."""
        if self._recorder is None:
            return
        try:
            if self._plane is not None and self._plane.log_error is not None:
                # Compiled code has forwarded messages of this turn that are not in the recording.
                raise self._plane.log_error
            do(self._recorder)
        except OSError as error:
            self._stop_recording(error)

    def _stop_recording(self, error: OSError) -> None:
        assert self._recorder is not None
        self._log(RECORDING_FAILED, {"error": str(error)})
        self._recorder.close()
        self._recorder = None
        if self._plane is not None:
            self._plane.log = self._plane.log_error = None
