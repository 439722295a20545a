"""Tables of a run from its captures and records, by run-folder.md and tables.md in docs/reference."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx

from tests.support.independent.frames import Capture, Content, Row, message_text, signed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Run:
    """A run folder.

    Attributes:
        frames: the rows of the table `frames`, by capture and in order.
        bodies: row of `frames` and body of each frame that makes a body whole.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.topology = json.loads((folder / "topology.json").read_text())
        self.clock = self._lines("clock.jsonl")
        links = {frozenset((link["u"], link["v"])): link["index"] for link in self.topology["links"]}
        self.captures = [
            {**each, "link": links.get(frozenset((each["u"], each["v"])))}
            for each in json.loads((folder / "capture.json").read_text())
        ]
        self.oracle = self._lines("oracle.jsonl")
        self.events = self._all_lines("applications")
        self.service = self._all_lines("service")
        self.frames: list[Row] = []
        self.bodies: list[tuple[Row, Content]] = []
        for capture in self.captures:
            named = {name: capture[name] for name in ("name", "kind", "u", "v", "node", "link")}
            for row, content in Capture(**named, path=folder / capture["file"]).rows():
                row |= {
                    "time": _EPOCH + timedelta(microseconds=row["time_ns"] // 1000),
                    "time_s": self.second(row["time_ns"]),
                }
                self.frames.append(row)
                if content is not None:
                    self.bodies.append((row, content))

    def _lines(self, name: str) -> list[Row]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def _all_lines(self, folder: str) -> list[Row]:
        names = sorted((self.folder / "logs" / folder).glob("*.jsonl"))
        return [line for name in names for line in self._lines(str(name.relative_to(self.folder)))]

    def second(self, time_ns: int) -> float:
        """The experiment second of a time: that of the last piece of the clock that has begun."""
        begun = [piece for piece in self.clock if piece["t_ns"] <= time_ns] or self.clock[:1]
        piece = begun[-1]
        return float((time_ns - piece["t_ns"]) * piece["rate"] / 1e9 + piece["experiment_s"])

    @cached_property
    def width_s(self) -> float:
        """The width of the time bins (table `run`)."""
        last_s = max((self.second(event["t_ns"]) for event in (*self.events, *self.service)), default=0.0)
        widths = (factor * 10.0**power for power in range(-1, 9) for factor in (1, 2, 5))
        return next(width for width in widths if last_s / width <= 300)

    def of(self, *names: str) -> list[Row]:
        return [event for event in self.events if event["event"] in names]

    @cached_property
    def sent(self) -> dict[tuple[int, int], Row]:
        return {_message(event): event for event in self.of("send_message")}

    @cached_property
    def deliveries(self) -> dict[tuple[Any, ...], list[int]]:
        """Message, node and application -> times of the deliveries."""
        found: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
        for event in self.of("deliver"):
            found[*_message(event), event["node"], event["app"]].append(event["t_ns"])
        return found

    @cached_property
    def judged(self) -> dict[tuple[Any, ...], tuple[bool, bool]]:
        """Message, node and application -> whether expected, and whether decided; others: False, True."""
        answers = ((*_message(line), line["node"], line["app"]) for line in self.oracle)
        judgements = ((line["expected"], line["decided"]) for line in self.oracle)
        return dict(zip(answers, judgements, strict=True))

    @cached_property
    def trees(self) -> dict[tuple[int, int, int], Row]:
        """Epoch, router and source -> row of the table `trees`."""
        found: dict[tuple[int, int, int], Row] = {}
        for row, content in self.bodies:
            if row["kind"] == "host" and row["type"] == "TABLE" and row["from_node"] == -1:
                for source in {source for source, _ in self.sent}:
                    entry = _tree(row, content, source)
                    if entry is not None:
                        found.setdefault((row["epoch"], row["node"], source), entry)
        return found

    @cached_property
    def messages_on(self) -> dict[str, list[Row]]:
        """Kind of a capture -> its frames of messages."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        for row in self.frames:
            if row.get("type") == "MSG" and row.get("undecodable") is None:
                found[row["kind"]].append(row)
        return found


def _message(line: Row) -> tuple[int, int]:
    return line["source"], signed(line["seq"])


def _parts(seq: int) -> Row:
    return {"seq": seq, "incarnation": seq % 2**64 >> 32, "number": seq % 2**32}


def _tree(row: Row, table: Content, source: int) -> Row | None:
    number = table.class_of[source] if source < len(table.class_of) else 0
    if number == 0:
        return None
    parent, children = table.classes[number - 1]
    interfaces = [child & 0x3FFF for child in children]
    return {
        "epoch": row["epoch"],
        "node": row["node"],
        "source": source,
        "parent": table.neighbours.get(parent),
        "parent_interface": parent,
        "children": [table.neighbours[interface] for interface in interfaces],
        "child_interfaces": interfaces,
        "off_tree": [table.neighbours[child & 0x3FFF] for child in children if child & 0x4000],
        "told_ns": row["time_ns"],
    }


def _counted(rows: Iterable[Row], key: Callable[[Row], tuple[Any, ...]]) -> dict[tuple[Any, ...], list[int]]:
    """Key -> number of the frames, and of their bytes."""
    found: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        counts = found[key(row)]
        counts[0] += 1
        counts[1] += row["length"]
    return found


def _type(row: Row) -> str:
    return row.get("type") or "undecodable"


def _link_bins(run: Run) -> Iterator[Row]:
    width = run.width_s

    def key(row: Row) -> tuple[Any, ...]:
        return *_direction(row), _type(row), math.floor(row["time_s"] / width) * width

    for group, (frames, size) in _counted(_of_kind(run, "link"), key).items():
        names = ("link", "from_node", "to_node", "type", "bin_s")
        rates = {"frames_per_s": frames / width, "bytes_per_s": size / width}
        yield dict(zip(names, group, strict=True)) | {"frames": frames, "bytes": size} | rates


def _link_totals(run: Run) -> Iterator[Row]:
    counts = _counted(_of_kind(run, "link"), lambda row: (*_direction(row), _type(row)))
    for group, (frames, size) in counts.items():
        names = ("link", "from_node", "to_node", "type")
        yield dict(zip(names, group, strict=True)) | {"frames": frames, "bytes": size}


def _direction(row: Row) -> tuple[Any, ...]:
    return row["link"], row["from_node"], row["to_node"]


def _of_kind(run: Run, kind: str) -> Iterator[Row]:
    return (row for row in run.frames if row["kind"] == kind)


def _talkers(run: Run) -> Iterator[Row]:
    counts = _counted(_of_kind(run, "host"), lambda row: (row["node"], _type(row), row["direction"]))
    for node, type_ in dict.fromkeys(key[:2] for key in counts):
        sent, received = (counts.get((node, type_, way), [0, 0]) for way in ("from_router", "to_router"))
        yield {
            "node": node, "type": type_, "frames_sent": sent[0], "bytes_sent": sent[1],
            "frames_received": received[0], "bytes_received": received[1],
        }  # fmt: skip


def _captures(run: Run) -> Iterator[Row]:
    frames = defaultdict(list)
    for row in run.frames:
        frames[row["capture"]].append(row)
    for capture in run.captures:
        own = frames[capture["name"]]
        seconds = [row["time_s"] for row in own]
        yield {
            "capture": capture["name"],
            **{name: capture[name] for name in ("kind", "link", "node")},
            "frames_written": capture["captured"],
            **{name: capture[name] for name in ("received_by_filter", "dropped_by_kernel")},
            "defect": None,
            "frames": len(own),
            "bytes": sum(row["length"] for row in own),
            "frames_undecodable": sum(row.get("undecodable") is not None for row in own),
            "first_s": min(seconds, default=None),
            "last_s": max(seconds, default=None),
        }


def _advertised(run: Run) -> Iterator[Row]:
    found = defaultdict(list)
    for row, _ in run.bodies:
        if row["kind"] == "link" and row["type"] in ("RA", "UR"):
            found[row["type"], row["predicate"]].append(row)
    for (type_, predicate), rows in found.items():
        yield {
            "type": type_, "predicate": predicate, "issuers": len({row["issuer"] for row in rows}),
            "crossings": len(rows), "body_bytes": sum(row["total_length"] for row in rows),
        }  # fmt: skip


def _messages(run: Run) -> Iterator[Row]:
    pairs = dict.fromkeys(run.deliveries, (False, True)) | run.judged
    lost = {(*_message(event), event["node"], event["app"]) for event in run.of("lose")}
    counts: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for pair, (expected, decided) in pairs.items():
        times = len(run.deliveries.get(pair, ()))
        missed = expected and not times and pair not in lost
        counts[pair[:2]] += Counter(
            {
                "deliveries_expected": expected,
                "delivered": times > 0,
                "missed": missed,
                "missed_decided": missed and decided,
                "spurious": times > 0 and decided and not expected,
                "duplicates": max(0, times - 1),
            }
        )
    names = ("deliveries_expected", "delivered", "missed", "missed_decided", "spurious", "duplicates")
    for (source, seq), event in run.sent.items():
        yield {
            "source": source,
            **_parts(seq),
            "sent_s": run.second(event["requested_ns"]),
            "message": message_text(event["attributes"]),
            **{name: counts[source, seq][name] for name in names},
        }


def _shortest(run: Run, source: int, name: str | None) -> dict[int, int]:
    """Node -> the least sum of a property of links from a source; None: each link counts 1."""
    graph = nx.Graph()
    graph.add_edges_from((link["u"], link["v"], link) for link in run.topology["links"])
    return dict(nx.single_source_dijkstra_path_length(graph, source, weight=name))


def _arrivals(run: Run) -> Iterator[Row]:
    cost_of = {link["index"]: link["cost"] for link in run.topology["links"]}
    first: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in run.messages_on["link"]:
        source, node, parent = row["issuer"], row["to_node"], row["from_node"]
        tree = run.trees.get((row["epoch"], node, source))
        on_tree = tree is not None and tree["parent"] == parent
        rank = (not on_tree, row["time_ns"], parent, row["link"])
        if node != source and rank < first.get((source, row["seq"], node), (True, math.inf)):
            first[source, row["seq"], node] = rank
    shortest = {
        source: (_shortest(run, source, None), _shortest(run, source, "cost"))
        for source in {source for source, _, _ in first}
    }
    for (source, seq, node), (_, arrived_ns, parent, link) in first.items():
        way, at = list[int](), node
        while at != source and (source, seq, at) in first and len(way) < len(first):
            *_, at, last = first[source, seq, at]
            way.append(cost_of[last])
        complete = at == source
        hops, costs = shortest[source]
        yield {
            "source": source,
            "node": node,
            "seq": seq,
            "from_node": parent,
            "link": link,
            "arrived_ns": arrived_ns,
            "hops": len(way) if complete else None,
            "cost": sum(way) if complete else None,
            "shortest_hops": hops[node],
            "shortest_cost": costs[node],
        }


def _deliveries(run: Run) -> Iterator[Row]:
    arrivals = {(row["source"], row["seq"], row["node"]): row for row in _arrivals(run)}
    lengths = ("hops", "cost", "shortest_hops", "shortest_cost")
    for (source, seq, node, app), times in run.deliveries.items():
        sent_ns = run.sent[source, seq]["requested_ns"]
        expected, decided = run.judged.get((source, seq, node, app), (False, True))
        arrival = dict.fromkeys(lengths, 0) if node == source else arrivals.get((source, seq, node), {})
        yield {
            "source": source,
            "seq": seq,
            "node": node,
            "app": app,
            "sent_s": run.second(sent_ns),
            "delay_wall_s": (min(times) - sent_ns) / 1e9,
            "times": len(times),
            "expected": expected,
            "decided": decided,
            **{name: arrival.get(name) for name in lengths},
        }


def _processed(run: Run) -> Iterator[Row]:
    came: dict[tuple[int, int, int, bool], int] = {}
    used = {(node, source, seq) for source, seq, node, _ in run.deliveries}
    used |= {(event["node"], *_message(event)) for event in run.of("lose")}
    for row in run.messages_on["host"]:
        key = row["node"], row["issuer"], row["seq"]
        if row["direction"] == "to_router":
            came[*key, True] = min(row["time_ns"], came.get((*key, True), row["time_ns"]))
        else:
            used.add(key)
    came |= {(source, source, seq, False): each["requested_ns"] for (source, seq), each in run.sent.items()}
    for (node, source, seq, from_network), t_ns in came.items():
        yield {
            "node": node, "source": source, "seq": seq, "t_s": run.second(t_ns), "t_ns": t_ns,
            "from_network": from_network, "false_positive": (node, source, seq) not in used,
        }  # fmt: skip


def _publications(run: Run) -> Iterator[Row]:
    homes = defaultdict(list)
    for event in run.service:
        if event["event"] == "deliver":
            homes[_message(event)].append(event)
    for event in run.service:
        if event["event"] == "upload":
            source, seq = _message(event)
            got = homes[source, seq]
            yield {
                "source": source,
                **_parts(seq),
                "uploaded_s": run.second(event["t_ns"]),
                "message": message_text(event["attributes"]),
                "deliveries": len(got),
                "deliveries_remote": sum(each["whence"] == "remote" for each in got),
                "homes": len({each["node"] for each in got}),
            }


def _publication_deliveries(run: Run) -> Iterator[Row]:
    for event in run.service:
        if event["event"] == "deliver":
            source, seq = _message(event)
            own = {name: event[name] for name in ("node", "app", "round", "age_s", "whence")}
            yield own | {
                "source": source, "seq": seq, "subscription": signed(event["subscription"]),
                "t_s": run.second(event["t_ns"]),
            }  # fmt: skip


#: Table -> its rows, of which columns that are left out are null.
TABLES: dict[str, Callable[[Run], Iterable[Row]]] = {
    "frames": lambda run: run.frames,
    "captures": _captures,
    "link_bins": _link_bins,
    "link_totals": _link_totals,
    "talkers": _talkers,
    "trees": lambda run: run.trees.values(),
    "advertised": _advertised,
    "messages": _messages,
    "arrivals": _arrivals,
    "deliveries": _deliveries,
    "processed": _processed,
    "publications": _publications,
    "publication_deliveries": _publication_deliveries,
}
