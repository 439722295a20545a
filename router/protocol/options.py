"""Options of one router; a researcher chooses some of them (`testbed.config.model.ProtocolOptions`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from router.content.registry import CONTENTS, DEFAULT_CONTENT
from router.protocol.registries import DEFAULT_SCHEME, DEFAULT_SERVICE, SCHEMES, SERVICES
from router.registry import Registry

RequestPolicyName = Literal["never", "periodic", "count"]
#: Longest timeout of an SR, in seconds: the field of the frame holds 32 bits of microseconds.
MAX_REQUEST_TIMEOUT = 4_000.0


def conflicts(
    scheme: str, service: str, covering: str, sr_policy: str, max_filters: int | None
) -> Mapping[str, str]:
    """Which of these options contradict each other or name nothing, and why: option -> text of the error."""
    found: dict[str, str] = {}
    registries: tuple[tuple[str, str, Registry[Any]], ...] = (
        ("scheme", scheme, SCHEMES),
        ("service", service, SERVICES),
        ("covering", covering, CONTENTS),
    )
    for option, name, registry in registries:
        if name not in registry:
            found[option] = f"unknown {registry.noun} {name!r}; expected one of {', '.join(registry)}"
    if not found:
        found.update(SCHEMES[scheme].conflicts(sr_policy, max_filters))
        if max_filters is not None and not CONTENTS[covering].widens:
            found["max_filters"] = f'excludes covering "{covering}", which keeps filters as declared'
    return found


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """How a router behaves. All times are wall seconds: a time scale has been applied already.

    Attributes:
        ra_on_change: issue an RA whenever p0 changes (protocol paper, section 3.5.1).
        ra_period: also issue one every so many seconds (None: never).
        hop_limit: hops that a frame issued here may take, 1..255.
        scheme: routing scheme, a name of `router.protocol.registries.SCHEMES`.
        service: service to applications, a name of `router.protocol.registries.SERVICES`.
        covering: how predicates are compared and united, a name of `router.content.registry.CONTENTS`.
        hello_interval: seconds between two HELLOs while no table has come.
        readvertise_jitter: after a change of epoch, p0 is advertised again within so many seconds,
            at random, so that not every router speaks at once.
        held_messages: messages that applications may send before the first epoch; more are refused.
        ra_min_interval: RAs of this router are at least so many seconds apart; changes in between are
            told together. 0: no limit.
        ra_jitter: an RA waits up to so many seconds, at random, before it goes out.
        sr_policy: when to issue SRs unasked (section 3.5.5): never, periodically through every interface, or
            through an interface after a count of messages.
        sr_period: seconds between two rounds of the policy `periodic`.
        sr_threshold: the policy `count` issues an SR when more messages than this went through an interface.
        sr_min_interval: two SRs of that policy through one interface are at least so many seconds apart.
        sr_timeout: seconds that the issuer of an SR waits for the UR.
        ur_reuse: learn from URs that others asked for, and answer SRs from the table, where the nodes
            beyond an interface are the same (section 3.5.4).
        ur_freshness: an SR is answered from the table if what it says was learnt within so many seconds.
            Answers may themselves come from tables further on; their ages add up.
        max_filters: over-simplify what lies behind an interface to so many filters when it has more than
            twice as many (section 3.5.6); None: never.

    Raises:
        ValueError: an option is outside its range, or two exclude each other.
    """

    ra_on_change: bool = True
    ra_period: float | None = None
    hop_limit: int = 64
    scheme: str = DEFAULT_SCHEME
    service: str = DEFAULT_SERVICE
    covering: str = DEFAULT_CONTENT
    hello_interval: float = 1.0
    readvertise_jitter: float = 0.05
    held_messages: int = 10_000
    ra_min_interval: float = 0.0
    ra_jitter: float = 0.0
    sr_policy: RequestPolicyName = "never"
    sr_period: float = 60.0
    sr_threshold: int = 100
    sr_min_interval: float = 0.0
    sr_timeout: float = 5.0
    ur_reuse: bool = True
    ur_freshness: float = 10.0
    max_filters: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.hop_limit <= 255:
            raise ValueError(f"hop_limit: {self.hop_limit} is outside 1..255")
        if self.sr_policy not in get_args(RequestPolicyName):
            expected = ", ".join(get_args(RequestPolicyName))
            raise ValueError(f"sr_policy: {self.sr_policy!r} is none of {expected}")
        if self.ra_period is not None:
            self._check_positive("ra_period")
        for name in ("hello_interval", "sr_period", "sr_timeout"):
            self._check_positive(name)
        for name in (
            "readvertise_jitter",
            "held_messages",
            "ra_min_interval",
            "ra_jitter",
            "sr_threshold",
            "sr_min_interval",
            "ur_freshness",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative")
        if self.max_filters is not None and self.max_filters < 1:
            raise ValueError(f"max_filters: {self.max_filters} is less than 1")
        for name, reason in conflicts(
            self.scheme, self.service, self.covering, self.sr_policy, self.max_filters
        ).items():
            raise ValueError(f"{name}: {reason}")
        if self.sr_timeout > MAX_REQUEST_TIMEOUT:
            raise ValueError(f"sr_timeout: {self.sr_timeout} is above {MAX_REQUEST_TIMEOUT:g} seconds")

    def _check_positive(self, name: str) -> None:
        if not getattr(self, name) > 0:
            raise ValueError(f"{name}: {getattr(self, name)} is not a positive number of seconds")
