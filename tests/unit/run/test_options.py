"""From the protocol options of an experiment to those of a router."""

from __future__ import annotations

from router.options import Unit, options_of
from router.protocol.options import RouterOptions
from testbed.experiments.config.model import ProtocolOptions, RoutingOptions, ServiceOptions
from testbed.experiments.config.router_options import router_options


def test_a_router_gets_the_options_of_the_experiment_as_they_are() -> None:
    protocol = ProtocolOptions(ra_period_s=60.0, ra_jitter_s=6.0, sr_timeout_s=24.0, max_filters=7)
    assert router_options(protocol, RoutingOptions("pif"), ServiceOptions()) == RouterOptions(
        ra_period_s=60.0, ra_jitter_s=6.0, sr_timeout_s=24.0, max_filters=7
    )


def test_the_scheme_comes_from_the_section_on_routing() -> None:
    assert router_options(ProtocolOptions(), RoutingOptions("pif-strict")).scheme == "pif-strict"


def test_the_defaults_of_experiments_are_those_of_routers() -> None:
    assert router_options(ProtocolOptions()) == RouterOptions()


def test_every_time_of_a_router_is_in_experiment_seconds() -> None:
    for option in options_of(RouterOptions):
        # A time has its unit in its name.
        assert (option.unit is Unit.EXPERIMENT_SECONDS) == option.key.endswith("_s")
