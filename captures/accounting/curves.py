"""Moving averages over experiment time, with the windows of the paper's figures 11 to 14."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import count_if
from captures.accounting.registry import ALWAYS, step, table
from captures.accounting.times import experiment_seconds
from captures.accounting.traffic import CONTROL_TYPES
from captures.accounting.windows import STEP_S, WINDOW_S
from captures.rundir.clock import Clock


def trailing_share(
    events: DataFrame, clock: Clock, time: str, part: str, whole: str, window_s: float, step_s: float
) -> DataFrame:
    """A moving share: the sum of `part` over the sum of `whole` in the window before each point.

    Points lie at the ends of steps that hold an event; the window (t_s - window_s, t_s] is a whole number of
    steps. There is no point where `whole` sums to 0.

    Args:
        time: the column of `events` with times, ns since 1970 UTC.
        part, whole: SQL expressions over the columns of `events`.
        window_s, step_s: experiment seconds.

    Returns:
        The columns t_s (experiment seconds) and fraction (0 to 1), sorted by t_s.
    """
    steps = max(1, round(window_s / step_s))
    trailing = Window.orderBy("step").rangeBetween(-(steps - 1), Window.currentRow)
    return (
        events.groupBy(F.floor(F.expr(experiment_seconds(clock, time)) / step_s).alias("step"))
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


@table("false_negative_curve")
def false_negative_curve(outcomes: DataFrame, clock: Clock) -> DataFrame:
    """The share of expected deliveries that were missed, over a window of 0.25 s (paper, figure 11).

    The window is never shorter than 10 ms of wall time: a shorter window would hold single messages.
    """
    window_s = max(0.25, 0.01 * max(clock.rates))
    return trailing_share(
        outcomes.where("expected and sent_ns is not null"),
        *(clock, "sent_ns", "int(missed)", "1", window_s, window_s / 5),
    )


@table("false_positive_curve")
def false_positive_curve(processed_at_routers: DataFrame, clock: Clock) -> DataFrame:
    """The share of false positives among processed messages, over a window of 120 s (paper, figure 12)."""
    return trailing_share(
        processed_at_routers, clock, "time_ns", "int(false_positive)", "1", WINDOW_S, STEP_S
    )


@step(kept=ALWAYS)
def control_curve(frames: DataFrame, clock: Clock) -> DataFrame:
    """MSG, RA, SR and UR frames on links, over a window of 120 s (paper, figures 13 and 14).

    Points lie every 2 s from the first frame to the last, so that silence shows as zeros. Of a silence that
    is longer than the window, as after a clock was set, only the points up to the first zero and the last
    point are there.

    Returns:
        The columns t_s (end of the window, experiment seconds), fraction (RA, SR and UR among all frames;
        null: no frame), ra_fraction (RA among all frames), msg_per_s, ra_per_s, sr_ur_per_s (frames per
        experiment second).
    """
    steps = round(WINDOW_S / STEP_S)
    trailing = Window.orderBy("step").rangeBetween(-(steps - 1), Window.currentRow)
    counted = (
        frames.where("kind = 'link'")
        .where(F.col("type").isin("MSG", *CONTROL_TYPES))
        .groupBy(F.floor(F.expr(experiment_seconds(clock, "time_ns")) / STEP_S).alias("step"))
        .agg(*(count_if(f"type = '{kind}'").alias(kind) for kind in ("MSG", *CONTROL_TYPES)))
    )
    # The last step before the next step that holds a frame.
    until = F.coalesce(F.lead("step").over(Window.orderBy("step")) - 1, F.col("step"))
    spans = counted.where("step is not null").select("step", until.alias("until"))
    decaying = F.sequence("step", F.least(F.col("until"), F.col("step") + steps))
    every_step = spans.select(F.explode(F.array_union(decaying, F.array("until"))).alias("step"))
    sums = every_step.join(counted, "step", "left").select(
        ((F.col("step") + 1) * F.lit(STEP_S)).alias("t_s"),
        *(F.coalesce(F.sum(kind).over(trailing), F.lit(0)).alias(kind) for kind in ("MSG", *CONTROL_TYPES)),
    )
    whole = F.nullif(F.expr("MSG + RA + SR + UR"), F.lit(0))
    return sums.select(
        "t_s",
        (F.expr("RA + SR + UR") / whole).alias("fraction"),
        (F.col("RA") / whole).alias("ra_fraction"),
        (F.col("MSG") / WINDOW_S).alias("msg_per_s"),
        (F.col("RA") / WINDOW_S).alias("ra_per_s"),
        (F.expr("SR + UR") / WINDOW_S).alias("sr_ur_per_s"),
    ).orderBy("t_s")


@table("control_share_curve")
def control_share_curve(control_curve: DataFrame) -> DataFrame:
    """The shares of `control_curve` (figure 13), without the points whose window holds no frame."""
    return control_curve.where("fraction is not null").select("t_s", "fraction", "ra_fraction")


@table("control_rate_curve")
def control_rate_curve(control_curve: DataFrame) -> DataFrame:
    """The rates of `control_curve` (figure 14)."""
    return control_curve.select("t_s", "msg_per_s", "ra_per_s", "sr_ur_per_s")
