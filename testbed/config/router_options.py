"""The protocol options of an experiment as a router takes them, in emulation and simulation alike."""

from __future__ import annotations

from router.protocol.options import MAX_REQUEST_TIMEOUT, RouterOptions
from testbed.config.model import ProtocolOptions, RoutingOptions, ServiceOptions

#: Experiment seconds within which routers advertise again after a change of trees.
_READVERTISE_JITTER_S = 0.5


def router_options(
    protocol: ProtocolOptions,
    time_scale: float,
    routing: RoutingOptions | None = None,
    service: ServiceOptions | None = None,
) -> RouterOptions:
    """The options of every router: the experiment's, with its times in wall seconds.

    Args:
        routing, service: None: the defaults.
    """
    period = protocol.ra_period_s
    return RouterOptions(
        ra_on_change=protocol.ra_on_change,
        ra_period=None if period is None else period / time_scale,
        hop_limit=protocol.hop_limit,
        scheme=(routing or RoutingOptions()).scheme,
        service=(service or ServiceOptions()).kind,
        covering=protocol.covering,
        readvertise_jitter=_READVERTISE_JITTER_S / time_scale,
        ra_min_interval=protocol.ra_min_interval_s / time_scale,
        ra_jitter=protocol.ra_jitter_s / time_scale,
        sr_policy=protocol.sr_policy,
        sr_period=protocol.sr_period_s / time_scale,
        sr_threshold=protocol.sr_threshold,
        sr_min_interval=protocol.sr_min_interval_s / time_scale,
        # More than an hour is as good as for ever.
        sr_timeout=min(protocol.sr_timeout_s / time_scale, MAX_REQUEST_TIMEOUT),
        ur_reuse=protocol.ur_reuse,
        ur_freshness=protocol.ur_freshness_s / time_scale,
        max_filters=protocol.max_filters,
    )
