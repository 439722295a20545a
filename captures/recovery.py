"""How long the network takes to recover: from a failure or a return to new trees and new advertisements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.clock import Clock
from captures.rundir import RunFolder, RunFolderError

CONTROLLER = "logs/controller.jsonl"
#: Events of the controller's log after which a new epoch is due, and the fields that say what they befell.
_DISTURBANCES: dict[str, tuple[str, ...]] = {
    "link_down": ("u", "v"),
    "link_up": ("u", "v"),
    "node_down": ("node",),
    "node_up": ("node",),
    "switch_disconnected": ("node",),
    "router_unresponsive": ("node",),
}


@dataclass(slots=True)
class Change:
    """Disturbances that one epoch answers.

    Attributes:
        events: each in words, such as "link_down 0-1", in the order in which the controller saw them.
        began_ns: when it saw the first (wall clock, ns).
        epoch, committed_ns: the epoch that answers them, and when all its routers had it; None: none did.
    """

    events: list[str]
    began_ns: int
    epoch: int | None = None
    committed_ns: int | None = None


@dataclass(slots=True)
class Epochs:
    """The epochs of a run: how many were committed, and those changes of the network that they answered."""

    committed: int = 0
    changes: list[Change] = field(default_factory=list)


def read_epochs(run: RunFolder) -> Epochs:
    """Reads the controller's log; a run folder without one has no epochs.

    Raises:
        RunFolderError: a line lacks a field; names file and line.
    """
    if not (run.path / CONTROLLER).exists():
        return Epochs()

    def events() -> Iterable[Mapping[str, Any]]:
        for where, event in run.lines(CONTROLLER):
            needed = ("event", "t_ns", *_DISTURBANCES.get(event.get("event", ""), ()))
            for name in (*needed, "epoch") if event.get("event") == "committed" else needed:
                if name not in event:
                    raise RunFolderError(f"{where}: no field {name!r}")
            yield event

    return epochs(events())


def epochs(events: Iterable[Mapping[str, Any]]) -> Epochs:
    """Follows the controller's events, in order of time.

    What precedes the first commit is set-up. An epoch answers the disturbances before its start; those that
    come between its start and its commit wait, with the others, for the next one.
    """
    found = Epochs()
    waiting: Change | None = None
    disturbed = False  # since the last epoch started
    for event in events:
        name = event["event"]
        if name == "epoch_started":
            disturbed = False
        elif name == "committed":
            found.committed += 1
            if waiting is not None and not disturbed:
                waiting.epoch, waiting.committed_ns = event["epoch"], event["t_ns"]
                waiting = None
        elif found.committed and (words := _in_words(event)):
            disturbed = True
            if waiting is None:
                waiting = Change([], event["t_ns"])
                found.changes.append(waiting)
            waiting.events.append(words)
    return found


def _in_words(event: Mapping[str, Any]) -> str | None:
    """A disturbance as text, such as "node_down 4"; None for any other event."""
    name = event["event"]
    if name == "hello" and event.get("restarted"):
        return f"restart {event['node']}"
    if name not in _DISTURBANCES:
        return None
    return f"{name} {'-'.join(str(event[part]) for part in _DISTURBANCES[name])}"


def advertised_again(frames: DataFrame) -> DataFrame:
    """When the RAs that an epoch called for had all crossed the network.

    These are, of each node that had advertised in an earlier epoch, its first RA in this one.
    Columns: epoch, last_ns (last frame of such an RA in any capture).
    """
    advertisements = frames.where("type = 'RA' and undecodable is null").select(
        "issuer", "epoch", "seq", "time_ns"
    )
    first = (
        advertisements.groupBy("issuer", "epoch")
        .agg(F.min_by("seq", "time_ns").alias("seq"))
        .withColumn("position", F.row_number().over(Window.partitionBy("issuer").orderBy("epoch")))
        .where("position > 1")
        .drop("position")
    )
    return (
        advertisements.join(F.broadcast(first), ["issuer", "epoch", "seq"])
        .groupBy("epoch")
        .agg(F.max("time_ns").alias("last_ns"))
    )


def recovery(
    changes: Iterable[Change], advertised_ns: Mapping[int, int], clock: Clock
) -> list[dict[str, Any]]:
    """The key `recovery_s` of summary.json.

    Args:
        advertised_ns: epoch -> `last_ns` of `advertised_again`.
    """

    def since(change: Change, end_ns: int | None) -> float | None:
        return None if end_ns is None else (end_ns - change.began_ns) / 1e9

    return [
        {
            "events": change.events,
            "at_s": (change.began_ns - clock.start_ns) / 1e9 * clock.time_scale,
            "epoch": change.epoch,
            "committed_s": since(change, change.committed_ns),
            "advertised_s": since(change, None if change.epoch is None else advertised_ns.get(change.epoch)),
        }
        for change in changes
    ]
