"""The page of a live run: an HTTP server on loopback only.

/           the whole page with the present state; it loads no other file
/topology   the topology, JSON
/state      the snapshot, JSON
/events     snapshots as server-sent events, about one a second
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any, Self

from testbed.errors import MachineError
from testbed.live.state import LiveState

HOST = "127.0.0.1"
#: Wall seconds between two snapshots.
_INTERVAL_S = 1.0
#: Wall seconds in which readers of the stream get the last snapshot when the server ends.
_FAREWELL_S = 2.0
#: Connections at a time: any user of the machine can open some.
_MOST_CONNECTIONS = 64
#: Connections with the stream of snapshots, which last as long as the run: they leave room for others.
_MOST_STREAMS = 48
_LOOPBACK_NAMES = ("127.0.0.1", "localhost")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self';"
        " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class LiveServer:
    """Serves a state until it is closed.

    A context manager: on leaving, readers still get the final state.

    Args:
        port: port of the server; another port is used if it is taken, see `url`.

    Raises:
        MachineError: the server cannot listen on loopback.
    """

    def __init__(self, state: LiveState, port: int) -> None:
        self._state = state
        self._fresh = threading.Condition()
        self._snapshot = b"{}"
        self._version = 0
        self._over = threading.Event()
        self._complete = False
        self._readers = 0
        handler = type("_Handler", (_Requests,), {"live": self})
        self._server = _listen(port, handler)
        self._serving = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="http", daemon=True
        )
        self._refreshing = threading.Thread(target=self._refresh, name="snapshots", daemon=True)
        self._topology = json.dumps(state.topology()).encode()
        self._page = files("testbed.live").joinpath("page.html").read_bytes()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def __enter__(self) -> Self:
        self._serving.start()
        self._refreshing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        # The last snapshot may have changes, above all the verdict of the run.
        self._refreshing.join()
        with self._fresh:
            self._complete = True
            self._fresh.notify_all()
            # Threads of readers do not keep the process from ending.
            self._fresh.wait_for(lambda: not self._readers, _FAREWELL_S)
        self._server.shutdown()
        self._server.server_close()
        self._serving.join()

    def _refresh(self) -> None:
        while True:
            over = self._over.is_set()
            snapshot = json.dumps(self._state.snapshot(), separators=(",", ":")).encode()
            with self._fresh:
                self._snapshot, self._version = snapshot, self._version + 1
                self._fresh.notify_all()
            if over:
                return
            self._over.wait(_INTERVAL_S)

    def document(self, path: str) -> tuple[str, bytes] | None:
        """Returns content type and content of a path that is not the stream."""
        if path == "/topology":
            return "application/json", self._topology
        if path not in ("/", "/state"):
            return None
        with self._fresh:
            self._fresh.wait_for(lambda: self._version > 0)
            snapshot = self._snapshot
        if path == "/state":
            return "application/json", snapshot
        page = self._page
        for name, content in ((b"{{topology}}", self._topology), (b"{{state}}", snapshot)):
            # In a script element, "</" would end the element, and "<!--" change where it ends.
            page = page.replace(name, content.replace(b"<", b"\\u003c"), 1)
        return "text/html; charset=utf-8", page

    def next_snapshot(self, seen: int) -> tuple[int, bytes] | None:
        """Returns the newest snapshot, once its number exceeds `seen`; None if the server ends."""
        with self._fresh:
            self._fresh.wait_for(lambda: self._version > seen or self._complete)
            return (self._version, self._snapshot) if self._version > seen else None

    @contextmanager
    def reader(self) -> Iterator[bool]:
        """Registers a reader, for which the server waits a while at its end; yields whether there is room."""
        with self._fresh:
            self._readers += 1
            room = self._readers <= _MOST_STREAMS
        try:
            yield room
        finally:
            with self._fresh:
                self._readers -= 1
                self._fresh.notify_all()


class _Requests(BaseHTTPRequestHandler):
    """Answers GET; refuses other methods and other host names."""

    live: LiveServer
    protocol_version = "HTTP/1.1"
    server_version = "cbcb"
    sys_version = ""
    #: Seconds after which an idle connection is closed.
    timeout = 30

    def do_GET(self) -> None:
        # A foreign page may have its own name resolve to 127.0.0.1 (DNS rebinding): refused.
        # A client leaves out port 80.
        if self.headers.get("Host", "").partition(":")[0] not in _LOOPBACK_NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        path = self.path.partition("?")[0]
        if path == "/events":
            self._events()
            return
        found = self.live.document(path)
        if found is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        kind, content = found
        self._begin(kind, len(content))
        self.wfile.write(content)

    def _events(self) -> None:
        self.close_connection = True
        seen = 0
        with self.live.reader() as room, suppress(OSError):  # the reader may have gone
            if not room:
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
                return
            self._begin("text/event-stream", None)
            while (fresh := self.live.next_snapshot(seen)) is not None:
                seen, snapshot = fresh
                self.wfile.write(b"data: " + snapshot + b"\n\n")
            self.wfile.write(b"event: end\ndata: {}\n\n")

    def _begin(self, kind: str, length: int | None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: requests need no log."""


def _listen(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    for candidate in (port, 0):
        try:
            server = _Server((HOST, candidate), handler)
        except OSError as error:
            if candidate and error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            raise MachineError(f"cannot listen on {HOST}:{candidate}: {error.strerror}") from error
        return server
    raise AssertionError("unreachable")


class _Server(ThreadingHTTPServer):
    """A thread for each connection, up to a number of them; further connections are closed."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs nothing: a browser may disconnect at any time."""
