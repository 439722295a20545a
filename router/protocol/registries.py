"""The replaceable parts of a router by name. A new one joins by one line here, or by `Registry.register`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.registry import Registry

if TYPE_CHECKING:  # these modules need the options, which ask the registries
    from router.protocol.scheme import Scheme
    from router.protocol.service import Service

#: Routing schemes: `[routing] scheme` of an experiment.
SCHEMES: Registry[type[Scheme]] = Registry(
    "routing scheme",
    {
        "pif": "router.protocol.schemes.per_interface:PerInterface",
        "pif-strict": "router.protocol.schemes.per_interface_strict:PerInterfaceStrict",
        "flooding": "router.protocol.schemes.flooding:Flooding",
    },
)
#: Services offered to applications: `[service] kind` of an experiment.
SERVICES: Registry[type[Service]] = Registry(
    "service", {"exhaustive": "router.protocol.services.exhaustive:Exhaustive"}
)
DEFAULT_SCHEME = "pif"
DEFAULT_SERVICE = "exhaustive"
