"""Moving averages over experiment time, with the windows of the paper's figures 11 to 14."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import count_if, experiment_seconds
from captures.accounting.traffic import CONTROL_TYPES
from captures.rundir.clock import Clock

#: Window of figures 12 and 13, and how often it moves on; experiment seconds.
WINDOW_S, STEP_S = 120.0, 2.0


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
        events.groupBy(F.floor(experiment_seconds(clock, F.col(time)) / step_s).alias("step"))
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
    return trailing_share(processed_table, clock, "time_ns", "int(false_positive)", "1", WINDOW_S, STEP_S)


def control_curve(frames: DataFrame, clock: Clock) -> DataFrame:
    """Frames on links that are messages or control, over a 120 s window (paper, figures 13 and 14).

    Points lie every 2 s from the first such frame to the last, so that times of silence show as zeros; of a
    silence longer than the window (a clock that was set, too) only those up to the first zero, and the last.
    Columns: t_s (end of the window), fraction (RA, SR and UR among all; null: none at all), ra_fraction (RA
    among all), msg_per_s, ra_per_s, sr_ur_per_s (frames per experiment second).
    """
    steps = round(WINDOW_S / STEP_S)
    trailing = Window.orderBy("step").rangeBetween(-(steps - 1), Window.currentRow)
    counted = (
        frames.where("kind = 'link'")
        .where(F.col("type").isin("MSG", *CONTROL_TYPES))
        .groupBy(F.floor(experiment_seconds(clock, F.col("time_ns")) / STEP_S).alias("step"))
        .agg(*(count_if(f"type = '{kind}'").alias(kind) for kind in ("MSG", *CONTROL_TYPES)))
    )
    # The last step of the time up to the next frame.
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


def control_share_curve(table: DataFrame) -> DataFrame:
    """The share in `control_curve` (figure 13): t_s, fraction, ra_fraction; no point without a frame."""
    return table.where("fraction is not null").select("t_s", "fraction", "ra_fraction")


def control_rate_curve(table: DataFrame) -> DataFrame:
    """The rates in `control_curve` (figure 14): t_s, msg_per_s, ra_per_s, sr_ur_per_s."""
    return table.select("t_s", "msg_per_s", "ra_per_s", "sr_ur_per_s")
