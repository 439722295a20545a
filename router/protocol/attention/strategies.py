"""Dissemination strategies: when a router sends a publication that was uploaded there (section 4.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from router.registry import Registry

if TYPE_CHECKING:
    from router.protocol.attention.table import Entry


class Strategy(ABC):
    """A dissemination strategy.

    Args:
        beta_s: beta of equation (3), seconds.
        count_in_transit: see `AttentionOptions`.

    Attributes:
        notifies: homes send OVERLOADs.
        counts_pushes: what a router pushes to a home counts against the home's subscriptions.
    """

    notifies: ClassVar[bool]

    def __init__(self, beta_s: float, count_in_transit: bool) -> None:
        self.beta_s = beta_s
        self.counts_pushes = count_in_transit

    @abstractmethod
    def pushes(self, entries: Iterable[Entry], now: float) -> bool:
        """Whether a publication that is uploaded now, and that the entries match, is sent at once."""

    @abstractmethod
    def push_at(self, entry: Entry) -> float | None:
        """When pending publications are sent to the subscription, unasked; None: never.

        The paper's t_P of a publication is the earliest such time of the subscriptions that match it. A time
        for each subscription is the same, without a recomputation when one of them is satisfied or expires.
        """


class Eon(Strategy):
    """Push/pull and explicit overload notification (section 4.3.1)."""

    notifies = True

    def pushes(self, entries: Iterable[Entry], now: float) -> bool:  # noqa: ARG002
        return any(True for _ in entries)

    def push_at(self, entry: Entry) -> float | None:  # noqa: ARG002
        return None


class Pdp(Strategy):
    """Pull/delayed push (section 4.3.2)."""

    notifies = False

    def __init__(self, beta_s: float, count_in_transit: bool) -> None:
        super().__init__(beta_s, count_in_transit)
        # Without notifications, a count is all that a router knows of a subscription that is satisfied.
        self.counts_pushes = True

    def pushes(self, entries: Iterable[Entry], now: float) -> bool:
        return any(self.push_at(entry) <= now for entry in entries)

    def push_at(self, entry: Entry) -> float:
        return entry.deadline - self.beta_s


STRATEGIES: Registry[type[Strategy]] = Registry("dissemination strategy")
STRATEGIES.register(
    "eon",
    Eon,
    "Push at the upload, pull by subscriptions that pass, notify routers of satisfied subscriptions.",
)
STRATEGIES.register("pdp", Pdp, "Pull by subscriptions that pass, push just before a deadline.")
