"""Spark's expressions of experiment time are equal to the clock."""

from __future__ import annotations

import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting.expressions import experiment_seconds, wall_seconds
from captures.rundir.clock import Clock
from router.clock.pieces import NS, Piece


def _clock(pieces: int) -> Clock:
    rng = random.Random(pieces)
    made = [Piece(1_700_000_000 * NS, -5.0, 1.0)]
    for _ in range(pieces - 1):
        made.append(made[-1].followed_by(made[-1].start_ns + rng.randrange(NS, 20 * NS), rng.uniform(1, 90)))
    return Clock(made)


def test_many_pieces_map_as_the_clock_does(spark: SparkSession) -> None:
    for count in (1, 2, 3, 40):
        clock = _clock(count)
        last_ns = clock.pieces[-1].start_ns
        times = [clock.pieces[0].start_ns - NS, *(piece.start_ns for piece in clock.pieces), last_ns + NS]
        rows = spark.createDataFrame([(at,) for at in times], "at bigint")
        found = [row[0] for row in rows.select(experiment_seconds(clock, F.col("at"))).collect()]
        assert [round(at_s, 6) for at_s in found] == [round(clock.experiment_s(at), 6) for at in times]
        lasting = rows.select(wall_seconds(clock, experiment_seconds(clock, F.col("at")), 30.0)).collect()
        expected = [
            (clock.wall_ns(clock.experiment_s(at) + 30) - clock.wall_ns(clock.experiment_s(at))) / NS
            for at in times
        ]
        assert [round(row[0], 5) for row in lasting] == [round(each, 5) for each in expected]
