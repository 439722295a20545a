"""Schedulers: which publication leaves a paced interface first (attention paper, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from router.registry import Registry


class Queued(Protocol):
    """The facts about a waiting publication by which schedulers order."""

    number: int

    def cbf(self, now: float) -> float:
        """Equation (4) at this time."""


#: Gives the priority of a waiting publication at a time: the greatest leaves first, the least is dropped. Of
#: equal ones, the earlier is first.
Scheduler = Callable[[Queued, float], float]

SCHEDULERS: Registry[Scheduler] = Registry("scheduler")
SCHEDULERS.register("fifo", lambda waiting, now: -waiting.number, "In the order of arrival.")  # noqa: ARG005
SCHEDULERS.register("cbf", lambda waiting, now: waiting.cbf(now), "Popular and urgent ones first.")
