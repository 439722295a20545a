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
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captures.rundir import RunLayout
from captures.rundir.capture_list import host_identity, link_identity
from captures.rundir.inputs import Calibration
from router.wire.header import node_address
from topos import TBF_BURST_BYTES, Link

if TYPE_CHECKING:
    import pandas as pd

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

    def since(self, before: Counted) -> Counted:
        since: dict[str, Any] = {
            # What netem does not count is None.
            name: None if now is None else now - (getattr(before, name) or 0)
            for name, now in vars(self).items()
        }
        return Counted(**since)


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
    """Returns the counters of the rules of `testbed.emulation.network.shaping.nft_ruleset`, by device."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    entries = [] if listing is None else json.loads(listing)["nftables"]
    for rule in (entry["rule"] for entry in entries if "rule" in entry):
        if rule["table"] != "cbcb":
            continue
        kinds = {kind: value for each in rule["expr"] for kind, value in each.items()}
        if "counter" in kinds:
            what = "fwd" if "fwd" in kinds else "dup" if "dup" in kinds else "all"
            counts[rule["chain"]][what] = kinds["counter"]["packets"]
    return {
        device: Counted(frames=each["all"], lost=each["fwd"], doubled=each["dup"])
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


def read_frames(path: Path) -> pd.DataFrame:
    """Reads a capture, and keeps no bytes of its frames.

    Returns:
        A row for each frame, in order of time: time_ns (wall clock), size (bytes on the wire), sender
        (Ethernet source address, as a number), digest (the first 64 bits of a hash of the captured bytes:
        frames with the same digest are the same).

    Raises:
        PcapError, OSError: the capture cannot be read.
    """
    # These take a second to load, and only links with some properties need them.
    import pandas as pd

    from captures.pcap.blocks import gather
    from captures.pcap.reader import PcapReader

    parts = [pd.DataFrame(dict.fromkeys(("time_ns", "size", "sender", "digest"), np.empty(0, np.int64)))]
    for block in PcapReader(path).blocks():
        addresses = np.zeros((len(block.start), 8), np.uint8)
        addresses[:, 2:] = gather(block, 12)[:, 6:]
        data = memoryview(block.data)
        places = zip(block.start.tolist(), block.captured.tolist(), strict=True)
        hashed = b"".join(blake2b(data[at : at + size], digest_size=8).digest() for at, size in places)
        columns = {"time_ns": block.time_ns, "size": block.length}
        columns["sender"] = addresses.view(">i8").ravel().astype(np.int64)
        parts.append(pd.DataFrame(columns | {"digest": np.frombuffer(hashed, np.int64)}))
    return pd.concat(parts).sort_values("time_ns", kind="stable")


@dataclass(frozen=True)
class Captured:
    """The captured frames of one direction of a link in a span, read when they are needed.

    Attributes:
        frames: returns all frames of a capture, by its path (`read_frames`).
    """

    frames: Callable[[Path], pd.DataFrame]
    run: RunLayout
    span: Span

    def _of_span(self, path: Path) -> pd.DataFrame:
        frames, span = self.frames(path), self.span
        frames = frames.iloc[slice(*frames["time_ns"].searchsorted([span.began_ns, span.ended_ns]))]
        return frames[frames["sender"] == int.from_bytes(node_address(span.sender), "big")]

    @cached_property
    def on_link(self) -> pd.DataFrame:
        """The frames that crossed the link, which is captured behind its queues."""
        return self._of_span(self.run.capture(link_identity(self.span.link).name))

    @cached_property
    def by_router(self) -> pd.DataFrame:
        """The frames that the sender's switch had from its router."""
        return self._of_span(self.run.capture(host_identity(self.span.sender).name))

    @cached_property
    def crossings(self) -> pd.DataFrame:
        """The frames that crossed the link, those of IP, which a run may have, included."""
        import pandas as pd

        path = self.run.ip_capture(link_identity(self.span.link).name)
        ip = [self._of_span(path)] if path.exists() else []
        return pd.concat([self.on_link, *ip]).sort_values("time_ns", kind="stable")

    @cached_property
    def delays_ns(self) -> pd.Series[int]:
        """Times from the sender's switch to behind the queues, of the frames that the router sent once."""
        sent = self.by_router.drop_duplicates("digest", keep=False)
        both = sent.merge(self.on_link.drop_duplicates("digest"), on="digest")
        return both["time_ns_y"] - both["time_ns_x"]


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
    crossings = captured.on_link["digest"].value_counts()
    crossings, sendings = crossings.align(captured.by_router["digest"].value_counts(), join="inner")
    copies = (crossings - sendings).clip(lower=0)
    return _share(int(copies.sum()), int((crossings - copies).sum()))


def _overtaking(captured: Captured) -> Measured:
    counted = captured.span.counted
    return _share(counted.overtook, counted.frames - counted.lost)


def _bandwidth(captured: Captured) -> Measured:
    """The greatest rate over `_RATE_S`, less the burst that TBF lets pass: never above that of the bucket."""
    if not captured.span.counted.waited:
        return None, 0
    times, sizes = captured.crossings["time_ns"].to_numpy(), captured.crossings["size"].to_numpy()
    if not len(times):
        return None, 0
    before = np.concatenate(([0], np.cumsum(sizes)))
    ends = np.searchsorted(times, times + int(_RATE_S * _NS), side="right")
    most = int((before[ends] - before[:-1]).max())
    return round(max(0, most - TBF_BURST_BYTES) * 8 / _RATE_S / 1e6, 3), len(times)


def _delay(captured: Captured) -> Measured:
    delays = captured.delays_ns
    return (round(float(np.median(delays)) / 1e6, 3) if len(delays) else None), len(delays)


def _jitter(captured: Captured) -> Measured:
    """Half of the range of a uniform distribution, as netem draws it, is its interquartile range."""
    delays = captured.delays_ns
    if not len(delays):
        return None, 0
    low, high = np.percentile(delays, [25, 75])
    return round(float(high - low) / 1e6, 3), len(delays)


#: How each property of `topos.Link` is measured.
MEASURES: dict[str, Callable[[Captured], Measured]] = {
    "loss_percent": _loss,
    "bandwidth_mbps": _bandwidth,
    "delay_ms": _delay,
    "jitter_ms": _jitter,
    "reorder_percent": _overtaking,
    "duplicate_percent": _duplicates,
}


def calibrations(run: RunLayout, spans: Iterable[Span]) -> list[Calibration]:
    """Returns a row for each property of each span; reads each capture that it needs once.

    Raises:
        PcapError, OSError: a capture cannot be read.
    """
    frames = cache(read_frames)
    return [row for span in spans for row in _rows(Captured(frames, run, span))]


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
