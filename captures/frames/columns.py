"""The columns of the views of captures, from columns.toml, and what view `traffic` counts.

`attributes` holds a message's attributes by name, each as a struct with one field a type of the protocol, of
which the one that the attribute has is set: `attributes['price'].integer < 300`. Types stay apart as in
the predicates, and no value is changed. A further field, `number`, has an integer or a double as a double, to
which an integer beyond 2^53 is rounded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

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


#: Types of columns.toml that have no name of Arrow's.
_TYPES = {
    "time": pa.timestamp("us", "UTC"),
    "list<int32>": pa.list_(pa.int32()),
    "list<int64>": pa.list_(pa.int64()),
    "attributes": ATTRIBUTES,
    "attention": ATTENTION,
}


_FLAGS = ", ".join(f"{flag.value}: {flag.name}" for flag in Flags)


def _described(columns: Mapping[str, Any]) -> Columns:
    return {
        name: COLUMNS[name]
        if entry == "frames"
        else (_TYPES.get(entry[0]) or pa.type_for_alias(entry[0]), entry[1].format(flags=_FLAGS))
        for name, entry in columns.items()
    }


_FILE = tomllib.loads(files(__package__).joinpath("columns.toml").read_text(encoding="utf-8"))
#: The columns of view `frames`, and of the other views.
COLUMNS: Columns = _described(_FILE["frames"])
TRAFFIC_COLUMNS, PACKET_COLUMNS, FILE_COLUMNS = (
    _described(_FILE[view]) for view in ("traffic", "packets", "files")
)
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
_OF_FRAMES = tuple(name for name in TRAFFIC_COLUMNS if name in COLUMNS)
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
