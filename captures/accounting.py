"""The accounting: from decoded frames, deliveries and the oracle's answers to tables. DataFrame to DataFrame.

Inputs (other columns are ignored; times in ns since 1970 UTC; `seq` as a signed 64-bit number):

- frames: `captures.decode.COLUMNS`
- sent: source, seq, sent_ns; one row a message that an application sent
- deliveries: source, seq, node, app; one row a delivery
- oracle: source, seq, sent_ns, node, app, expected, decided; a missing row means not expected and decided

Metrics: protocol paper, section 4.2. Experiment seconds: wall seconds since `start_ns`, times the scale.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.decode import FROM_ROUTER, TO_ROUTER

#: Name in place of the type where a frame's header does not decode.
UNDECODABLE = "undecodable"
CONTROL_TYPES = ("RA", "SR", "UR")
_MESSAGE = ["source", "seq"]
_RECEIVER = [*_MESSAGE, "node", "app"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns wall time into experiment seconds."""

    start_ns: int
    time_scale: float

    def seconds(self, time_ns: Column) -> Column:
        return (time_ns - F.lit(self.start_ns)) * F.lit(self.time_scale / 1e9)


def traffic(frames: DataFrame, clock: Clock, bin_s: float) -> DataFrame:
    """Frames and bytes per capture, direction, type and time bin: the base of all totals.

    Columns: capture, kind, link, node, direction, from_node, to_node, type, bin_s (start of the bin,
    experiment seconds), frames, bytes, undecodable (frames that do not decode).
    """
    return (
        frames.withColumn("type", F.coalesce("type", F.lit(UNDECODABLE)))
        .withColumn("bin_s", F.floor(clock.seconds(F.col("time_ns")) / bin_s) * F.lit(bin_s))
        .groupBy(
            *("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type", "bin_s"),
        )
        .agg(
            F.count("*").alias("frames"),
            F.sum("length").cast("bigint").alias("bytes"),
            F.count("undecodable").alias("undecodable"),
        )
    )


def link_bins(traffic_table: DataFrame) -> DataFrame:
    """Per link, direction, type and bin: link, from_node, to_node, type, bin_s, frames, bytes."""
    return traffic_table.where("kind = 'link'").select(
        "link", "from_node", "to_node", "type", "bin_s", "frames", "bytes"
    )


def link_totals(bins: DataFrame) -> DataFrame:
    """Per link, direction and type: link, from_node, to_node, type, frames, bytes."""
    return _sum(bins, "link", "from_node", "to_node", "type")


def type_bins(bins: DataFrame) -> DataFrame:
    """Per type and bin, over all links: type, bin_s, frames, bytes."""
    return _sum(bins, "type", "bin_s")


def capture_totals(traffic_table: DataFrame) -> DataFrame:
    """Per capture, direction and type: the traffic table without its bins."""
    return traffic_table.groupBy(
        *("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")
    ).agg(*(F.sum(name).cast("bigint").alias(name) for name in ("frames", "bytes", "undecodable")))


def repeated(frames: DataFrame) -> DataFrame:
    """MSG frames that crossed a link in the same direction before: evidence of a loop.

    Columns: link, from_node, issuer, seq, fragment_index, times (2 or more).
    """
    return (
        frames.where("kind = 'link' and type = 'MSG'")
        .groupBy("link", "from_node", "issuer", "seq", "fragment_index")
        .agg(F.count("*").alias("times"))
        .where("times > 1")
    )


def repeated_total(table: DataFrame) -> DataFrame:
    """One row: frames_repeated, the frames of `repeated` beyond the first of each."""
    return table.agg(F.coalesce(F.sum(F.expr("times - 1")), F.lit(0)).alias("frames_repeated"))


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


def outcomes(oracle: DataFrame, deliveries: DataFrame, sent: DataFrame) -> DataFrame:
    """One row a (message, application) that was expected, undecided or delivered.

    Columns: source, seq, node, app, sent_ns, expected, decided, deliveries (how often it was delivered),
    missed (expected and not delivered), spurious (delivered, decided and not expected).
    """
    delivered = deliveries.groupBy(*_RECEIVER).agg(F.count("*").alias("deliveries"))
    joined = oracle.withColumnRenamed("sent_ns", "oracle_ns").join(delivered, _RECEIVER, "full_outer")
    return joined.join(sent.select("source", "seq", "sent_ns"), _MESSAGE, "left").select(
        *_RECEIVER,
        F.coalesce("oracle_ns", "sent_ns").alias("sent_ns"),
        F.coalesce("expected", F.lit(False)).alias("expected"),
        F.coalesce("decided", F.lit(True)).alias("decided"),
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        F.expr("coalesce(expected, false) and deliveries is null").alias("missed"),
        F.expr("deliveries is not null and coalesce(decided, true) and not coalesce(expected, false)").alias(
            "spurious"
        ),
    )


def outcome_totals(table: DataFrame, converged_ns: int) -> DataFrame:
    """One row of totals over (message, application) pairs; the names are those of summary.json."""
    return table.agg(
        _count("expected").alias("deliveries_expected"),
        _count("deliveries > 0").alias("deliveries_made"),
        _count("missed").alias("false_negatives"),
        _count(f"missed and decided and sent_ns >= {converged_ns}").alias(
            "false_negatives_after_convergence"
        ),
        _count(f"expected and decided and sent_ns >= {converged_ns}").alias("deliveries_decided"),
        _count("spurious").alias("spurious_deliveries"),
        _count("not decided").alias("deliveries_undecided"),
        F.coalesce(F.sum(F.expr("greatest(deliveries - 1, 0)")), F.lit(0)).alias("duplicate_deliveries"),
    )


def messages(sent: DataFrame, table: DataFrame, clock: Clock) -> DataFrame:
    """One row a message: source, seq, sent_s (experiment seconds), and over the applications expected,
    delivered (distinct), missed, missed_decided, spurious, duplicates."""
    counted = table.groupBy(*_MESSAGE).agg(
        _count("expected").alias("expected"),
        _count("deliveries > 0").alias("delivered"),
        _count("missed").alias("missed"),
        _count("missed and decided").alias("missed_decided"),
        _count("spurious").alias("spurious"),
        F.sum(F.expr("greatest(deliveries - 1, 0)")).alias("duplicates"),
    )
    return (
        sent.select("source", "seq", clock.seconds(F.col("sent_ns")).alias("sent_s"))
        .join(counted, _MESSAGE, "left")
        .fillna(0, ["expected", "delivered", "missed", "missed_decided", "spurious", "duplicates"])
    )


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
        _count("false_positive").alias("false_positives"),
        F.count("*").alias("messages_received_by_routers"),
        _count("false_positive and from_network").alias("false_positives_from_network"),
        _count("from_network").alias("messages_received_from_network"),
    )


def trailing_share(
    events: DataFrame, clock: Clock, time: str, part: str, whole: str, window_s: float, step_s: float
) -> DataFrame:
    """Moving share: sum of `part` over sum of `whole` in the window before each point.

    `part` and `whole` are SQL expressions of `events`, `time` its time column in ns. Points lie at the ends
    of steps that hold an event; the window (t_s - window_s, t_s] is a whole number of steps.
    Columns: t_s (experiment seconds), fraction (0 to 1), sorted; no point where `whole` sums to 0.
    """
    steps = max(1, round(window_s / step_s))
    trailing = Window.orderBy("step").rangeBetween(-(steps - 1), Window.currentRow)
    return (
        events.groupBy(F.floor(clock.seconds(F.col(time)) / step_s).alias("step"))
        .agg(F.sum(F.expr(part)).alias("part"), F.sum(F.expr(whole)).alias("whole"))
        .select(
            ((F.col("step") + 1) * F.lit(step_s)).alias("t_s"),
            (F.sum("part").over(trailing) / F.nullif(F.sum("whole").over(trailing), F.lit(0))).alias(
                "fraction"
            ),
        )
        .where("fraction is not null")
        .orderBy("t_s")
    )


def false_negative_curve(outcome_table: DataFrame, clock: Clock) -> DataFrame:
    """Share of expected deliveries that were missed, 0.25 s window (paper, figure 11): t_s, fraction.

    The window is never shorter than 10 ms of wall time, below which it would hold single messages.
    """
    window_s = max(0.25, 0.01 * clock.time_scale)
    return trailing_share(
        outcome_table.where("expected and sent_ns is not null"),
        *(clock, "sent_ns", "int(missed)", "1", window_s, window_s / 5),
    )


def false_positive_curve(processed_table: DataFrame, clock: Clock) -> DataFrame:
    """Share of false positives among messages processed, 120 s window (paper, figure 12): t_s, fraction."""
    return trailing_share(processed_table, clock, "time_ns", "int(false_positive)", "1", 120.0, 2.0)


def control_share_curve(frames: DataFrame, clock: Clock) -> DataFrame:
    """Share of RA, SR and UR frames among these and MSG on links, 120 s window (figure 13)."""
    relevant = frames.where("kind = 'link'").where(F.col("type").isin("MSG", *CONTROL_TYPES))
    return trailing_share(relevant, clock, "time_ns", "int(type <> 'MSG')", "1", 120.0, 2.0)


def _sum(table: DataFrame, *by: str) -> DataFrame:
    return table.groupBy(*by).agg(
        F.sum("frames").cast("bigint").alias("frames"), F.sum("bytes").cast("bigint").alias("bytes")
    )


def _count(condition: str) -> Column:
    return F.count(F.expr(f"case when {condition} then 1 end"))
