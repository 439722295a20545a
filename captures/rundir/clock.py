"""Experiment time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns wall time (ns since 1970 UTC) into experiment seconds."""

    start_ns: int
    time_scale: float

    def experiment_s(self, time_ns: int) -> float:
        """The experiment second at a wall time."""
        return (time_ns - self.start_ns) * self.time_scale / 1e9
