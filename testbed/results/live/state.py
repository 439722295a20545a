"""The state of a live run: fed by the captures and the logs, shown by the page and the terminal.

`LiveState.snapshot` returns the state as JSON (docs/how-to/live.md).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from captures.frames.columns import TYPES
from captures.rundir import RunLayout
from captures.rundir.applications import Recorded
from captures.rundir.clock import Clock, ClockPiece
from captures.rundir.controller import ControllerEvent
from captures.rundir.epochs import NETWORK_EVENTS, Epochs
from captures.rundir.faults import CommandRecord
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import Manifest
from captures.rundir.summary import read_summary
from router.clock import Piece
from router.records.attention import AttentionEvent
from router.wire.header import UNDECODABLE
from testbed.results.live.deliveries import Deliveries
from testbed.results.report.layout import apart, positions
from testbed.support.run_state import STATE_ROOT
from testbed.terminal import numbers
from topos import Topology

#: Width of the time slots in which frames are counted, in nanoseconds.
SLOT_NS = 500_000_000
#: Largest number of points of a curve; longer runs get wider bins.
_MAX_POINTS = 180
#: Slots over which the present load of a link is measured (five seconds). Frames come in batches, about two
#: seconds late.
_RECENT = 5 * 10**9 // SLOT_NS
_SLOT_S = SLOT_NS / 1e9
_MAX_EVENTS = 50
#: Width and height of the network on the page, without its margins, and how much wider than its mark the ring
#: of a sender is (page.html).
_DRAWING, _RING = (768.0, 568.0), 9.0
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LinkCount:
    """Frames of one type that crossed one link in one slot of wall-clock time.

    Attributes:
        slot: its number: ns since 1970 UTC, divided by `SLOT_NS`.
    """

    link: int
    type: str
    slot: int
    frames: int
    bytes: int


class LiveState:
    """The state of a run.

    Every method may be called from any thread.

    Args:
        experiment: `{"name", "duration_s", "time_scale"}`; the time scale as the experiment file has it.
    """

    def __init__(
        self, run_dir: Path, experiment: Json, topology: Topology, manifest: Manifest, deliveries: Deliveries
    ) -> None:
        self.run_dir = run_dir
        self.deliveries = deliveries
        self._experiment = experiment
        self._manifest = manifest
        self._lock = Lock()
        self._links = [(link.index, link.u, link.v) for link in topology.links]
        #: Of a node's mark on the page: numbers fit into it where there are few nodes.
        nodes = len(topology.nodes)
        self._radius = 12.0 if nodes <= 60 else 6.0 if nodes <= 200 else 3.5
        # With the ring of a sender.
        place = apart(positions(topology), 2 * self._radius + _RING, *_DRAWING)
        self._label = topology.label
        self._nodes = [
            {"id": node.id, "label": topology.label(node.id), "at": place[node.id]} for node in topology.nodes
        ]
        self._types: Counter[str] = Counter()
        self._bytes = 0
        self._frames_of_link: Counter[int] = Counter()
        self._bytes_of_link: Counter[int] = Counter()
        #: Slot -> frames by type, and by link.
        self._types_at: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._links_at: defaultdict[int, Counter[int]] = defaultdict(Counter)
        #: Slot -> messages sent, deliveries made.
        self._sent_at: Counter[int] = Counter()
        self._delivered_at: Counter[int] = Counter()
        #: Nodes that the workload drew, and those whose applications did so without it.
        self._senders = set(manifest.get("senders", ()))
        self._receivers = set(manifest.get("receivers", ()))
        self._stream: Json = {"state": "starting", "detail": ""}
        self._network = Epochs()
        self._clock: Clock | None = None
        self._pieces: list[Piece] = []
        self._events: deque[Json] = deque(maxlen=_MAX_EVENTS)

    def take_counts(self, counts: Sequence[LinkCount]) -> None:
        # A frame with a future time has arrived by now: it must not displace the present slots.
        latest = time.time_ns() // SLOT_NS
        with self._lock:
            for count in counts:
                slot = min(count.slot, latest)
                self._types[count.type] += count.frames
                self._bytes += count.bytes
                self._frames_of_link[count.link] += count.frames
                self._bytes_of_link[count.link] += count.bytes
                self._types_at[slot][count.type] += count.frames
                self._links_at[slot][count.link] += count.frames
            # Only the last slots are used for the load of a link.
            for slot in sorted(self._links_at)[: -2 * _RECENT]:
                del self._links_at[slot]

    def set_stream(self, state: str, detail: str = "") -> None:
        """Sets how the captures are read: `starting`, `running`, `ended` or `failed`."""
        with self._lock:
            self._stream = {"state": state, "detail": detail}

    def take_applications(self, records: Sequence[Recorded]) -> None:
        with self._lock:
            self.deliveries.take_applications(records)
            for recorded in records:
                record = recorded.event
                if record["event"] == "send_message":
                    self._sent_at[record["t_ns"] // SLOT_NS] += 1
                    self._senders.add(record["node"])
                elif record["event"] == "deliver":
                    self._delivered_at[record["t_ns"] // SLOT_NS] += 1
                elif recorded.change is not None and recorded.change.filters:
                    self._receivers.add(record["node"])

    def take_service(self, events: Sequence[AttentionEvent]) -> None:
        """Adds new events of the attention-limited service: its publications count as messages."""
        with self._lock:
            for event in events:
                match event["event"]:
                    case "upload":
                        self.deliveries.sent += 1
                        self._sent_at[event["t_ns"] // SLOT_NS] += 1
                        self._senders.add(event["node"])
                    case "deliver":
                        self.deliveries.delivered += 1
                        self._delivered_at[event["t_ns"] // SLOT_NS] += 1
                    case "register" | "refresh":
                        self._receivers.add(event["node"])

    def take_commands(self, records: Sequence[CommandRecord]) -> None:
        with self._lock:
            for record in records:
                self._events.append(
                    {"t_s": round(record["at_s"], 1), "text": f"command: {record['command']}"}
                )

    def take_controller(self, events: Sequence[ControllerEvent]) -> None:
        with self._lock:
            self.deliveries.take_controller(events)
            for event in events:
                self._take_event(event)

    def take_pieces(self, pieces: Sequence[ClockPiece]) -> None:
        if pieces:
            with self._lock:
                self._pieces += [Piece(each["t_ns"], each["experiment_s"], each["rate"]) for each in pieces]
                self._clock = Clock(self._pieces)

    def judge_until(self, now_ns: int) -> None:
        with self._lock:
            self.deliveries.judge_until(now_ns)

    def phase(self) -> str:
        """Returns `bring-up`, `running`, `settling`, `accounting`, `ended` or `interrupted`."""
        with self._lock:
            return self._phase(self._clock_s(), self._summary())

    def topology(self) -> Json:
        """Returns the topology, with positions of the nodes and the radius of their marks.

        `{"nodes": [{"id", "label", "at": [x, y]}], "links": [...], "radius"}`.
        """
        return {
            "nodes": self._nodes,
            "links": [{"index": index, "u": u, "v": v} for index, u, v in self._links],
            "radius": self._radius,
        }

    def snapshot(self) -> Json:
        summary = self._summary()
        with self._lock:
            clock_s = self._clock_s()
            phase = self._phase(clock_s, summary)
            return {
                "run": {**self._experiment, "id": self.run_dir.name, "folder": str(self.run_dir)},
                "phase": phase,
                "clock_s": clock_s,
                "stream": dict(self._stream),
                "verdict": self._verdict(summary),
                "frames": {name: self._types[name] for name in (*TYPES.values(), UNDECODABLE)},
                "bytes": self._bytes,
                "messages": self._messages(),
                "links": self._link_loads(),
                "senders": sorted(self._senders),
                "receivers": sorted(self._receivers),
                "down_nodes": sorted(self._network.down_nodes),
                "series": self._series(),
                "events": list(self._events),
            }

    def _summary(self) -> Json | None:
        try:
            return read_summary(RunLayout(self.run_dir))
        except RunFolderError:
            return None

    def _take_event(self, event: Mapping[str, Any]) -> None:
        name = event["event"]
        self._network.take(event)
        known = NETWORK_EVENTS.get(name)
        if known is not None and known.sentence is not None:
            text = known.sentence.format_map(defaultdict(lambda: "?", self._labelled(event)))
            self._events.append({"t_s": self._experiment_s(event["t_ns"]), "text": text})

    def _labelled(self, event: Mapping[str, Any]) -> Json:
        """Returns an event with the names of its nodes behind their numbers."""
        nodes = {key: self._label(event[key]) for key in ("node", "u", "v") if event.get(key) is not None}
        return {**event, **nodes}

    def _experiment_s(self, at_ns: int) -> float | None:
        return None if self._clock is None else round(self._clock.experiment_s(at_ns), 1)

    def _clock_s(self) -> float | None:
        now_s = self._experiment_s(time.time_ns())
        if now_s is None or now_s < 0:
            return None
        duration: float = self._experiment["duration_s"]
        return min(now_s, duration)

    def _phase(self, clock_s: float | None, summary: Json | None) -> str:
        if summary is not None:
            return "ended"
        if RunLayout(self.run_dir).timings.exists():
            return "accounting"
        tag = self._manifest.get("tag")
        if tag is not None and not (STATE_ROOT / tag).exists():
            return "interrupted"
        if clock_s is None:
            return "bring-up"
        return "running" if clock_s < self._experiment["duration_s"] else "settling"

    def _verdict(self, summary: Json | None) -> Json:
        if summary is not None:
            state = "; ".join(filter(None, (summary.get("verdict"), numbers.undecided(summary))))
            return {"state": state, "reasons": summary.get("verdict_reasons", [])}
        found = self.deliveries
        reasons = [
            text
            for number, text in (
                (len(found.missing), f"{len(found.missing)} deliveries missed"),
                (found.spurious, f"{found.spurious} spurious deliveries"),
                (found.duplicates, f"{found.duplicates} duplicate deliveries"),
                (self._types[UNDECODABLE], f"{self._types[UNDECODABLE]} undecodable frames"),
            )
            if number
        ]
        if reasons:
            return {"state": "does not hold so far", "reasons": reasons}
        # Spurious deliveries are independent of losses; the verdict at the end considers them too.
        return {"state": "holds so far" if found.expected else "nothing judged yet", "reasons": []}

    def _messages(self) -> Json:
        names = ("sent", "judged", "delivered", "expected", "made", "undecided", "spurious", "duplicates")
        counts = {name: getattr(self.deliveries, name) for name in names}
        return counts | {"missing": len(self.deliveries.missing)}

    def _link_loads(self) -> list[Json]:
        # The last slots of the captures, which are a little behind the clock.
        last = max(self._links_at, default=0)
        recent: Counter[int] = Counter()
        for slot in range(last - _RECENT + 1, last + 1):
            recent.update(self._links_at.get(slot, {}))
        quiet = time.time_ns() // SLOT_NS - last > 2 * _RECENT
        return [
            {
                "index": index,
                "frames": self._frames_of_link[index],
                "bytes": self._bytes_of_link[index],
                "recent": 0.0 if quiet else recent[index] / (_RECENT * _SLOT_S),
                "up": index not in self._network.down_links,
            }
            for index, _, _ in self._links
        ]

    def _series(self) -> Json:
        """Returns curves over experiment time, as counts in bins of `bin_s`; `missing` by the time of
        sending."""
        clock = self._clock or Clock.steady(self._manifest["started_ns"], 1.0)
        slots = [*self._types_at, *self._sent_at, *self._delivered_at]
        last_s = max(0.0, clock.experiment_s(max(slots, default=0) * SLOT_NS))
        # No bin is narrower than a slot, which is one count.
        width_s = max(_SLOT_S * max(clock.rates), last_s / _MAX_POINTS)
        bins = int(last_s / width_s) + 1

        def binned(counted: Iterable[tuple[int, int]]) -> list[int]:
            found = [0] * bins
            for slot, number in counted:
                # The middle of the slot: second 0 lies within one.
                at_s = clock.experiment_s(slot * SLOT_NS + SLOT_NS // 2)
                found[min(bins - 1, max(0, int(at_s / width_s)))] += number
            return found

        return {
            "bin_s": width_s,
            "types": {
                name: binned((slot, types[name]) for slot, types in self._types_at.items())
                for name in dict.fromkeys(TYPES.values())
                if self._types[name]
            },
            "sent": binned(self._sent_at.items()),
            "delivered": binned(self._delivered_at.items()),
            "missing": binned((at_ns // SLOT_NS, 1) for at_ns in self.deliveries.missing.values()),
        }
