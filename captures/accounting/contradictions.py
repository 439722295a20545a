"""Evidence that contradicts itself: contents and times of messages, times of captures, changed inputs.

A message is one of an application, or a publication of the attention-limited service. Its content is that of
the record of its router and of each captured frame; the frames of a private network have none that can be
read. The text `suspicious` finds the messages.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import as_table
from captures.accounting.reconcile import Total
from captures.rundir.faults import NEVER_NS, killed_routers, unwritten
from captures.rundir.inputs import clock_error_s

#: Times of different processes of the machine agree within this, ns, where nobody sets the wall clock.
_RESOLUTION_NS = 1_000_000
#: For so long after the end of the workload, or the last record, parts may send until the network is quiet:
#: ns, and experiment seconds.
_END_NS, _END_S = 60_000_000_000, 600.0
#: The wall clock may be set by less than this while a run lasts.
_STEP_S = 1.0
_UNWRITTEN = pa.schema(
    [("node", pa.int64()), ("exhaustive", pa.bool_()), ("since_ns", pa.int64()), ("until_ns", pa.int64())]
)
#: Contradictions of a kind that are named; the others are counted.
NAMED = 100


class Suspicious(NamedTuple):
    """A message that no router recorded, or whose evidence contradicts itself.

    Attributes:
        frames: captured frames, without those that its router had no time to record.
        contents_differ: whether the record and the frames have different contents.
        epochs_differ: whether the frames have different epochs: a frame keeps its own on all links.
        sent_ns, captured_ns, delivered_ns: when it was sent and first delivered by the records, and when its
            first frame was captured, ns since 1970 UTC; None: not known.
        received_ns: as `delivered_ns`, by other nodes, where no frame can have escaped the captures.
        alike: all such messages, of which the first few are known: those that no router recorded; others.
    """

    source: int
    seq: int
    frames: int
    contents_differ: bool
    epochs_differ: bool
    sent_ns: int | None
    captured_ns: int | None
    delivered_ns: int | None
    received_ns: int | None
    alike: int

    @property
    def name(self) -> str:
        """ISSUER/SEQ."""
        return f"{self.source}/{self.seq % 2**64}"

    @property
    def unrecorded(self) -> bool:
        """Whether no router recorded the sending."""
        return self.sent_ns is None and self.frames > 0

    def contradictions(self, resolution_ns: int) -> Iterator[str]:
        """Yields a text for each contradiction; times agree within `resolution_ns`."""
        if self.contents_differ:
            yield f"message {self.name}: different contents in its record and captured frames"
        if self.epochs_differ:
            yield f"message {self.name}: different epochs in its captured frames"
        for what, time_ns, before, after_ns in (
            ("captured", self.captured_ns, "sent", self.sent_ns),
            ("delivered", self.delivered_ns, "sent", self.sent_ns),
            ("delivered", self.received_ns, "captured", self.captured_ns),
        ):
            early_ns = 0 if time_ns is None or after_ns is None else after_ns - time_ns
            if early_ns > resolution_ns:
                yield f"message {self.name}: {what} {early_ns / 1e9:,.3g} s before it was {before}"


def unwritten_times(inputs: Inputs) -> pa.Table:
    """The times in which a killed router may have sent messages that it had no time to record.

    Of publications (not `exhaustive`), that is the whole run.
    """
    rows = [(node, True, since_ns, until_ns) for node, since_ns, until_ns in unwritten(inputs.faults)]
    rows += [(node, False, 0, NEVER_NS) for node, _ in killed_routers(inputs.faults)]
    return as_table(rows, _UNWRITTEN)


def resolution_ns(inputs: Inputs) -> int:
    """Records of the run agree within this, ns: someone may have set the wall clock meanwhile."""
    return _RESOLUTION_NS + inputs.clock.set_ns + round(1e9 * clock_error_s(inputs.manifest))


def contradictions(inputs: Inputs, messages: Sequence[Suspicious], totals: Sequence[Total]) -> list[str]:
    """A text for each contradiction in the evidence of a run; of many of a kind, for the first."""
    times = [text for message in messages for text in message.contradictions(resolution_ns(inputs))]
    recorded = [message for message in messages if not message.unrecorded]
    if recorded and recorded[0].alike > len(recorded):
        times.append(f"{recorded[0].alike - len(recorded):,} more messages")
    kinds = (_of_inputs(inputs), _of_clock(inputs), _of_controller(inputs), _of_lag(inputs))
    found = [text for kind in (*kinds, _of_captures(inputs, totals)) for text in _first(kind)]
    return [*found, *times, *_first(_of_records(inputs))]


def _first(texts: Iterable[str]) -> Iterator[str]:
    found = list(texts)
    yield from found[:NAMED]
    if len(found) > NAMED:
        yield f"{len(found) - NAMED:,} more such as: {found[NAMED]}"


def _of_inputs(inputs: Inputs) -> Iterator[str]:
    for name, digest in inputs.manifest["inputs"].items():
        path = inputs.run.path / name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{name}: not the file with which the run began"


def _of_clock(inputs: Inputs) -> Iterator[str]:
    """Pieces of the clock that do not continue each other, and rates that the experiment does not have."""
    name = inputs.run.clock.name
    if abs(inputs.clock.pieces[0].start_ns - inputs.manifest["started_ns"]) > _END_NS:
        yield f"{name}: the clock began at another time than the run"
    if inputs.clock.set_ns > _STEP_S * 1e9:
        yield f"{name}: the wall clock was set by {inputs.clock.set_ns / 1e9:.3g} s in the run"
    for piece, following in pairwise(inputs.clock.pieces):
        end_s = piece.experiment_s + (following.start_ns - piece.start_ns) / 1e9 * piece.rate
        if abs(end_s - following.experiment_s) > _STEP_S * piece.rate:
            yield f"{name}: second {following.experiment_s:.3g} is second {end_s:.3g} of the piece before"
    scale, rates = inputs.experiment.get("time_scale"), set(inputs.clock.rates)
    if isinstance(scale, float) and rates != {scale}:
        yield f"{name}: rates {', '.join(f'{rate:g}' for rate in sorted(rates))} in place of {scale:g}"


def _of_controller(inputs: Inputs) -> Iterator[str]:
    """Acknowledgements of the controller's log without what precedes or follows them.

    A controller that is killed may have had no time to write an event.
    """
    killed = any(fault["part"] in ("controller", "run") for fault in inputs.faults)
    events = [] if killed else inputs.controller
    name = inputs.run.relative(inputs.run.controller_log)
    reported = {event["node"] for event in events if event["event"] == "hello"}
    committed = {event["epoch"] for event in events if event["event"] == "committed"}
    started = {event["epoch"]: event["routers"] for event in events if event["event"] == "epoch_started"}
    acknowledged: defaultdict[int, set[int]] = defaultdict(set)
    for event in events:
        if event["event"] == "table_acknowledged":
            acknowledged[event["epoch"]].add(event["node"])
    if not inputs.faults:
        # An epoch has no member while all switches are away.
        empty = {epoch for epoch, routers in started.items() if not routers}
        for epoch in sorted(committed - acknowledged.keys() - empty):
            yield f"{name}: epoch {epoch} was committed, and never acknowledged"
    for node in sorted(set().union(*acknowledged.values()) - reported):
        yield f"{name}: node {node} acknowledged a table, and never reported"
    for epoch, nodes in acknowledged.items():
        if epoch not in started:
            yield f"{name}: epoch {epoch} was acknowledged, and never started"
        elif epoch == max(started) and epoch not in committed and len(nodes) == started[epoch]:
            # The controller may abandon an earlier epoch for the next while routers confirm its COMMIT.
            yield f"{name}: epoch {epoch} was acknowledged by all, and never committed"


def _of_lag(inputs: Inputs) -> Iterator[str]:
    if inputs.lag is not None:
        name, bound_s = inputs.run.lag.name, inputs.lag["bound_s"]
        measured = {f"{part['part']} {part.get('node', '')}".strip() for part in inputs.lag["parts"]}
        routers = {f"router {node}" for node in inputs.router_counters}
        for part in sorted({*routers, "workload", "switches", "captures"} - measured):
            yield f"{name}: no lag of {part}"
        if bound_s != inputs.experiment.get("lag_max_s", bound_s):
            yield f"{name}: {bound_s:g} s is not the bound of the experiment"


def _span(inputs: Inputs) -> tuple[int, int]:
    """When the run began, and when its parts had ended, ns since 1970 UTC."""
    end_s = inputs.experiment.get("duration_s", 0.0) + _END_S
    logged_ns = max((event["t_ns"] for event in inputs.controller), default=0)
    ended_ns = max(logged_ns, inputs.clock.time_of(end_s)) + _END_NS
    if inputs.held and any(fault["part"] == "controller" for fault in inputs.faults):
        ended_ns = NEVER_NS  # only the last record of the controller has the end of a session
    return inputs.manifest["started_ns"] - resolution_ns(inputs), ended_ns


def _of_records(inputs: Inputs) -> Iterator[str]:
    began_ns, ended_ns = _span(inputs)
    for t_ns, requested_ns, node, app, event, *_ in inputs.log.rows:
        asked_ns = t_ns if requested_ns is None else requested_ns
        if not (began_ns <= asked_ns <= t_ns + resolution_ns(inputs) and t_ns <= ended_ns):
            yield f"{event} of {app!r} of node {node}: not in the time of the run, or before its request"


def _of_captures(inputs: Inputs, totals: Sequence[Total]) -> Iterator[str]:
    """The captures with frames outside the time of the run."""
    began_ns, ended_ns = _span(inputs)
    times: defaultdict[str, list[int]] = defaultdict(list)
    for each in totals:
        times[each.capture] += [time for time in (each.first_ns, each.last_ns) if time is not None]
    for name, found in sorted(times.items()):
        if min(found, default=began_ns) < began_ns:
            yield f"capture {name}: frames {(began_ns - min(found)) / 1e9:,.3g} s before the run began"
        if max(found, default=ended_ns) > ended_ns:
            yield f"capture {name}: frames {(max(found) - ended_ns) / 1e9:,.3g} s after the run ended"
