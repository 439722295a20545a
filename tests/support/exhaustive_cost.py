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
    uploads = ((upload.at_s, upload.node, (upload.event,)) for upload in demand.uploads())
    return exhaustive_cost(lifetimes, uploads, forest)
