"""The columns of a decoded frame, one row a captured frame, and of view `traffic`, which counts frames.

`attributes` holds a message's attributes by name, each as a struct with one field a type of the protocol, of
which the one that the attribute has is set: `attributes['price'].integer < 300`. Types stay apart as in
the predicates, and no value is changed. A further field, `number`, has an integer or a double as a double, to
which an integer beyond 2^53 is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from router.wire.format import STANDS_FOR, Flags, FrameType

#: Number of a frame type -> value of `type`: an encoded frame has the type of the frame in whose place it is.
TYPES = {int(type_): STANDS_FOR.get(type_, type_).name for type_ in FrameType}
#: The same for Arrow, by number.
TYPE_LABELS = pa.array([TYPES.get(number) for number in range(max(TYPES) + 1)])
#: Node id that stands for the controller in `from_node` and `to_node`.
CONTROLLER = -1
#: Values of `direction` on a host link.
FROM_ROUTER, TO_ROUTER = "from_router", "to_router"
#: Values of `fragment`.
WHOLE, PARTIAL, COMPLETING = "whole", "partial", "completing"

#: Type of an attribute -> Arrow type; fields of a value in `attributes`.
VALUE_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
#: The field with an integer or a double as a double, for queries that compare or sum values of either type.
NUMBER = pa.field("number", pa.float64())
VALUE = pa.struct([*VALUE_TYPES.items(), NUMBER])
ATTRIBUTES = pa.map_(pa.string(), VALUE)
_OFFERED = pa.struct([("source", pa.int64()), ("seq", pa.int64())])
#: Fields of a body of the attention-limited service.
ATTENTION = pa.struct(
    [
        *((name, pa.int64()) for name in ("round", "nonce", "remaining", "lifetime_left_us", "freshness_us")),
        ("offered", pa.list_(_OFFERED)),
        *((name, pa.int64()) for name in ("source", "seq", "age_us")),
        ("flags", pa.int16()),
    ]
)
#: Column -> (Arrow type, meaning).
Columns = Mapping[str, tuple[pa.DataType, str]]
#: Arrow type -> that of Spark SQL, where the name is another.
_SPARK = {"int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


def spark_type(arrow: pa.DataType) -> str:
    """The type of Spark SQL for a type of these columns."""
    if pa.types.is_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)}, {spark_type(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in arrow)}>"
    return "timestamp" if pa.types.is_timestamp(arrow) else _SPARK.get(str(arrow), str(arrow))


#: Columns that hold a header field are null where the header does not decode. `seq` holds the 64 bits of the
#: unsigned field as a signed number.
COLUMNS: Columns = {
    "capture": (pa.string(), "name of the capture"),
    "kind": (pa.string(), "`link` (between two routers) or `host` (a router's own link)"),
    "link": (pa.int32(), "index of the link; null on a host link"),
    "node": (pa.int32(), "node of a host link; null on a link"),
    "direction": (pa.string(), "on a host link `from_router` or `to_router`; null on a link"),
    "from_node": (pa.int32(), "node that sent the frame, by its source address; -1: the controller"),
    "to_node": (
        pa.int32(),
        "the other end of a link; on a host link its router, -1: the controller, null: see `destination`",
    ),
    "packet": (pa.int64(), "number of the packet in its file, from 1; null: unknown"),
    "time": (pa.timestamp("us", "UTC"), "`time_ns` as a time of Spark, in whole microseconds"),
    "time_ns": (pa.int64(), "when it was captured, ns since 1970 UTC"),
    "length": (pa.int64(), "length on the wire in bytes, link header included"),
    "captured": (pa.int32(), "bytes of it in the capture; fewer than `length`: cut by the snapshot length"),
    "destination": (pa.int64(), "Ethernet destination address as a 48-bit number; null if cut off"),
    "source_address": (pa.int64(), "Ethernet source address as a 48-bit number; null if cut off"),
    "ethertype": (pa.int32(), "Ethernet type; 35,003 (0x88B5) is CBCB; null if cut off"),
    "version": (pa.int16(), "version of the frame format"),
    "type": (
        pa.string(),
        "frame type (MSG, RA, ...); an XMSG is a MSG, an XRA an RA, an XUR a UR, and `encoded` says so",
    ),
    "encoded": (
        pa.bool_(),
        "the frame is an XMSG, XRA or XUR, which routers cannot read (docs/explanation/privacy.md)",
    ),
    "flags": (
        pa.int16(),
        f"flags as sent ({', '.join(f'{flag.value}: {flag.name}' for flag in Flags)}; "
        "docs/reference/wire-format.md)",
    ),
    "hop_limit": (pa.int16(), "remaining hops"),
    "issuer": (pa.int64(), "issuer (source of a MSG)"),
    "seq": (pa.int64(), "sequence or request number, 64 bits, as a signed number"),
    "epoch": (pa.int64(), "version of the broadcast tables"),
    "total_length": (pa.int64(), "bytes of the whole body"),
    "fragment_index": (pa.int32(), "index of the fragment, from 0"),
    "fragment_count": (pa.int32(), "fragments of the whole body"),
    "payload_length": (pa.int32(), "bytes of the body in this frame"),
    "fragment": (
        pa.string(),
        "state of the body: `whole` (in this frame), `partial` (a fragment, others are missing yet), "
        "`completing` (the fragment that made it whole: the columns below are those of the whole "
        "body)",
    ),
    "destinations": (
        pa.list_(pa.int64()),
        "of a MSG or PUB that names them (a MSG of the scheme `drp`): the nodes that this frame is "
        "for, in ascending order; a router that sends the message on names those beyond each "
        "neighbour",
    ),
    "attributes": (
        ATTRIBUTES,
        "of a MSG, PUB or FLUSH: name -> value, of whose fields `string`, `integer`, `double`, "
        "`boolean` one is set; `number` is an integer or double as a double; null of an encoded MSG",
    ),
    "predicate": (
        pa.string(),
        "of an RA, UR or SUB: the predicate in the readable notation, of a UR without its classes; of"
        " an encoded RA or UR a note such as `encoded, 2 filters`",
    ),
    "timeout_us": (pa.int64(), "of an SR: how long its issuer waits, in microseconds"),
    "incarnation": (
        pa.int64(),
        "of a HELLO: start of its router, as in `seq` of its MSG and RA; seconds since 1970 in an emulation",
    ),
    "oldest_epoch": (pa.int64(), "of a COMMIT: the oldest epoch that is still forwarded"),
    "acknowledged": (
        pa.string(),
        "of an ACK or RECEIPT: the type of the frame that is acknowledged, as in `type`",
    ),
    "attention": (
        ATTENTION,
        "of a SUB, PUB, OVERLOAD or FLUSH: fields of its body (docs/reference/wire-format.md), each "
        "null if the body has none. `remaining`: publications still lacking; `offered`: those that "
        "the subscription has or was offered; `source`, `seq` and `age_us` of a publication; `flags`:"
        " 1 of a PUB is PENDING. A `seq` from 2^63 on is the negative number of the same 64 bits; a "
        "greater lifetime, freshness or age is 2^63 - 1",
    ),
    "undecodable": (
        pa.string(),
        "why the frame does not decode; null: it decodes, or is a fragment. With `bad_source`, other "
        "columns are those of the frame",
    ),
}
#: Columns made of the body, which cost most: a reader that does without them leaves them out of its schema.
BODY_COLUMNS = (
    *("destinations", "attributes", "predicate", "timeout_us", "incarnation", "oldest_epoch", "acknowledged"),
    "attention",
)
SCHEMA = pa.schema([(name, arrow) for name, (arrow, _) in COLUMNS.items()])


def type_of(name: str) -> str:
    """The value of `type` of the frames that a counter of routers has under `name`."""
    return TYPES[FrameType[name]] if name in FrameType.__members__ else name


#: Columns with one value for all frames of a group.
_OF_FRAMES = ("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type")
TRAFFIC_COLUMNS: Columns = {
    **{name: COLUMNS[name] for name in _OF_FRAMES},
    "bin_ns": (pa.int64(), "start of the time bin, ns since 1970 UTC; null: the file gives no time"),
    "frames": (pa.int64(), "frames; sum over the rows of a bin"),
    "bytes": (pa.int64(), "their bytes on the wire; sum over the rows of a bin"),
    "frames_undecodable": (pa.int64(), "those of the frames that do not decode; sum over the rows of a bin"),
}
#: The columns of frames of which `traffic` makes its rows.
COUNTED_COLUMNS = (*_OF_FRAMES, "time_ns", "length", "undecodable")


def traffic(frames: pa.RecordBatch, columns: Sequence[str], bin_ns: int) -> pa.RecordBatch:
    """Some of `TRAFFIC_COLUMNS`, a row for each group of frames with equal `_OF_FRAMES` in a bin of `bin_ns`.

    The tasks that decode frames count them, so that few rows reach Spark. The rows of a file are parts of
    sums: each batch of frames may have rows of the same bin.

    Args:
        frames: with the columns `COUNTED_COLUMNS`.
    """
    time_ns = frames.column("time_ns")
    bins = time_ns.fill_null(0).to_numpy() // bin_ns * bin_ns
    table = pa.table(frames).append_column("bin_ns", pa.array(bins, mask=time_ns.is_null().to_numpy(False)))
    counts = (
        table.group_by([*_OF_FRAMES, "bin_ns"])
        .aggregate([([], "count_all"), ("length", "sum"), ("undecodable", "count")])
        .rename_columns(
            {"count_all": "frames", "length_sum": "bytes", "undecodable_count": "frames_undecodable"}
        )
    )
    return counts.select(list(columns)).combine_chunks().to_batches()[0]
