"""The tables under parquet/ in a run folder, and their columns."""

from __future__ import annotations

from captures.frames.columns import COLUMNS

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
_RATES = {"frames_per_s": "frames per experiment second", "bytes_per_s": "bytes per experiment second"}
_POINT = {"t_s": "end of the window"}
_CURVE = {**_POINT, "fraction": "share in the window, 0 to 1"}
_MESSAGE = {
    "source": "node that sent the message",
    "seq": "sequence number, 64 bits, as a signed number",
}
_RECEIVER = {**_MESSAGE, "node": "node of the application", "app": "name of the application"}
_WALL = {"t_s": "when", "t_ns": "the same, ns since 1970 UTC"}
_SHORTEST = {
    "shortest_hops": "hops of the path with the fewest, over all links of the topology",
    "shortest_cost": "cost of the cheapest path, likewise",
}

#: Table -> (what a row is, {column: meaning}).
TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "link_bins": ("link, direction, type and time bin", {**_LINK, **_BIN, **_COUNTS, **_RATES}),
    "link_totals": ("link, direction and type", {**_LINK, **_COUNTS}),
    "link_utilisation": (
        "link, direction and time bin in which it carried a frame",
        {
            **{name: _LINK[name] for name in ("link", "from_node", "to_node")},
            **_BIN,
            "bytes": _COUNTS["bytes"],
            "bits_per_s": "bits of these frames per wall second: bandwidth does not scale with the time",
            "utilisation": "share of the bandwidth, 0 to 1; null where the topology declares none",
        },
    ),
    "type_bins": (
        "type and time bin, over all links between routers",
        {"type": _LINK["type"], **_BIN, **_COUNTS, **_RATES},
    ),
    "talkers": (
        "router and frame type, on the links between routers and their switches",
        {
            "node": "the router",
            "type": _LINK["type"],
            "frames_sent": "frames that it sent; one to several neighbours leaves it once",
            "bytes_sent": "bytes of these",
            "frames_received": "frames that reached it",
            "bytes_received": "bytes of these",
        },
    ),
    "captures": (
        "capture",
        {
            "capture": "its name",
            "kind": "`link` (between two routers) or `host` (a router's own link)",
            "link": "index of the link; null on a host link",
            "node": "node of a host link; null on a link",
            "captured": "frames that tcpdump wrote, by its own count",
            "received_by_filter": "frames that passed its filter",
            "dropped_by_kernel": "frames that the kernel dropped before tcpdump read them",
            "defect": "how the file ends inside a record; null: it is whole",
            "frames": "frames in the file",
            "bytes": _COUNTS["bytes"],
            "undecodable": "frames that do not decode",
            "first_s": "time of the first frame; null without one",
            "last_s": "time of the last",
        },
    ),
    "messages": (
        "message sent",
        {
            **_MESSAGE,
            "number": "low 32 bits of `seq`: the router's count of messages, as `cbcb trace` takes it",
            "sent_s": "when it was sent",
            "message": "its attributes, in the readable notation",
            "expected": "applications that should get it",
            "delivered": "applications that got it",
            "missed": "expected and not delivered",
            "missed_decided": "those of them that the oracle decides",
            "spurious": "delivered, decided and not expected",
            "duplicates": "deliveries beyond the first to an application",
        },
    ),
    "arrivals": (
        "message at a router that it reached over links; where it came twice, the way along the tree counts",
        {
            **_MESSAGE,
            "node": "the router",
            "from_node": "the neighbour that it came from",
            "link": "index of the link",
            "arrived_ns": "first frame of it in the capture of that link, ns since 1970 UTC",
            "hops": "links on its path from the source; null where a hop is in no capture",
            "cost": "cost of these links",
            **_SHORTEST,
        },
    ),
    "deliveries": (
        "message and application that it was delivered to",
        {
            **_RECEIVER,
            "sent_s": "when the message was sent",
            "delay_s": "wall seconds from the application's request to send until the first delivery",
            "times": "how often it was delivered: 1 is right",
            "expected": "the oracle expects it",
            "decided": "the oracle decides it",
            "hops": "links on the path taken, 0 at the sending node; null where a hop is in no capture",
            "cost": "cost of these links",
            **_SHORTEST,
        },
    ),
    "predicates": (
        "predicate that an application had in force",
        {
            "node": _RECEIVER["node"],
            "app": _RECEIVER["app"],
            "predicate": "in the readable notation",
            "filters": "number of its filters",
            "from_s": "when its router had confirmed it",
            "until_s": "when the next one was confirmed, or the last event of the run",
            "deliveries": "what the application got in between, every delivery counted",
        },
    ),
    "advertised": (
        "predicate and type (RA or UR) on links; fragments count as one",
        {
            "type": "RA or UR",
            "predicate": "in the readable notation",
            "issuers": "nodes that issued it",
            "crossings": "how often it crossed a link",
            "body_bytes": "bytes of its bodies in all these",
        },
    ),
    "repeated_frames": (
        "MSG frame that crossed a link more than once in one direction: evidence of a loop",
        {
            "link": _LINK["link"],
            "from_node": _LINK["from_node"],
            "issuer": _MESSAGE["source"],
            "seq": _MESSAGE["seq"],
            "fragment_index": "index of the fragment, from 0",
            "times": "how often it crossed",
        },
    ),
    "false_negative_curve": (
        "point: missed / expected deliveries, window 0.25 s and at least 10 ms wall",
        _CURVE,
    ),
    "false_positive_curve": ("point: false positives / messages that routers took, window 120 s", _CURVE),
    "control_share_curve": (
        "point: (RA + SR + UR) / (MSG + RA + SR + UR) frames on links, window 120 s",
        {**_CURVE, "ra_fraction": "share of RA frames alone (paper, figure 13)"},
    ),
    "control_rate_curve": (
        "point, every 2 s: frames on links per experiment second, mean over 120 s (paper, figure 14)",
        {**_POINT, "msg_per_s": "MSG", "ra_per_s": "RA", "sr_ur_per_s": "SR and UR together"},
    ),
    "frames": (
        "captured frame; stored in one folder a type",
        {name: meaning for name, (_, _, meaning) in COLUMNS.items()},
    ),
    "applications": (
        "event of an application (logs/applications.jsonl)",
        {
            **_WALL,
            "requested_ns": "when the application asked for it; null for a delivery",
            "node": _RECEIVER["node"],
            "app": _RECEIVER["app"],
            "event": "`set_predicate`, `send_message` or `deliver`",
            "source": "of the message; null without one",
            "seq": _MESSAGE["seq"],
            "text": "the predicate set, or the message sent",
        },
    ),
    "oracle": (
        "message and application where the oracle expects a delivery or leaves it open (oracle.jsonl)",
        {
            **_RECEIVER,
            "sent_ns": "when the application asked to send, ns since 1970 UTC",
            "expected": "it should be delivered there",
            "decided": "false: a change lay too close to the sending to tell",
        },
    ),
    "controller": (
        "event of the controller (logs/controller.jsonl)",
        {
            **_WALL,
            "event": "its name",
            "epoch": "the epoch that it is about",
            "node": "the node",
            "u": "one end of the link",
            "v": "the other",
            "details": "the other fields, as JSON",
        },
    ),
    "trees": (
        "epoch, router and source of messages: its part in the source's tree, from the TABLE frame captured",
        {
            "epoch": "version of the broadcast tables",
            "node": "the router",
            "source": "root of the tree",
            "parent": "neighbour towards the source; null at the source",
            "parent_interface": "interface that leads there; 0 at the source",
            "children": "neighbours that the router may forward the source's frames to",
            "child_interfaces": "interfaces that lead there, in the same order",
            "off_tree": "children that drop what comes from here (reverse-path forwarding)",
            "told_ns": "when the router was first sent it, ns since 1970 UTC",
        },
    ),
    "routing_tables": (
        "row of the routing table of a router at the end of the run (logs/tables.json)",
        {
            "node": "the router",
            "interface": "interface that messages leave by; 0: its applications; null: no single interface",
            "scope": "the messages that the row is about; empty: all",
            "predicate": "messages that match leave by it, in the readable notation; an empty one has no row",
        },
    ),
    "shortest_paths": (
        "source of a message and other node, over all links of the topology",
        {"source": "the source", "node": "the other node", **_SHORTEST},
    ),
    "links": (
        "link of the topology",
        {
            "link": "its index",
            "u": "one end",
            "v": "the other",
            "u_port": "interface of the link at `u`",
            "v_port": "interface of the link at `v`",
            "cost": "what broadcast trees minimise",
            "bandwidth_mbps": "megabits per second, each direction; null: not limited",
            "delay_ms": "one way; null: none",
            "loss_percent": "of the frames, each direction; null: none",
        },
    ),
    "nodes": (
        "node of the topology",
        {"node": "its number", "x": "place on the plane; null: it has none", "y": "likewise"},
    ),
}


#: Questions that come up often, and the SQL that answers them.
EXAMPLES: tuple[tuple[str, str], ...] = (
    (
        "Which messages were missed, and by whom?",
        "SELECT m.source, m.number, o.node, o.app, m.message FROM messages m "
        "JOIN oracle o USING (source, seq) ANTI JOIN deliveries d "
        "ON (d.source, d.seq, d.node, d.app) = (o.source, o.seq, o.node, o.app) "
        "WHERE o.expected",
    ),
    (
        "Delay by hops",
        "SELECT hops, count(*) AS n, median(delay_s) * 1000 AS median_ms, max(delay_s) * 1000 AS max_ms "
        "FROM deliveries GROUP BY hops ORDER BY hops",
    ),
    (
        "What control traffic costs on each link",
        "SELECT u, v, sum(bytes) AS bytes FROM link_totals JOIN links USING (link) "
        "WHERE type IN ('RA', 'SR', 'UR') GROUP BY u, v ORDER BY bytes DESC",
    ),
    (
        "Messages on links by the value of an attribute",
        "SELECT coalesce(attributes['price'].double, attributes['price'].integer) AS price, "
        "count(*) AS crossings FROM frames WHERE kind = 'link' AND type = 'MSG' "
        "GROUP BY price ORDER BY price",
    ),
    (
        "How long routers took to forward a message",
        "SELECT i.node, median(o.time_ns - i.time_ns) / 1e6 AS median_ms FROM frames i JOIN frames o "
        "USING (node, type, issuer, seq, fragment_index) WHERE type = 'MSG' AND i.direction = 'to_router' "
        "AND o.direction = 'from_router' GROUP BY i.node ORDER BY median_ms DESC",
    ),
)


def document() -> str:
    """docs/tables.md."""
    lines = [
        "# Tables of a run",
        "",
        "Each is a folder `parquet/<table>/` of Parquet files. Times in seconds are experiment seconds since",
        "the first set_predicate was requested (wall seconds times the time scale), negative before it.",
        "`cbcb query RUN --tables` lists them, `cbcb query RUN 'SELECT ...'` asks them.",
    ]
    lines += ["", "Such as:"]
    for question, sql in EXAMPLES:
        lines += ["", question, "", "```", f'cbcb query RUN "{sql}"', "```"]
    for name, (row, columns) in TABLES.items():
        lines += ["", f"## {name}", "", f"One row a {row}.", "", "| column | meaning |", "|---|---|"]
        lines += [f"| `{column}` | {meaning} |" for column, meaning in columns.items()]
    return "\n".join(lines) + "\n"
