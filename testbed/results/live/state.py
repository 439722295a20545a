"""The state of a live run: fed by the captures and the logs, shown by the page and the terminal.

`LiveState.snapshot` returns the state as JSON (docs/how-to/live.md).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from captures.frames.columns import TYPES
from captures.rundir import RunLayout
from captures.rundir.applications import Recorded
from captures.rundir.clock import Clock, ClockPiece
from captures.rundir.controller import ControllerEvent
from captures.rundir.epochs import NETWORK_EVENTS, Epochs
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import MANIFEST
from captures.rundir.summary import read_summary
from router.clock import Piece
from router.records.applications import MessageDelivered
from router.records.attention import AttentionEvent
from router.wire.header import UNDECODABLE
from testbed.experiments.config.load import load_experiment
from testbed.experiments.events.network import LinkImpair
from testbed.results.conclude import hop_limit_of
from testbed.results.oracle.connectivity import HopLimit, connectivity, tree_changes
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import Application, History, take_record
from testbed.results.report.layout import apart, positions
from testbed.support.run_state import STATE_ROOT
from testbed.terminal import numbers
from testbed.terminal.numbers import message
from topos import Topology

#: Wall seconds added to the window, since confirmations and deliveries are logged after they were made.
_MARGIN_S = 1.0
#: A message at an application: source, seq, application.
Pair = tuple[int, int, Application]


@dataclass
class Deliveries:
    """The messages that applications sent and received, and the deliveries that the oracle expects so far.

    A message is judged once the log extends past its sending by the oracle's window and a margin: no later
    change can alter the answer. Until then the message counts as open.

    Args:
        window_s: `oracle.in_flight_window_s`, wall seconds.
        hop_limit: of the messages; None: messages reach every node that is connected.

    Attributes:
        sent: messages; `judged` of them are no longer open.
        delivered: deliveries; `duplicates` of them are repeated.
        expected: decided and expected deliveries of judged messages; `made` of them were made.
        undecided: pairs (message, application) that are not decided, because of a change.
        missing: pair -> time at which the message was sent (wall clock, ns), of expected deliveries that were
            not made: false negatives so far. A late delivery removes its pair.
        spurious: deliveries that were made and are decided and not expected.
    """

    window_s: float
    network: Topology
    hop_limit: HopLimit | None = None
    sent: int = 0
    judged: int = 0
    delivered: int = 0
    duplicates: int = 0
    expected: int = 0
    undecided: int = 0
    missing: dict[Pair, int] = field(default_factory=dict)
    spurious: int = 0
    _history: History = field(default_factory=History)
    _events: list[ControllerEvent] = field(default_factory=list)
    _made: defaultdict[tuple[int, int], set[Application]] = field(default_factory=lambda: defaultdict(set))
    #: Judged message -> the applications that may receive it.
    _allowed: dict[tuple[int, int], set[Application]] = field(default_factory=dict)

    def take_applications(self, records: Iterable[Recorded]) -> None:
        """Adds events of the applications: those of a node in order of time."""
        for recorded in records:
            record = recorded.event
            if record["event"] == "deliver":
                self._deliver(record)
                continue
            take_record(self._history, recorded)
            if record["event"] == "send_message":
                self.sent += 1

    def take_controller(self, events: Sequence[ControllerEvent]) -> None:
        """Adds events of the controller, in the order of its log."""
        if events:
            self._events += events
            self._history.tree_changes = tree_changes(self._events)
            self._history.connectivity = connectivity(self._events, self.network, self.hop_limit)

    def judge_until(self, now_ns: int) -> None:
        """Judges the messages whose answer can no longer change.

        Args:
            now_ns: wall clock up to which the logs have been taken.
        """
        before_ns = now_ns - round((self.window_s + _MARGIN_S) * 1e9)
        due = [sending for sending in self._history.sendings if sending["t_ns"] < before_ns]
        if not due:
            return
        self._history.sendings = [one for one in self._history.sendings if one["t_ns"] >= before_ns]
        allowed: dict[tuple[int, int], set[Application]] = {(one["source"], one["seq"]): set() for one in due}
        for answer in judge(replace(self._history, sendings=due), self.window_s):
            message = (answer["source"], answer["seq"])
            application = Application(answer["node"], answer["app"])
            allowed[message].add(application)
            if not answer["decided"]:
                self.undecided += 1
            elif answer["expected"]:
                self.expected += 1
                if application not in self._made[message]:
                    self.missing[*message, application] = answer["sent_ns"]
        for message, applications in allowed.items():
            self.spurious += len(self._made[message] - applications)
        self._allowed |= allowed
        self.judged += len(due)

    @property
    def made(self) -> int:
        """Returns the number of expected deliveries of judged messages that were made."""
        return self.expected - len(self.missing)

    def _deliver(self, record: MessageDelivered) -> None:
        message = (record["source"], record["seq"])
        application = Application(record["node"], record["app"])
        self.delivered += 1
        made = self._made[message]
        if application in made:
            self.duplicates += 1
            return
        made.add(application)
        late = self.missing.pop((*message, application), None)
        if late is None and application not in self._allowed.get(message, made):
            self.spurious += 1


#: Width of the time slots in which frames are counted, in nanoseconds.
SLOT_NS = 500_000_000
#: Largest number of points of a curve; longer runs get wider bins.
_MAX_POINTS = 180
#: Slots of the present: load of links, senders (five seconds). Frames are about two seconds late.
_RECENT = 5 * 10**9 // SLOT_NS
_SLOT_S = SLOT_NS / 1e9
#: Events, and deliveries that were missed, of a snapshot.
_MOST_SHOWN = 50
#: Width and height of the network on the page, without its margins, and how much wider than its mark the ring
#: of a sender is (page.html).
_DRAWING, _RING = (768.0, 568.0), 9.0
Json = dict[str, Any]


#: Link, type of frames, number of a slot (ns since 1970 UTC, divided by `SLOT_NS`), frames, bytes.
LinkCount = tuple[int, str, int, int, int]


class LiveState:
    """The state of a run, of which only the inputs have been read.

    Every method may be called from any thread.

    Attributes:
        topology: `{"nodes": [{"id", "label", "at": [x, y]}], "links": [{"index", "u", "v"}], "radius"}`, with
            positions of the nodes and the radius of their marks.

    Raises:
        InputError: the folder has no usable experiment.
        RunFolderError: the folder has no usable manifest.
    """

    def __init__(self, run_dir: Path) -> None:
        run = RunLayout(run_dir)
        experiment = load_experiment(run.experiment)
        topology = experiment.topology
        self.run_dir = run_dir
        self.deliveries = Deliveries(
            experiment.oracle.in_flight_window_s, topology, hop_limit=hop_limit_of(experiment)
        )
        self._experiment: Json = {
            "name": experiment.name,
            "duration_s": experiment.duration_s,
            "time_scale": experiment.time_scale,
            "routers": len(topology.nodes),
            "links": len(topology.links),
        }
        self._manifest = MANIFEST.read(run)
        #: What events of the experiment do to links and the controller does not log.
        self._planned = deque(
            (event.at_s, event.sentence(topology))
            for event in experiment.events
            if isinstance(event, LinkImpair)
        )
        self._lock = Lock()
        self._label = topology.label
        # Numbers fit into a mark where there are few nodes.
        nodes = len(topology.nodes)
        radius = 12.0 if nodes <= 60 else 6.0 if nodes <= 200 else 3.5
        place = apart(positions(topology), 2 * radius + _RING, *_DRAWING)
        self.topology: Json = {
            "nodes": [{"id": n.id, "label": topology.label(n.id), "at": place[n.id]} for n in topology.nodes],
            "links": [{"index": link.index, "u": link.u, "v": link.v} for link in topology.links],
            "radius": radius,
        }
        self._frames_of_link: Counter[int] = Counter()
        self._bytes_of_link: Counter[int] = Counter()
        #: Name of a curve (`sent`, `delivered`, a type of frames) -> slot -> its number.
        self._curves: defaultdict[str, Counter[int]] = defaultdict(Counter)
        #: Slot -> frames by link.
        self._links_at: defaultdict[int, Counter[int]] = defaultdict(Counter)
        #: Node -> the slot in which it sent last; nodes that ever asked for something; present interests, by
        #: node, application and subscription of the attention-limited service.
        self._sent_last: dict[int, int] = {}
        self._receivers: set[int] = set()
        self._interests: set[tuple[int, str, int | None]] = set()
        self._stream: Json = {"state": "starting", "detail": ""}
        self._network = Epochs()
        self._clock: Clock | None = None
        self._pieces: list[Piece] = []
        self._events: deque[Json] = deque(maxlen=_MOST_SHOWN)

    def take_counts(self, counts: Sequence[LinkCount]) -> None:
        # A frame with a future time has arrived by now: it must not displace the present slots.
        latest = time.time_ns() // SLOT_NS
        with self._lock:
            for link, kind, number, frames, size in counts:
                slot = min(number, latest)
                self._frames_of_link[link] += frames
                self._bytes_of_link[link] += size
                self._curves[kind][slot] += frames
                self._links_at[slot][link] += frames
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
                    self._sent(record["node"], record["t_ns"])
                elif record["event"] == "deliver":
                    self._curves["delivered"][record["t_ns"] // SLOT_NS] += 1
                elif recorded.change is not None:
                    self._interested((record["node"], record["app"], None), bool(recorded.change.filters))

    def take_service(self, events: Sequence[AttentionEvent]) -> None:
        """Adds new events of the attention-limited service: its publications count as messages."""
        with self._lock:
            for event in events:
                match event["event"]:
                    case "upload":
                        self.deliveries.sent += 1
                        self._sent(event["node"], event["t_ns"])
                    case "deliver":
                        self.deliveries.delivered += 1
                        self._curves["delivered"][event["t_ns"] // SLOT_NS] += 1
                    case "register" | "refresh" | "unregister" | "outcome" as name:
                        interest = (event["node"], event["app"], event["subscription"])
                        self._interested(interest, name in ("register", "refresh"))

    def _sent(self, node: int, at_ns: int) -> None:
        self._curves["sent"][at_ns // SLOT_NS] += 1
        self._sent_last[node] = at_ns // SLOT_NS

    def _interested(self, interest: tuple[int, str, int | None], begins: bool) -> None:
        if begins:
            self._receivers.add(interest[0])
            self._interests.add(interest)
        else:
            self._interests.discard(interest)

    def take_acts(self, acts: Iterable[tuple[float, str]]) -> None:
        """Adds commands of the user and faults of parts: experiment second and text."""
        with self._lock:
            self._events += ({"t_s": round(at_s, 1), "text": text} for at_s, text in acts)

    def take_controller(self, events: Sequence[ControllerEvent]) -> None:
        with self._lock:
            self.deliveries.take_controller(events)
            for event in events:
                self._network.take(event)
                known = NETWORK_EVENTS.get(event["event"])
                if known is None or known.sentence is None:
                    continue
                # Nodes that have names are shown with them.
                named = {
                    key: self._label(event[key]) for key in ("node", "u", "v") if event.get(key) is not None
                }
                text = known.sentence.format_map(defaultdict(lambda: "?", {**event, **named}))
                self._events.append({"t_s": self._experiment_s(event["t_ns"]), "text": text})

    def take_pieces(self, pieces: Sequence[ClockPiece]) -> None:
        if pieces:
            with self._lock:
                self._pieces += [Piece(each["t_ns"], each["experiment_s"], each["rate"]) for each in pieces]
                self._clock = Clock(self._pieces)

    def judge_until(self, now_ns: int) -> None:
        with self._lock:
            self.deliveries.judge_until(now_ns)

    @property
    def tag(self) -> str | None:
        """Returns the tag of a run that goes on; None: a simulation, or it has ended."""
        tag = self._manifest.get("tag")
        return tag if tag is not None and (STATE_ROOT / tag).exists() else None

    def phase(self) -> str:
        """Returns `bring-up`, `running`, `settling`, `accounting`, `ended` or `interrupted`."""
        with self._lock:
            return self._phase(self._clock_s(), self._summary())

    def snapshot(self) -> Json:
        summary = self._summary()
        now = time.time_ns() // SLOT_NS
        with self._lock:
            clock_s = self._clock_s()
            while self._planned and clock_s is not None and self._planned[0][0] <= clock_s:
                at_s, text = self._planned.popleft()
                self._events.append({"t_s": round(at_s, 1), "text": text})
            return {
                "run": {**self._experiment, "id": self.run_dir.name, "folder": str(self.run_dir)},
                "phase": self._phase(clock_s, summary),
                "clock_s": clock_s,
                "stream": dict(self._stream),
                "verdict": self._verdict(summary),
                "frames": {name: self._curves[name].total() for name in (*TYPES.values(), UNDECODABLE)},
                "bytes": self._bytes_of_link.total(),
                "messages": self._messages(),
                "links": self._link_loads(now),
                "senders": sorted(self._sent_last),
                "receivers": sorted(self._receivers),
                "sending": sorted(node for node, slot in self._sent_last.items() if now - slot <= _RECENT),
                "receiving": sorted({node for node, _, _ in self._interests}),
                "down_nodes": sorted(self._network.down_nodes),
                "series": self._series(),
                "events": list(self._events),
                "missed": self._missed(),
            }

    def _missed(self) -> list[Json]:
        last = islice(reversed(self.deliveries.missing.items()), _MOST_SHOWN)
        return [
            {
                "t_s": self._experiment_s(sent_ns),
                "message": message(source, seq),
                "node": self._label(application.node),
                "app": application.name,
            }
            for (source, seq, application), sent_ns in last
        ]

    def _summary(self) -> Json | None:
        try:
            return read_summary(RunLayout(self.run_dir))
        except RunFolderError:
            return None

    def _experiment_s(self, at_ns: int) -> float | None:
        return None if self._clock is None else round(self._clock.experiment_at(at_ns), 1)

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
        if self._manifest.get("tag") is not None and self.tag is None:
            return "interrupted"
        if clock_s is None:
            return "bring-up"
        return "running" if clock_s < self._experiment["duration_s"] else "settling"

    def _verdict(self, summary: Json | None) -> Json:
        if summary is not None:
            state = "; ".join(filter(None, (summary.get("verdict"), numbers.undecided(summary))))
            return {"state": state, "reasons": summary.get("verdict_reasons", [])}
        found = self.deliveries
        counts = {
            "deliveries missed": len(found.missing),
            "spurious deliveries": found.spurious,
            "duplicate deliveries": found.duplicates,
            "undecodable frames": self._curves[UNDECODABLE].total(),
        }
        reasons = [f"{number} {text}" for text, number in counts.items() if number]
        if reasons:
            return {"state": "does not hold so far", "reasons": reasons}
        # Spurious deliveries are independent of losses; the verdict at the end considers them too.
        return {"state": "holds so far" if found.expected else "nothing judged yet", "reasons": []}

    def _messages(self) -> Json:
        names = ("sent", "judged", "delivered", "expected", "made", "undecided", "spurious", "duplicates")
        counts = {name: getattr(self.deliveries, name) for name in names}
        return counts | {"missing": len(self.deliveries.missing)}

    def _link_loads(self, now: int) -> list[Json]:
        # The last slots of the captures, which are a little behind the clock.
        last = max(self._links_at, default=0)
        recent: Counter[int] = Counter()
        if now - last <= 2 * _RECENT:
            for slot in range(last - _RECENT + 1, last + 1):
                recent.update(self._links_at.get(slot, {}))
        return [
            {
                "index": link["index"],
                "frames": self._frames_of_link[link["index"]],
                "bytes": self._bytes_of_link[link["index"]],
                "recent": recent[link["index"]] / (_RECENT * _SLOT_S),
                "up": link["index"] not in self._network.down_links,
            }
            for link in self.topology["links"]
        ]

    def _series(self) -> Json:
        """Returns curves over experiment time, as counts in bins of `bin_s`; `missing` by the time of
        sending."""
        clock = self._clock or Clock.steady(self._manifest["started_ns"], 1.0)
        last = max((slot for curve in self._curves.values() for slot in curve), default=0)
        last_s = max(0.0, clock.experiment_at(last * SLOT_NS))
        # No bin is narrower than a slot, which is one count.
        width_s = max(_SLOT_S * max(clock.rates), last_s / _MAX_POINTS)
        bins = int(last_s / width_s) + 1

        def binned(curve: Counter[int]) -> list[int]:
            found = [0] * bins
            for slot, number in curve.items():
                # The middle of the slot: second 0 lies within one.
                at_s = clock.experiment_at(slot * SLOT_NS + SLOT_NS // 2)
                found[min(bins - 1, max(0, int(at_s / width_s)))] += number
            return found

        curves = self._curves
        return {
            "bin_s": width_s,
            "types": {name: binned(curves[name]) for name in dict.fromkeys(TYPES.values()) if curves[name]},
            "sent": binned(curves["sent"]),
            "delivered": binned(curves["delivered"]),
            "missing": binned(Counter(at_ns // SLOT_NS for at_ns in self.deliveries.missing.values())),
        }
