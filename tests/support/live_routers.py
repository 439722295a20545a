"""Routers as processes of one parent, as an emulation starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from router.records.json_file import write_json
from router.runtime.process import RouterSpec
from tests.support.polling import TIMEOUT
from tests.support.runtime_wire import Wire

PARENT = [sys.executable, "-m", "router.runtime.parent"]


def spec_of(wire: Wire, folder: Path, node: int, **more: Any) -> RouterSpec:
    """A router on one side of a wire, whose files are in a folder; `more` are other fields."""
    files = {
        f"{name}_path": str(folder / f"r{node}.{ending}")
        for name, ending in (("socket", "sock"), ("counters", "json"), ("log", "log"), ("recording", "rec"))
    }
    place = {"device": wire.devices[node % 2], "namespace": str(wire.namespaces[node % 2])}
    return RouterSpec(**({"node": node} | place | files | more))


class Routers:
    """As a context, killed in the end."""

    def __init__(self, specs: list[RouterSpec], folder: Path) -> None:
        path = folder / "specs.json"
        write_json(path, specs)
        self.specs = specs
        self.process = subprocess.Popen(
            [*PARENT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pids: dict[int, int] = {}
        for _ in specs:
            event = self.event()
            assert event["event"] == "ready", event
            self.pids[event["node"]] = event["pid"]

    def event(self) -> dict[str, Any]:
        """The next line of the parent."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def request(self, **request: Any) -> dict[str, Any]:
        """The parent's answer to a request."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.event()

    def stop(self) -> dict[int, dict[str, Any]]:
        """Ends the parent's input; returns the counters of every node."""
        output, _ = self.process.communicate(timeout=TIMEOUT)
        exits = [json.loads(line) for line in output.splitlines()]
        assert {(event["node"], event["status"]) for event in exits} == {(n, 0) for n in self.pids}
        assert self.process.returncode == 0
        return {spec.node: json.loads(Path(spec.counters_path).read_text()) for spec in self.specs}

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
