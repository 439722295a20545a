"""The processes of a run except captures and switches: the controller and the parent of the routers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from captures.rundir.epochs import Epochs
from captures.rundir.files import RunFolderError, read_object, write_json
from captures.rundir.layout import RunLayout
from router.runtime.parent import ON_REQUEST, stop_timeout_s
from router.runtime.process import RouterSpec
from testbed.config.model import SecurityOptions
from testbed.emulation.event_log import Event, ProcessLog
from testbed.errors import RunError
from testbed.polling import wait_until
from testbed.processes import Child


class Controller:
    """The controller process and its log of events."""

    def __init__(
        self,
        run: RunLayout,
        layer: str,
        subtrees: bool,
        socket: Path,
        security: SecurityOptions,
        incarnation: int,
        ip: bool = False,
    ) -> None:
        write_json(
            run.controller_config,
            {
                "topology": str(run.topology),
                "layer": layer,
                "subtrees": subtrees,
                "socket": str(socket),
                "security": security.mode,
                "network_keys": str(run.network_keys),
                "signing_keys": str(run.signing_keys) if security.signs else None,
                "incarnation": incarnation,
                "ip": ip,
                "log": str(run.controller_log),
                "parent_pid": os.getpid(),
            },
        )
        arguments, errors = [str(run.controller_config)], run.controller_errors
        self.child = Child("the controller", "testbed.controller", arguments, errors, errors)
        self.log = ProcessLog(run.controller_log, self.child.check)
        self._epochs = Epochs()
        self._followed = 0

    def epochs(self) -> Epochs:
        """Returns the epochs in the controller's log so far."""
        fresh = self.log.since(self._followed)
        self._followed += len(fresh)
        for event in fresh:
            self._epochs.take(event)
        return self._epochs

    def wait_listening(self, timeout_s: float = 30) -> None:
        """Returns once switches can connect to the controller's socket."""
        self.wait_for("listening", timeout_s, "controller is listening")

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
        self._specs = specs
        write_json(run.routers_specs, [spec.as_json() for spec in specs])
        arguments = [ON_REQUEST, str(run.routers_specs)]
        self.child = Child(
            "the routers' parent", "router.runtime.parent", arguments, run.routers_errors, run.routers_log
        )
        self.log = ProcessLog(run.routers_log, self.child.check)
        self._checked = 0

    def start(self) -> None:
        """Lets the parent fork the routers.

        Raises:
            RunError: the parent has ended.
        """
        self.child.check()
        self.child.write_line("start")

    def wait_ready(self, timeout_s: float, check: Callable[[], None]) -> list[int]:
        """Returns the process ids of the routers, in order of `specs`, once all have their sockets open.

        Args:
            check: called while it waits.
        """
        pids: dict[int, int] = {}
        seen = 0

        def left() -> str | None:
            nonlocal seen
            self.child.check()
            check()
            fresh = self.log.since(seen)
            seen += len(fresh)
            for event in fresh:
                if event["event"] != "ready":
                    spec = next(spec for spec in self._specs if spec.node == event["node"])
                    raise RunError(f"router r{spec.node} ended while starting: {self._log_of(spec)}")
                pids[event["node"]] = event["pid"]
            missing = [spec.node for spec in self._specs if spec.node not in pids]
            return f"routers {missing[:10]} are not" if missing else None

        wait_until(left, timeout_s, "all routers are ready")
        return [pids[spec.node] for spec in self._specs]

    def check(self) -> None:
        """Raises RunError, which names the router, if a router has ended."""
        self.child.check()
        fresh = self.log.since(self._checked)
        self._checked += len(fresh)
        for event in fresh:
            if event["event"] == "exited":
                spec = next(spec for spec in self._specs if spec.node == event["node"])
                raise RunError(
                    f"router r{spec.node} ended with status {event['status']}: {self._log_of(spec)}"
                )

    def stop(self) -> dict[int, dict[str, Any]]:
        """Stops all routers.

        Returns the counters that each router wrote, by node.
        """
        # The parent kills late routers by itself, and ends then.
        self.child.stop(2 * stop_timeout_s(len(self._specs)))
        counters = {}
        for spec in self._specs:
            try:
                counters[spec.node] = read_object(Path(spec.counters_path))
            except RunFolderError as error:
                raise RunError(f"router r{spec.node} left no counters: {error}") from error
        return counters

    @staticmethod
    def _log_of(spec: RouterSpec) -> str:
        try:
            lines = Path(spec.log_path).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"
