"""The sortable tables of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from testbed.results.report.data import RunData
from testbed.terminal import numbers
from topos.model import Topology

#: Characters of a predicate that are shown before it is unfolded.
_FOLDED = 90
#: Predicates shown: those with the most deliveries or bytes.
_PREDICATES = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a cell; `value` is its sort key (None: its text), `bad` highlights it.

    `rest` is the hidden part of a folded text.
    """

    text: str
    value: float | None = None
    bad: bool = False
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: its caption, its headings (with True for columns of numbers), its rows."""

    caption: str
    columns: tuple[tuple[str, bool], ...]
    rows: list[list[Cell]]


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
    totals = run.tables["link_totals"].dropna(subset=["link"])
    frames = _sums(totals, ["link", "from_node"], "frames")
    kinds = _sums(totals, ["link", "type"], "frames")
    sizes = _sums(totals, ["link"], "bytes")
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
        known = not limited or link.bandwidth_mbps
        peak = float(peaks.get(index, 0.0)) if known else None
        rows.append(
            [
                *(_node(run.topology, node) for node in (u, v)),
                *(_count(value) for value in (link.cost, forward, back, messages)),
                *(_count(value) for value in (forward + back - messages, sizes.get(index, 0))),
                _peak(peak, limited),
            ]
        )
    return Sheet(
        "Frames over the whole run. The peak is that of the fuller direction in any time bin.",
        (
            *((name, True) for name in ("u", "v", "Cost", "Frames u to v", "Frames v to u", "Messages")),
            *(("Control", True), ("Bytes", True)),
            ("Peak utilisation" if limited else "Peak kbit/s", True),
        ),
        _by_value(rows, lambda row: (row[3].value or 0) + (row[4].value or 0)),
    )


def properties(run: RunData) -> Sheet:
    """Returns the properties that links had, by the file, an event or a command, in order of time."""
    rows = []
    for found in run.manifest.get("links", []) if run.manifest else []:
        since, until = (
            None if run.clock is None else run.clock.experiment_s(found[end])
            for end in ("since_ns", "until_ns")
        )
        rows.append(
            [
                *(Cell(numbers.seconds(at), at) for at in (since, until)),
                *(_node(run.topology, found[end]) for end in ("sender", "receiver")),
                Cell(found["property"]),
                *(Cell(numbers.significant(found[key]), found[key]) for key in ("required", "measured")),
                _count(found["frames"]),
            ]
        )
    rows.sort(key=lambda row: row[0].value or 0.0)
    return Sheet(
        "Each direction of a link, from one change of its properties to the next, with the frames by which "
        "the property was measured.",
        (
            *((name, True) for name in ("From", "Until", "Sender", "Receiver")),
            ("Property", False),
            *((name, True) for name in ("Required", "Measured", "Frames")),
        ),
        rows,
    )


def savings(run: RunData) -> Sheet:
    """Returns the message crossings of the whole network, then of each direction of a link."""
    ways = ("cbcb", "broadcast", "unicast", "minimal")
    table = run.tables["link_savings"]
    totals = run.summary.get("message_crossings") or {}
    rows = [
        [
            *(_node(run.topology, node) for node in (row.from_node, row.to_node)),
            *(_count(getattr(row, way)) for way in ways),
        ]
        for row in table.itertuples()
    ]
    whole = [[Cell("all"), Cell("all"), *(_count(totals.get(way)) for way in ways)]] if rows else []
    return Sheet(
        "Messages on links: as captured; to every router along the tree of the source; a copy to each router "
        "that expects the message, on the path of least cost; along the part of the tree that leads to these "
        "routers.",
        tuple((name, True) for name in ("From", "To", "CBCB", "Broadcast", "Unicast", "Minimal tree")),
        whole + _by_value(rows, lambda row: row[2].value or 0),
    )


def talkers(run: RunData) -> Sheet:
    """Returns every router by the frames that it sent."""
    rows = []
    for node, of_node in run.tables["talkers"].groupby("node"):
        sent = {str(kind): int(count) for kind, count in of_node.groupby("type")["frames_sent"].sum().items()}
        rows.append(
            [
                _node(run.topology, node),
                _count(of_node["frames_sent"].sum()),
                _count(sent.get("MSG", 0)),
                _count(sum(sent.get(kind, 0) for kind in ("RA", "SR", "UR"))),
                _count(of_node["bytes_sent"].sum()),
                _count(of_node["frames_received"].sum()),
                _count(of_node["bytes_received"].sum()),
            ]
        )
    return Sheet(
        "Frames between a router and its switch: one to several neighbours leaves the router once.",
        tuple(
            (name, True)
            for name in (
                "Router",
                "Frames sent",
                "Messages",
                "Control",
                "Bytes sent",
                "Frames received",
                "Bytes received",
            )
        ),
        _by_value(rows, lambda row: row[1].value or 0),
    )


def predicates(run: RunData) -> Sheet:
    """Returns the predicates in force by the deliveries that they caused."""
    table = run.tables["predicates"]
    most = table.sort_values("deliveries", ascending=False, kind="stable").head(_PREDICATES)
    rows = [
        [
            _folded(row.predicate),
            _node(run.topology, row.node),
            Cell(str(row.app)),
            Cell(f"{row.from_s:.0f}–{row.until_s:.0f}", float(row.from_s)),
            _count(row.deliveries),
        ]
        for row in most.itertuples()
    ]
    return Sheet(
        f"{_of_all(len(rows), len(table))} predicates that applications had in force, by their deliveries.",
        (
            ("Predicate", False),
            ("Node", True),
            ("Application", False),
            ("In force (s)", True),
            ("Deliveries", True),
        ),
        rows,
    )


def advertised(table: pd.DataFrame) -> Sheet:
    """Returns the predicates of RAs and URs by their bytes on links."""
    most = table.sort_values("body_bytes", ascending=False, kind="stable").head(_PREDICATES)
    rows = [
        [
            _folded(row.predicate),
            Cell(str(row.type)),
            _count(row.issuers),
            _count(row.crossings),
            _count(row.body_bytes),
        ]
        for row in most.itertuples()
    ]
    return Sheet(
        f"{_of_all(len(rows), len(table))} predicates in RAs and URs on links, by the bytes of their bodies.",
        (
            ("Predicate", False),
            ("In", False),
            ("Issuers", True),
            ("Link crossings", True),
            ("Body bytes", True),
        ),
        rows,
    )


def captures(run: RunData) -> Sheet:
    """Returns every capture, the worst first."""
    devices = {one.identity.name: one.device for one in run.captures}
    table = run.tables["captures"]
    rows = []
    for row in table.itertuples():
        dropped, undecodable = int(row.dropped_by_kernel), int(row.frames_undecodable)
        defect = "" if pd.isna(row.defect) else str(row.defect)
        rows.append(
            [
                Cell(str(row.capture)),
                Cell(devices.get(str(row.capture), "")),
                _count(row.frames),
                _count(row.bytes),
                _count(None if pd.isna(row.received_by_filter) else row.received_by_filter),
                Cell(numbers.count(dropped), dropped, bad=dropped > 0),
                Cell(numbers.count(undecodable), undecodable, bad=undecodable > 0),
                Cell(
                    "–" if pd.isna(row.last_s) else f"{row.last_s:.1f}",
                    None if pd.isna(row.last_s) else float(row.last_s),
                ),
                Cell(defect or "whole", bad=bool(defect)),
            ]
        )
    return Sheet(
        f"{len(rows)} captures, those with a fault first.",
        (
            *(
                ("Capture", False),
                ("Device", False),
                ("Frames", True),
                ("Bytes", True),
                ("Seen by the filter", True),
            ),
            *(
                ("Dropped by the kernel", True),
                ("Undecodable", True),
                ("Last frame (s)", True),
                ("File", False),
            ),
        ),
        _by_value(rows, lambda row: (row[8].bad, row[5].value or 0, row[6].value or 0)),
    )


def _by_value(rows: list[list[Cell]], key: Callable[[list[Cell]], Any]) -> list[list[Cell]]:
    return sorted(rows, key=key, reverse=True)


def _count(value: Any) -> Cell:
    return Cell(numbers.count(value), None if value is None else float(value))


def _node(topology: Topology, node: Any) -> Cell:
    """Returns the number of a node, by which a column is sorted, with its name."""
    return Cell(topology.label(int(node)), float(node))


def _peak(peak: float | None, limited: bool) -> Cell:
    """Returns a share of the bandwidth if the link has one, otherwise bit/s, shown as kbit/s; None: no
    bandwidth."""
    if peak is None:
        return Cell(numbers.ABSENT)
    return Cell(f"{peak:.1%}" if limited else f"{peak / 1000:.1f}", peak)


def _folded(predicate: Any) -> Cell:
    text = str(predicate)
    if len(text) <= _FOLDED + 20:
        return Cell(text)
    return Cell(text[:_FOLDED], rest=text[_FOLDED:])


def _of_all(shown: int, whole: int) -> str:
    return f"The {shown} first of {whole}" if shown < whole else f"The {whole}"


def _sums(table: pd.DataFrame, keys: list[str], column: str) -> dict[Any, int]:
    sums = table.groupby(keys if len(keys) > 1 else keys[0])[column].sum()
    return {key: int(value) for key, value in sums.items()}
