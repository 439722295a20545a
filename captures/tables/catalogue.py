"""The tables under parquet/ in a run folder: the grain of each and its columns.

Data only.

A text of SQL (`captures.accounting.texts`) or an input (`captures.accounting.steps`) of its name makes each
table. Inputs take their Arrow schema from the catalogue (`Table.schema`); for the texts, a test holds what
both engines write against it. docs/reference/tables.md is made from it (`captures.tables.document`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from captures.frames.columns import COLUMNS

#: Units of times: on the clock of the machine, and in seconds of the experiment since its start.
UNIX_NS = "ns since 1970 UTC"
EXPERIMENT_S = "experiment s"
WALL_S = "wall s"
#: Ending of a column's name -> its unit, or the end of it; of several that fit, the first counts. A column
#: in a unit of time has one of these endings, and no other column has.
CLOCKS = {
    "_per_wall_s": f"/ {WALL_S}",
    "_wall_s": WALL_S,
    "_per_s": f"/ {EXPERIMENT_S}",
    "_s": EXPERIMENT_S,
    "_ms": "wall ms",
    "_us": "experiment us",
    "_ns": UNIX_NS,
}

#: Names of columns of several tables -> the meaning that they share. What a table says beside it is its own.
#: A name has one type and one unit in all tables.
NAMES = {
    "arrived_ns": "time at which a message arrived, that of its first frame",
    "bytes": "bytes on the wire of the frames that the row counts, Ethernet headers included",
    "cost": "cost of a link, or of the links of a path",
    "crossings": "crossings of links by the frames of the row",
    "decided": "the oracle decides on the delivery",
    "deliveries": "deliveries that the row counts",
    "epoch": "version of the broadcast tables",
    "event": "name of the event",
    "expected": "the oracle expects the delivery",
    "filters": "filters of the predicate",
    "frames": "Ethernet frames that the row counts; each fragment is one",
    "from_node": "the node that the row's frames or message came from; null: an unknown address",
    "hops": "links of a path",
    "incarnation": "start of a router, greater at each: the high 32 bits of `seq` of its messages and RAs",
    "issuer": "`issuer` of a frame's header",
    "last_ns": "time of the last event or frame that the row is about",
    "last_s": "time of the last event or frame that the row is about",
    "link": "index of the link",
    "message": "attributes of a message, in the readable notation",
    "node": "the node that the row is about; of a row with `app`, the node of that application",
    "part": "part of a router's state",
    "predicate": "predicate, in the readable notation",
    "requested_ns": "time at which a router read a request",
    "seq": "`seq` of a frame's header: 64 unsigned bits, stored as a signed number",
    "source": "node that sent the message, or whose messages the row is about",
    "t_ns": "time that the row is about",
    "t_s": "time that the row is about; of a curve, the end of the window",
    "to_node": "the node that the row's frames or message went to; null as `from_node`",
    "type": "frame type; `undecodable`: the header does not decode",
    "u": "an end of a link",
    "v": "the other end of a link",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        type: as Arrow reads it from the Parquet files.
        unit: unit of the values, or the objects that are counted; empty: neither applies.
        meaning: says also what null means.
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a run.

    Attributes:
        grain: the thing that one row describes.
        columns: in the order of the Parquet files.
        folders_by: the column by whose values the table is stored in folders; the files do not hold it.
    """

    name: str
    grain: str
    columns: tuple[Column, ...]
    folders_by: str | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return pa.schema([(column.name, column.type) for column in self.columns])


_INT, _LONG, _DOUBLE = pa.int32(), pa.int64(), pa.float64()
_TEXT, _FLAG, _INTS = pa.string(), pa.bool_(), pa.list_(pa.int32())


def _shared(name: str, type_: pa.DataType, unit: str = "") -> Column:
    """A column with the meaning that all tables share."""
    return Column(name, type_, NAMES[name], unit)


_LINK = _shared("link", _INT)
_FROM, _TO, _TYPE = _shared("from_node", _INT), _shared("to_node", _INT), _shared("type", _TEXT)
_DIRECTION = (_LINK, _FROM, _TO)
_FRAMES, _BYTES = _shared("frames", _LONG, "frames"), _shared("bytes", _LONG, "bytes")
_COUNTS = (_FRAMES, _BYTES)
_BIN = Column("bin_s", _DOUBLE, "start of the bin", EXPERIMENT_S)
_RATES = (
    Column("frames_per_s", _DOUBLE, "frames in the bin / length of the bin", "frames / experiment s"),
    Column("bytes_per_s", _DOUBLE, "bytes in the bin / length of the bin", "bytes / experiment s"),
)
_TIME_S, _TIME_NS = _shared("t_s", _DOUBLE, EXPERIMENT_S), _shared("t_ns", _LONG, UNIX_NS)
_CURVE = (_TIME_S, Column("fraction", _DOUBLE, "share in the window, 0 to 1", "1"))
_SOURCE, _SEQ = _shared("source", _LONG), _shared("seq", _LONG)
_MESSAGE = (_SOURCE, _SEQ)
_PARTS_OF_SEQ = (
    _shared("incarnation", _LONG),
    Column("number", _LONG, "low 32 bits of `seq`: the router's count since that start"),
)
_NODE, _EPOCH, _PREDICATE = _shared("node", _INT), _shared("epoch", _LONG), _shared("predicate", _TEXT)
_APP = Column("app", _TEXT, "name of the application")
_SENT = Column("sent_s", _DOUBLE, "time at which the application requested the sending", EXPERIMENT_S)
_SHORTEST = (
    Column(
        "shortest_hops",
        _INT,
        "links of the path with the fewest links, over all links of the topology",
        "links",
    ),
    Column("shortest_cost", _LONG, "cost of the cheapest path, over all links of the topology", "link cost"),
)


_WAYS = (
    Column("cbcb", _LONG, "crossings in the captures", "crossings"),
    Column("broadcast", _LONG, "crossings to every router, along the tree of the source", "crossings"),
    Column("unicast", _LONG, "crossings to each expecting router, on the path of least cost", "crossings"),
    Column(
        "minimal",
        _LONG,
        "crossings along the part of the tree of the source that leads to expecting routers",
        "crossings",
    ),
)


def _count(name: str, meaning: str, unit: str) -> Column:
    return Column(name, _LONG, meaning, unit)


#: Units of the columns of a captured frame (`captures.frames.columns`).
_FRAME_UNITS = {
    "time_ns": UNIX_NS,
    **dict.fromkeys(("length", "captured", "total_length", "payload_length"), "bytes"),
    "timeout_us": "experiment us",
}


def _frame_columns() -> tuple[Column, ...]:
    """The columns of a decoded frame, with the time and the name that other tables have for them."""
    columns = [
        Column(name, arrow, meaning, _FRAME_UNITS.get(name, ""))
        for name, (arrow, _, meaning) in COLUMNS.items()
    ]
    places = {column.name: place for place, column in enumerate(columns)}
    sender = "of a MSG: node that sent the message, as `issuer`; null: another type"
    columns.insert(places["issuer"] + 1, Column("source", _LONG, sender))
    columns.insert(places["time_ns"] + 1, Column("time_s", _DOUBLE, "when it was captured", EXPERIMENT_S))
    return tuple(columns)


_SUBSCRIPTION = Column(
    "subscription", _LONG, "number of the subscription at its home; an unsigned number with the same bits"
)

_PIECE = pa.struct([("start_ns", _LONG), ("experiment_s", _DOUBLE), ("rate", _DOUBLE)])

_ROWS = (
    Table(
        "run",
        "run, that is a single row",
        (
            Column("experiment", _TEXT, "name of the experiment; null: the manifest has none"),
            Column("seed", _LONG, "seed of all that is drawn; null: the manifest has none"),
            Column("datapath", _TEXT, "`kernel` or `user`; `simulated` of a simulation"),
            _count("start_ns", "time zero: wall time of experiment second 0", UNIX_NS),
            _count(
                "last_ns",
                "time of the last record of applications and of the attention-limited service; 0: no record",
                UNIX_NS,
            ),
            Column("last_s", _DOUBLE, "as `last_ns`; null: no record", EXPERIMENT_S),
            Column(
                "time_scale",
                _DOUBLE,
                "experiment seconds per wall second, from second 0 to the last event: the mean where the "
                "rate changed",
                "1",
            ),
            Column(
                "width_s",
                _DOUBLE,
                "width of the time bins of all tables: the least of 1, 2 or 5 times a power of ten, 0.1 or "
                "more, with at most 300 widths from second 0 to `last_s`",
                EXPERIMENT_S,
            ),
            Column(
                "clock",
                pa.list_(_PIECE),
                "pieces of the experiment clock in force, in order: wall time at the start of a piece (ns "
                "since 1970 UTC), experiment second then, and experiment seconds per wall second",
            ),
        ),
    ),
    Table("link_bins", "link, direction, type and time bin", (*_DIRECTION, _TYPE, _BIN, *_COUNTS, *_RATES)),
    Table("link_totals", "link, direction and type", (*_DIRECTION, _TYPE, *_COUNTS)),
    Table(
        "link_utilisation",
        "captured link, direction and time bin from second 0 to the last event of the run, whether it is "
        "idle or not; and each bin outside of that time in which the direction carried a frame",
        (
            *_DIRECTION,
            _BIN,
            _BYTES,
            Column(
                "bits_per_wall_s",
                _DOUBLE,
                "bits of the frames per wall second: bandwidth is not scaled with the time",
                "bits / wall s",
            ),
            Column(
                "utilisation",
                _DOUBLE,
                "share of the bandwidth, 0 to 1, without preamble, check sequence and gap; null: the "
                "topology declares no bandwidth",
                "1",
            ),
        ),
    ),
    Table("type_bins", "type and time bin, over all links between routers", (_TYPE, _BIN, *_COUNTS, *_RATES)),
    Table(
        "talkers",
        "router and frame type, on the links between routers and their switches",
        (
            _NODE,
            _TYPE,
            _count("frames_sent", "frames sent; a frame to several neighbours leaves once", "frames"),
            _count("bytes_sent", "bytes of the frames sent", "bytes"),
            _count("frames_received", "frames that reached the router", "frames"),
            _count("bytes_received", "bytes of the frames received", "bytes"),
        ),
    ),
    Table(
        "captures",
        "capture",
        (
            Column("capture", _TEXT, "name of the capture"),
            Column("kind", _TEXT, "`link` (between two routers) or `host` (a router's own link)"),
            Column("link", _INT, "index of the link; null on a host link"),
            Column("node", _INT, "node of a host link; null on a link"),
            _count("frames_written", "frames that the capture wrote, by its own count", "frames"),
            _count(
                "received_by_filter",
                "frames of the protocol that the device had; null: the capture's writer counts none",
                "frames",
            ),
            _count("dropped_by_kernel", "frames that the device had and the capture lost", "frames"),
            Column("defect", _TEXT, "where and how the file ends inside a record; null: the file is whole"),
            *_COUNTS,
            _count("frames_undecodable", "frames that do not decode", "frames"),
            Column("first_s", _DOUBLE, "time of the first frame; null: the file holds none", EXPERIMENT_S),
            Column("last_s", _DOUBLE, "time of the last frame; null: the file holds none", EXPERIMENT_S),
        ),
    ),
    Table(
        "messages",
        "message sent",
        (
            *(*_MESSAGE, *_PARTS_OF_SEQ, _SENT),
            _shared("message", _TEXT),
            _count("deliveries_expected", "applications that should receive the message", "applications"),
            _count("delivered", "applications that received the message", "applications"),
            _count("missed", "applications where it was expected and not delivered", "applications"),
            _count("missed_decided", "missed applications on which the oracle decides", "applications"),
            _count("spurious", "applications where it was delivered, decided, not expected", "applications"),
            _count("duplicates", "deliveries beyond the first to an application", "deliveries"),
        ),
    ),
    Table(
        "arrivals",
        "message at a router that it reached over links; of a message that arrived over several links, the "
        "arrival on the tree of the source, else the first",
        (
            _SOURCE,
            _NODE,
            _SEQ,
            Column("from_node", _INT, "the neighbour that sent the message"),
            _LINK,
            _count(
                "arrived_ns", "time of the first frame of the message in the capture of that link", UNIX_NS
            ),
            Column(
                "hops",
                _INT,
                "links on the path from the source; null: no capture shows one of the hops",
                "links",
            ),
            Column("cost", _LONG, "cost of that path; null as `hops`", "link cost"),
            *_SHORTEST,
        ),
    ),
    Table(
        "hops",
        "message, router that sent it over a link and router that it reached, by the captures of host links; "
        "of several times, the first",
        (
            *_MESSAGE,
            Column("from_node", _INT, "router that sent the message"),
            Column("to_node", _INT, "router that the message reached"),
            _LINK,
            _count(
                "departed_ns",
                "time of the first fragment in the capture of the host link of `from_node`, the last time up "
                "to `arrived_ns`; null: it shows none",
                UNIX_NS,
            ),
            _count(
                "arrived_ns",
                "time of the first fragment in the capture of the host link of `to_node`",
                UNIX_NS,
            ),
            Column("arrived_s", _DOUBLE, "as `arrived_ns`", EXPERIMENT_S),
            Column(
                "handling_wall_s",
                _DOUBLE,
                "in `from_node`: from the last frame of the message that came from the parent on the "
                "source's tree (at the source: from the application's request) until `departed_ns`; or null",
                WALL_S,
            ),
            Column(
                "latency_wall_s",
                _DOUBLE,
                "of the link and its switches: from `departed_ns` to `arrived_ns`; null: not known",
                WALL_S,
            ),
        ),
    ),
    Table(
        "processed",
        "message at a router, from a neighbour or from an application of its own; empty unless all host "
        "links were captured",
        (
            _NODE,
            *_MESSAGE,
            Column("t_s", _DOUBLE, "time of the first frame, or of the request to send", EXPERIMENT_S),
            _count("t_ns", "time of the first frame, or of the request to send", UNIX_NS),
            Column("from_network", _FLAG, "the message came from a neighbour"),
            Column(
                "false_positive",
                _FLAG,
                "the router neither forwarded the message nor delivered it to an application",
            ),
        ),
    ),
    Table(
        "savings",
        "message of which the broadcast tree is known: its crossings of links, and those of other ways to "
        "distribute it; a message of several frames counts once",
        (
            *_MESSAGE,
            _count("receivers", "routers with an application that expects the message", "routers"),
            *_WAYS,
        ),
    ),
    Table(
        "link_savings",
        "link and direction: the columns of `savings`, over all messages",
        (*_DIRECTION, *_WAYS),
    ),
    Table(
        "deliveries",
        "message and application that it was delivered to",
        (
            *(*_MESSAGE, _NODE, _APP, _SENT),
            Column(
                "delay_wall_s",
                _DOUBLE,
                "from the application's request to send until the first delivery",
                WALL_S,
            ),
            _count("times", "deliveries to the application; more than 1 is a fault", "deliveries"),
            *(_shared("expected", _FLAG), _shared("decided", _FLAG)),
            Column(
                "hops", _INT, "links on the path taken, 0 at the sending node; null as in `arrivals`", "links"
            ),
            _count("cost", "cost of the path taken; null as `hops`", "link cost"),
            *_SHORTEST,
        ),
    ),
    Table(
        "predicates",
        "predicate that an application had in force",
        (
            *(_NODE, _APP),
            _PREDICATE,
            _shared("filters", _INT, "filters"),
            Column("from_s", _DOUBLE, "time at which the router had confirmed it", EXPERIMENT_S),
            Column(
                "until_s",
                _DOUBLE,
                "time at which the next predicate was confirmed, or of the last event of the run",
                EXPERIMENT_S,
            ),
            _count(
                "deliveries", "deliveries to the application in between, repeated ones included", "deliveries"
            ),
        ),
    ),
    Table(
        "predicate_changes",
        "change of the predicate of an application",
        (
            *(_NODE, _APP),
            Column("t_s", _DOUBLE, "time at which the router had confirmed the change", EXPERIMENT_S),
            _count("t_ns", "time at which the router had confirmed the change", UNIX_NS),
            _count("requested_ns", "time at which the router read the request", UNIX_NS),
            Column("predicate", _TEXT, "the whole predicate in force after the change"),
            Column("filters", _INT, "filters of the predicate; 0: it was withdrawn", "filters"),
            Column("issuer", _LONG, "as `node`, for a join with `advertisements`"),
            Column(
                "seq",
                _LONG,
                "sequence number of the RA that the change caused: the first that its router issued after "
                "the request, which may answer several changes; the first RA of a router answers all "
                "changes before it; a change to no predicate causes an RA without a filter, or none. Null: "
                "none was captured, or none was caused, as where other predicates of the node cover the "
                "change. Not caused: an RA that repeats the predicate of the RA before, as for a new "
                "epoch; an RA 0.1 wall s or more (and `ra_min_interval_s`, 20 times that with exponential "
                "timers, and `ra_jitter_s`) after the change where another change precedes the RA or the "
                "run is private",
            ),
        ),
    ),
    Table(
        "advertisements",
        "RA that a router issued",
        (
            Column("issuer", _LONG, "router that issued the RA"),
            *(_SEQ, *_PARTS_OF_SEQ),
            _EPOCH,
            Column(
                "predicate",
                _TEXT,
                "in the readable notation; of a private run, the number of filters: `encoded, 2 filters`",
            ),
            Column(
                "cause",
                _TEXT,
                "`predicate`: a change in `predicate_changes`; `epoch`: new broadcast trees; null: "
                "neither, such as a periodic RA; where both fit, `predicate`",
            ),
            _count("changes", "changes of predicates that the RA answers", "changes"),
            Column("t_s", _DOUBLE, "time of its first frame in any capture", EXPERIMENT_S),
            _count("first_ns", "time of its first frame in any capture", UNIX_NS),
            _count("last_ns", "time of its last frame in any capture", UNIX_NS),
            _count(
                "routers",
                "routers that it reached, by the captures of host links; null unless all were captured",
                "routers",
            ),
            *(replace(_FRAMES, meaning="its frames on links; each fragment is one"), _BYTES),
        ),
    ),
    Table(
        "advertised",
        "predicate and type (RA or UR) on links; the fragments of a frame count as one frame",
        (
            Column("type", _TEXT, "`RA` or `UR`"),
            _PREDICATE,
            _count("issuers", "nodes that issued the predicate", "nodes"),
            _count("crossings", "crossings of links", "frames"),
            _count("body_bytes", "bytes of the bodies, over all crossings", "bytes"),
        ),
    ),
    Table(
        "repeated_frames",
        "MSG frame that crossed a link more than once in one direction: evidence of a loop",
        (
            *(_LINK, _FROM),
            *_MESSAGE,
            Column("fragment_index", _INT, "index of the fragment, from 0"),
            _count("crossings", "crossings of the link, 2 or more", "frames"),
        ),
    ),
    Table(
        "false_negative_curve",
        "point: missed / expected deliveries, window 0.25 s and at least 10 ms wall (paper, figure 11)",
        _CURVE,
    ),
    Table(
        "false_positive_curve",
        "point: false positives among all messages at routers, those of own applications included, window "
        "120 s (paper, section 4.2, figure 12)",
        _CURVE,
    ),
    Table(
        "control_share_curve",
        "point: (RA + SR + UR) / (MSG + RA + SR + UR) frames on links, window 120 s (paper, figure 13)",
        (*_CURVE, Column("ra_fraction", _DOUBLE, "share of RA frames alone", "1")),
    ),
    Table(
        "control_rate_curve",
        "point, every 2 s: rate of frames on links, mean over 120 s (paper, figure 14)",
        (
            _TIME_S,
            Column("msg_per_s", _DOUBLE, "MSG frames", "frames / experiment s"),
            Column("ra_per_s", _DOUBLE, "RA frames", "frames / experiment s"),
            Column("sr_ur_per_s", _DOUBLE, "SR and UR frames together", "frames / experiment s"),
        ),
    ),
    Table(
        "private_deliveries",
        "message that a router delivered to a member of a private network",
        (
            *_MESSAGE,
            _NODE,
            _APP,
            Column("t_s", _DOUBLE, "when the application had read the message", EXPERIMENT_S),
            Column(
                "discard_cause", _TEXT, "why the application discarded the message; null: it kept the message"
            ),
        ),
    ),
    Table(
        "subscriptions",
        "round of an attention-limited subscription, with the oracle's judgement; the oracle's file has the "
        "exact definitions (docs/reference/run-folder.md)",
        (
            Column("node", _INT, "home of the subscription"),
            _APP,
            _SUBSCRIPTION,
            Column("round", _INT, "number of the round, from 0"),
            _PREDICATE,
            _count("max", "greatest number of publications of the round", "publications"),
            Column("begin_s", _DOUBLE, "registration or refresh", EXPERIMENT_S),
            Column("lifetime_s", _DOUBLE, "length of the round", EXPERIMENT_S),
            Column("freshness_s", _DOUBLE, "greatest age of a publication", EXPERIMENT_S),
            Column("outcome", _TEXT, "`satisfied`, `starved`, `short`, `open` or `withdrawn`"),
            _count("got", "N_S: publications delivered", "publications"),
            _count("got_remote", "of them, those that another router sent", "publications"),
            _count("matching", "M_S: matching publications uploaded in the lifetime", "publications"),
            _count(
                "eligible",
                "matching publications that were fresh at some time of the lifetime, also if uploaded before "
                "it, and not delivered in an earlier round",
                "publications",
            ),
            Column("filled_s", _DOUBLE, "until `max` were delivered; null: never", EXPERIMENT_S),
        ),
    ),
    Table(
        "publications",
        "publication uploaded to the attention-limited service",
        (
            *(*_MESSAGE, *_PARTS_OF_SEQ),
            Column("uploaded_s", _DOUBLE, "time of the upload", EXPERIMENT_S),
            _shared("message", _TEXT),
            _count("deliveries", "deliveries to subscriptions, each at most once", "deliveries"),
            _count("deliveries_remote", "of them, those whose router got it from another", "deliveries"),
            _count("homes", "routers that delivered it", "routers"),
        ),
    ),
    Table(
        "publication_deliveries",
        "delivery of a publication to an attention-limited subscription",
        (
            *_MESSAGE,
            Column("node", _INT, "home of the subscription"),
            _APP,
            _SUBSCRIPTION,
            Column("round", _INT, "number of the round, from 0"),
            Column("t_s", _DOUBLE, "when the home delivered it", EXPERIMENT_S),
            Column(
                "age_s",
                _DOUBLE,
                "time since the upload as frames have told, without the time on links",
                EXPERIMENT_S,
            ),
            Column(
                "whence",
                _TEXT,
                "`upload`: uploaded at the home at that moment; `ppt`, `dpt`, `opt`: from that index of the "
                "home; `remote`: another router sent it",
            ),
        ),
    ),
    Table(
        "index_changes",
        "change of the index of a router that references a publication; with `record_caches` alone",
        (
            *_MESSAGE,
            _NODE,
            _TIME_S,
            Column("before", _TEXT, "`ppt`, `dpt` or `opt`; null: in no index"),
            Column("after", _TEXT, "as `before`"),
            Column("transition", _TEXT, "row of the table of transitions, or `evicted`, `flushed`"),
        ),
    ),
    Table(
        "cache_bins",
        "router, index and time bin in which the index changed or was used; with `record_caches` alone",
        (
            _NODE,
            Column("index", _TEXT, "`ppt`, `dpt` or `opt`"),
            _BIN,
            _count("size", "publications in the index at the end of the bin", "publications"),
            _count("entered", "publications that entered the index", "publications"),
            _count("left", "publications that left the index", "publications"),
            _count("evicted", "of them, those that were replaced", "publications"),
            _count("hits", "deliveries that the index served", "deliveries"),
        ),
    ),
    Table(
        "attention_curve",
        "point: the attention-limited service in the time bin that ends there",
        (
            _TIME_S,
            Column("publications_per_s", _DOUBLE, "uploads", "publications / experiment s"),
            Column("registrations_per_s", _DOUBLE, "registrations and refreshes", "1 / experiment s"),
            Column("deliveries_per_s", _DOUBLE, "deliveries to subscriptions", "deliveries / experiment s"),
            Column("remote_fraction", _DOUBLE, "of them, those that another router served; null: none", "1"),
            Column("satisfied_fraction", _DOUBLE, "of the rounds that ended, satisfied; null: none", "1"),
            Column("starved_fraction", _DOUBLE, "of the rounds that ended, starved; null: none", "1"),
        ),
    ),
    Table(
        "frames",
        "captured frame; stored in one folder a type",
        _frame_columns(),
        folders_by="type",
    ),
    Table(
        "applications",
        "event of an application (logs/applications/)",
        (
            *(_TIME_S, _TIME_NS),
            Column(
                "requested_ns",
                _LONG,
                "time at which the router read the request, or noticed the end of the connection; null for "
                "`connect`, `deliver`, `discard` and `lose`",
                UNIX_NS,
            ),
            *(_NODE, _APP),
            Column(
                "event",
                _TEXT,
                "`connect`, `set_predicate`, `subscribe`, `unsubscribe`, `send_message`, `deliver`, "
                "`discard` (by a member of a private network), `lose` (a delivery that found the connection "
                "broken) or `disconnect`",
            ),
            replace(_SOURCE, meaning=f"{_SOURCE.meaning}; null: the event is about no message"),
            replace(_SEQ, meaning=f"{_SEQ.meaning}; null: the event is about no message"),
            Column(
                "text",
                _TEXT,
                "the whole predicate in force after a change, the message that was sent, or the cause of a "
                "discard; null otherwise",
            ),
        ),
    ),
    Table(
        "oracle",
        "message and application where the oracle expects a delivery or leaves it open (oracle.jsonl)",
        (
            *_MESSAGE,
            Column("sent_ns", _LONG, "time at which the application requested the sending", UNIX_NS),
            *(_NODE, _APP),
            Column("expected", _FLAG, "the message should be delivered to the application"),
            Column("decided", _FLAG, "false: a change lay too close to the sending to decide"),
        ),
    ),
    Table(
        "schemes",
        "router, part of its memory and unit, at the end of the run",
        (
            _NODE,
            Column("scheme", _TEXT, "routing scheme of the experiment"),
            Column(
                "part",
                _TEXT,
                "`local`: p0; `forwarding`: what messages are matched against, for all sources; "
                "`forwarding_senders`: of it, for the sources that sent messages; `rib`: predicates of nodes "
                "kept beside it; `broadcast`: the last TABLE; `unicast`: next hops to all nodes, if they "
                "were kept; `engine`: tables of the matching engine",
            ),
            Column(
                "unit", _TEXT, "`filters`, `constraints`, `bytes` (of predicates: as sent in an RA), `bits`"
            ),
            Column("value", _LONG, "how many of the unit"),
        ),
    ),
    Table(
        "controller",
        "event of the controller (logs/controller.jsonl)",
        (
            *(_TIME_S, _TIME_NS),
            _shared("event", _TEXT),
            Column("epoch", _LONG, "epoch that the event is about; null: none"),
            Column("node", _INT, "node that the event is about; null: none"),
            Column("u", _INT, "an end of the link that the event is about; null: no link"),
            Column("v", _INT, "the other end of the link; null: no link"),
            Column("details", _TEXT, "the other fields of the event, as JSON; null: it has no others"),
        ),
    ),
    Table(
        "trees",
        "epoch, router and source of messages: the router's part in the tree of the source, from the "
        "captured TABLE frame",
        (
            _EPOCH,
            _NODE,
            Column("source", _LONG, "root of the tree"),
            Column("parent", _INT, "neighbour towards the source; null at the source"),
            Column("parent_interface", _INT, "interface towards the source; 0 at the source"),
            Column("children", _INTS, "neighbours that the router may forward the source's frames to"),
            Column("child_interfaces", _INTS, "interfaces towards the children, in the order of `children`"),
            Column(
                "off_tree", _INTS, "children that drop the frames of this router (reverse-path forwarding)"
            ),
            Column(
                "told_ns",
                _LONG,
                "time of the first TABLE frame that carried the entry to the router",
                UNIX_NS,
            ),
        ),
    ),
    Table(
        "routing_tables",
        "row of the routing table of a router at the end of the run (logs/tables.json)",
        (
            _NODE,
            Column(
                "interface",
                _INT,
                "interface that messages leave by; 0: applications; null: no single one",
            ),
            Column("scope", _TEXT, "the messages that the row is about; empty: all"),
            Column("predicate", _TEXT, "in the readable notation: the messages that leave by the interface"),
            Column(
                "part",
                _TEXT,
                "`local`: p0; `forwarding`; `rib`: predicates of nodes beside the forwarding state",
            ),
        ),
    ),
    Table(
        "shortest_paths",
        "source of a message and other node, over all links of the topology",
        (Column("source", _LONG, "the source"), Column("node", _INT, "the other node"), *_SHORTEST),
    ),
    Table(
        "links",
        "link of the topology",
        (
            _LINK,
            *(_shared("u", _INT), _shared("v", _INT)),
            Column("u_port", _INT, "interface of the link at `u`"),
            Column("v_port", _INT, "interface of the link at `v`"),
            Column("cost", _LONG, "cost, of which broadcast trees minimise the sum", "link cost"),
            Column(
                "bandwidth_mbps", _DOUBLE, "bandwidth in each direction; null: not limited", "Mbit / wall s"
            ),
            Column("delay_ms", _DOUBLE, "delay in each direction; null: none", "wall ms"),
            Column("loss_percent", _DOUBLE, "loss in each direction; null: none", "% of the frames"),
        ),
    ),
    Table(
        "nodes",
        "node of the topology",
        (
            _NODE,
            Column("x", _DOUBLE, "abscissa on the generator's plane; null: the topology gives no places"),
            Column("y", _DOUBLE, "ordinate on the generator's plane; null: the topology gives no places"),
            Column("name", _TEXT, "name of the node; null: it has none"),
        ),
    ),
)

#: The tables of a run, by name, in the order of docs/reference/tables.md.
TABLES: dict[str, Table] = {table.name: table for table in _ROWS}
