"""The processes of a run except captures and switches: the controller and the parent of the routers.

A `ProcessLog` reads events of a process as they are written, and waits for an event.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.epochs import Epochs
from captures.rundir.files import Follower, RunFolderError, parsed, read_json
from router.records.json_file import to_json, write_json
from router.runtime.parent import ON_REQUEST, stop_timeout_s
from router.runtime.process import RouterSpec
from testbed.controller.settings import Settings
from testbed.support.errors import RunError
from testbed.support.processes import Child, last_line, wait_until

Event = Mapping[str, Any]


class ProcessLog:
    """Reads the events of a log as they are written.

    Args:
        path: the log, JSON lines; it need not exist yet.
        check: called between reads; raises if the writer has died.
    """

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        self._follower = Follower(path, partial(parsed, dict[str, Any]))
        self._check = check
        self.events: list[Event] = []

    def read(self) -> None:
        """Reads the events that were written since the last call; only whole lines."""
        self.events += self._follower.read()

    def reader(self) -> Callable[[], list[Event]]:
        """Returns a function that reads the log, and returns the events since its last call."""
        position = 0

        def fresh() -> list[Event]:
            nonlocal position
            self.read()
            found = self.events[position:]
            position += len(found)
            return found

        return fresh

    def wait_for(
        self,
        matches: Callable[[Event], bool],
        timeout_s: float,
        what: str,
        check: Callable[[], None] | None = None,
        since: int = 0,
    ) -> Event:
        """Returns the first event, past or future, from position `since` on, for which `matches` is true.

        Args:
            timeout_s: wall seconds to wait.
            what: the expected event in words, for the error.
            check: called between reads as well; raises if the event can no longer occur.

        Raises:
            RunError: no such event was written in time; the message has the last event.
        """
        found: list[Event] = []
        seen = since

        def left() -> str | None:
            nonlocal seen
            self._check()
            if check is not None:
                check()
            self.read()
            found.extend(event for event in self.events[seen:] if matches(event))
            seen = len(self.events)
            if found:
                return None
            return f"last event: {json.dumps(self.events[-1])}" if self.events else "no event yet"

        wait_until(left, timeout_s, what)
        return found[0]


#: Wall seconds in which a router that is killed has ended, and one that is started again is ready.
_ROUTER_S = 60.0


class Controller:
    def __init__(self, run: RunLayout, settings: Settings) -> None:
        self._run = run
        self._settings = settings
        self._away = False
        self.child = self._start()
        self.log = ProcessLog(run.controller_log, self.check)
        self._epochs = Epochs()
        self._fresh = self.log.reader()

    def _start(self) -> Child:
        write_json(self._run.controller_config, self._settings)
        arguments, errors = [str(self._run.controller_config)], self._run.controller_errors
        return Child("the controller", "testbed.controller", arguments, errors, errors)

    def check(self) -> None:
        """Raises RunError if the controller has ended, and nobody has killed it on purpose."""
        if not self._away:
            self.child.check()

    def kill(self) -> None:
        """Kills the controller; `restart` follows."""
        self._away = True
        self.child.kill()

    def restart(self) -> int:
        """Starts the controller that was killed; it takes over.

        Returns its process id.
        """
        number = max(int(time.time()), self._settings.incarnation + 1)
        self._settings = replace(self._settings, incarnation=number)
        self.child = self._start()
        self._away = False
        return self.child.pid

    def epochs(self) -> Epochs:
        for event in self._fresh():
            self._epochs.take(event)
        return self._epochs

    def wait_for(
        self, name: str, timeout_s: float, what: str, check: Callable[[], None] | None = None
    ) -> Event:
        """Returns the first event of a name; see `ProcessLog.wait_for`."""
        return self.log.wait_for(lambda event: event["event"] == name, timeout_s, what, check)


class Routers:
    """The routers of a run, forked from one parent, and the parent's log.

    The parent starts at once, and the routers with `start`.
    """

    def __init__(self, run: RunLayout, specs: list[RouterSpec]) -> None:
        self._specs = {spec.node: spec for spec in specs}
        write_json(run.routers_specs, specs)
        arguments = [ON_REQUEST, str(run.routers_specs)]
        self.child = Child(
            "the routers' parent", "router.runtime.parent", arguments, run.routers_errors, run.routers_log
        )
        self.log = ProcessLog(run.routers_log, self.child.check)
        self._fresh, self._starting = self.log.reader(), self.log.reader()
        self._run = run
        #: Node -> routers that were killed on purpose, whose end has not been read; and how many were killed.
        self._expected: Counter[int] = Counter()
        self._kills: Counter[int] = Counter()
        self.pids: dict[int, int] = {}

    def start(self) -> None:
        """Lets the parent fork the routers.

        Raises:
            RunError: the parent has ended.
        """
        self.child.check()
        self.child.write_line("start")

    def not_ready(self) -> list[int]:
        """Returns the nodes whose routers have no socket since `start`; raises RunError if one has ended."""
        self.child.check()
        for event in self._starting():
            if event["event"] != "ready":
                raise self._ended(event["node"], "ended while starting")
            self.pids[event["node"]] = event["pid"]
        return [node for node in self._specs if node not in self.pids]

    def kill(self, node: int) -> None:
        """Kills the router of a node; returns when it has ended."""
        self._expected[node] += 1
        self._kills[node] += 1
        seen = len(self.log.events)
        self.child.write_line(json.dumps({"kill": node}))
        self._wait("exited", node, seen)

    def restart(self, node: int) -> int:
        """Starts the router of a node again; returns its process id once it has its sockets open.

        The router records its applications in a file of its own, and keeps no recording.
        """
        before = self._specs[node]
        self._specs[node] = spec = replace(
            before,
            incarnation=max(int(time.time()) & 0xFFFF_FFFF, before.incarnation + 1),
            records_path=str(self.restart_records(node)),
            recording_path=None,
        )
        seen = len(self.log.events)
        self.child.write_line(to_json({"start": spec}).decode())
        self.pids[node] = pid = int(self._wait("ready", node, seen)["pid"])
        return pid

    def restart_records(self, node: int) -> Path:
        """The file to which the router that is started next will append its records."""
        return self._run.applications_after_restart(node, self._kills[node])

    def _wait(self, event: str, node: int, seen: int) -> Event:
        """Waits for the next event of a router."""

        def matches(each: Event) -> bool:
            return each["node"] == node and each["event"] in (event, "exited")

        answer = self.log.wait_for(matches, _ROUTER_S, f"router r{node} is {event}", since=seen)
        if answer["event"] != event:
            raise self._ended(node, "ended while starting")
        return answer

    def check(self) -> None:
        """Raises RunError, which names the router, if a router has ended."""
        self.child.check()
        for event in self._fresh():
            if event["event"] == "exited" and self._expected[event["node"]]:
                self._expected[event["node"]] -= 1
            elif event["event"] == "exited":
                raise self._ended(event["node"], f"ended with status {event['status']}")

    def stop(self, *, whole: bool = True) -> dict[int, dict[str, Any]]:
        """Stops all routers.

        Args:
            whole: False: of a run that has lost a part, what there is.

        Returns the counters that each router wrote, by node.

        Raises:
            RunError: routers do not stop in order, or one left no counters, if `whole`.
        """
        # The parent kills late routers by itself, and ends then.
        with nullcontext() if whole else suppress(RunError):
            self.child.stop(2 * stop_timeout_s(len(self._specs)))
        counters = {}
        for node, spec in self._specs.items():
            try:
                counters[node] = read_json(Path(spec.counters_path), dict[str, Any])
            except RunFolderError as error:
                if whole:
                    raise RunError(f"router r{node} left no counters: {error}") from error
        return counters

    def check_again(self) -> None:
        """As `check`, of all routers, whether or not `check` has raised for them."""
        self._fresh, self._expected = self.log.reader(), Counter(self._kills)
        self.check()

    def _ended(self, node: int, how: str) -> RunError:
        return RunError(f"router r{node} {how}: {last_line(Path(self._specs[node].log_path))}")
