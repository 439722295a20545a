"""From the protocol options of an experiment to those of a router."""

from __future__ import annotations

from typing import Any

from router.options import Unit, options_of
from router.protocol.options import RouterOptions
from testbed.experiments.config import Experiment, ProtocolOptions, RoutingOptions
from topos.generators import ring


def _experiment(**sections: Any) -> Experiment:
    return Experiment("options", 1, 1.0, 1.0, ring(3), **sections)


def test_a_router_gets_the_options_of_the_experiment_as_they_are() -> None:
    protocol = ProtocolOptions(ra_period_s=60.0, ra_jitter_s=6.0, sr_timeout_s=24.0, max_filters=7)
    assert _experiment(protocol=protocol, routing=RoutingOptions("pif")).router_options == RouterOptions(
        ra_period_s=60.0, ra_jitter_s=6.0, sr_timeout_s=24.0, max_filters=7
    )


def test_the_scheme_comes_from_the_section_on_routing() -> None:
    assert _experiment(routing=RoutingOptions("pif-strict")).router_options.scheme == "pif-strict"


def test_the_defaults_of_experiments_are_those_of_routers() -> None:
    assert _experiment().router_options == RouterOptions()


def test_every_time_of_a_router_is_in_experiment_seconds() -> None:
    for option in options_of(RouterOptions):
        # A time has its unit in its name.
        assert (option.unit is Unit.EXPERIMENT_SECONDS) == option.key.endswith("_s")
