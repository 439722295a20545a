"""The commands that a running emulation takes from its user.

The run listens on a Unix socket in its state folder, to which only the user of the run (root) may
connect: one JSON object a line, `do` and the operands, answered by one object with `ok`. Commands are carried
out between the items of the workload, and logged with their experiment time (`captures.rundir.faults`).
What a command changes in the network is an event of experiment files (`testbed.experiments.events`): the
controller detects and logs the change, and oracle and accounting read the controller's log.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.faults import COMMANDS, CommandRecord
from router.runtime.lines import LineSocket, LineTooLongError, parse_object
from testbed.experiments.config.events import read_event
from testbed.experiments.config.schema import Problems
from testbed.experiments.events import Ends, links_between
from testbed.experiments.events.network import Fault, LinkImpair, NetworkControl
from testbed.experiments.workload.driver import Driver
from testbed.support.errors import InputError, RunError, reading
from topos import Link, Topology

#: Bytes of one command.
LINE_LIMIT = 64 * 1024
_BACKLOG = 16
Request = Mapping[str, Any]


@dataclass
class Commands:
    """Takes commands while the workload is played and the network is held.

    Args:
        path: of the socket.
        run: the run folder, in which commands are logged.
        namespace: gives the path of the network namespace of a node's host.
        shaped: gives links as `network.shape` would make them; raises InputError where it cannot.
        unsettled: returns None if every router has the trees of the present network, otherwise the fault in
            words.
        quiet_s: gives the wall seconds for which a quiet network moves no frame
            (`testbed.emulation.control.quiescence.quiet_period_s`).
    """

    path: Path
    run: RunLayout
    topology: Topology
    network: NetworkControl
    namespace: Callable[[int], str]
    shaped: Callable[[Ends, Mapping[str, float | None]], list[Link]]
    unsettled: Callable[[], str | None]
    quiet_s: Callable[[], float]
    _now_s: Callable[[], float] = field(default_factory=lambda: lambda: 0.0, init=False)

    @contextmanager
    def served(self, driver: Driver, now_s: Callable[[], float]) -> Iterator[None]:
        """Takes commands until the context ends.

        Args:
            now_s: gives the experiment second.

        Raises:
            OSError: the socket cannot be made.
        """
        self._now_s = now_s
        connections: set[LineSocket] = set()

        def accept() -> None:
            try:
                lines = LineSocket(listener.accept()[0], LINE_LIMIT)
            except OSError:  # the peer has gone, or the process has no descriptor left
                return
            connections.add(lines)
            driver.attend(lines, partial(serve, lines))

        def serve(lines: LineSocket) -> None:
            received, is_open = lines.receive()
            for line in received:
                is_open = (
                    lines.send(json.dumps(self.answer(line)).encode() + b"\n")
                    and not lines.pending
                    and is_open
                )
            if not is_open:
                driver.ignore(lines)
                connections.discard(lines)
                lines.close()

        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with listener:
            # Before bind, so that the file never has other permissions (Linux takes them from the socket).
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(str(self.path))
            listener.listen(_BACKLOG)
            driver.attend(listener, accept)
            try:
                yield
            finally:
                self.path.unlink(missing_ok=True)
                for source in (listener, *connections):
                    driver.ignore(source)
                for lines in connections:
                    lines.close()

    def answer(self, line: bytes | LineTooLongError) -> dict[str, Any]:
        try:
            request = _parse(line)
            match request.get("do"):
                case "fault":
                    return {"ok": True, **self._fault(request)}
                case "enter":
                    return {"ok": True, **self._enter(request)}
                case "trees":
                    return {"ok": True, "fault": self.unsettled(), "quiet_s": self.quiet_s()}
            raise InputError(f"do: {request.get('do')!r}; expected fault or enter or trees")
        except InputError as error:
            return {"ok": False, "error": str(error)}

    def _fault(self, request: Request) -> dict[str, Any]:
        event = self._read_event(request)
        if not isinstance(event, Fault):
            raise InputError(
                f"{event.action}: is no event of the network; applications are asked by pub and sub"
            )
        steps = list(event.steps())
        if len(steps) > 1:
            raise InputError(f"{event.action}: has several moments; expected an event of one moment")
        if isinstance(event, LinkImpair):
            self._impair(request, event)
        else:
            COMMANDS.append(self.run, self._record(request))
            event.apply(self.network)
        return {"at_s": self._now_s()}

    def _read_event(self, request: Request) -> Any:
        entry = request.get("event")
        if not isinstance(entry, dict):
            raise InputError(f"event: {entry!r}; expected an object, as a section [[events]] has it")
        problems = Problems(str(request.get("command", "command")))
        event = read_event(problems, "", {**entry, "at_s": 0}, self.topology)
        problems.raise_if_any()
        return event

    def _impair(self, request: Request, event: LinkImpair) -> None:
        if event.link is None:
            raise InputError(f"{event.action}: expected the nodes at the ends of a link")
        (link,) = links_between(self.topology, event.link)
        # Every machine is asked before the first one changes its end.
        changed = self.shaped(event.link, event.properties)
        failure: RunError | None = None
        try:
            self.network.shape(event.link, event.properties)
        except RunError as error:
            # The kernel takes no such value. One end may have it, or have had it for a moment.
            failure = error
        record = self._record(request)
        if failure is not None:
            record["failure"] = str(failure)
        if failure is not None or any(end.lossy for end in changed):
            record["lossy_link"] = link.index
        if any(end.duplicate_percent for end in changed):
            record["doubling"] = True
        COMMANDS.append(self.run, record)
        if failure is not None:
            raise InputError(str(failure)) from failure

    def _enter(self, request: Request) -> dict[str, Any]:
        node = request.get("node")
        if type(node) is not int or not 0 <= node < len(self.topology.nodes):
            raise InputError(f"node: {node!r}; expected 0 to {len(self.topology.nodes) - 1}")
        answer = {"namespace": self.namespace(node)}
        COMMANDS.append(self.run, self._record(request))
        return answer

    def _record(self, request: Request) -> CommandRecord:
        """The record of a command that is carried out now."""
        command = request.get("command")
        text = command if isinstance(command, str) else json.dumps(request)
        return CommandRecord(at_s=self._now_s(), time_ns=time.time_ns(), command=text)


def _parse(line: bytes | LineTooLongError) -> dict[str, Any]:
    if isinstance(line, LineTooLongError):
        raise InputError(str(line))
    with reading():
        return parse_object(line)
