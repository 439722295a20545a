"""The protocol options of an experiment as a router takes them, in emulation and simulation alike."""

from __future__ import annotations

from router.protocol.options import RouterOptions
from testbed.config.model import ProtocolOptions


def router_options(protocol: ProtocolOptions, time_scale: float) -> RouterOptions:
    """The options of every router: the experiment's, with its times in wall seconds."""
    period = protocol.ra_period_s
    return RouterOptions(
        ra_on_change=protocol.ra_on_change,
        ra_period=None if period is None else period / time_scale,
        hop_limit=protocol.hop_limit,
        strict_paper=protocol.strict_paper,
    )
