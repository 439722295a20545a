"""The page of a live run: an HTTP server on loopback only.

/           the whole page with the present state; it loads no other file
/topology   the topology, JSON
/state      the snapshot, JSON
/events     snapshots as server-sent events, about one a second
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import socket
import threading
from contextlib import suppress
from importlib.resources import files
from typing import Any, Self

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from testbed.results.live.state import LiveState
from testbed.support.errors import MachineError

HOST = "127.0.0.1"
#: Wall seconds between two snapshots.
_INTERVAL_S = 1.0
#: Wall seconds in which readers of the stream get the last snapshot when the server ends.
_FAREWELL_S = 2.0
#: Seconds after which an idle connection is closed.
_IDLE_S = 30
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
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Server": "cbcb",
}


class LiveServer:
    """Serves a state until it is closed.

    A context manager: on leaving, readers still get the final state. The server runs in a thread of its own.

    Args:
        port: port of the server; another port is used if it is taken, see `url`.

    Raises:
        MachineError: the server cannot listen on loopback.
    """

    def __init__(self, state: LiveState, port: int) -> None:
        self._state = state
        self._socket = _listen(port)
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}/"
        self.topology = json.dumps(state.topology()).encode()
        self.snapshot = b"{}"
        self.readers: set[asyncio.Task[None] | None] = set()
        self._serving = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._serving.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with suppress(RuntimeError):  # the loop is closed after a failure
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def is_alive(self) -> bool:
        """Whether the server has not failed; on leaving, its failure is raised."""
        return self._failure is None

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._failure = error
        finally:
            # Clients of a failed server are refused, and do not wait.
            self._socket.close()
            self._serving.set()

    async def _serve(self) -> None:
        # A browser may disconnect at any time, and requests need no log.
        logging.getLogger("tornado").setLevel(logging.CRITICAL)
        self._loop = asyncio.get_running_loop()
        self._over, self.complete = asyncio.Event(), asyncio.Event()
        routes = [(r"/events", _Events), (r"(/|/state|/topology)", _Document)]
        application = Application(
            [(path, handler, {"live": self}) for path, handler in routes],
            default_handler_class=_Answer,
            default_handler_args={"live": self},
        )
        server = _Server(application, idle_connection_timeout=_IDLE_S, max_body_size=0)
        server.add_sockets([self._socket])
        while not self._over.is_set():
            self._refresh()
            self._serving.set()
            await pause(self._over)
        # The last snapshot may have changes, above all the verdict of the run.
        self._refresh()
        self.complete.set()
        server.stop()
        if self.readers:
            await asyncio.wait(filter(None, self.readers), timeout=_FAREWELL_S)
        await server.close_all_connections()

    def _refresh(self) -> None:
        self.snapshot = json.dumps(self._state.snapshot(), separators=(",", ":")).encode()

    def page(self) -> bytes:
        page = files("testbed.results.live").joinpath("page.html").read_bytes()
        before, between, after = re.split(rb"{{\w+}}", page)
        # In a script element, "</" would end the element, and "<!--" change where it ends.
        topology, state = (text.replace(b"<", b"\\u003c") for text in (self.topology, self.snapshot))
        return before + topology + between + state + after


async def pause(until: asyncio.Event) -> None:
    """Waits for the time between two snapshots, but not beyond an event."""
    with suppress(TimeoutError):
        await asyncio.wait_for(until.wait(), _INTERVAL_S)


class _Answer(RequestHandler):
    """Refuses requests for other host names; answers 404 where no other handler is chosen."""

    def initialize(self, live: LiveServer) -> None:
        self.live = live

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        # A foreign page may have its own name resolve to 127.0.0.1 (DNS rebinding): refused.
        if self.request.host_name not in _LOOPBACK_NAMES:
            raise HTTPError(421)
        if type(self) is _Answer:
            raise HTTPError(404)


class _Document(_Answer):
    def get(self, path: str) -> None:
        if path == "/":
            self.write(self.live.page())
        else:
            self.set_header("Content-Type", "application/json")
            self.write(self.live.snapshot if path == "/state" else self.live.topology)


class _Events(_Answer):
    async def get(self) -> None:
        live = self.live
        if len(live.readers) >= _MOST_STREAMS:
            raise HTTPError(503)
        live.readers.add(task := asyncio.current_task())
        self.set_header("Content-Type", "text/event-stream")
        last = False
        try:
            while not last:
                last = live.complete.is_set()
                self.write(b"data: " + live.snapshot + b"\n\n")
                await self.flush()
                await pause(live.complete)
            await self.finish(b"event: end\ndata: {}\n\n")
        except StreamClosedError:
            pass  # the reader has gone
        finally:
            live.readers.discard(task)


class _Server(HTTPServer):
    """Closes connections beyond a number of them."""

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        if len(self._connections) < _MOST_CONNECTIONS:
            super().handle_stream(stream, address)
        else:
            stream.close()


def _listen(port: int) -> socket.socket:
    try:
        return bind_sockets(port, HOST)[0]
    except OSError as error:
        if port and error.errno in (errno.EADDRINUSE, errno.EACCES):
            return _listen(0)
        raise MachineError(f"cannot listen on {HOST}:{port}: {error.strerror}") from error
