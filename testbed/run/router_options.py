"""The protocol options of an experiment as a router takes them."""

from __future__ import annotations

from router.protocol.options import RouterOptions
from testbed.config.model import Experiment


def router_options(experiment: Experiment) -> RouterOptions:
    """The options of every router: times in wall seconds, the time scale applied."""
    protocol = experiment.protocol
    period = protocol.ra_period_s
    return RouterOptions(
        ra_on_change=protocol.ra_on_change,
        ra_period=None if period is None else period / experiment.time_scale,
        hop_limit=protocol.hop_limit,
        strict_paper=protocol.strict_paper,
    )
