"""Experiment files: the validated form of an experiment.

`testbed.experiments.config.load` makes one from a TOML file.

The fields that are options (`router.options.option`) are the keys of its sections: type, range, default, unit
and meaning of each stand here and nowhere else, for [protocol] in `router.protocol.options`.

Times are in *experiment seconds*, those of the experiment clock (docs/explanation/clock.md), unless a unit
says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from router.matching.engines import DEFAULT, ENGINES
from router.options import Option, Unit, option, options_of, percent, seconds, setting
from router.predicates.encoded import BITS_MAX, HASHES_MAX
from router.predicates.encoded.encoder import Hardening
from router.predicates.encoded.encodings import ENCODINGS
from router.privacy import DEFAULT_PARAMETERS, EncodingParameters
from router.protocol.options import (
    CONTENTS,
    DEFAULT_SCHEME,
    DEFAULT_SERVICE,
    SCHEMES,
    SERVICES,
    ChosenOptions,
    PrivacyMode,
    RouterOptions,
    options_of_entry,
)
from router.protocol.services import Session
from router.registry import Registry
from router.wire.authentication import SecurityMode
from testbed.controller.framework import FRAMEWORKS, RYU
from testbed.controller.trees import LAYERS
from testbed.experiments.events import Event, duration
from topos import LinkProperties, Topology

#: Value of `time_scale`: a governor chooses the rate of the experiment clock.
AUTO: Final = "auto"
#: A wall day in a wall second: more says nothing about a network.
RATE_MAX = 86_400.0
#: Wall seconds of lag that no run has to stay below.
_LAG_WALL_S = 0.5
#: Experiment seconds that the oracle's window may last with `time_scale = "auto"`.
_WINDOW_MAX_S = 60.0
#: Each is drawn for every predicate.
_FILTERS_MAX = 10_000
#: Items of a workload: their number, not the memory for them, since they are generated one at a time.
_ITEMS_MAX = 100_000_000


@dataclass(frozen=True)
class BroadcastOptions:
    """[broadcast]: the trees along which frames travel, and the controller that makes them."""

    layer: str = setting("spt", "Broadcast layer.", choices=LAYERS)
    framework: str = setting(
        RYU,
        "OpenFlow framework of the controller; os-ken needs the extra `os-ken`. Trees are the same.",
        choices=FRAMEWORKS,
    )


@dataclass(frozen=True)
class RoutingOptions:
    """[routing]: the meaning of RAs and URs, and where messages go.

    Attributes:
        of_kind: the options of the scheme, further keys of the section; None becomes the defaults.
    """

    scheme: str = setting(DEFAULT_SCHEME, "Routing scheme.", choices=SCHEMES)
    of_kind: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "of_kind", options_of_entry(SCHEMES, self.scheme, self.of_kind))


@dataclass(frozen=True)
class ServiceOptions:
    """[service]: what routers offer to applications.

    Attributes:
        of_kind: the options of the service `kind`, further keys of the section; None becomes the defaults.
    """

    kind: str = setting(DEFAULT_SERVICE, "Service to applications.", choices=SERVICES)
    of_kind: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "of_kind", options_of_entry(SERVICES, self.kind, self.of_kind))

    def commands(self, covering: str, scheme: str) -> Collection[str]:
        """Returns the commands of the application socket that events may give, such as `set_predicate`."""
        service = SERVICES[self.kind]
        session: Session = service.session(0, CONTENTS[covering]())
        asks = ["request_update"] if service.sends_messages and SCHEMES[scheme].sends_requests else []
        return [*session.commands(), *asks]


@dataclass(frozen=True)
class ProtocolOptions(ChosenOptions):
    """[protocol]: options of the CBCB protocol (protocol paper, section 3.5) and of its routers."""

    matcher: str = setting(
        DEFAULT, "How live routers match messages; all engines give the same answers.", choices=ENGINES
    )


@dataclass(frozen=True)
class WorkloadOptions:
    """[workload]: who sends and who receives, and how often (protocol paper, section 4.1).

    Without the section there is no workload, only the events.
    """

    applications_per_node: int = setting(
        1, "Applications on each drawn node, each with predicates and messages of its own.", low=1, high=100
    )
    senders_percent: float = percent(20.0, "Nodes that send, drawn at random.")
    receivers_percent: float = percent(75.0, "Nodes that receive, drawn at random.")
    messages_per_minute: float = setting(
        3.0, "Rate of each sender (Poisson).", low=0, above_low=True, unit=Unit.PER_MINUTE
    )
    changing_receivers_percent: float = percent(
        50.0, "Receivers whose predicates change; those of the others stay the same."
    )
    predicate_change_interval_s: float = seconds(
        1200.0, "Mean time between two changes of a changing receiver (Poisson).", above_low=True
    )
    first_message_s: float = seconds(
        0.0,
        "Time of the earliest message; predicates, set from `first_predicate_s` on, need a moment to spread.",
    )
    first_predicate_s: float = seconds(
        0.0,
        "Time at which every receiver sets its first predicate. Predicates of 0 are set one after the"
        " other, before the clock of the workload starts; those of a later time are set at once, while"
        " messages are sent.",
    )
    filters_min: int = setting(
        1,
        "Least number of filters of a predicate; without a filter it selects nothing.",
        low=0,
        high=_FILTERS_MAX,
    )
    filters_max: int = setting(3, "Greatest number of filters of a predicate.", low=0, high=_FILTERS_MAX)
    constraints_min: int = setting(1, "Least number of constraints of a filter.", low=1)
    constraints_max: int = setting(3, "Greatest number of constraints of a filter.", low=1)
    attributes_min: int = setting(5, "Least number of attributes of a message.", low=1)
    attributes_max: int = setting(10, "Greatest number of attributes of a message.", low=1)
    distributions: str | None = setting(
        None,
        "Folder of the files `*.dist` of the authors' workload generator, from which names, types, "
        "operators and values are drawn; default: the testbed's own vocabulary.",
        path=True,
    )
    schema: str | None = setting(
        None,
        "File of attributes, in the place of the testbed's own vocabulary (docs/how-to/workloads.md).",
        path=True,
    )
    selectivity_percent: float | None = percent(
        None, "Share of the messages that each predicate selects; needs a schema.", above_low=True
    )
    trace: str | None = setting(
        None,
        "File of requests (.csv, or .jsonl as a run's workload), in the place of drawn senders and "
        "receivers.",
        path=True,
    )
    generator: str | None = setting(
        None,
        "Function that returns the requests, in the place of drawn senders and receivers: "
        "`stock-ticks-local`, `stock-ticks-spread`, or that of an installed package (entry points of the "
        "group cbcb.workloads).",
    )


@dataclass(frozen=True)
class AttentionWorkload:
    """[workload.attention]: events with subscribers and publishers, in the place of the keys of [workload].

    Diallo, Fdida and Spathis, section 5.1 and table 1, whose names the keys give. T is `duration_s`, N the
    number of nodes of the topology, B_i and beta are keys of [service].
    """

    events: int = setting(500, "E: events, each with subscriptions and publications.", low=1, high=65_535)
    subscriptions: int = setting(
        10_000, "S: basic subscriptions, at a constant rate; renewals come on top.", low=0, high=_ITEMS_MAX
    )
    publications: int = setting(500_000, "P: publications, at a constant rate.", low=0, high=_ITEMS_MAX)
    exponent: float = setting(
        0.7, "Popularity of event i: i to the power -exponent, divided by the sum.", low=0, high=10
    )
    normalised: bool = setting(
        True, "false: the sum is not divided by, so event i has subscribers at i^-exponent of all routers."
    )
    subscriptions_from_s: float = seconds(
        0.0, "Subscriptions come from this time on, at the same rate: caches may be full by then."
    )
    max: int = setting(10, "Max: publications that a subscription takes in a lifetime.", low=1, high=10**9)
    lifetime_s: float = seconds(50.0, "Lifetime of a subscription.", above_low=True)
    freshness_s: float = seconds(
        1000.0, "Greatest age of a publication that a subscription takes.", above_low=True
    )
    refresh_probability: float = setting(
        0.5, "P_r: probability that a subscription is renewed at the end of a lifetime.", low=0, high=0.999
    )
    refresh_delay_s: float = seconds(
        0.01,
        "Time from the end of a lifetime to the renewal: a router refuses one that comes earlier. An"
        " emulation needs more than the lag of its requests.",
        above_low=True,
    )
    draw: Literal["constant", "uniform"] = setting(
        "constant",
        "constant: every subscription has max, lifetime_s and freshness_s; uniform: they are upper bounds"
        " of values drawn for each subscription.",
    )
    pick: Literal["remaining", "uniform"] = setting(
        "remaining",
        "Event of a publication: drawn in proportion to the publications that events have left, or"
        " uniformly among the events that have any left.",
    )


@dataclass(frozen=True)
class SecurityOptions:
    """[security]: whether routers and controller verify who sent a frame."""

    mode: SecurityMode = setting(
        "off",
        "How frames are authenticated. off: frames are taken as they come. mac: every frame has a tag of"
        " the pair of neighbours for each hop; frames without are dropped. signed: as mac, and what a"
        " node issues has its signature, which holds a rogue router to its own name.",
    )
    key_file: str | None = setting(
        None,
        "File of the network keys (`cbcb keys`), from which those of the run are derived; default: a key "
        "made from the seed.",
        path=True,
    )
    signing_keys: str | None = setting(
        None,
        "Folder of the signing keys of mode `signed` (`cbcb keys issuers`), from which those of the run "
        "are derived; default: keys made from the seed.",
        path=True,
    )

    @property
    def on(self) -> bool:
        """Whether frames are authenticated."""
        return self.mode != "off"

    @property
    def signs(self) -> bool:
        return self.mode == "signed"


@dataclass(frozen=True)
class NetworkOptions:
    """[network]: what the emulated network carries besides CBCB."""

    ip: bool = setting(
        False,
        "Hosts have IP addresses (node n: 10.0.0.0 + n + 1), and the switches forward IPv4 between them; "
        "a simulation has no IP.",
    )


@dataclass(frozen=True)
class PrivacyOptions:
    """[privacy]: whether routers read predicates and messages, and the encoding where they do not."""

    mode: PrivacyMode = setting(
        "off",
        "Whether routers read predicates and messages. bloom: both are encoded as Bloom sets under a key"
        " that routers do not hold.",
    )
    key_file: str | None = setting(
        None,
        "Key file of the members (`cbcb keys`), with the parameters of its encoding in place of those "
        "below; default: keys made from the seed.",
        path=True,
    )
    bits: int = setting(
        DEFAULT_PARAMETERS.bits, "Length of a set of bits, a multiple of 8.", low=8, high=BITS_MAX
    )
    hashes: int = setting(
        DEFAULT_PARAMETERS.hashes, "Bits that are set for each string.", low=1, high=HASHES_MAX
    )
    encoding: str = setting(
        DEFAULT_PARAMETERS.encoding, "How constraints and attributes become strings.", choices=ENCODINGS
    )
    range_low: float = setting(
        DEFAULT_PARAMETERS.range_low, 'Low end of the range of numbers that the encoding "ranges" divides.'
    )
    range_high: float = setting(
        DEFAULT_PARAMETERS.range_high, 'High end of the range of numbers that the encoding "ranges" divides.'
    )
    kept_hashes: int = setting(
        0,
        "Hardening: each subscriber keeps a secret choice of so many of the bits of each string; 0: all.",
        low=0,
        high=HASHES_MAX,
    )
    fill: float = setting(
        0.0,
        "Hardening: messages are filled with random bits up to this share of a set; 0: none are added.",
        low=0,
        high=0.9,
    )

    @property
    def on(self) -> bool:
        """Whether routers cannot read predicates and messages."""
        return self.mode != "off"

    @property
    def parameters(self) -> EncodingParameters:
        """The parameters of the encoding.

        Raises:
            ValueError: two of them contradict each other.
        """
        ends = float(self.range_low), float(self.range_high)
        return EncodingParameters(self.bits, self.hashes, self.encoding, *ends)

    @property
    def hardening(self) -> Hardening:
        return Hardening(self.kept_hashes, self.fill)


@dataclass(frozen=True)
class OracleOptions:
    """[oracle]: which messages are judged."""

    in_flight_window_s: float = seconds(
        1.0,
        "A message sent this close to a change of predicates or trees is undecided.",
        unit=Unit.WALL_SECONDS,
    )


@dataclass(frozen=True)
class Experiment:
    name: str = field(
        metadata=option("Name of the experiment; default: that of the file.", file_name=True, default=None)
    )
    seed: int = field(metadata=option("Seed of everything random.", low=0, default=1))
    duration_s: float = field(metadata=duration("Duration of the workload."))
    # The least keeps wall seconds finite.
    time_scale: float | Literal["auto"] = field(
        metadata=option(
            "Experiment seconds in a wall second; link delays are not scaled. auto: as many as the machine"
            " keeps up with; not with delays, bandwidths or losses of links.",
            low=1e-6,
            high=RATE_MAX,
            word=AUTO,
            default=1.0,
        )
    )
    topology: Topology
    broadcast: BroadcastOptions = field(default_factory=BroadcastOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    service: ServiceOptions = field(default_factory=ServiceOptions)
    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    privacy: PrivacyOptions = field(default_factory=PrivacyOptions)
    security: SecurityOptions = field(default_factory=SecurityOptions)
    network: NetworkOptions = field(default_factory=NetworkOptions)
    workload: WorkloadOptions | None = field(default_factory=WorkloadOptions)
    attention: AttentionWorkload | None = None
    events: tuple[Event, ...] = ()
    oracle: OracleOptions = field(default_factory=OracleOptions)
    lag_max_s: float = seconds(
        30.0,
        "Greatest lag of a router, the workload or Open vSwitch; beyond it the run is invalid. In wall"
        " time the bound is `in_flight_window_s`, or half a second if that is more.",
        above_low=True,
    )
    record: bool = setting(True, "Emulated routers record their input and their answers, for `cbcb replay`.")

    @cached_property
    def router_options(self) -> RouterOptions:
        """The options of every router, in emulation and simulation alike."""
        return RouterOptions(
            **{each.key: getattr(self.protocol, each.key) for each in options_of(ChosenOptions)},
            scheme=self.routing.scheme,
            service=self.service.kind,
            privacy=self.privacy.mode,
            scheme_options=self.routing.of_kind,
            service_options=self.service.of_kind,
        )

    @property
    def commands(self) -> Collection[str]:
        """The commands of the routers' application sockets that events may give."""
        return self.service.commands(self.protocol.covering, self.routing.scheme)

    @property
    def lag_max_wall_s(self) -> float:
        """The greatest lag of a valid run in wall seconds: later frames contradict the oracle's window."""
        return max(_LAG_WALL_S, self.oracle.in_flight_window_s)

    @property
    def fastest(self) -> float:
        """The greatest rate of the experiment clock with `time_scale = "auto"`.

        The oracle leaves a wall time around each change open (`in_flight_window_s`): at most a minute of the
        experiment.
        """
        window_s = self.oracle.in_flight_window_s
        return min(RATE_MAX, _WINDOW_MAX_S / window_s) if window_s else RATE_MAX

    @property
    def virtual_rate(self) -> float:
        """The rate of a simulation, in whose virtual time no machine is late."""
        return 1.0 if self.time_scale == AUTO else self.time_scale


#: The keys beside the sections.
TOP_LEVEL: tuple[Option, ...] = options_of(Experiment)
#: Section -> its dataclass, in the order of the documents; None: read by a module of its own (`topology` by
#: `testbed.experiments.config.topology`, `events`, an array of tables, by
#: `testbed.experiments.config.events`). The field of `Experiment` has the name after the last dot.
SECTIONS: Mapping[str, type | None] = {
    "topology": None,
    "links": LinkProperties,
    "broadcast": BroadcastOptions,
    "routing": RoutingOptions,
    "service": ServiceOptions,
    "protocol": ProtocolOptions,
    "privacy": PrivacyOptions,
    "security": SecurityOptions,
    "network": NetworkOptions,
    "workload": WorkloadOptions,
    "workload.attention": AttentionWorkload,
    "oracle": OracleOptions,
    "events": None,
}


#: Sections whose first key names an entry of a registry, and whose further keys are the options of the entry.
NAMED: Mapping[type, Registry[type[Any]]] = {RoutingOptions: SCHEMES, ServiceOptions: SERVICES}


def field_of(section: str) -> str:
    return section.rpartition(".")[2]
