"""Experiment time."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns wall time into experiment seconds."""

    start_ns: int
    time_scale: float

    def seconds(self, time_ns: Column) -> Column:
        return (time_ns - F.lit(self.start_ns)) * F.lit(self.time_scale / 1e9)

    def experiment_s(self, time_ns: int) -> float:
        """The same for one time."""
        return (time_ns - self.start_ns) * self.time_scale / 1e9
