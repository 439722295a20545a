"""How publications spread: the options of [service] with `kind = "attention"`, strategies and transitions.

Attention paper, sections 4.1 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Literal

from router.options import Unit, check, seconds, setting
from router.protocol.services.attention import Index

#: See `Strategy`.
StrategyName = Literal["eon", "pdp"]
#: See `router.protocol.services.attention.flushing`.
Flushed = Literal["off", "neighbour", "network"]
#: See `fan_out`.
FanOut = Literal["whole", "divided", "sequential"]
#: Policies by which a cache orders its publications (section 4.1.1): less fresh, most fresh, least recently
#: used, most recently used, most frequently used first.
PolicyName = Literal["lf", "mf", "lru", "mru", "mfu"]
#: See `router.protocol.services.attention.service`.
Scheduler = Literal["fifo", "cbf"]

_POLICIES = (
    "lf (less fresh: the oldest first), mf (most fresh), lru (least recently used), mru (most recently used),"
    " mfu (most frequently used)."
)


@dataclass(frozen=True, slots=True)
class AttentionOptions:
    """How routers disseminate and cache publications.

    Times are experiment seconds: seconds of the router's clock.

    Raises:
        ValueError: an option is outside its range.
    """

    strategy: StrategyName = setting(
        "eon",
        "Dissemination strategy (section 4.3). eon: push at the upload, pull by subscriptions that pass,"
        " notify routers of satisfied subscriptions. pdp: pull by subscriptions that pass, push just"
        " before a deadline.",
    )
    remote: Literal["pending", "all"] = setting(
        "pending",
        "The publications of other routers that a new subscription takes: pending ones, or those of all"
        " indexes (sections 4.1.1 and 4.2). A refreshed subscription takes pending ones.",
    )
    fan_out: FanOut = setting(
        "whole",
        "What a SUB that leaves through several children asks each of them for. whole: all that is"
        " lacking. divided: an equal share of it. sequential: a child is asked for what those before it, and"
        " the routers behind them, left lacking.",
    )
    cache_publications: int = setting(2500, "Publications that a router caches.", low=1, high=10_000_000)
    selection: PolicyName = setting(
        "lf", f"Policy: the publication of a cache that is delivered first. {_POLICIES}"
    )
    selection_types: bool = setting(
        False,
        "Select by index first: disseminated, then overflowing, then pending publications; by `selection`"
        " within an index.",
    )
    replacement: PolicyName = setting(
        "lf", "Policy: the publication of a full cache that is evicted first; as `selection`."
    )
    replacement_types: Literal["ignored", "pending-first", "disseminated-first"] = setting(
        "ignored",
        "Evict by index first: pending, overflowing, then disseminated publications, or the reverse; by"
        " `replacement` within an index.",
    )
    en_route: bool = setting(
        False, "Routers cache publications that they forward (en-route caching, section 4.1.2)."
    )
    flushing: Flushed = setting(
        "off",
        "What becomes of an evicted publication (section 4.1.2): nothing, or neighbouring routers may"
        " cache it, or all routers. A pending one moves to one neighbour in any case.",
    )
    pace_mbps: float | None = setting(
        None,
        "Bandwidth of every interface by which a router paces what it sends; unset: a router sends at"
        " once. Megabits in an experiment second.",
        low=0,
        above_low=True,
        high=1_000_000,
        unit=Unit.MBIT_PER_SECOND,
    )
    scheduler: Scheduler = setting(
        "fifo",
        "Which publication leaves a paced interface next (section 4.4). fifo: the first that came. cbf:"
        " the most popular and urgent.",
    )
    queue_publications: int = setting(
        64, "Publications that wait at a paced interface; further ones are dropped.", low=1
    )
    beta_s: float = seconds(
        1.0,
        "pdp pushes a publication this long before the deadline of a subscription (equation 3); at least"
        " the time between two end points.",
    )
    top_up_s: float | None = seconds(
        None,
        "A home sends a subscription a second time, this long before its deadline, for what is missing;"
        " unset: never.",
        above_low=True,
    )
    history: Literal["none", "exact"] = setting(
        "none",
        "What a home remembers of former rounds: nothing (the paper's requirement), or every publication"
        " that it delivered, so that a refreshed subscription may take all others of its cache.",
    )
    count_in_transit: bool = setting(
        False,
        "A router counts the publications that it pushes or forwards to a home against the subscriptions"
        " of the home that it knows; with pdp it counts those that it pushes in any case.",
    )
    subscriptions: int = setting(
        100_000, "Subscriptions of others, and of its applications, that a router keeps.", low=1
    )
    subscriptions_weight: int = setting(
        1_000_000, "Filters and constraints of all subscriptions that a router keeps.", low=1
    )
    record_caches: bool = setting(False, "Routers record every change of an index (logs/service).")

    def __post_init__(self) -> None:
        check(self)


class Strategy:
    """When a router sends a publication that was uploaded there (section 4.3).

    eon (section 4.3.1) pushes at the upload, and homes notify other routers of satisfied subscriptions. pdp
    (section 4.3.2) pushes `beta_s` before the deadline of a subscription.

    Attributes:
        notifies: homes send OVERLOADs.
        counts_pushes: a publication that a router pushes to a home counts against the home's subscriptions.
            Under pdp, without notifications, a router knows nothing else of a satisfied subscription.
    """

    def __init__(self, options: AttentionOptions) -> None:
        self.notifies = options.strategy == "eon"
        self.counts_pushes = options.count_in_transit or not self.notifies
        self._beta_s = None if self.notifies else options.beta_s

    def pushes(self, deadlines: Iterable[float], now: float) -> bool:
        """Whether a publication that is uploaded now is sent at once.

        Args:
            deadlines: of the subscriptions of other routers that match the publication.
        """
        beta_s = self._beta_s
        return any(beta_s is None or deadline - beta_s <= now for deadline in deadlines)

    def push_at(self, deadline: float) -> float | None:
        """When pending publications are pushed to a subscription with this deadline; None: never.

        Equation (3): the paper's t_P of a publication is the earliest such time of the subscriptions that
        match the publication. A time for each subscription needs no recomputation when a subscription is
        satisfied or expires.
        """
        return None if self._beta_s is None else deadline - self._beta_s


def fan_out(way: FanOut, lacking: int, interfaces: frozenset[int]) -> Mapping[int, frozenset[int]]:
    """Divides what a SUB asks for among the children through which the SUB leaves (section 4.2).

    "max" is decremented along a path; the paper does not say what the branches of a tree are asked for. A SUB
    that asks each for the whole may bring many times as much (overload). A SUB that asks each for a share may
    leave publications of a branch unused where another branch has none.

    Args:
        lacking: publications that the subscription lacks, at least 1.
        interfaces: at least one.

    Returns:
        How many publications the SUB asks for, at least 1 -> the interfaces through which the SUB asks for
        them.
    """
    if way == "whole":
        return {lacking: interfaces}
    share, more = divmod(lacking, len(interfaces))
    ordered = sorted(interfaces)
    shares = {share + 1: frozenset(ordered[:more]), share: frozenset(ordered[more:])}
    return {asked: through for asked, through in shares.items() if asked and through}


class Trigger(Enum):
    """Cause of a change of the index of a publication.

    The value names the conditions that matter then, in their order.
    """

    # An enumeration's own hash is computed in Python.
    __hash__ = object.__hash__

    #: An application uploads it, or the router takes custody of it.
    #: local: an unsatisfied local subscription matches; pushed: the strategy sends it at once.
    UPLOAD = ("local", "pushed")
    #: It is pending here, and a subscription of another router selects it.
    SELECTED = ("dispatched",)
    #: A frame brings it, and it is in no index here.
    #: taken: an unsatisfied local subscription matches, and may take it; pf: its pending flag; forwarded: it
    #: goes on to other routers, or is a copy that a neighbour flushed; addressed: this router is among its
    #: homes; en_route: the option, or of a flushed copy whether the cache has room for it.
    ARRIVAL = ("taken", "pf", "forwarded", "addressed", "en_route")
    #: A local subscription takes it from an index.
    TAKEN = ("ppt",)


@dataclass(frozen=True, slots=True)
class Transition:
    """A row of `TRANSITIONS`.

    Attributes:
        name: of the row, as in docs/explanation/attention.md.
        when: condition -> the value for which the row applies; a condition that is missing may be either.
        after: the index afterwards; None: none.
        dispatched: the flag DF afterwards, of a pending publication.
    """

    name: str
    trigger: Trigger
    when: Mapping[str, bool]
    after: Index | None
    dispatched: bool = False


#: The index of a publication (section 4.1 and figure 1). Rows are tried in order; the first whose conditions
#: hold applies. docs/explanation/attention.md has the reasons of the rows that the paper leaves open.
TRANSITIONS = (
    Transition("U1", Trigger.UPLOAD, {"local": False, "pushed": False}, Index.PPT),
    Transition("U2", Trigger.UPLOAD, {"local": True, "pushed": False}, Index.PPT, dispatched=True),
    Transition("U3", Trigger.UPLOAD, {"local": False, "pushed": True}, Index.OPT),
    Transition("U4", Trigger.UPLOAD, {"local": True, "pushed": True}, Index.DPT),
    Transition("P1", Trigger.SELECTED, {"dispatched": False}, Index.OPT),
    Transition("P1", Trigger.SELECTED, {"dispatched": True}, Index.DPT),
    Transition("T1", Trigger.ARRIVAL, {"taken": True}, Index.DPT),
    Transition("T3", Trigger.ARRIVAL, {"pf": True, "addressed": True}, Index.OPT),
    Transition("T3", Trigger.ARRIVAL, {"pf": True, "forwarded": False}, Index.OPT),
    Transition("T2", Trigger.ARRIVAL, {"pf": True, "forwarded": True, "en_route": True}, Index.OPT),
    Transition("T4", Trigger.ARRIVAL, {"pf": False, "forwarded": True, "en_route": True}, Index.DPT),
    Transition("T5", Trigger.ARRIVAL, {"forwarded": True}, None),
    Transition("T6", Trigger.ARRIVAL, {"pf": False, "forwarded": False}, None),
    Transition("L1", Trigger.TAKEN, {"ppt": True}, Index.PPT, dispatched=True),
    Transition("L1", Trigger.TAKEN, {"ppt": False}, Index.DPT),
)


@cache
def transition(trigger: Trigger, *facts: bool) -> Transition:
    """The row that applies.

    Args:
        facts: whether each condition of the trigger holds, in their order.
    """
    known = dict(zip(trigger.value, facts, strict=True))
    return next(
        row
        for row in TRANSITIONS
        if row.trigger is trigger and all(known[name] is value for name, value in row.when.items())
    )
