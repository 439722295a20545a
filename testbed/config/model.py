"""An experiment, validated. `testbed.config.load` makes one from a TOML file.

Times are in *experiment seconds* unless a key says otherwise: the time scale divides every protocol timer,
workload interval, event time and the duration; rates are multiplied by it. Link delays, and what a key
calls wall seconds, are not scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from testbed.events.event import Event
from topos.model import Topology

SenderRequestPolicy = Literal["never", "periodic", "count"]


@dataclass(frozen=True)
class BroadcastOptions:
    """`layer`: name of the broadcast layer, in `testbed.controller.trees.LAYERS`."""

    layer: str = "spt"


@dataclass(frozen=True)
class RoutingOptions:
    """`scheme`: what RAs and URs mean, where messages go; a name of `router.protocol.registries.SCHEMES`."""

    scheme: str = "pif"


@dataclass(frozen=True)
class ServiceOptions:
    """`kind`: what routers offer to applications, a name of `router.protocol.registries.SERVICES`."""

    kind: str = "exhaustive"


@dataclass(frozen=True)
class ProtocolOptions:
    """CBCB options (protocol paper, section 3.5).

    Attributes:
        ra_on_change: issue an RA whenever p0 changes.
        ra_period_s: also issue one every so many experiment seconds (None: never).
        hop_limit: hops a frame may take, 1..255.
        ra_min_interval_s: least time between two RAs of one router; changes in between are told together.
        ra_jitter_s: an RA waits up to so long, at random.
        sr_policy: when routers issue SRs unasked (section 3.5.5): never, periodically, or through an
            interface after a count of messages.
        sr_period_s: time between two SRs of a router (policy `periodic`).
        sr_threshold: an SR is due when more messages than this went through an interface (policy `count`).
        sr_min_interval_s: least time between two SRs of that policy through one interface.
        sr_timeout_s: how long the issuer of an SR waits for its URs.
        ur_reuse: share URs between routers, and answer SRs from tables, where that is sound (section 3.5.4).
        ur_freshness_s: how old a table entry may be that answers an SR.
        max_filters: over-simplify a table entry to so many filters when it has more than twice as many
            (section 3.5.6; None: never). Not with the schemes "pif-strict" and "flooding".
        covering: how routers compare and unite predicates, a name of `router.content.registry.CONTENTS`.
        matcher: how live routers match messages; all engines give the same answers.
    """

    ra_on_change: bool = True
    ra_period_s: float | None = None
    hop_limit: int = 64
    ra_min_interval_s: float = 0.0
    ra_jitter_s: float = 0.0
    sr_policy: SenderRequestPolicy = "never"
    sr_period_s: float = 600.0
    sr_threshold: int = 100
    sr_min_interval_s: float = 0.0
    sr_timeout_s: float = 60.0
    ur_reuse: bool = True
    ur_freshness_s: float = 60.0
    max_filters: int | None = None
    covering: str = "full"
    matcher: str = "compiled"


@dataclass(frozen=True)
class WorkloadOptions:
    """Who sends and who receives, and how often (protocol paper, section 4.1).

    Attributes:
        senders_percent, receivers_percent: share of the nodes, drawn at random.
        messages_per_minute: Poisson rate of each sender, experiment time.
        changing_receivers_percent: share of the receivers whose predicate changes.
        predicate_change_interval_s: mean time between changes of one changing receiver (Poisson).
        first_message_s: experiment time of the earliest message (predicates are set from 0 on).
        filters_min, filters_max: disjuncts of a predicate.
        constraints_min, constraints_max: constraints of a filter.
        attributes_min, attributes_max: attributes of a message.
    """

    senders_percent: float = 20.0
    receivers_percent: float = 75.0
    messages_per_minute: float = 3.0
    changing_receivers_percent: float = 50.0
    predicate_change_interval_s: float = 1200.0
    first_message_s: float = 0.0
    filters_min: int = 1
    filters_max: int = 3
    constraints_min: int = 1
    constraints_max: int = 3
    attributes_min: int = 5
    attributes_max: int = 10


@dataclass(frozen=True)
class OracleOptions:
    """`in_flight_window_s` (wall seconds): a message sent within it of a predicate change is undecided."""

    in_flight_window_s: float = 1.0


@dataclass(frozen=True)
class Experiment:
    """Everything that a run needs to know.

    `record`: emulated routers record what they are given and what they answer.
    """

    name: str
    seed: int
    duration_s: float
    time_scale: float
    topology: Topology
    broadcast: BroadcastOptions = field(default_factory=BroadcastOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    workload: WorkloadOptions | None = field(default_factory=WorkloadOptions)
    events: tuple[Event, ...] = ()
    oracle: OracleOptions = field(default_factory=OracleOptions)
    record: bool = True
