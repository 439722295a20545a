"""The page of a live run: an HTTP server on loopback only.

/           the whole page with the present state; it loads no other file
/topology   the topology, JSON
/state      the snapshot, JSON
/events     snapshots as server-sent events, about one a second
/console    with `control`: a command of `cbcb` on a pseudo-terminal, as this user, for whoever has the token

The page shows consoles as lines (docs/adr/0041-consoles-are-lines.md). A console ends with its connection:
its command then gets SIGHUP, as from a terminal that is closed.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import termios
import threading
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from router.system import start_module
from testbed.results.live.state import LiveState
from testbed.support.errors import InputError, MachineError

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
_MOST_CONSOLES = 8
#: Commands that a console may start: those of a running emulation, which take `--run`.
_COMMANDS = ("shell", "cli", "sub", "pub", "link", "node")
_CHUNK_BYTES = 1 << 14
#: Wall seconds between two looks whether a command without its terminal has ended.
_ENDS_S = 0.05
_ROWS_AND_COLUMNS = (24, 160)
_LOOPBACK_NAMES = ("127.0.0.1", "localhost")
#: The page before the topology, between it and the state, and behind the state.
_PAGE = re.split(rb"{{\w+}}", files("testbed.results.live").joinpath("page.html").read_bytes())
_SCRIPT = sha256(_PAGE[2].split(b"<script>")[1].split(b"</script>")[0]).digest()
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{b64encode(_SCRIPT).decode()}';"
        " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Server": "cbcb",
}


class LiveServer:
    """Serves a state until it is closed.

    A context manager: on leaving, readers still get the final state. The server runs in a thread of its own;
    its `failure` is raised on leaving.

    Args:
        port: port of the server; another port is used if it is taken, see `url`.
        control: whether the page has consoles: whoever has `url`, whose fragment is a token, acts as this
            user.

    Raises:
        InputError: a run without an emulation that could be controlled.
        MachineError: the server cannot listen on loopback.
    """

    def __init__(self, state: LiveState, port: int, control: bool = False) -> None:
        if control and not state.tag:
            raise InputError(f"--control: {state.run_dir.name} is no emulation that is running")
        self._state = state
        self.tag = state.tag or ""
        self.token = secrets.token_urlsafe() if control else ""
        self._socket = _listen(port)
        # A browser sends no fragment to a server.
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}/" + (f"#{self.token}" if control else "")
        self.topology = json.dumps(state.topology).encode()
        self.snapshot = b"{}"
        self.readers: set[asyncio.Task[None] | None] = set()
        self.consoles: set[asyncio.Task[None]] = set()
        self._serving = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._serving.wait()
        if self.failure is not None:
            raise self.failure
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with suppress(RuntimeError):  # the loop is closed after a failure
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()
        if self.failure is not None and error is None:
            raise self.failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self.failure = error
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
        if self.token:
            routes.append((r"/console", _Console))
        application = Application(
            [(path, handler, {"live": self}) for path, handler in routes],
            default_handler_class=_Answer,
            default_handler_args={"live": self},
            websocket_max_message_size=_CHUNK_BYTES,
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
        if self.consoles:
            await asyncio.wait(self.consoles, timeout=_FAREWELL_S)

    def _refresh(self) -> None:
        self.snapshot = json.dumps(self._state.snapshot(), separators=(",", ":")).encode()

    def page(self) -> bytes:
        # In a script element, "</" would end the element, and "<!--" change where it ends.
        topology, state = (text.replace(b"<", b"\\u003c") for text in (self.topology, self.snapshot))
        return b"".join((_PAGE[0], topology, _PAGE[1], state, _PAGE[2]))


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


class _Console(_Answer, WebSocketHandler):
    """`/console?token=TOKEN&word=COMMAND&word=ARGUMENT...`: its messages are output and input."""

    _terminal = -1
    _transport: asyncio.BaseTransport | None = None

    def prepare(self) -> None:
        super().prepare()
        given = self.get_query_argument("token", "").encode()
        of_page = self.request.headers.get("Origin") == f"http://{self.request.host}"
        # Only the page itself: no other page, and no program that knows the address alone.
        if not compare_digest(given, self.live.token.encode()) or not of_page:
            raise HTTPError(403)
        self._words = self.get_query_arguments("word", strip=False)
        if not {*self._words[:1]} & {*_COMMANDS}:
            raise HTTPError(400)
        if len(self.live.consoles) >= _MOST_CONSOLES:
            raise HTTPError(503)

    def open(self, *_: str, **__: str) -> None:
        command, *words = self._words
        self._terminal, end = os.openpty()
        termios.tcsetwinsize(end, _ROWS_AND_COLUMNS)
        # `cbcb` is a command in the shell of a node, too.
        path = os.pathsep.join([str(Path(sys.prefix, "bin")), os.environ.get("PATH", os.defpath)])
        process = start_module(
            *("testbed.cli.main", command, "--run", self.live.tag, *words),
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, "TERM": "dumb", "PATH": path},
            preexec_fn=_take_terminal,
        )
        os.close(end)
        self.live.consoles.add(task := asyncio.create_task(self._show(process, self._terminal)))
        task.add_done_callback(self.live.consoles.discard)

    async def _show(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        """Sends what the command prints, and in the end its exit status."""
        output = asyncio.StreamReader()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(terminal, "rb", buffering=0)
        )
        if self.ws_connection is None:  # it has gone meanwhile
            self.on_close()
        with suppress(OSError, WebSocketClosedError):  # EIO: no process has the terminal any more
            while data := await output.read(_CHUNK_BYTES):
                await self.write_message(data, binary=True)
        self.on_close()
        while process.poll() is None:
            await asyncio.sleep(_ENDS_S)
        self.close(1000, f"exit status {process.returncode}")

    def on_message(self, message: str | bytes) -> None:
        # A terminal that nothing reads takes some kilobytes; what is beyond is lost.
        with suppress(OSError):
            os.write(self._terminal, message.encode() if isinstance(message, str) else message)

    def on_close(self) -> None:
        self._terminal = -1
        if self._transport is not None:
            self._transport.close()


def _take_terminal() -> None:
    """Makes standard input the terminal of the session, at ordinary priority.

    Its Ctrl-C and its end also reach a command of a run that ignores them, as under `nohup`.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)


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
