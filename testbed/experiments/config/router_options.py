"""The options of an experiment as a router takes them, in emulation and simulation alike, and what it
serves."""

from __future__ import annotations

from collections.abc import Collection

from router.options import options_of
from router.protocol.options import CONTENTS, SERVICES, ChosenOptions, RouterOptions
from router.protocol.services.base import Session
from testbed.experiments.config.model import PrivacyOptions, ProtocolOptions, RoutingOptions, ServiceOptions


def router_options(
    protocol: ProtocolOptions,
    routing: RoutingOptions | None = None,
    service: ServiceOptions | None = None,
    privacy: PrivacyOptions | None = None,
) -> RouterOptions:
    """The options of every router.

    Args:
        routing, service, privacy: None: the defaults.
    """
    values = {each.key: getattr(protocol, each.key) for each in options_of(ChosenOptions)}
    values["scheme"] = (routing or RoutingOptions()).scheme
    service = service or ServiceOptions()
    values["service"] = service.kind
    values["privacy"] = (privacy or PrivacyOptions()).mode
    return RouterOptions(
        **{each.key: values.get(each.key, each.default) for each in options_of(RouterOptions)},
        service_options=service.of_kind,
    )


def commands(service: ServiceOptions, protocol: ProtocolOptions) -> Collection[str]:
    """Returns the commands of the application socket, such as `set_predicate`."""
    session: Session = SERVICES[service.kind].session(0, CONTENTS[protocol.covering]())
    return session.commands()
