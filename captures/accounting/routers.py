"""What routers did with messages: false positives (paper, section 4.2), and when the first RAs had spread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import count_if
from captures.frames.decoder import FROM_ROUTER, TO_ROUTER


def processed(frames: DataFrame, sent: DataFrame, deliveries: DataFrame) -> DataFrame:
    """One row a message at a router, from a neighbour or from its own applications (paper, figure 12).

    Columns: node, source, seq, time_ns (first frame, or when it was sent), from_network, false_positive: the
    router neither forwarded it to a neighbour nor delivered it to an application. Fragments count as one.
    """
    key = ["node", "source", "seq"]
    on_host = frames.where("kind = 'host' and type = 'MSG' and undecodable is null").withColumnRenamed(
        "issuer", "source"
    )
    from_network = (
        on_host.where(F.col("direction") == TO_ROUTER)
        .groupBy(*key)
        .agg(F.min("time_ns").alias("time_ns"))
        .withColumn("from_network", F.lit(True))
    )
    from_applications = sent.select(
        F.col("source").alias("node"), "source", "seq", F.col("sent_ns").alias("time_ns")
    ).withColumn("from_network", F.lit(False))
    used = (
        on_host.where(F.col("direction") == FROM_ROUTER)
        .select(*key)
        .unionByName(deliveries.select(*key))
        .distinct()
        .withColumn("used", F.lit(True))
    )
    return (
        from_network.unionByName(from_applications)
        .join(used, key, "left")
        .withColumn("false_positive", F.col("used").isNull())
        .drop("used")
    )


def processed_totals(table: DataFrame) -> DataFrame:
    """One row of totals of `processed`; the names are those of summary.json."""
    return table.agg(
        count_if("false_positive").alias("false_positives"),
        F.count("*").alias("messages_received_by_routers"),
        count_if("false_positive and from_network").alias("false_positives_from_network"),
        count_if("from_network").alias("messages_received_from_network"),
    )


def first_wave_end(frames: DataFrame, opening: DataFrame) -> DataFrame:
    """When the RAs that answered the opening predicates had all crossed the network.

    The first wave holds one RA of each node of `opening` (node, requested_ns): the earliest that no capture
    saw before requested_ns. (One that was on its way then answers something else.) One row: last_ns (last
    frame of the wave in any capture, null if there is none) and issuers (nodes with such an RA).
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
