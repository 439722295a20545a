"""The time from a failure or a return of a link or node to new trees and new advertisements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.inputs import Inputs
from captures.accounting.registry import summary
from captures.rundir.clock import Clock
from captures.rundir.epochs import Change


def advertised_again(frames: DataFrame) -> DataFrame:
    """The times at which the RAs that an epoch called for had all crossed the network.

    An epoch calls for one RA of each node that had advertised in an earlier epoch: its first RA in the epoch.
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
    """The key recovery_s of summary.json.

    Args:
        advertised_ns: epoch -> `last_ns` of `advertised_again`.
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


@summary()
def recovery_keys(frames: DataFrame, inputs: Inputs) -> dict[str, Any]:
    """The keys epochs and recovery_s of summary.json."""
    epochs = inputs.epochs
    rows = advertised_again(frames).collect() if epochs.changes else []
    return {
        "epochs": epochs.committed,
        "recovery_s": recovery(epochs.changes, {row.epoch: row.last_ns for row in rows}, inputs.clock),
    }
