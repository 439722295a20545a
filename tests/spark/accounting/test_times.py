"""Experiment time on Spark is that of the clock, to the last digit."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from captures.accounting.texts import double, experiment_seconds, wall_seconds
from tests.support.clocks import clock_of, lasting_s, times_of

pytestmark = pytest.mark.spark


def test_seconds_are_those_of_the_clock(spark: SparkSession) -> None:
    for count in (1, 2, 40):
        clock = clock_of(count)
        times = times_of(clock)
        table = spark.createDataFrame([(at,) for at in times], "at_ns bigint").coalesce(1)
        found = [row[0] for row in table.selectExpr(experiment_seconds(clock, "at_ns")).collect()]
        assert found == [clock.experiment_s(at) for at in times]
        seconds = spark.createDataFrame([(at_s,) for at_s in found], "at_s double").coalesce(1)
        lasting = [row[0] for row in seconds.selectExpr(wall_seconds(clock, "at_s", 30.0)).collect()]
        assert lasting == pytest.approx([lasting_s(clock, at, 30.0) for at in times], abs=1e-5)


def test_a_number_is_read_as_it_is(spark: SparkSession) -> None:
    numbers = [0.1, 1 / 3, 0.12345678901234568, 1e-300, -2.5, 1.7976931348623157e308, 0.0]
    assert tuple(spark.sql("select " + ", ".join(map(double, numbers))).first() or ()) == tuple(numbers)
