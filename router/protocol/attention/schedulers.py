"""Schedulers: which publication leaves a paced interface first (attention paper, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from router.registry import Registry


class Queued(Protocol):
    """The facts about a waiting publication by which schedulers order."""

    number: int

    def cbf(self, now: float) -> float:
        """Equation (4) at this time."""


class Scheduler(NamedTuple):
    """A scheduler.

    Attributes:
        priority: of a waiting publication at a time: the greatest leaves first, the least is dropped. Of
            equal priorities, the earlier publication is first.
        by_deadlines: whether the priority depends on `Queued.cbf`.
    """

    priority: Callable[[Queued, float], float]
    by_deadlines: bool


SCHEDULERS: Registry[Scheduler] = Registry("scheduler")
SCHEDULERS.register(
    "fifo",
    Scheduler(lambda waiting, now: -waiting.number, by_deadlines=False),  # noqa: ARG005
    "In the order of arrival.",
)
SCHEDULERS.register(
    "cbf",
    Scheduler(lambda waiting, now: waiting.cbf(now), by_deadlines=True),
    "Popular and urgent ones first.",
)
