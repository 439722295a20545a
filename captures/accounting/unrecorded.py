"""Captured messages that no router recorded as sent by an application of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import MESSAGE, only_row
from captures.accounting.inputs import Inputs
from captures.accounting.registry import summary
from captures.rundir.faults import FaultRecord, unwritten

#: The key under which `unrecorded` returns messages for the reconciliation; the summary has no such key.
FIRST_UNRECORDED = "unrecorded"
#: Messages that are named.
NAMED = 5


def recordable(faults: Iterable[FaultRecord]) -> str:
    """The SQL condition on a captured message whose router had the time to record it."""
    times = [
        f"not (issuer = {node} and time_ns between {since} and {until})"
        for node, since, until in unwritten(faults)
    ]
    return " and ".join(times) or "true"


@summary()
def unrecorded(frames: DataFrame, sent: DataFrame, inputs: Inputs) -> dict[str, Any]:
    """The number of distinct (issuer, seq) of captured MSG frames that `sent` lacks, and the first few:
    (ISSUER/SEQ, captured frames)."""
    captured = (
        frames.where("type = 'MSG' and undecodable is null")
        .where(recordable(inputs.faults))
        .groupBy(F.col("issuer").alias("source"), "seq")
        .agg(F.count("*").alias("frames"))
    )
    row = only_row(
        captured.join(sent.select(*MESSAGE), MESSAGE, "left_anti").agg(
            F.count("*").alias("count"),
            F.slice(F.sort_array(F.collect_list(F.struct(*MESSAGE, "frames"))), 1, NAMED).alias("first"),
        )
    )
    first = [(f"{each['source']}/{each['seq'] % 2**64}", each["frames"]) for each in row["first"]]
    return {"messages_unrecorded": row["count"], FIRST_UNRECORDED: first}
