"""Options of the attention-limited service: the keys of [service] with `kind = "attention"`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from router.options import SECONDS_MAX, Unit, check, option
from router.protocol.attention.fan_out import FAN_OUTS
from router.protocol.attention.policies import POLICIES
from router.protocol.attention.schedulers import SCHEDULERS
from router.protocol.attention.strategies import STRATEGIES


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """How routers disseminate and cache publications.

    Times are experiment seconds: seconds of the router's clock.

    Raises:
        ValueError: an option is outside its range.
    """

    strategy: str = field(
        default="eon", metadata=option("Dissemination strategy (section 4.3).", choices=STRATEGIES)
    )
    remote: Literal["pending", "all"] = field(
        default="pending",
        metadata=option(
            "The publications of other routers that a new subscription takes: pending ones, or those of all"
            " indexes (sections 4.1.1 and 4.2). A refreshed subscription takes pending ones."
        ),
    )
    fan_out: str = field(
        default="whole",
        metadata=option("What a SUB that leaves through several children asks for.", choices=FAN_OUTS),
    )
    cache_publications: int = field(
        default=2500, metadata=option("Publications that a router caches.", low=1, high=10_000_000)
    )
    selection: str = field(
        default="lf",
        metadata=option("Which publication of a cache is delivered first.", choices=POLICIES),
    )
    selection_types: bool = field(
        default=False,
        metadata=option(
            "Select by index first: disseminated, then overflowing, then pending publications; by `selection`"
            " within an index."
        ),
    )
    replacement: str = field(
        default="lf", metadata=option("Which publication of a full cache is evicted first.", choices=POLICIES)
    )
    replacement_types: Literal["ignored", "pending-first", "disseminated-first"] = field(
        default="ignored",
        metadata=option(
            "Evict by index first: pending, overflowing, then disseminated publications, or the reverse; by"
            " `replacement` within an index."
        ),
    )
    en_route: bool = field(
        default=False,
        metadata=option("Routers cache publications that they forward (en-route caching, section 4.1.2)."),
    )
    flushing: Literal["off", "neighbour"] = field(
        default="off",
        metadata=option(
            "What becomes of an evicted publication (section 4.1.2): nothing, or neighbouring routers may"
            " cache it."
        ),
    )
    pace_mbps: float | None = field(
        default=None,
        metadata=option(
            "Bandwidth of every interface by which a router paces what it sends; unset: a router sends at"
            " once. Megabits in an experiment second.",
            low=0,
            above_low=True,
            high=1_000_000,
            unit=Unit.MBIT_PER_SECOND,
            example=1,
        ),
    )
    scheduler: str = field(
        default="fifo",
        metadata=option(
            "Which publication leaves a paced interface next, and which stays longest (section 4.4).",
            choices=SCHEDULERS,
        ),
    )
    queue_publications: int = field(
        default=64,
        metadata=option("Publications that wait at a paced interface; further ones are dropped.", low=1),
    )
    beta_s: float = field(
        default=1.0,
        metadata=option(
            "pdp pushes a publication this long before the deadline of a subscription (equation 3); at least"
            " the time between two end points.",
            low=0,
            high=SECONDS_MAX,
            unit=Unit.EXPERIMENT_SECONDS,
        ),
    )
    top_up_s: float | None = field(
        default=None,
        metadata=option(
            "A home sends a subscription a second time, this long before its deadline, for what is missing;"
            " unset: never.",
            low=0,
            above_low=True,
            high=SECONDS_MAX,
            unit=Unit.EXPERIMENT_SECONDS,
            example=5,
        ),
    )
    history: Literal["none", "exact"] = field(
        default="none",
        metadata=option(
            "What a home remembers of former rounds: nothing (the paper's requirement), or every publication"
            " that it delivered, so that a refreshed subscription may take all others of its cache."
        ),
    )
    count_in_transit: bool = field(
        default=False,
        metadata=option(
            "A router counts the publications that it pushes or forwards to a home against the subscriptions"
            " of the home that it knows; with pdp it counts those that it pushes in any case."
        ),
    )
    subscriptions: int = field(
        default=100_000,
        metadata=option("Subscriptions of others, and of its applications, that a router keeps.", low=1),
    )
    subscriptions_weight: int = field(
        default=1_000_000,
        metadata=option("Filters and constraints of all subscriptions that a router keeps.", low=1),
    )
    record_caches: bool = field(
        default=False,
        metadata=option("Routers record every change of an index (logs/service)."),
    )

    def __post_init__(self) -> None:
        check(self)
