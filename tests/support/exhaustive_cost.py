"""The traffic of exhaustive semantics, counted from the demand of an experiment instead of its records."""

from __future__ import annotations

from testbed.controller.trees import Forest
from testbed.experiments.workload.attention import Demand
from testbed.results.oracle.attention.baseline import Cost, exhaustive_cost


def cost_of(demand: Demand, forest: Forest) -> Cost:
    """Returns the traffic of CBR under the workload of an experiment."""
    lifetimes = [
        (each.at_s, each.at_s + each.subscription.lifetime_s, each.subscription.event, each.subscription.node)
        for each in demand.registrations()
    ]
    published = ((each.at_s, each.node, each.attributes or {}) for each in demand.published("publish"))
    uploads = ((at_s, node, [int(attributes["event"])]) for at_s, node, attributes in published)
    return exhaustive_cost(lifetimes, uploads, forest)
