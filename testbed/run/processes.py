"""The processes of a run beside tcpdump: the controller and the routers' warm parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from captures.epochs import Epochs
from router.runtime.process import RouterSpec
from testbed.errors import RunError
from testbed.run.eventlog import EventLog

#: Wall seconds in which a process must end after it was told to.
_STOP_TIMEOUT_S = 20.0


class Child:
    """A Python module run as a child in a session of its own, out of reach of the terminal's Ctrl-C.

    Args:
        what: its name in errors.
        module, arguments: `python -m module arguments...`.
        output: file for what it prints on standard output (None: a pipe, `stdout`) and standard error.
    """

    def __init__(
        self, what: str, module: str, arguments: list[str], errors: Path, output: Path | None
    ) -> None:
        self.what = what
        self._errors = errors
        with errors.open("ab") as stderr:
            stdout: IO[bytes] | int = output.open("ab") if output is not None else subprocess.PIPE
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            if not isinstance(stdout, int):
                stdout.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        """Raises RunError if it has ended."""
        status = self.process.poll()
        if status is not None:
            raise RunError(f"{self.what} ended with status {status}: {self._last_words()}")

    def stop(self) -> None:
        """Tells it to end, and waits. Raises RunError if it had to be killed or failed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise RunError(f"{self.what} did not end {_STOP_TIMEOUT_S:g} s after SIGTERM") from error
        if status not in (0, -signal.SIGTERM):
            raise RunError(f"{self.what} ended with status {status}: {self._last_words()}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def _last_words(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Controller:
    """The controller process and its log of events."""

    def __init__(self, run_dir: Path, layer: str) -> None:
        self._log_path = run_dir / "logs" / "controller.jsonl"
        config = run_dir / "logs" / "controller-config.json"
        config.write_text(
            json.dumps(
                {
                    "topology": str(run_dir / "topology.json"),
                    "layer": layer,
                    "listen_host": "127.0.0.1",
                    "listen_port": 0,
                    "log": str(self._log_path),
                    "parent_pid": os.getpid(),
                },
                indent=1,
            )
            + "\n"
        )
        errors = run_dir / "logs" / "controller.err"
        self.child = Child("the controller", "testbed.controller", [str(config)], errors, errors)
        self.log = EventLog(self._log_path, self.child.check)
        self._epochs = Epochs()
        self._followed = 0

    def epochs(self) -> Epochs:
        """What its log says so far of the network."""
        fresh = self.log.since(self._followed)
        self._followed += len(fresh)
        for event in fresh:
            self._epochs.take(event)
        return self._epochs

    def port(self, timeout_s: float = 30) -> int:
        """The port on which it listens, chosen by itself, once it does."""
        event = self.log.wait_for(lambda e: e["event"] == "listening", timeout_s, "controller is listening")
        return int(event["port"])

    def wait_for(
        self, name: str, timeout_s: float, what: str, check: Callable[[], None] | None = None
    ) -> dict[str, Any]:
        """The first event of this name; see `EventLog.wait_for`."""
        return self.log.wait_for(lambda event: event["event"] == name, timeout_s, what, check)


class Routers:
    """The routers of a run, forked from one warm parent, and the log in which it speaks of them."""

    def __init__(self, run_dir: Path, specs: list[RouterSpec]) -> None:
        self._specs = specs
        logs = run_dir / "logs"
        spec_file = logs / "routers-specs.json"
        spec_file.write_text(json.dumps([spec.as_json() for spec in specs], indent=1) + "\n")
        log = logs / "routers.jsonl"
        self.child = Child(
            "the routers' parent", "router.runtime.parent", [str(spec_file)], logs / "routers.err", log
        )
        self.log = EventLog(log, self.child.check)
        self._checked = 0

    @property
    def logs(self) -> dict[int, Path]:
        """The log of each router, by node."""
        return {spec.node: Path(spec.log_path) for spec in self._specs}

    def wait_ready(self, timeout_s: float) -> list[int]:
        """Returns the process ids of the routers once all have their sockets open."""
        pids: dict[int, int] = {}
        for spec in self._specs:

            def ready(event: dict[str, Any], node: int = spec.node) -> bool:
                return bool(event["node"] == node)

            event = self.log.wait_for(ready, timeout_s, f"router r{spec.node} is ready")
            if event["event"] != "ready":
                raise RunError(f"router r{spec.node} ended while starting: {self._log_of(spec)}")
            pids[spec.node] = event["pid"]
        return list(pids.values())

    def check(self) -> None:
        """Raises RunError, naming it, if a router has ended."""
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
        """Stops all. Returns the counters that each left, by node."""
        self.child.stop()
        counters = {}
        for spec in self._specs:
            try:
                counters[spec.node] = json.loads(Path(spec.counters_path).read_text())
            except (OSError, ValueError) as error:
                raise RunError(f"router r{spec.node} left no counters: {error}") from error
        return counters

    @staticmethod
    def _log_of(spec: RouterSpec) -> str:
        try:
            lines = Path(spec.log_path).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"
