"""The applications' log, `logs/applications.jsonl`, to which several processes append."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from router.runtime.process import LEFT_BEHIND

#: In a run folder.
APPLICATIONS_LOG = Path("logs") / "applications.jsonl"


class ApplicationLog:
    """Appends one JSON object a line, each in one write: lines of several processes do not mix."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def __call__(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def merge_departures(run_dir: Path, router_logs: Mapping[int, Path]) -> None:
    """Writes the withdrawals that applications did not live to log, as their routers noticed them.

    Args:
        router_logs: the log of each router, by node.
    """
    with ApplicationLog(run_dir / APPLICATIONS_LOG) as log:
        for node, path in router_logs.items():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                # Standard error goes there as well.
                if f'"event": "{LEFT_BEHIND}"' in line:
                    left = json.loads(line)
                    times = {"t_ns": left["t_ns"], "requested_ns": left["requested_ns"]}
                    event = {"event": "set_predicate", "op": "left", "predicate": "none", "filters": []}
                    log({**times, "node": node, "app": left["app"], **event})
