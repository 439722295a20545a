"""The parent of all routers of a run: ``python -m router.runtime.parent [--on-request] SPECS.json``.

The parent imports the modules of a router once, then forks one router for each spec (`RouterSpec`, in
a JSON list); the routers share that memory. With `--on-request` it forks them on the first line of its
standard input, so that it can load everything while the network is made. Further lines are requests, one
JSON object each: ``{"kill": node}`` kills a router (SIGKILL), and ``{"start": spec}`` starts a router whose
node has none.

On standard output it writes a JSON line for each router:
``{"event":"ready","node":n,"pid":p,"matcher":engine}`` when it has opened its sockets, and
``{"event":"exited","node":n,"pid":p,"status":s}`` when it has ended (s = 0: cleanly; s < 0: killed by signal
-s).

At the end of its standard input, or on SIGTERM, it stops the routers (SIGTERM; they write their
counters), waits, kills the routers that have not ended in time, and ends: with status 0 if every router ended
with 0, those apart that it was asked to kill. It also ends when all routers have ended, unless it was asked
to kill one, which it may be asked to start again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import sys
import time
from pathlib import Path
from typing import Any

from router.records.forms import parse_settings
from router.runtime.process import RouterSpec, load_engines, spawn_routers

#: Seconds in which routers must write their counters and end: a base, and a share for each router.
_STOP_TIMEOUT_S, _STOP_TIMEOUT_PER_ROUTER_S = 10.0, 0.05
ON_REQUEST = "--on-request"


def stop_timeout_s(routers: int) -> float:
    """Returns the seconds in which so many routers must have ended."""
    return _STOP_TIMEOUT_S + _STOP_TIMEOUT_PER_ROUTER_S * routers


class Parent:
    """The process that forks the routers and supervises them."""

    def __init__(self) -> None:
        self._children: dict[int, int] = {}
        self._failed = False
        #: Whether the routers are to end, and when those are killed that have not ended by themselves.
        self._stopping = False
        self._kill_at: float | None = None
        self._ready_input = self._requests = b""
        self._ready_writer = -1
        #: Nodes whose routers were killed on request.
        self._killed: set[int] = set()
        self._selector = selectors.DefaultSelector()

    def run(self, specs: list[RouterSpec]) -> int:
        """Forks the routers and returns the exit status once all have ended."""
        ready_reader, ready_writer = os.pipe()
        wake_reader, wake_writer = os.pipe()
        for descriptor in (ready_reader, wake_reader, wake_writer):
            os.set_blocking(descriptor, False)
        # Room for the lines of many routers that become ready while this process is still forking.
        with contextlib.suppress(OSError):
            fcntl.fcntl(ready_writer, fcntl.F_SETPIPE_SZ, 1024 * 1024)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Handlers that do nothing: the loop reads the number of the signal from the wake-up descriptor.
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_writer)
        self._selector.register(ready_reader, selectors.EVENT_READ, self._readiness)
        self._selector.register(wake_reader, selectors.EVENT_READ, self._signals)
        # A regular file cannot be polled, and never ends a run.
        with contextlib.suppress(PermissionError):
            self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._standard_input)
        self._ready_writer = ready_writer
        self._children = spawn_routers(specs, ready_writer)
        self._reap()
        while self._children or (self._killed and not self._stopping):
            timeout = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            for key, _mask in self._selector.select(timeout):
                key.data(key.fd)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._signal_all(signal.SIGKILL)
                self._kill_at = None
        os.close(ready_writer)
        self._readiness(ready_reader)
        return 1 if self._failed else 0

    def _readiness(self, descriptor: int) -> None:
        """Prints the lines that the children have written."""
        try:
            data = os.read(descriptor, 65_536)
        except BlockingIOError:
            return
        if not data and descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        *lines, self._ready_input = (self._ready_input + data).split(b"\n")
        for line in lines:
            _print(json.loads(line))

    def _signals(self, descriptor: int) -> None:
        numbers = os.read(descriptor, 4096)
        if signal.SIGTERM in numbers:
            self._stop()
        self._reap()

    def _standard_input(self, descriptor: int) -> None:
        data = os.read(descriptor, 65_536)
        if not data:
            self._selector.unregister(descriptor)
            self._stop()
        *lines, self._requests = (self._requests + data).split(b"\n")
        for line in lines:
            self._request(json.loads(line))

    def _request(self, request: dict[str, Any]) -> None:
        match request:
            case {"kill": int(node)}:
                self._killed.add(node)
                for child, of in self._children.items():
                    if of == node:
                        os.kill(child, signal.SIGKILL)
            case {"start": dict(content)} if not self._stopping:
                spec = parse_settings(RouterSpec, json.dumps(content).encode())
                self._killed.discard(spec.node)
                self._children |= spawn_routers([spec], self._ready_writer)

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._kill_at = time.monotonic() + stop_timeout_s(len(self._children))
            self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        # A child that was not waited for keeps its process id, so no other process can get the signal.
        for child in self._children:
            os.kill(child, number)

    def _reap(self) -> None:
        while self._children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            node = self._children.pop(child)
            self._failed = self._failed or (code != 0 and node not in self._killed)
            _print({"event": "exited", "node": node, "pid": child, "status": code})


def _print(content: dict[str, Any]) -> None:
    # A reader that is gone has closed standard input too, which ends this process.
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(content), flush=True)


def read_specs(path: Path) -> list[RouterSpec]:
    """Reads a JSON list of router specs.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a JSON list of specs; the message names the file, the position and the
            field.
    """
    try:
        return parse_settings(list[RouterSpec], path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def main(arguments: list[str]) -> int:
    on_request = arguments[:1] == [ON_REQUEST]
    if len(arguments) != 1 + on_request:
        print(f"usage: python -m router.runtime.parent [{ON_REQUEST}] SPECS.json", file=sys.stderr)
        return 2
    try:
        specs = read_specs(Path(arguments[-1]))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    load_engines(specs)
    if on_request:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not os.read(sys.stdin.fileno(), 64):
            return 0  # nobody wants the routers any more
    return Parent().run(specs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
