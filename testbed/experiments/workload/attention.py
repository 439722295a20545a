"""The workload of table 1 (`testbed.experiments.workload.attention_demand`) as requests of applications.

A service has its own way to express a subscription of a limited lifetime.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from router.predicates.model import Message
from testbed.experiments.workload.attention_demand import Demand
from testbed.experiments.workload.model import Item

#: Name of the attribute that holds the number of the event.
EVENT = "event"


def predicate_of(event: int) -> str:
    """Returns the predicate that selects the publications of an event."""
    return f"{EVENT} = {event}"


def exhaustive(demand: Demand, end_s: float) -> Iterator[Item]:
    """As exhaustive semantics serves the workload: subscribed from the registration to the last expiry."""
    sent = _published(demand, end_s, "send_message")
    return heapq.merge(_subscribed(demand, end_s), sent, key=lambda item: item.at_s)


def _subscribed(demand: Demand, end_s: float) -> Iterator[Item]:
    ends: list[tuple[float, int, Item]] = []
    for each in demand.subscriptions:
        while ends and ends[0][0] <= each.at_s:
            yield heapq.heappop(ends)[2]
        name = f"s{each.number}"
        yield Item(each.at_s, each.node, "subscribe", predicate=predicate_of(each.event), subscription=name)
        until_s = round(each.begin_s(each.rounds - 1) + each.lifetime_s, 6)
        if until_s <= end_s:
            item = Item(until_s, each.node, "unsubscribe", subscription=name)
            heapq.heappush(ends, (until_s, each.number, item))
    while ends:
        yield heapq.heappop(ends)[2]


def _published(demand: Demand, end_s: float, action: str) -> Iterator[Item]:
    contents = [Message({EVENT: event}) for event in range(len(demand.popularities))]
    for upload in demand.uploads():
        if upload.at_s <= end_s:
            yield Item(upload.at_s, upload.node, action, attributes=contents[upload.event])


def limited(demand: Demand, end_s: float) -> Iterator[Item]:
    """As the attention-limited service serves the workload."""
    return heapq.merge(
        _registered(demand, end_s), _published(demand, end_s, "publish"), key=lambda item: item.at_s
    )


def _registered(demand: Demand, end_s: float) -> Iterator[Item]:
    for at_s, each, number in demand.registrations():
        if at_s > end_s:
            return
        name = f"s{each.number}"
        if number:
            yield Item(at_s, each.node, "refresh", subscription=name)
        else:
            yield Item(
                *(at_s, each.node, "register"),
                predicate=predicate_of(each.event),
                subscription=name,
                max=each.max,
                lifetime_s=each.lifetime_s,
                freshness_s=each.freshness_s,
            )


#: Service -> the requests of a workload in order of time, up to an experiment second.
REQUESTS: dict[str, Callable[[Demand, float], Iterator[Item]]] = {
    "exhaustive": exhaustive,
    "attention": limited,
}
