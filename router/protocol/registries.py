"""The replaceable parts of a router by name.

A new scheme or service joins by one line. Entries are subclasses of `router.protocol.scheme.Scheme` and
`router.protocol.service.Service`, which this module does not know: they need the options, which ask for
names.
"""

from __future__ import annotations

from typing import Any

from router.registry import Registry

#: Routing schemes: `[routing] scheme` of an experiment.
SCHEMES: Registry[type[Any]] = Registry("routing scheme")
SCHEMES.register_lazily(
    "pif", "router.protocol.schemes.per_interface:PerInterface", "A predicate for each interface."
)
SCHEMES.register_lazily(
    "pif-strict",
    "router.protocol.schemes.per_interface:PerInterfaceStrict",
    "The rules of sections 3.5.1 to 3.5.3 to the letter, which may lose receivers.",
)
SCHEMES.register_lazily(
    "pif-classes",
    "router.protocol.schemes.per_class:PerClass",
    "A predicate for each interface and class of receivers, so that no message is sent in vain.",
)
SCHEMES.register_lazily(
    "psf",
    "router.protocol.schemes.per_source:PerSourceForwarding",
    "A predicate for each source and child on its tree.",
)
SCHEMES.register_lazily(
    "ips",
    "router.protocol.schemes.per_source:ImprovedPerSource",
    "As `psf`, with one predicate for all sources that have the same receivers below a child.",
)
SCHEMES.register_lazily(
    "drp",
    "router.protocol.schemes.receiver_partitioning:ReceiverPartitioning",
    "The sender's router names the receivers in the message.",
)
SCHEMES.register_lazily(
    "flooding", "router.protocol.schemes.flooding:Flooding", "Every message goes to every router of its tree."
)

#: Services offered to applications: `[service] kind` of an experiment.
SERVICES: Registry[type[Any]] = Registry("service")
SERVICES.register_lazily(
    "exhaustive",
    "router.protocol.services.exhaustive:Exhaustive",
    "Every application gets every message that its predicate selects.",
)
SERVICES.register_lazily(
    "attention",
    "router.protocol.services.attention.service:Attention",
    "Subscriptions with a maximum, a lifetime and a freshness, served from caches in the network.",
)

DEFAULT_SCHEME = "pif"
DEFAULT_SERVICE = "exhaustive"
