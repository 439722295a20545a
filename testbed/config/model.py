"""An experiment, validated.

`testbed.config.load` makes one from a TOML file.

The fields that are options (`router.options.option`) are the keys of its sections: type, range, default, unit
and meaning of each stand here and nowhere else, for [protocol] in `router.protocol.options`.

Times are in *experiment seconds* unless a unit says otherwise: the time scale divides every protocol timer,
workload interval, event time and the duration; rates are multiplied by it. Link delays and wall seconds are
not scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from router.matching.factory import DEFAULT, ENGINES
from router.options import SECONDS_MAX, Unit, option
from router.protocol.options import ChosenOptions
from router.protocol.registries import DEFAULT_SCHEME, DEFAULT_SERVICE, SCHEMES, SERVICES
from testbed.controller.trees import LAYERS
from testbed.events.event import Event
from topos.model import Topology

#: Each is drawn for every predicate.
_FILTERS_MAX = 10_000


@dataclass(frozen=True)
class LinkOptions:
    """[links]: for links that declare nothing of their own."""

    bandwidth_mbps: float | None = field(
        default=None,
        metadata=option(
            "Bandwidth in each direction.", low=0, above_low=True, unit=Unit.MBIT_PER_SECOND, example=100
        ),
    )
    delay_ms: float | None = field(
        default=None,
        metadata=option(
            "Delay of one direction; an emulation needs the kernel's sch_netem.",
            low=0,
            unit=Unit.MILLISECONDS,
            example=2,
        ),
    )
    loss_percent: float | None = field(
        default=None,
        metadata=option(
            "Frames lost in each direction, at random.", low=0, high=100, unit=Unit.PERCENT, example=0.1
        ),
    )


@dataclass(frozen=True)
class BroadcastOptions:
    """[broadcast]: the trees along which frames travel."""

    layer: str = field(default="spt", metadata=option("Broadcast layer.", choices=LAYERS))


@dataclass(frozen=True)
class RoutingOptions:
    """[routing]: the meaning of RAs and URs, and where messages go."""

    scheme: str = field(default=DEFAULT_SCHEME, metadata=option("Routing scheme.", choices=SCHEMES))


@dataclass(frozen=True)
class ServiceOptions:
    """[service]: what routers offer to applications."""

    kind: str = field(default=DEFAULT_SERVICE, metadata=option("Service to applications.", choices=SERVICES))


@dataclass(frozen=True)
class ProtocolOptions(ChosenOptions):
    """[protocol]: options of the CBCB protocol (protocol paper, section 3.5) and of its routers."""

    matcher: str = field(
        default=DEFAULT,
        metadata=option(
            "How live routers match messages; all engines give the same answers.", choices=ENGINES
        ),
    )


@dataclass(frozen=True)
class WorkloadOptions:
    """[workload]: who sends and who receives, and how often (protocol paper, section 4.1).

    Without the section there is no workload, only the events.
    """

    senders_percent: float = field(
        default=20.0,
        metadata=option("Nodes that send, drawn at random.", low=0, high=100, unit=Unit.PERCENT),
    )
    receivers_percent: float = field(
        default=75.0,
        metadata=option("Nodes that receive, drawn at random.", low=0, high=100, unit=Unit.PERCENT),
    )
    messages_per_minute: float = field(
        default=3.0,
        metadata=option("Rate of each sender (Poisson).", low=0, above_low=True, unit=Unit.PER_MINUTE),
    )
    changing_receivers_percent: float = field(
        default=50.0,
        metadata=option(
            "Receivers whose predicates change; those of the others stay the same.",
            low=0,
            high=100,
            unit=Unit.PERCENT,
        ),
    )
    predicate_change_interval_s: float = field(
        default=1200.0,
        metadata=option(
            "Mean time between two changes of a changing receiver (Poisson).",
            low=0,
            high=SECONDS_MAX,
            above_low=True,
            unit=Unit.EXPERIMENT_SECONDS,
        ),
    )
    first_message_s: float = field(
        default=0.0,
        metadata=option(
            "Time of the earliest message; predicates are set from 0 on and need a moment to spread.",
            low=0,
            high=SECONDS_MAX,
            unit=Unit.EXPERIMENT_SECONDS,
        ),
    )
    filters_min: int = field(
        default=1,
        metadata=option(
            "Least number of filters of a predicate; without a filter it selects nothing.",
            low=0,
            high=_FILTERS_MAX,
        ),
    )
    filters_max: int = field(
        default=3, metadata=option("Greatest number of filters of a predicate.", low=0, high=_FILTERS_MAX)
    )
    constraints_min: int = field(
        default=1, metadata=option("Least number of constraints of a filter.", low=1)
    )
    constraints_max: int = field(
        default=3, metadata=option("Greatest number of constraints of a filter.", low=1)
    )
    attributes_min: int = field(default=5, metadata=option("Least number of attributes of a message.", low=1))
    attributes_max: int = field(
        default=10, metadata=option("Greatest number of attributes of a message.", low=1)
    )
    distributions: str | None = field(
        default=None,
        metadata=option(
            "Folder of the files `*.dist` of the authors' workload generator, from which names, types, "
            "operators and values are drawn; default: the testbed's own vocabulary.",
            example="distributions",
        ),
    )


@dataclass(frozen=True)
class OracleOptions:
    """[oracle]: which messages are judged."""

    in_flight_window_s: float = field(
        default=1.0,
        metadata=option(
            "A message sent this close to a change of predicates or trees is undecided.",
            low=0,
            high=SECONDS_MAX,
            unit=Unit.WALL_SECONDS,
        ),
    )


@dataclass(frozen=True)
class Experiment:
    """Everything that a run needs to know."""

    name: str = field(
        metadata=option("Name of the experiment; default: that of the file.", file_name=True, default=None)
    )
    seed: int = field(metadata=option("Seed of everything random.", low=0, default=1))
    duration_s: float = field(
        metadata=option(
            "Duration of the workload.",
            low=0,
            high=SECONDS_MAX,
            above_low=True,
            unit=Unit.EXPERIMENT_SECONDS,
        )
    )
    # A wall second of a day: more says nothing about a network. The least keeps wall seconds finite.
    time_scale: float = field(
        metadata=option(
            "Experiment seconds in a wall second. Link delays are not scaled.",
            low=1e-6,
            high=86_400,
            default=1.0,
        )
    )
    topology: Topology
    broadcast: BroadcastOptions = field(default_factory=BroadcastOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    workload: WorkloadOptions | None = field(default_factory=WorkloadOptions)
    events: tuple[Event, ...] = ()
    oracle: OracleOptions = field(default_factory=OracleOptions)
    record: bool = field(
        default=True,
        metadata=option("Emulated routers record their input and their answers, for `cbcb replay`."),
    )
