"""Options of one router; a researcher chooses some of them (`testbed.config.model.ProtocolOptions`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """How a router behaves. All times are wall seconds: a time scale has been applied already.

    Attributes:
        ra_on_change: issue an RA whenever p0 changes (protocol paper, section 3.5.1).
        ra_period: also issue one every so many seconds (None: never).
        hop_limit: hops that a frame issued here may take, 1..255.
        strict_paper: filter RAs on ingress as section 3.5.1 says, which can lose receivers
            (ARCHITECTURE.md, "Where we differ").
        hello_interval: seconds between two HELLOs while no table has come.
        readvertise_jitter: after a change of epoch, p0 is advertised again within so many seconds,
            at random, so that not every router speaks at once.
        held_messages: messages that applications may send before the first epoch; more are refused.

    Raises:
        ValueError: an option is outside its range.
    """

    ra_on_change: bool = True
    ra_period: float | None = None
    hop_limit: int = 64
    strict_paper: bool = False
    hello_interval: float = 1.0
    readvertise_jitter: float = 0.05
    held_messages: int = 10_000

    def __post_init__(self) -> None:
        if not 1 <= self.hop_limit <= 255:
            raise ValueError(f"hop_limit: {self.hop_limit} is outside 1..255")
        if self.ra_period is not None and not self.ra_period > 0:
            raise ValueError(f"ra_period: {self.ra_period} is not a positive number of seconds")
        if not self.hello_interval > 0:
            raise ValueError(f"hello_interval: {self.hello_interval} is not a positive number of seconds")
        if self.readvertise_jitter < 0:
            raise ValueError(f"readvertise_jitter: {self.readvertise_jitter} is negative")
        if self.held_messages < 0:
            raise ValueError(f"held_messages: {self.held_messages} is negative")
