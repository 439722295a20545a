"""The time from a failure or a return of a link or node to new trees and new advertisements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from captures.rundir.clock import Clock
from captures.rundir.epochs import Change


def recovery(
    changes: Iterable[Change], advertised_ns: Mapping[int, int], clock: Clock
) -> list[dict[str, Any]]:
    """The key recovery_s of summary.json.

    Args:
        advertised_ns: epoch -> `last_ns` of the text `advertised_again`.
    """

    def since(change: Change, end_ns: int | None) -> float | None:
        return None if end_ns is None else (end_ns - change.began_ns) / 1e9

    return [
        {
            "events": change.events,
            "at_s": clock.experiment_s(change.began_ns),
            "epoch": change.epoch,
            "committed_s": since(change, change.committed_ns),
            "advertised_s": since(change, None if change.epoch is None else advertised_ns.get(change.epoch)),
        }
        for change in changes
    ]
