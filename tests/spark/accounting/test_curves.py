"""Moving averages on events small enough to work out by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from captures.accounting import curves
from tests.support.accounting_inputs import CLOCK, frames_of, wall

pytestmark = pytest.mark.spark


def test_trailing_share_forgets_what_left_the_window(spark: SparkSession) -> None:
    # Experiment seconds 0.5 and 1.5 (of which one hits), then 9.5.
    events = spark.createDataFrame(
        [(wall(0.05), 1), (wall(0.05), 0), (wall(0.15), 0), (wall(0.95), 1)], "time_ns bigint, hit int"
    )
    curve = curves.trailing_share(events, CLOCK, "time_ns", "hit", "1", window_s=3.0, step_s=1.0)
    assert [tuple(row) for row in curve.collect()] == [(1.0, 0.5), (2.0, pytest.approx(1 / 3)), (10.0, 1.0)]


def test_false_negatives_stand_alone_in_their_windows(spark: SparkSession) -> None:
    # The window is 0.25 experiment seconds, in steps of 0.05. The last message was expected nowhere.
    outcomes = spark.createDataFrame(
        [
            *((wall(1), True, False), (wall(1), True, True), (wall(2), True, True)),
            *((wall(3), False, False), (None, True, True)),
        ],
        "sent_ns bigint, expected boolean, missed boolean",
    )
    points = curves.false_negative_curve(outcomes, CLOCK).collect()
    assert [(round(t_s, 6), fraction) for t_s, fraction in points] == [(10.05, 0.5), (20.05, 1.0)]


def test_control_frames_by_share_and_rate(spark: SparkSession) -> None:
    frames = frames_of(
        spark,
        {"type": "RA", "time_ns": wall(0.1)},
        {"type": "MSG", "time_ns": wall(0.3)},
        # Silence for more than the window of 120 experiment seconds follows.
        *({"type": kind, "time_ns": wall(13)} for kind in ("MSG", "SR", "UR", "UR")),
        {"type": "HELLO", "time_ns": wall(0.3)},
        {"type": "MSG", "kind": "host", "time_ns": wall(0.3)},
    )
    table = curves.control_curve(frames, CLOCK)
    shares = [tuple(row) for row in curves.control_share_curve(table).collect()]
    assert shares[:2] == [(2.0, 1.0, 1.0), (4.0, 0.5, 0.5)]
    # RA of the first step leaves the window at 122 s, the message after it at 124 s.
    assert shares[-3:] == [(120.0, 0.5, 0.5), (122.0, 0.0, 0.0), (132.0, 0.75, 0.0)]
    rates = {t_s: tuple(rest) for t_s, *rest in curves.control_rate_curve(table).collect()}
    # Every 2 s, but for two zeros of the silence.
    assert set(range(2, 134, 2)) - rates.keys() == {126, 128}
    assert rates[4.0] == pytest.approx((1 / 120, 1 / 120, 0))
    assert rates[124.0] == rates[130.0] == (0, 0, 0)
    assert rates[132.0] == pytest.approx((1 / 120, 0, 3 / 120))


def test_a_frame_with_a_time_far_off_makes_no_points_in_between(spark: SparkSession) -> None:
    frames = frames_of(spark, {"time_ns": 0}, {"time_ns": wall(1)}, {"time_ns": wall(2 * 10**9)})
    points = curves.control_rate_curve(curves.control_curve(frames, CLOCK)).collect()
    assert len(points) < 200
    assert (points[0].t_s, points[-1].t_s) == (-8.0, 2e10 + 2)


def test_no_frames_no_points(spark: SparkSession) -> None:
    assert curves.control_curve(frames_of(spark), CLOCK).collect() == []
