"""The application socket: the router's service for local processes, which defines most of its commands.

A Unix stream socket, one JSON object a line (docs/reference/application-socket.md). A bad request is
answered with an error; an application that does not read is disconnected.
"""

from __future__ import annotations

import errno
import math
import os
import selectors
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from router.content import shown
from router.protocol import events
from router.protocol.core.router import Router
from router.protocol.services import Answer, Handle, RequestError, Session
from router.records.applications import SERVED, ApplicationRecords
from router.records.attention import ServiceRecords
from router.records.json_file import RecordFile, json_line
from router.runtime.lines import REQUEST_LIMIT, LineSocket, LineTooLongError, parse_object

#: Bytes that may wait for an application that does not read.
OUTPUT_LIMIT = 8 * 1024 * 1024
#: Errors for which a connection cannot be accepted now but can later, and seconds until the next attempt.
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SHORTAGE_S = 0.2
#: Characters of the name of an application.
_NAME_LIMIT = 200
#: Characters of an error: it may repeat a part of a request.
_ERROR_LIMIT = 1000
#: Commands of every router, whatever its service: value of `op` -> the event that it gives to the core.
_EVENTS: Mapping[str, type[events.RequestUpdate | events.Settle]] = {
    "request_update": events.RequestUpdate,
    "settle": events.Settle,
}


class _Application:
    """One connected application."""

    def __init__(self, number: int, lines: LineSocket, name: str, session: Session) -> None:
        self.number = number
        self.lines = lines
        self.name = name
        self.session = session
        self.commands = session.commands()
        self.writing = False
        self.gone = False
        #: Requests that were read and not served; more are read behind them.
        self.waiting: deque[bytes | LineTooLongError] = deque()
        #: Whether more requests can come.
        self.open = True
        self.connected_ns = time.time_ns()
        #: Whether the records name the application, which keeps its name from then on.
        self.recorded = False
        #: Deliveries that the socket has not taken: value of `lines.accepted` at their end, source, seq.
        self.undelivered: deque[tuple[float, int, int]] = deque()


class Applications:
    """Accepts applications and serves their requests.

    Args:
        core: the protocol core, whose service has the sessions of applications.
        path: where the socket is made; a stale socket is replaced.
        selector: the event loop's; the data of every key is a callable that takes the event mask.
        handle: passes an event to the protocol core, performs the actions that are not for applications, and
            returns the others.
        status: the answer to a `status` request, with tables (true) or without.
        records: gets what the applications do; closed with this object.
        output_limit: bytes that may wait for one application.
        service_records: gets the records of the service's actions; None: they are not kept. Closed with this
            object.

    Attributes:
        disconnected_slow: applications disconnected because they did not read.
        records: see above.

    Raises:
        OSError: the socket cannot be made at `path`.
    """

    def __init__(
        self,
        core: Router,
        path: Path,
        selector: selectors.BaseSelector,
        handle: Handle,
        status: Callable[[bool], dict[str, Any]],
        records: ApplicationRecords,
        output_limit: int = OUTPUT_LIMIT,
        service_records: ServiceRecords | None = None,
    ) -> None:
        self._core, self._node = core, core.node
        self.disconnected_slow = 0
        self._path = path
        self._selector = selector
        self._handle = handle
        self._status = status
        self.records = records
        self._files: list[RecordFile] = [records] if service_records is None else [records, service_records]
        self._service_records = service_records
        #: Number and name of the application that left last: records of its departure name it.
        self._departed: tuple[int, str] | None = None
        self._output_limit = output_limit
        self._applications: dict[int, _Application] = {}
        self._connected = 0
        #: The applications with requests that wait, by number; the one whose turn is next comes first.
        self._behind: OrderedDict[int, _Application] = OrderedDict()
        self._listen_at: float | None = None
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        try:
            # Before bind, so that the file never has other permissions (Linux takes them from the socket).
            os.fchmod(self._listener.fileno(), 0o600)
            self._listener.bind(str(path))
        except OSError as error:
            self._listener.close()
            raise OSError(error.errno, f"application socket {path}: {error.strerror or error}") from error
        self._listener.listen(128)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def __len__(self) -> int:
        return len(self._applications)

    @property
    def records_lost(self) -> int:
        """Returns the number of records that have not been written and never will be."""
        return sum(file.lost for file in self._files)

    @property
    def idle(self) -> bool:
        """True if nothing waits to be read by an application, and no request to be served."""
        return not self._behind and not any(app.lines.pending for app in self._applications.values())

    def close(self) -> None:
        """Disconnects all applications, removes the socket, and writes the last records.

        A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        for app in list(self._applications.values()):
            app.gone = True
            self._forget(app)
        if self._listen_at is None:
            self._selector.unregister(self._listener)
        self._listener.close()
        self._path.unlink(missing_ok=True)
        for file in self._files:
            file.close()

    def next_deadline(self) -> float | None:
        """Returns the time at which `tick` is to be called, or None."""
        deadlines = (self._listen_at, *(file.next_deadline() for file in self._files))
        return min((at for at in deadlines if at is not None), default=None)

    def tick(self, now: float) -> None:
        for file in self._files:
            file.tick(now)
        if self._listen_at is not None and now >= self._listen_at:
            self._listen_at = None
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def perform(self, actions: Iterable[events.Action]) -> None:
        """Performs the deliveries among `actions`, and the actions of the service."""
        for action in actions:
            if isinstance(action, events.Deliver):
                self._deliver(action)
            elif isinstance(action, events.ServiceAction):
                self._perform_of_service(action)

    # Connections.

    def _accept(self, _mask: int) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _SHORTAGES:
                # The connection stays in the backlog; until a resource is free, polling would only take time.
                self._selector.unregister(self._listener)
                self._listen_at = time.monotonic() + _SHORTAGE_S
            return
        self._connected += 1
        number = self._connected
        lines = LineSocket(connection, REQUEST_LIMIT)
        app = _Application(number, lines, self._unused(f"app-{number}"), self._core.session(number))
        self._applications[app.number] = app
        self._selector.register(app.lines, selectors.EVENT_READ, lambda mask: self._ready(app, mask))

    def _ready(self, app: _Application, mask: int) -> None:
        # The application may have been disconnected since the selector reported it.
        if app.number not in self._applications:
            return
        if mask & selectors.EVENT_WRITE and not app.gone:
            app.gone = not app.lines.flush()
            self._record_deliveries(app)
        # Requests that wait are served before more are read: their number is bounded.
        if mask & selectors.EVENT_READ and not app.gone and not app.waiting:
            lines, app.open = app.lines.receive()
            app.waiting.extend(lines)
            if lines:
                self._behind[app.number] = app
        self._settle(app)

    @property
    def behind(self) -> bool:
        """True if requests were read that `serve` has not served."""
        return bool(self._behind)

    def serve(self, until: float) -> None:
        """Serves requests that were read, one of each application in turn: all, or until a time (monotonic).

        However many applications ask, and however much, the router gets back to its link; each call serves at
        least one request.
        """
        while self._behind:
            number, app = self._behind.popitem(last=False)
            self._serve(app, app.waiting.popleft())
            # The application may have been found gone, with requests that wait.
            if number in self._applications:
                if app.waiting:
                    self._behind[number] = app
                self._settle(app)
            if time.monotonic() >= until:
                return

    def _settle(self, app: _Application) -> None:
        """Updates the selector to the application's state after a request or a delivery."""
        if app.number not in self._applications:
            return
        if app.gone or not (app.open or app.waiting):
            app.gone = True
            self._departed = (app.number, app.name)
            self._forget(app)
            noticed_ns = time.time_ns()
            self.perform(self._handle(events.ApplicationGone(app.number)))
            if app.recorded:
                self.records.disconnected(time.time_ns(), self._node, app.name, noticed_ns)
            return
        writing = app.lines.pending > 0
        if writing != app.writing:
            app.writing = writing
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
            self._selector.modify(app.lines, mask, self._selector.get_key(app.lines).data)

    def _forget(self, app: _Application) -> None:
        del self._applications[app.number]
        self._behind.pop(app.number, None)
        self._selector.unregister(app.lines)
        app.lines.close()
        self._record_deliveries(app)
        noticed_ns = time.time_ns()
        for _end, source, seq in app.undelivered:
            self.records.undelivered(noticed_ns, self._node, app.name, source, seq)

    def _send(self, app: _Application, line: bytes) -> None:
        if app.gone:
            return
        if not app.lines.send(line):
            app.gone = True
        elif app.lines.pending - len(line) > self._output_limit:
            # What waited before this line: one line may be long, such as the tables of a router.
            self.disconnected_slow += 1
            app.gone = True

    def _record_deliveries(self, app: _Application) -> None:
        """Records the deliveries that the socket has taken since they were queued."""
        while app.undelivered and app.undelivered[0][0] <= app.lines.accepted:
            _end, source, seq = app.undelivered.popleft()
            self.records.delivered(time.time_ns(), self._node, app.name, source, seq)

    def _deliver(self, action: events.Deliver) -> None:
        line = json_line(
            {
                "event": "deliver",
                "source": action.source,
                "seq": action.seq,
                **self._core.content.delivery(action.message),
            }
        )
        for number in action.apps:
            app = self._applications.get(number)
            if app is not None:
                lost = app.gone
                self._send(app, line)
                if app.lines.pending or lost:
                    end = math.inf if lost else app.lines.accepted + app.lines.pending
                    app.undelivered.append((end, action.source, action.seq))
                else:
                    self.records.delivered(time.time_ns(), self._node, app.name, action.source, action.seq)
                self._settle(app)

    def _perform_of_service(self, action: events.ServiceAction) -> None:
        """Records an action of the service, and passes its line to the application."""
        number = action.application
        app = None if number is None else self._applications.get(number)
        if self._service_records is not None and (record := action.record()) is not None:
            name = None if app is None else app.name
            if self._departed is not None and self._departed[0] == number:
                name = self._departed[1]
            self._service_records.write(time.time_ns(), self._node, name, record)
        if app is not None and (content := action.line()) is not None:
            self._send(app, json_line(dict(content)))
            self._settle(app)

    # Requests.

    def _serve(self, app: _Application, line: bytes | LineTooLongError) -> None:
        request: dict[str, Any] = {}
        requested_ns = time.time_ns()
        try:
            if isinstance(line, LineTooLongError):
                raise line
            request = parse_object(line)
            answer, actions = self._answer(app, request)
        except (ValueError, RecursionError) as error:
            text = str(error)[:_ERROR_LIMIT]
            self._send(app, json_line({"id": request.get("id"), "ok": False, "error": text}))
            return
        if request["op"] in SERVED:
            if not app.recorded:
                app.recorded = True
                self.records.connected(app.connected_ns, self._node, app.name)
            self.records.served(time.time_ns(), self._node, app.name, requested_ns, request, answer)
        self._send(app, json_line({"id": request.get("id"), **answer}))
        self.perform(actions)

    def _answer(self, app: _Application, request: dict[str, Any]) -> Answer:
        operation = request.get("op")
        commands = app.commands
        if isinstance(operation, str) and operation in commands:
            return commands[operation](request, self._handle)
        if operation == "hello":
            return self._hello(app, request), ()
        for name, event in _EVENTS.items():
            if operation == name:
                if (reason := self._core.refusal(event)) is not None:
                    raise RequestError(f"op: {operation!r} is {reason}")
                return {"ok": True}, self._handle(event())
        if operation == "status":
            return {"ok": True, **self._status(request.get("tables", True) is not False)}, ()
        known = ", ".join(map(repr, ("hello", *commands, *_EVENTS, "status")))
        raise RequestError(f"op: {shown(operation)} is none of {known}")

    def _hello(self, app: _Application, request: dict[str, Any]) -> dict[str, Any]:
        name = request.get("app", app.name)
        if not isinstance(name, str) or not name or len(name) > _NAME_LIMIT or not name.isprintable():
            raise RequestError(
                f"app: expected a name of 1 to {_NAME_LIMIT} printable characters, got {shown(name)}"
            )
        if name != app.name:
            if app.recorded:
                raise RequestError(f"app: the records of this run name this application {app.name!r} already")
            if self._unused(name) != name:
                raise RequestError(f"app: the name {name!r} is in use")
        app.name = name
        return {"ok": True, "app": name, "node": self._node, "commands": sorted(app.commands)}

    def _unused(self, name: str) -> str:
        """Returns the name, lengthened if another application has it."""
        used = {app.name for app in self._applications.values()}
        while name in used:
            name += "'"
        return name
