"""Deliveries compared with the oracle: expected and made deliveries, delays, predicates in force."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import MESSAGE, RECEIVER, count_if
from captures.accounting.registry import ALWAYS, step, summary, table
from captures.accounting.times import experiment_seconds
from captures.rundir.clock import Clock
from captures.spark.internals import on_spark

_RECEIVER = ", ".join(RECEIVER)
OUTCOMES = f"""
    with delivered as (
        select {_RECEIVER}, count(t_ns) as deliveries, min(t_ns) as delivered_ns, count(t_ns) = 0 as lost
        from (select {_RECEIVER}, t_ns from {{deliveries}} union all select {_RECEIVER}, null from {{lost}})
        group by {_RECEIVER}
    ), joined as (
        select {_RECEIVER}, oracle.sent_ns as oracle_ns, expected, decided, deliveries, delivered_ns, lost
        from {{oracle}} as oracle full join delivered using ({_RECEIVER})
    )
    select {_RECEIVER}, coalesce(oracle_ns, sent.sent_ns) as sent_ns,
        coalesce(expected, false) as expected, coalesce(decided, true) as decided,
        coalesce(deliveries, 0) as deliveries, delivered_ns, coalesce(lost, false) as lost,
        coalesce(expected, false) and lost is null as missed,
        coalesce(deliveries, 0) > 0 and coalesce(decided, true) and not coalesce(expected, false) as spurious
    from joined left join {{sent}} as sent using (source, seq)
"""
#: Key of summary.json -> the condition on `outcomes` of the pairs that it counts; {after}: after convergence.
_COUNTED = {
    "deliveries_expected": "expected",
    "deliveries_made": "deliveries > 0",
    "deliveries_lost": "lost",
    "false_negatives": "missed",
    "false_negatives_after_convergence": "missed and decided and {after}",
    "deliveries_decided": "expected and decided and {after}",
    "spurious_deliveries": "spurious",
    "deliveries_undecided": "not decided",
}


def outcome_totals_text(converged_ns: int) -> str:
    """The query for the keys of summary.json about (message, application) pairs.

    Args:
        converged_ns: time from which the verdict counts missed deliveries.
    """
    counts = ", ".join(f"count(case when {what} then 1 end) as {key}" for key, what in _COUNTED.items())
    counts = counts.format(after=f"sent_ns >= {converged_ns}")
    more = "cast(coalesce(sum(greatest(deliveries - 1, 0)), 0) as bigint) as duplicate_deliveries"
    return f"select {counts}, {more} from {{outcomes}}"


@step(kept=ALWAYS)
def outcomes(oracle: DataFrame, deliveries: DataFrame, lost: DataFrame, sent: DataFrame) -> DataFrame:
    """One row for each (message, application) that was expected, undecided or delivered.

    Columns: source, seq, node, app, sent_ns, expected, decided, deliveries (number of deliveries; 0: none),
    lost (every delivery found the connection of the application broken), delivered_ns (the first delivery;
    null: none), missed (expected, not delivered and not lost), spurious (delivered, decided and not
    expected).
    """
    return on_spark(OUTCOMES, oracle=oracle, deliveries=deliveries, lost=lost, sent=sent)


@summary()
def outcome_totals(outcomes: DataFrame, converged_ns: int) -> DataFrame:
    """Keys of summary.json about (message, application) pairs.

    Args:
        converged_ns: time from which the verdict counts missed deliveries.
    """
    return on_spark(outcome_totals_text(converged_ns), outcomes=outcomes)


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
