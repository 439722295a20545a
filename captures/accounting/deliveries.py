"""Deliveries compared with the oracle: expected and made deliveries, delays, predicates in force."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import MESSAGE, RECEIVER, count_if
from captures.accounting.registry import ALWAYS, step, summary, table
from captures.accounting.times import experiment_seconds
from captures.rundir.clock import Clock


@step(kept=ALWAYS)
def outcomes(oracle: DataFrame, deliveries: DataFrame, lost: DataFrame, sent: DataFrame) -> DataFrame:
    """One row for each (message, application) that was expected, undecided or delivered.

    Columns: source, seq, node, app, sent_ns, expected, decided, deliveries (number of deliveries; 0: none),
    lost (every delivery found the connection of the application broken), delivered_ns (the first delivery;
    null: none), missed (expected, not delivered and not lost), spurious (delivered, decided and not
    expected).
    """
    delivered = (
        deliveries.select(*RECEIVER, "t_ns")
        .unionByName(lost.select(*RECEIVER, F.lit(None).cast("bigint").alias("t_ns")))
        .groupBy(*RECEIVER)
        .agg(F.count("t_ns").alias("deliveries"), F.min("t_ns").alias("delivered_ns"))
        .withColumn("lost", F.expr("deliveries = 0"))
    )
    joined = oracle.withColumnRenamed("sent_ns", "oracle_ns").join(delivered, RECEIVER, "full_outer")
    return joined.join(sent.select("source", "seq", "sent_ns"), MESSAGE, "left").select(
        *RECEIVER,
        F.coalesce("oracle_ns", "sent_ns").alias("sent_ns"),
        F.coalesce("expected", F.lit(False)).alias("expected"),
        F.coalesce("decided", F.lit(True)).alias("decided"),
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        F.coalesce("lost", F.lit(False)).alias("lost"),
        "delivered_ns",
        F.expr("coalesce(expected, false) and lost is null").alias("missed"),
        F.expr("deliveries > 0 and coalesce(decided, true) and not coalesce(expected, false)").alias(
            "spurious"
        ),
    )


@summary()
def outcome_totals(outcomes: DataFrame, converged_ns: int) -> DataFrame:
    """Keys of summary.json about (message, application) pairs.

    Args:
        converged_ns: time from which the verdict counts missed deliveries.
    """
    return outcomes.agg(
        count_if("expected").alias("deliveries_expected"),
        count_if("deliveries > 0").alias("deliveries_made"),
        count_if("lost").alias("deliveries_lost"),
        count_if("missed").alias("false_negatives"),
        count_if(f"missed and decided and sent_ns >= {converged_ns}").alias(
            "false_negatives_after_convergence"
        ),
        count_if(f"expected and decided and sent_ns >= {converged_ns}").alias("deliveries_decided"),
        count_if("spurious").alias("spurious_deliveries"),
        count_if("not decided").alias("deliveries_undecided"),
        F.coalesce(F.sum(F.expr("greatest(deliveries - 1, 0)")), F.lit(0)).alias("duplicate_deliveries"),
    )


@table("messages")
def messages(sent: DataFrame, outcomes: DataFrame, clock: Clock) -> DataFrame:
    """The messages sent, with counts of `outcomes`."""
    counted = outcomes.groupBy(*MESSAGE).agg(
        count_if("expected").alias("deliveries_expected"),
        count_if("deliveries > 0").alias("delivered"),
        count_if("missed").alias("missed"),
        count_if("missed and decided").alias("missed_decided"),
        count_if("spurious").alias("spurious"),
        F.sum(F.expr("greatest(deliveries - 1, 0)")).alias("duplicates"),
    )
    return (
        sent.select(
            *MESSAGE,
            F.expr("seq & 4294967295").alias("number"),
            F.expr(experiment_seconds(clock, "sent_ns")).alias("sent_s"),
            "message",
        )
        .join(counted, MESSAGE, "left")
        .fillna(0, ["deliveries_expected", "delivered", "missed", "missed_decided", "spurious", "duplicates"])
    )


@table("deliveries", kept=ALWAYS)
def delivered(outcomes: DataFrame, arrivals: DataFrame, clock: Clock) -> DataFrame:
    """The (message, application) pairs of `outcomes` that were delivered, with delay and path.

    A delivery at the sending node has a path of 0 hops.
    """
    path = ("hops", "cost", "shortest_hops", "shortest_cost")
    at_home = F.col("node") == F.col("source")
    return (
        outcomes.where("deliveries > 0")
        .join(arrivals.select(*MESSAGE, "node", *path), [*MESSAGE, "node"], "left")
        .select(
            *RECEIVER,
            F.expr(experiment_seconds(clock, "sent_ns")).alias("sent_s"),
            ((F.col("delivered_ns") - F.col("sent_ns")) / F.lit(1e9)).alias("delay_wall_s"),
            F.col("deliveries").alias("times"),
            "expected",
            "decided",
            *(F.when(at_home, 0).otherwise(F.col(name)).alias(name) for name in path),
        )
    )


@summary("delivery_delay")
def delay_totals(delivered: DataFrame) -> DataFrame:
    """Quantiles, maximum and mean of the delays in wall seconds; null without a delivery."""
    quantiles = {"median_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}
    return delivered.agg(
        *(F.percentile("delay_wall_s", F.lit(share)).alias(name) for name, share in quantiles.items()),
        F.max("delay_wall_s").alias("max_s"),
        # A sum of whole nanoseconds does not depend on the order of the rows.
        (F.sum(F.round(F.col("delay_wall_s") * 1e9).cast("bigint")) / F.count("*") / 1e9).alias("mean_s"),
    )


@table("predicates")
def predicates(declared: DataFrame, deliveries: DataFrame, last_ns: int, clock: Clock) -> DataFrame:
    """The predicates that applications had in force, with the deliveries that each brought.

    A delivery counts for the predicate of its application that was confirmed last.

    Args:
        declared: node, app, t_ns (time at which the router had confirmed the predicate), predicate (text),
            filters (their number; 0 withdraws the predicate).
        last_ns: time of the last event of the run; ends the predicates that are in force then.
    """
    by_application = Window.partitionBy("node", "app").orderBy("t_ns")
    in_force = (
        declared.withColumn("next_ns", F.lead("t_ns").over(by_application))
        .withColumn("until_ns", F.coalesce("next_ns", F.greatest(F.lit(last_ns), F.col("t_ns"))))
        .where("filters > 0")
    )
    got = deliveries.select(
        F.col("node").alias("at"), F.col("app").alias("by"), F.col("t_ns").alias("delivered_ns")
    )
    return (
        in_force.join(
            got,
            F.expr(
                "node = at and app = by and delivered_ns >= t_ns "
                "and delivered_ns < coalesce(next_ns, until_ns + 1)"
            ),
            "left",
        )
        .groupBy("node", "app", "predicate", "filters", "t_ns", "until_ns")
        .agg(F.count("delivered_ns").alias("deliveries"))
        .select(
            *("node", "app", "predicate", "filters"),
            F.expr(experiment_seconds(clock, "t_ns")).alias("from_s"),
            F.expr(experiment_seconds(clock, "until_ns")).alias("until_s"),
            "deliveries",
        )
    )
