"""Calibration: each property of a link as it was measured, beside the value that was required.

This module alone knows what is measured, and how. Between two changes of the properties of a link (a `Span`),
the kernel counts the frames that leave each end: nftables or netem those lost, doubled and not delayed, TBF
how many had to wait. The captures have the bytes and the times of frames: that of a router at its switch, and
that of the link behind both queueing disciplines. `MEASURES` has a function for each property.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from captures.rundir.capture_list import host_identity, link_identity
from captures.rundir.layout import RunLayout
from captures.rundir.manifest import Calibration
from router.wire.addresses import node_address
from testbed.network.shaping import TBF_BURST_BYTES
from topos.model import Link

#: Wall time over which the rate of a full link is taken: less than TBF's queue holds.
_RATE_S = 0.25
_NS = 1_000_000_000


@dataclass(frozen=True)
class Counted:
    """The frames that left one end of a link, as the kernel counts them.

    Attributes:
        frames: sent, with those lost.
        lost: dropped on purpose, not by a full queue.
        doubled: sent twice; None: netem does not count them.
        overtook: sent without the delay of the others.
        waited: times at which TBF had no tokens for a frame.
    """

    frames: int = 0
    lost: int = 0
    doubled: int | None = 0
    overtook: int = 0
    waited: int = 0


def read_counters(queues: str, rules: str | None) -> dict[str, Counted]:
    """Returns the counters of the devices of a network namespace that have properties, by device.

    Args:
        queues: output of `tc -s -j qdisc show`.
        rules: output of `nft -j list ruleset`; None: netem does what the rules would.
    """
    found: dict[str, Counted] = {}
    by_device: dict[str, dict[str, Mapping[str, int]]] = defaultdict(dict)
    for queue in json.loads(queues):
        by_device[queue["dev"]][queue["kind"]] = queue
    for device, kinds in by_device.items():
        tbf, netem = kinds.get("tbf"), kinds.get("netem")
        if tbf is not None:
            found[device] = Counted(waited=tbf["overlimits"])
        if netem is not None:
            # TBF is netem's child: what its full queue drops counts at both. netem counts as "requeues" the
            # frames that it puts in front of the others (sch_netem.c, netem_enqueue).
            found[device] = Counted(
                frames=netem["packets"] + netem["drops"] + netem["qlen"],
                lost=netem["drops"] - (0 if tbf is None else tbf["drops"]),
                doubled=None,
                overtook=netem["requeues"],
                waited=0 if tbf is None else tbf["overlimits"],
            )
    for device, counted in _by_rules(rules).items():
        waited = found.get(device, Counted()).waited
        found[device] = replace(counted, waited=waited)
    return found


def _by_rules(listing: str | None) -> dict[str, Counted]:
    """Returns the counters of the rules of `testbed.network.shaping.nft_ruleset`, by device."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    entries = [] if listing is None else json.loads(listing)["nftables"]
    for rule in (entry["rule"] for entry in entries if "rule" in entry):
        if rule["table"] != "cbcb":
            continue
        kinds = {kind: value for each in rule["expr"] for kind, value in each.items()}
        if "counter" in kinds:
            what = "drop" if "drop" in kinds else "dup" if "dup" in kinds else "all"
            counts[rule["chain"]][what] = kinds["counter"]["packets"]
    return {
        device: Counted(frames=each["all"], lost=each["drop"], doubled=each["dup"])
        for device, each in counts.items()
    }


@dataclass(frozen=True)
class Span:
    """One direction of a link while it had the same properties.

    Attributes:
        sender: node at the end that sends.
        began_ns, ended_ns: wall clock.
    """

    link: Link
    sender: int
    began_ns: int
    ended_ns: int
    counted: Counted

    @property
    def receiver(self) -> int:
        return self.link.v if self.sender == self.link.u else self.link.u


@dataclass(frozen=True)
class Captured:
    """The captured frames of one direction of a link in a span, read when they are needed.

    Attributes:
        run: the run folder.
        span: the direction and the time.
    """

    run: RunLayout
    span: Span

    @cached_property
    def on_link(self) -> list[tuple[int, bytes]]:
        """Time and bytes of the frames that crossed the link, which is captured behind its queues."""
        return self._frames(link_identity(self.span.link).name)

    @cached_property
    def by_router(self) -> dict[bytes, list[int]]:
        """The times at which the sender's switch had a frame from its router, by the bytes of the frame."""
        found: dict[bytes, list[int]] = defaultdict(list)
        for time_ns, data in self._frames(host_identity(self.span.sender).name):
            found[data].append(time_ns)
        return found

    def _frames(self, name: str) -> list[tuple[int, bytes]]:
        # The reader takes a second to load, and only links with some properties need it.
        from captures.pcap.reader import PcapReader

        path: Path = self.run.capture(name)
        sender = node_address(self.span.sender)
        return sorted(
            (record.time_ns, record.data)
            for record in PcapReader(path).records()
            if self.span.began_ns <= record.time_ns < self.span.ended_ns and record.data[6:12] == sender
        )

    @cached_property
    def delays_ns(self) -> list[int]:
        """Times from the sender's switch to behind the queues, of the frames that the router sent once."""
        arrived: dict[bytes, int] = {}
        for time_ns, data in self.on_link:
            arrived.setdefault(data, time_ns)
        return [
            arrived[data] - times[0]
            for data, times in self.by_router.items()
            if len(times) == 1 and data in arrived
        ]


#: A measured value (None: nothing to measure it by), and the number of frames that it was measured by.
Measured = tuple[float | None, int]


def _share(part: int, whole: int) -> Measured:
    return (round(100 * part / whole, 3) if whole else None), whole


def _loss(captured: Captured) -> Measured:
    counted = captured.span.counted
    return _share(counted.lost, counted.frames)


def _duplicates(captured: Captured) -> Measured:
    counted = captured.span.counted
    if counted.doubled is not None:
        return _share(counted.doubled, counted.frames - counted.lost)
    # A router may send the same frame more than once: copies are those beyond.
    arrived = Counter(data for _, data in captured.on_link)
    sent = {data: len(captured.by_router.get(data, ())) for data in arrived}
    copies = sum(max(0, number - sent[data]) for data, number in arrived.items() if sent[data])
    return _share(copies, sum(min(number, sent[data]) for data, number in arrived.items()))


def _overtaking(captured: Captured) -> Measured:
    counted = captured.span.counted
    return _share(counted.overtook, counted.frames - counted.lost)


def _bandwidth(captured: Captured) -> Measured:
    """The greatest rate over `_RATE_S`, less the burst that TBF lets pass: never above that of the bucket."""
    if not captured.span.counted.waited:
        return None, 0
    times = np.array([time_ns for time_ns, _ in captured.on_link], dtype=np.int64)
    sizes = np.array([len(data) for _, data in captured.on_link], dtype=np.int64)
    if not len(times):
        return None, 0
    before = np.concatenate(([0], np.cumsum(sizes)))
    ends = np.searchsorted(times, times + int(_RATE_S * _NS), side="right")
    most = int((before[ends] - before[:-1]).max())
    return round(max(0, most - TBF_BURST_BYTES) * 8 / _RATE_S / 1e6, 3), len(times)


def _delay(captured: Captured) -> Measured:
    delays = captured.delays_ns
    return (round(float(np.median(delays)) / 1e6, 3) if delays else None), len(delays)


def _jitter(captured: Captured) -> Measured:
    """Half of the range of a uniform distribution, as netem draws it, is its interquartile range."""
    delays = captured.delays_ns
    if not delays:
        return None, 0
    low, high = np.percentile(delays, [25, 75])
    return round(float(high - low) / 1e6, 3), len(delays)


#: How each property of `topos.model.Link` is measured.
MEASURES: dict[str, Callable[[Captured], Measured]] = {
    "loss_percent": _loss,
    "bandwidth_mbps": _bandwidth,
    "delay_ms": _delay,
    "jitter_ms": _jitter,
    "reorder_percent": _overtaking,
    "duplicate_percent": _duplicates,
}


def calibrations(run: RunLayout, spans: Iterable[Span]) -> list[Calibration]:
    """Returns a row for each property of each span.

    Args:
        run: a run folder with the captures.

    Raises:
        PcapError, OSError: a capture cannot be read.
    """
    return [row for span in spans for row in _rows(Captured(run, span))]


def _rows(captured: Captured) -> Iterator[Calibration]:
    span = captured.span
    for name, measure in MEASURES.items():
        if required := getattr(span.link, name):
            measured, frames = measure(captured)
            yield Calibration(
                sender=span.sender,
                receiver=span.receiver,
                since_ns=span.began_ns,
                until_ns=span.ended_ns,
                property=name,
                required=required,
                measured=measured,
                frames=frames,
            )
