"""The tables under parquet/ in a run folder, and their columns."""

from __future__ import annotations

from captures.columns import COLUMNS

_LINK = {
    "link": "index of the link",
    "from_node": "sending end (null: not told by the source address)",
    "to_node": "receiving end",
    "type": "frame type (`undecodable`: its header does not decode)",
}
_COUNTS = {
    "frames": "Ethernet frames, each fragment one",
    "bytes": "bytes on the wire, Ethernet header included",
}
_BIN = {"bin_s": "start of the bin"}
_CURVE = {"t_s": "end of the window", "fraction": "share in the window, 0 to 1"}

#: Table -> (what a row is, {column: meaning}).
TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "link_bins": ("link, direction, type and time bin", {**_LINK, **_BIN, **_COUNTS}),
    "link_totals": ("link, direction and type", {**_LINK, **_COUNTS}),
    "type_bins": (
        "type and time bin, over all links between routers",
        {"type": _LINK["type"], **_BIN, **_COUNTS},
    ),
    "messages": (
        "message sent",
        {
            "source": "node that sent it",
            "seq": "sequence number, 64 bits, as a signed number",
            "sent_s": "when it was sent",
            "expected": "applications that should get it",
            "delivered": "applications that got it",
            "missed": "expected and not delivered",
            "missed_decided": "those of them that the oracle decides",
            "spurious": "delivered, decided and not expected",
            "duplicates": "deliveries beyond the first to an application",
        },
    ),
    "false_negative_curve": (
        "point: missed / expected deliveries, window 0.25 s and at least 10 ms wall",
        _CURVE,
    ),
    "false_positive_curve": ("point: false positives / messages that routers took, window 120 s", _CURVE),
    "control_share_curve": (
        "point: (RA + SR + UR) / (MSG + RA + SR + UR) frames on links, window 120 s",
        _CURVE,
    ),
    "frames": (
        "captured frame; stored in one folder a type",
        {name: meaning for name, (_, _, meaning) in COLUMNS.items()},
    ),
}


def document() -> str:
    """docs/tables.md."""
    lines = [
        "# Tables of a run",
        "",
        "Each is a folder `parquet/<table>/` of Parquet files. Times in seconds are experiment seconds since",
        "the first set_predicate was requested (wall seconds times the time scale), negative before it.",
    ]
    for name, (row, columns) in TABLES.items():
        lines += ["", f"## {name}", "", f"One row a {row}.", "", "| column | meaning |", "|---|---|"]
        lines += [f"| `{column}` | {meaning} |" for column, meaning in columns.items()]
    return "\n".join(lines) + "\n"
