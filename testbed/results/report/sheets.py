"""The sortable tables of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from testbed.results.report.data import RunData, sums
from testbed.terminal import numbers
from topos import Topology

#: Characters of a predicate that are shown before it is unfolded.
_FOLDED = 90
#: Predicates shown: those with the most deliveries or bytes.
_PREDICATES = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a cell; `value` is its sort key (None: its text), `bad` highlights it.

    `rest` is the hidden part of a folded text; `numeric` says that the column is of numbers.
    """

    text: str
    value: float | None = None
    bad: bool = False
    rest: str = ""
    numeric: bool = False


#: Heading -> cell.
Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: its caption and its rows, which have the same headings."""

    caption: str
    rows: list[Row]


def all_sheets(run: RunData) -> dict[str, Sheet]:
    """Returns every sortable table, by the id of its element on the page."""
    return {
        "links": links(run),
        "properties": properties(run),
        "savings": savings(run),
        "talkers": talkers(run),
        "predicates": predicates(run),
        "advertised": advertised(run.tables["advertised"]),
        "captures": captures(run),
    }


def links(run: RunData) -> Sheet:
    """Returns every link of the topology, the busiest first; no row where no link was captured."""
    totals = run.tables["link_totals"]
    frames = sums(totals, ["link", "from_node"], "frames")
    kinds = sums(totals, ["link", "type"], "frames")
    sizes = sums(totals, ["link"], "bytes")
    use = run.tables["link_utilisation"]
    limited = any(link.bandwidth_mbps for link in run.topology.links)
    column = "utilisation" if limited else "bits_per_wall_s"
    peaks = use.groupby("link")[column].max() if not use.empty else pd.Series(dtype=float)
    rows = []
    for link in run.topology.links if run.links_captured else ():
        index, u, v = link.index, link.u, link.v
        forward, back = frames.get((index, u), 0), frames.get((index, v), 0)
        messages = kinds.get((index, "MSG"), 0)
        # A link without frames has no row; a link without a bandwidth has no share.
        peak = float(peaks.get(index, 0.0)) if not limited or link.bandwidth_mbps else None
        shown = numbers.ABSENT if peak is None else f"{peak:.1%}" if limited else f"{peak / 1000:.1f}"
        rows.append(
            {
                "u": _node(run.topology, u),
                "v": _node(run.topology, v),
                "Cost": _count(link.cost),
                "Frames u to v": _count(forward),
                "Frames v to u": _count(back),
                "Messages": _count(messages),
                "Control": _count(forward + back - messages),
                "Bytes": _count(sizes.get(index, 0)),
                "Peak utilisation" if limited else "Peak kbit/s": _number(shown, peak),
            }
        )
    return Sheet(
        "Frames over the whole run. The peak is that of the fuller direction in any time bin.",
        _most(rows, "Frames u to v", "Frames v to u"),
    )


def properties(run: RunData) -> Sheet:
    """Returns the properties that links had, by the file, an event or a command, in order of time."""
    rows = []
    for found in run.manifest.get("links", []) if run.manifest else []:
        since, until = (
            None if run.clock is None else run.clock.experiment_at(found[end])
            for end in ("since_ns", "until_ns")
        )
        rows.append(
            {
                "From": _number(numbers.seconds(since), since),
                "Until": _number(numbers.seconds(until), until),
                "Sender": _node(run.topology, found["sender"]),
                "Receiver": _node(run.topology, found["receiver"]),
                "Property": Cell(found["property"]),
                "Required": _number(numbers.significant(found["required"]), found["required"]),
                "Measured": _number(numbers.significant(found["measured"]), found["measured"]),
                "Frames": _count(found["frames"]),
            }
        )
    rows.sort(key=lambda row: row["From"].value or 0.0)
    return Sheet(
        "Each direction of a link, from one change of its properties to the next, with the frames by which "
        "the property was measured.",
        rows,
    )


def savings(run: RunData) -> Sheet:
    """Returns the message crossings of the whole network, then of each direction of a link."""
    ways = {"CBCB": "cbcb", "Broadcast": "broadcast", "Unicast": "unicast", "Minimal tree": "minimal"}
    totals = run.summary.get("message_crossings") or {}
    rows = [
        {
            "From": _node(run.topology, row.from_node),
            "To": _node(run.topology, row.to_node),
            **{heading: _count(getattr(row, way)) for heading, way in ways.items()},
        }
        for row in run.tables["link_savings"].itertuples()
    ]
    ends = {"From": _number("all", None), "To": _number("all", None)}
    whole = [ends | {heading: _count(totals.get(way)) for heading, way in ways.items()}] if rows else []
    return Sheet(
        "Messages on links: as captured; to every router along the tree of the source; a copy to each router "
        "that expects the message, on the path of least cost; along the part of the tree that leads to these "
        "routers.",
        whole + _most(rows, "CBCB"),
    )


def talkers(run: RunData) -> Sheet:
    table = run.tables["talkers"]
    sent = sums(table, ["node", "type"], "frames_sent")
    rows = [
        {
            "Router": _node(run.topology, row.Index),
            "Frames sent": _count(row.frames_sent),
            "Messages": _count(sent.get((row.Index, "MSG"), 0)),
            "Control": _count(sum(sent.get((row.Index, kind), 0) for kind in ("RA", "SR", "UR"))),
            "Bytes sent": _count(row.bytes_sent),
            "Frames received": _count(row.frames_received),
            "Bytes received": _count(row.bytes_received),
        }
        for row in table.groupby("node").sum(numeric_only=True).itertuples()
    ]
    return Sheet(
        "Frames between a router and its switch: one to several neighbours leaves the router once.",
        _most(rows, "Frames sent"),
    )


def predicates(run: RunData) -> Sheet:
    table = run.tables["predicates"]
    most = table.sort_values("deliveries", ascending=False, kind="stable").head(_PREDICATES)
    rows = [
        {
            "Predicate": _folded(row.predicate),
            "Node": _node(run.topology, row.node),
            "Application": Cell(str(row.app)),
            "In force (s)": _number(f"{row.from_s:.0f}–{row.until_s:.0f}", row.from_s),
            "Deliveries": _count(row.deliveries),
        }
        for row in most.itertuples()
    ]
    first = _of_all(len(rows), len(table))
    return Sheet(f"{first} predicates that applications had in force, by their deliveries.", rows)


def advertised(table: pd.DataFrame) -> Sheet:
    most = table.sort_values("body_bytes", ascending=False, kind="stable").head(_PREDICATES)
    rows = [
        {
            "Predicate": _folded(row.predicate),
            "In": Cell(str(row.type)),
            "Issuers": _count(row.issuers),
            "Link crossings": _count(row.crossings),
            "Body bytes": _count(row.body_bytes),
        }
        for row in most.itertuples()
    ]
    first = _of_all(len(rows), len(table))
    return Sheet(f"{first} predicates in RAs and URs on links, by the bytes of their bodies.", rows)


def captures(run: RunData) -> Sheet:
    devices = {one.identity.name: one.device for one in run.captures}
    rows = []
    for row in run.tables["captures"].itertuples():
        dropped, undecodable = int(row.dropped_by_kernel), int(row.frames_undecodable)
        seen, last_s = (None if pd.isna(each) else each for each in (row.received_by_filter, row.last_s))
        defect = "" if pd.isna(row.defect) else str(row.defect)
        rows.append(
            {
                "Capture": Cell(str(row.capture)),
                "Device": Cell(devices.get(str(row.capture), "")),
                "Frames": _count(row.frames),
                "Bytes": _count(row.bytes),
                "Seen by the filter": _count(seen),
                "Dropped by the kernel": _count(dropped, bad=dropped > 0),
                "Undecodable": _count(undecodable, bad=undecodable > 0),
                "Last frame (s)": _number("–" if last_s is None else f"{last_s:.1f}", last_s),
                "File": Cell(defect or "whole", bad=bool(defect)),
            }
        )
    faults = ("Dropped by the kernel", "Undecodable")
    rows.sort(key=lambda row: (row["File"].bad, *(row[each].value for each in faults)), reverse=True)
    return Sheet(f"{len(rows)} captures, those with a fault first.", rows)


def _most(rows: list[Row], *headings: str) -> list[Row]:
    """Returns rows by the sum of some columns, the greatest first."""
    return sorted(rows, key=lambda row: sum(row[each].value or 0 for each in headings), reverse=True)


def _number(text: str, value: Any, *, bad: bool = False) -> Cell:
    return Cell(text, None if value is None else float(value), bad, numeric=True)


def _count(value: Any, *, bad: bool = False) -> Cell:
    return _number(numbers.count(value), value, bad=bad)


def _node(topology: Topology, node: Any) -> Cell:
    """Returns the number of a node, by which a column is sorted, with its name."""
    return _number(topology.label(int(node)), node)


def _folded(predicate: Any) -> Cell:
    text = str(predicate)
    if len(text) <= _FOLDED + 20:
        return Cell(text)
    return Cell(text[:_FOLDED], rest=text[_FOLDED:])


def _of_all(shown: int, whole: int) -> str:
    return f"The {shown} first of {whole}" if shown < whole else f"The {whole}"
