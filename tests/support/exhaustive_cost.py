"""The traffic of exhaustive semantics, counted from the demand of an experiment instead of its records."""

from __future__ import annotations

from heapq import heappop, heappush

from testbed.controller.trees import Forest
from testbed.experiments.workload.attention import Demand, Registration
from testbed.results.oracle.attention.baseline import Cost, Exhaustive


def cost_of(demand: Demand, forest: Forest, nodes: int) -> Cost:
    """Returns the traffic of CBR under the workload of an experiment."""
    network = Exhaustive(forest, nodes)
    ends: list[tuple[float, int, int]] = []
    registrations = demand.registrations()
    following = next(registrations, None)

    def end(until_s: float) -> None:
        while ends and ends[0][0] <= until_s:
            _, event, node = heappop(ends)
            network.ended(event, node)

    def take(registration: Registration) -> None:
        subscription = registration.subscription
        # A lifetime that ends when the next one begins ends first.
        end(registration.at_s)
        network.registered(subscription.event, subscription.node)
        heappush(ends, (registration.at_s + subscription.lifetime_s, subscription.event, subscription.node))

    for upload in demand.uploads():
        while following is not None and following.at_s <= upload.at_s:
            take(following)
            following = next(registrations, None)
        end(upload.at_s)
        network.published(upload.node, (upload.event,))
    while following is not None:
        take(following)
        following = next(registrations, None)
    return network.cost
