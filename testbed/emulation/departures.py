"""Withdrawals of predicates by applications that ended without logging them, from their routers' logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from captures.rundir.layout import RunLayout
from router.predicates.model import NOTHING
from router.records.application_log import ApplicationLog, predicate_set
from router.runtime.process import LEFT_BEHIND


def merge_departures(run: RunLayout, router_logs: Mapping[int, Path]) -> None:
    """Appends the withdrawals that routers logged for applications that had ended to the applications' log.

    Args:
        router_logs: the log of each router, by node.
    """
    with ApplicationLog(run.applications_log) as log:
        for node, path in router_logs.items():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                # The file also has the standard error of the router.
                if f'"event": "{LEFT_BEHIND}"' in line:
                    left = json.loads(line)
                    log(predicate_set(left["t_ns"], node, left["app"], left["requested_ns"], NOTHING, "left"))
