"""False positives at routers (paper, section 4.2), and the convergence of the first RAs."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import only_row
from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import opening_table
from captures.accounting.registry import ALWAYS, step, summary
from captures.accounting.uncaptured import processed_by_counters
from captures.spark.internals import on_spark


class Convergence(NamedTuple):
    """The end of the first wave of RAs.

    Attributes:
        seconds: wall seconds since the first request of an opening predicate; None: no RA was captured.
        end_ns: time from which messages count as sent after convergence, ns since 1970 UTC.
    """

    seconds: float | None
    end_ns: int

    @classmethod
    def of(cls, inputs: Inputs, last_ns: int | None) -> Self:
        """Returns the convergence of a run whose first wave ended at `last_ns`; None: no RA was captured."""
        opening = inputs.opening.values()
        if not opening:
            return cls(None, inputs.clock.start_ns)
        if last_ns is None:
            return cls(None, max(first.confirmed_ns for first in opening))
        return cls((last_ns - min(first.requested_ns for first in opening)) / 1e9, last_ns)


#: One row for each message at a router, from a neighbour or from its own applications (paper, figure 12):
#: node, source, seq, time_ns (time of the first frame, or of the sending), from_network, false_positive (the
#: router neither forwarded the message to a neighbour nor delivered it to an application). The fragments of a
#: message count as one.
PROCESSED = """
    with host as (
        select node, issuer as source, seq, time_ns, direction from {frames}
        where kind = 'host' and type = 'MSG' and undecodable is null
    ), received as (
        select node, source, seq, min(time_ns) as time_ns, true as from_network from host
        where direction = 'to_router' group by node, source, seq
        union all select cast(source as int), source, seq, sent_ns, false from {sent}
    ), used as (
        select distinct node, source, seq, true as used from (
            select node, source, seq from host where direction = 'from_router'
            union all select node, source, seq from {deliveries}
            union all select node, source, seq from {lost}
        )
    )
    select received.*, used is null as false_positive
    from received left join used using (node, source, seq)
"""
PROCESSED_TOTALS = """
    select count(case when false_positive then 1 end) as false_positives,
        count(*) as messages_received_by_routers,
        count(case when false_positive and from_network then 1 end) as false_positives_from_network,
        count(case when from_network then 1 end) as messages_received_from_network
    from {processed}
"""


@step()
def processed(frames: DataFrame, sent: DataFrame, deliveries: DataFrame, lost: DataFrame) -> DataFrame:
    """The messages at routers."""
    return on_spark(PROCESSED, frames=frames, sent=sent, deliveries=deliveries, lost=lost)


def processed_totals(processed: DataFrame) -> DataFrame:
    """One row of totals of `processed`, named as the keys of summary.json."""
    return on_spark(PROCESSED_TOTALS, processed=processed)


def first_wave_end(frames: DataFrame, opening: DataFrame) -> DataFrame:
    """The time at which the RAs that answered the opening predicates had all crossed the network.

    The first wave holds one RA of each node of `opening` (node, requested_ns): the earliest RA that appears
    in no capture before requested_ns. An RA that was on its way by then answers an earlier event. One row:
    last_ns (last frame of the wave in any capture; null: none) and issuers (nodes with an RA in the wave).
    """
    waves = (
        frames.where("type = 'RA' and undecodable is null")
        .groupBy("issuer", "seq")
        .agg(F.min("time_ns").alias("first_ns"), F.max("time_ns").alias("last_ns"))
    )
    return (
        waves.join(F.broadcast(opening), F.col("issuer") == F.col("node"))
        .where("first_ns >= requested_ns")
        .groupBy("issuer")
        .agg(F.min(F.struct("first_ns", "seq", "last_ns")).alias("answer"))
        .agg(F.max("answer.last_ns").alias("last_ns"), F.count("*").alias("issuers"))
    )


@step()
def convergence(frames: DataFrame, inputs: Inputs) -> Convergence:
    """The end of the first wave; of the confirmations of the opening predicates where no RA was captured."""
    if not inputs.opening:
        return Convergence.of(inputs, None)
    opening = frames.sparkSession.createDataFrame(opening_table(inputs.opening)).coalesce(1)
    return Convergence.of(inputs, only_row(first_wave_end(frames, opening))["last_ns"])


@step()
def converged_ns(convergence: Convergence) -> int:
    """Time from which messages count as sent after convergence, ns since 1970 UTC."""
    return convergence.end_ns


@summary()
def convergence_s(convergence: Convergence) -> dict[str, Any]:
    """The key convergence_s of summary.json."""
    return {"convergence_s": convergence.seconds}


@step(kept=ALWAYS)
def processed_at_routers(processed: DataFrame, inputs: Inputs) -> DataFrame:
    """`processed`; empty unless the host links of all routers were captured, where its frames are seen."""
    return processed if inputs.all_hosts_captured else processed.where("false")


@summary()
def false_positives(processed_at_routers: DataFrame, inputs: Inputs) -> DataFrame | dict[str, int]:
    """Keys of summary.json about messages at routers, by captures or else by the routers' own counters."""
    if inputs.all_hosts_captured:
        return processed_totals(processed_at_routers)
    return processed_by_counters(inputs.router_counters.values())
