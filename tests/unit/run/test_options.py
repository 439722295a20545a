"""From the protocol options of an experiment to those of a router."""

from __future__ import annotations

from router.options import Unit, options_of
from router.protocol.options import RouterOptions
from testbed.config.model import ProtocolOptions, RoutingOptions
from testbed.config.router_options import router_options


def test_the_time_scale_divides_every_timer() -> None:
    protocol = ProtocolOptions(
        ra_on_change=False,
        ra_period_s=60.0,
        hop_limit=9,
        ra_min_interval_s=12.0,
        ra_jitter_s=6.0,
        sr_policy="count",
        sr_period_s=120.0,
        sr_threshold=7,
        sr_min_interval_s=18.0,
        sr_timeout_s=24.0,
        ur_reuse=False,
        ur_freshness_s=30.0,
    )
    assert router_options(ProtocolOptions(max_filters=7), time_scale=60.0).max_filters == 7
    options = router_options(protocol, 60.0, RoutingOptions("pif-strict"))
    assert (options.ra_on_change, options.hop_limit, options.scheme) == (False, 9, "pif-strict")
    assert (options.sr_policy, options.sr_threshold, options.ur_reuse) == ("count", 7, False)
    assert (options.ra_period_s, options.ra_min_interval_s, options.ra_jitter_s) == (1.0, 0.2, 0.1)
    assert (options.sr_period_s, options.sr_min_interval_s) == (2.0, 0.3)
    assert (options.sr_timeout_s, options.ur_freshness_s) == (0.4, 0.5)


def test_a_timeout_longer_than_a_frame_can_say_is_cut() -> None:
    assert router_options(ProtocolOptions(sr_timeout_s=1e6), time_scale=1.0).sr_timeout_s == 4000.0


def test_the_defaults_of_experiments_are_those_of_routers() -> None:
    assert router_options(ProtocolOptions(), time_scale=1.0) == RouterOptions()


def test_every_option_of_a_router_says_how_it_is_scaled() -> None:
    for option in options_of(RouterOptions):
        # A time has its unit in its name.
        assert (option.unit in (Unit.EXPERIMENT_SECONDS, Unit.WALL_SECONDS)) == option.key.endswith("_s")
    scaled = router_options(ProtocolOptions(), time_scale=10.0)
    assert (scaled.readvertise_jitter_s, scaled.hello_interval_s) == (0.05, 1.0)
