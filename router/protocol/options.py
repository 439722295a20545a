"""Options of a router, each declared once: schema, conversion and documents of [protocol] follow.

A new scheme or service joins by one line of entries.toml. This module does not know the classes: they need
the options, which ask for names.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, Literal

from router.content import Content, Plain, Verbatim
from router.content.bloom import Bloom
from router.options import NoOptions, check, seconds, setting
from router.predicates.covering.widening import FILTER_WEIGHT_MAX
from router.registry import Registry

#: Routing schemes: `[routing] scheme` of an experiment.
SCHEMES: Registry[type[Any]] = Registry("routing scheme", "cbcb.schemes")
#: Services offered to applications: `[service] kind` of an experiment.
SERVICES: Registry[type[Any]] = Registry("service", "cbcb.services")
_FILE = tomllib.loads(files(__package__).joinpath("entries.toml").read_text(encoding="utf-8"))
for _registry, _group in ((SCHEMES, "schemes"), (SERVICES, "services")):
    for _name, (_place, _doc) in _FILE[_group].items():
        _registry.register_lazily(_name, f"{__package__}.{_place}", _doc)

#: Contents: `[protocol] covering` of an experiment.
CONTENTS: Registry[type[Content]] = Registry("covering")
CONTENTS.register("full", Plain, "Predicates are simplified, and filters that others cover are dropped.")
CONTENTS.register("none", Verbatim, "Filters are kept as declared, in tables and advertisements.")

DEFAULT_SCHEME = "pif"
DEFAULT_SERVICE = "exhaustive"
DEFAULT_CONTENT = "full"

#: `[privacy] mode` of an experiment.
PrivacyMode = Literal["off", "bloom"]
BLOOM: PrivacyMode = "bloom"


def content_of(covering: str, privacy: PrivacyMode) -> type[Content]:
    """The content of routers with these options.

    Raises:
        UnknownNameError: no content has the name of the covering.
    """
    return Bloom if privacy == BLOOM else CONTENTS[covering]


RequestPolicyName = Literal["never", "periodic", "count", "unwanted"]
TimersName = Literal["fixed", "exponential"]
#: Longest timeout of an SR, in experiment seconds: the field of the frame holds 32 bits of microseconds.
MAX_REQUEST_TIMEOUT = 4_000.0


def conflicts(scheme: str, covering: str, sr_policy: str, max_filters: int | None) -> Mapping[str, str]:
    """Which of these options, each valid alone, contradict each other: option -> text of the error."""
    kind = SCHEMES[scheme]
    found: dict[str, str] = {}
    if sr_policy != "never" and not kind.sends_requests:
        found["sr_policy"] = (
            f'"{sr_policy}" is of no use with the scheme "{scheme}", which has no sender requests; '
            'expected "never"'
        )
    if max_filters is not None and not CONTENTS[covering].widens:
        found["max_filters"] = f'excludes covering "{covering}", which keeps filters as declared'
    elif max_filters is not None and kind.stays_exact:
        found["max_filters"] = f'excludes the scheme "{scheme}", {kind.stays_exact}'
    return found


def options_of_entry(registry: Registry[type[Any]], name: str, given: object = None) -> Any:
    """The options of a scheme or a service, an object of its class attribute `options`.

    Args:
        registry: `SCHEMES` or `SERVICES`.
        given: such an object, or its fields by name, as a recording has them; None: the defaults.

    Raises:
        ValueError: a field is unknown or outside its range, or the options are those of another entry.
    """
    options, noun = registry[name].options, registry.noun
    # An entry without options gives none to another, as where `replace` changes the name alone.
    if given is None or isinstance(given, NoOptions):
        return options()
    if isinstance(given, Mapping):
        known = {each.name for each in fields(options)}
        for key in given:
            if key not in known:
                raise ValueError(f'{key}: no option of the {noun} "{name}"')
        return options(**given)
    if not isinstance(given, options):
        raise ValueError(f'{given!r} given; expected {options.__name__}, of the {noun} "{name}"')  # noqa: TRY004
    return given


def privacy_conflict(privacy: str, covering: str, service: str, scheme: str) -> str | None:
    """Why a privacy mode contradicts other options; None: it does not."""
    if privacy == "off":
        return None
    if covering != DEFAULT_CONTENT:
        return f'"{privacy}", in which routers compare sets of bits, excludes covering "{covering}"'
    if service != DEFAULT_SERVICE:
        return f'"{privacy}" excludes the service "{service}"; expected "{DEFAULT_SERVICE}"'
    if SCHEMES[scheme].reads_filters:
        return f'"{privacy}" excludes the scheme "{scheme}", which reads the constraints of filters'
    return None


@dataclass(frozen=True, slots=True)
class ChosenOptions:
    """The options of a router that a researcher chooses: keys of [protocol] (protocol paper, section 3.5).

    Times are experiment seconds: seconds of the router's clock.
    """

    ra_on_change: bool = setting(True, "Issue an RA whenever the predicate of the node changes.")
    ra_period_s: float | None = seconds(
        None, "Issue an RA also when this time has passed since the last; unset: never.", above_low=True
    )
    hop_limit: int = setting(
        64, "Hops that a frame may take; at least the depth of the broadcast trees.", low=1, high=255
    )
    ra_min_interval_s: float = seconds(
        0.0, "Least time between two RAs of a router; one RA reports all changes in between."
    )
    ra_jitter_s: float = seconds(0.0, "An RA waits for a random time up to this one.")
    timers: TimersName = setting(
        "fixed",
        "Whether `ra_period_s`, `ra_min_interval_s` and `sr_period_s` are the times themselves, or the"
        " means of exponentially distributed ones, as in the authors' simulator.",
    )
    sr_policy: RequestPolicyName = setting(
        "never",
        "When routers issue SRs of their own accord: never, periodically through every interface,"
        " through an interface after a count of messages (section 3.5.5), or through every interface after a"
        " count of false positives of the router (slides, part I).",
    )
    sr_period_s: float = seconds(
        600.0, 'Time between two SRs of a router, policy "periodic".', above_low=True
    )
    sr_threshold: int = setting(
        100,
        'An SR is due when more messages than this went through an interface, policy "count", or came in and'
        ' were neither forwarded nor delivered, policy "unwanted".',
        low=0,
    )
    sr_min_interval_s: float = seconds(
        0.0, 'Least time between two SRs through one interface, policies "count" and "unwanted".'
    )
    sr_timeout_s: float = seconds(
        60.0, "How long the issuer of an SR waits for URs.", above_low=True, high=MAX_REQUEST_TIMEOUT
    )
    ur_reuse: bool = setting(
        True,
        "Routers learn from the URs that others asked for, and answer SRs from their tables, where that"
        " is sound (section 3.5.4).",
    )
    ur_freshness_s: float = seconds(
        60.0, "Greatest age of a table entry that answers an SR; ages of answers from tables add up."
    )
    reliable_control: bool = setting(
        False,
        "Neighbours confirm RAs, SRs and URs, which are sent again until they do; false: best effort, as"
        " in the papers.",
    )
    control_retry_s: float = seconds(
        0.5,
        "First wait for the confirmation of a control frame; later ones double, up to 8 times this one.",
        above_low=True,
    )
    max_filters: int | None = setting(
        None,
        "Over-simplify a table entry to this number of filters when it has more than twice as many"
        " (section 3.5.6): unwanted traffic grows, no receiver is lost; unset: never. Only with the"
        ' schemes "pif" and "pif-classes".',
        low=1,
    )
    covering: str = setting(DEFAULT_CONTENT, "How routers compare and unite predicates.", choices=CONTENTS)
    # Bounds on the predicates of other routers: `router.protocol.bounds`. With the defaults, predicates of
    # 1,000 filters of two equalities, orders and prefixes each are exact.
    filter_weight: int = setting(
        512,
        "Greatest weight of a filter of another router; a heavier one is widened.",
        low=1,
        high=FILTER_WEIGHT_MAX,
    )
    predicate_weight: int = setting(
        3_000, "Greatest weight of an RA's or UR's predicate; a heavier one is widened.", low=1
    )
    predicate_filters: int = setting(
        1_000, "Most filters of an RA's or UR's predicate; one with more is widened.", low=1
    )
    predicate_burst: int = setting(
        30_000, "Weight that a neighbour, or an issuer, may send at once; more is widened.", low=1
    )
    predicate_rate: int = setting(
        2_000, "Weight an experiment second that a neighbour, or an issuer, may send for long.", low=1
    )
    table_filters: int = setting(
        50_000,
        "Filters of a routing table from which on RAs and URs of others are widened to match everything.",
        low=1,
    )

    def time_drawn(self, rng: random.Random, time_s: float) -> float:
        """Returns how long a timer of `time_s` seconds runs this time.

        Source: the timers of CBCBSIM 1.0.2 (`rand_poisson_delta`) are exponential, with the given time as
        mean.
        """
        return time_s if self.timers == "fixed" or time_s == 0 else rng.expovariate(1 / time_s)


@dataclass(frozen=True, slots=True)
class RouterOptions(ChosenOptions):
    """How a router behaves.

    All times are experiment seconds: seconds of the router's clock.

    Attributes:
        scheme_options, service_options: those of the scheme and of the service, objects of `Scheme.options`
            and `Service.options`; None or a mapping of the fields becomes one.

    Raises:
        ValueError: an option is outside its range, or two exclude each other.
    """

    scheme: str = setting(DEFAULT_SCHEME, "Routing scheme.", choices=SCHEMES)
    service: str = setting(DEFAULT_SERVICE, "Service that routers offer to applications.", choices=SERVICES)
    privacy: PrivacyMode = setting("off", "Whether routers read predicates and messages.")
    hello_interval_s: float = seconds(1.0, "Time between two HELLOs while no table has come.", above_low=True)
    readvertise_jitter_s: float = seconds(
        0.5,
        "After a change of epoch a router advertises its predicate again within this time, at random, so"
        " that not all routers send at once.",
    )
    held_messages: int = setting(
        10_000, "Messages that applications may send before the first epoch; more are refused.", low=0
    )
    scheme_options: Any = None
    service_options: Any = None

    def __post_init__(self) -> None:
        check(self)
        for name, reason in conflicts(self.scheme, self.covering, self.sr_policy, self.max_filters).items():
            raise ValueError(f"{name}: {reason}")
        of_scheme = options_of_entry(SCHEMES, self.scheme, self.scheme_options)
        object.__setattr__(self, "scheme_options", of_scheme)
        of_service = options_of_entry(SERVICES, self.service, self.service_options)
        object.__setattr__(self, "service_options", of_service)
        conflict = privacy_conflict(self.privacy, self.covering, self.service, self.scheme)
        if conflict is not None:
            raise ValueError(f"privacy: {conflict}")
