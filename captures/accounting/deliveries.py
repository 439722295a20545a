"""Deliveries against the oracle: who should have got a message, who got it, when, and by which predicate."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import MESSAGE, RECEIVER, count_if, experiment_seconds
from captures.rundir.clock import Clock


def outcomes(oracle: DataFrame, deliveries: DataFrame, sent: DataFrame) -> DataFrame:
    """One row a (message, application) that was expected, undecided or delivered.

    Columns: source, seq, node, app, sent_ns, expected, decided, deliveries (how often it was delivered),
    delivered_ns (the first time; null: never), missed (expected and not delivered), spurious (delivered,
    decided and not expected).
    """
    delivered = deliveries.groupBy(*RECEIVER).agg(
        F.count("*").alias("deliveries"), F.min("t_ns").alias("delivered_ns")
    )
    joined = oracle.withColumnRenamed("sent_ns", "oracle_ns").join(delivered, RECEIVER, "full_outer")
    return joined.join(sent.select("source", "seq", "sent_ns"), MESSAGE, "left").select(
        *RECEIVER,
        F.coalesce("oracle_ns", "sent_ns").alias("sent_ns"),
        F.coalesce("expected", F.lit(False)).alias("expected"),
        F.coalesce("decided", F.lit(True)).alias("decided"),
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        "delivered_ns",
        F.expr("coalesce(expected, false) and deliveries is null").alias("missed"),
        F.expr("deliveries is not null and coalesce(decided, true) and not coalesce(expected, false)").alias(
            "spurious"
        ),
    )


def outcome_totals(table: DataFrame, converged_ns: int) -> DataFrame:
    """One row of totals over (message, application) pairs; the names are those of summary.json."""
    return table.agg(
        count_if("expected").alias("deliveries_expected"),
        count_if("deliveries > 0").alias("deliveries_made"),
        count_if("missed").alias("false_negatives"),
        count_if(f"missed and decided and sent_ns >= {converged_ns}").alias(
            "false_negatives_after_convergence"
        ),
        count_if(f"expected and decided and sent_ns >= {converged_ns}").alias("deliveries_decided"),
        count_if("spurious").alias("spurious_deliveries"),
        count_if("not decided").alias("deliveries_undecided"),
        F.coalesce(F.sum(F.expr("greatest(deliveries - 1, 0)")), F.lit(0)).alias("duplicate_deliveries"),
    )


def messages(sent: DataFrame, table: DataFrame, clock: Clock) -> DataFrame:
    """One row a message: source, seq, number (the low half of seq), sent_s (experiment seconds), message (its
    text), and over the applications expected, delivered (distinct), missed, missed_decided, spurious,
    duplicates."""
    counted = table.groupBy(*MESSAGE).agg(
        count_if("expected").alias("expected"),
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
            experiment_seconds(clock, F.col("sent_ns")).alias("sent_s"),
            "message",
        )
        .join(counted, MESSAGE, "left")
        .fillna(0, ["expected", "delivered", "missed", "missed_decided", "spurious", "duplicates"])
    )


def delivered(table: DataFrame, arrivals: DataFrame, clock: Clock) -> DataFrame:
    """One row a (message, application) that was delivered: how long it took, and how far it came.

    Args:
        table: `outcomes`.
        arrivals: `captures.accounting.paths.arrivals`.

    Columns: source, seq, node, app, sent_s, delay_s (wall seconds, from the application's request to the
    first delivery), times (1 unless it was delivered again), expected, decided, hops, cost, shortest_hops,
    shortest_cost (of the path taken, and of the shortest ones; null where captures do not show it).
    A message to its own node takes 0 hops.
    """
    path = ("hops", "cost", "shortest_hops", "shortest_cost")
    at_home = F.col("node") == F.col("source")
    return (
        table.where("deliveries > 0")
        .join(arrivals.select(*MESSAGE, "node", *path), [*MESSAGE, "node"], "left")
        .select(
            *RECEIVER,
            experiment_seconds(clock, F.col("sent_ns")).alias("sent_s"),
            ((F.col("delivered_ns") - F.col("sent_ns")) / F.lit(1e9)).alias("delay_s"),
            F.col("deliveries").alias("times"),
            "expected",
            "decided",
            *(F.when(at_home, 0).otherwise(F.col(name)).cast("bigint").alias(name) for name in path),
        )
    )


def delay_totals(deliveries_made: DataFrame) -> DataFrame:
    """One row over `delivered`: median_s, p90_s, p99_s, max_s, mean_s; null without a delivery."""
    quantiles = {"median_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}
    return deliveries_made.agg(
        *(F.percentile("delay_s", F.lit(share)).alias(name) for name, share in quantiles.items()),
        F.max("delay_s").alias("max_s"),
        F.avg("delay_s").alias("mean_s"),
    )


def predicates(declared: DataFrame, deliveries: DataFrame, end_ns: int, clock: Clock) -> DataFrame:
    """One row a predicate that an application had in force: how long, and what it got by it.

    A delivery goes to the account of the predicate that its application had confirmed last.

    Args:
        declared: node, app, t_ns (when the router had confirmed it), predicate (text), filters (how many).
        end_ns: when the last one ended.

    Columns: node, app, predicate, filters, from_s, until_s (experiment seconds), deliveries.
    """
    following = Window.partitionBy("node", "app").orderBy("t_ns")
    in_force = (
        declared.withColumn("next_ns", F.lead("t_ns").over(following))
        .withColumn("until_ns", F.coalesce("next_ns", F.greatest(F.lit(end_ns), F.col("t_ns"))))
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
            experiment_seconds(clock, F.col("t_ns")).alias("from_s"),
            experiment_seconds(clock, F.col("until_ns")).alias("until_s"),
            "deliveries",
        )
    )
