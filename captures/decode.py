"""From captured bytes to columns: the Ethernet and CBCB headers of a block of frames, decoded at once.

The fixed fields are taken by numpy; bodies of whole frames go through the codec, once for each distinct body,
so that a message is decoded once however many links it crosses. Fragments are checked by their headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.pcap import Block
from router.wire.addresses import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, ETHERTYPE
from router.wire.codec import decode_body
from router.wire.frames import VERSION, FrameType
from router.wire.header import HEADER_LENGTH, TYPE_NAMES, DecodeError, Header, decode_header

ETHERNET_LENGTH = 14
#: Node id that stands for the controller in `from_node` and `to_node`.
CONTROLLER = -1
#: Values of `direction` on a host link.
FROM_ROUTER, TO_ROUTER = "from_router", "to_router"

#: Column -> (Arrow type, Spark SQL type, meaning). Columns that hold a header field are null where the header
#: does not decode. `seq` holds the 64 bits of the unsigned field as a signed number.
COLUMNS: dict[str, tuple[pa.DataType, str, str]] = {
    "capture": (pa.string(), "string", "name of the capture"),
    "kind": (pa.string(), "string", "`link` (between two routers) or `host` (a router's own link)"),
    "link": (pa.int32(), "int", "index of the link; null on a host link"),
    "node": (pa.int32(), "int", "node of a host link; null on a link"),
    "direction": (pa.string(), "string", "on a host link `from_router` or `to_router`; null on a link"),
    "from_node": (pa.int32(), "int", "node that sent the frame, by its source address; -1: the controller"),
    "to_node": (
        pa.int32(),
        "int",
        "the other end of a link; on a host link its router, -1: the controller, null: see `destination`",
    ),
    "time_ns": (pa.int64(), "bigint", "when it was captured, ns since 1970 UTC"),
    "length": (pa.int32(), "int", "length on the wire in bytes, Ethernet header included"),
    "type": (pa.string(), "string", "frame type (MSG, RA, ...)"),
    "flags": (pa.int16(), "smallint", "flags"),
    "hop_limit": (pa.int16(), "smallint", "remaining hops"),
    "issuer": (pa.int64(), "bigint", "issuer (source of a MSG)"),
    "seq": (pa.int64(), "bigint", "sequence or request number, 64 bits, as a signed number"),
    "epoch": (pa.int64(), "bigint", "version of the broadcast tables"),
    "total_length": (pa.int64(), "bigint", "bytes of the whole body"),
    "fragment_index": (pa.int32(), "int", "index of the fragment, from 0"),
    "fragment_count": (pa.int32(), "int", "fragments of the whole body"),
    "destination": (pa.int64(), "bigint", "destination address as a 48-bit number"),
    "undecodable": (pa.string(), "string", "why the frame does not decode; null for a good frame"),
}
SCHEMA = pa.schema([(name, arrow) for name, (arrow, _, _) in COLUMNS.items()])
SPARK_SCHEMA = ", ".join(f"{name} {sql}" for name, (_, sql, _) in COLUMNS.items())

_FRAME_DTYPE = np.dtype(
    [
        ("destination_high", ">u2"),
        ("destination_low", ">u4"),
        ("source_prefix", ">u2"),
        ("source_node", ">u4"),
        ("ethertype", ">u2"),
        ("version", "u1"),
        ("type", "u1"),
        ("flags", "u1"),
        ("hop_limit", "u1"),
        ("issuer", ">u4"),
        ("seq", ">u8"),
        ("epoch", ">u4"),
        ("total_length", ">u4"),
        ("fragment_index", ">u2"),
        ("fragment_count", ">u2"),
        ("payload_length", ">u2"),
        ("reserved", ">u2"),
    ]
)
_FIXED_LENGTH = ETHERNET_LENGTH + HEADER_LENGTH
assert _FRAME_DTYPE.itemsize == _FIXED_LENGTH
_NODE_PREFIX = 0x02CB
_CONTROLLER_SOURCE = int.from_bytes(CONTROLLER_SOURCE, "big")
_CONTROLLER_DESTINATION = int.from_bytes(CONTROLLER_DESTINATION, "big")
#: Arrow takes small integers as indices into these.
_TYPE_LABELS = pa.array([TYPE_NAMES.get(number) for number in range(max(TYPE_NAMES) + 1)])
_DIRECTION_LABELS = pa.array([FROM_ROUTER, TO_ROUTER])

Mask = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CaptureIdentity:
    """Which capture a file is: a link between `u` and `v` with its index, or the host link of `node`."""

    name: str
    kind: str
    link: int | None = None
    u: int | None = None
    v: int | None = None
    node: int | None = None


def decode_block(block: Block, capture: CaptureIdentity) -> pa.RecordBatch:
    """The frames of a block as an Arrow batch with the columns of `SCHEMA`, in order."""
    count = len(block.start)
    frames = _fixed_part(block)
    reasons, header_ok = _check(block, frames)
    sender, known_sender = _senders(frames, block.captured >= ETHERNET_LENGTH)
    destination = (frames["destination_high"].astype(np.int64) << 32) | frames["destination_low"]

    columns: dict[str, pa.Array] = {
        "capture": _repeat(capture.name, pa.string(), count),
        "kind": _repeat(capture.kind, pa.string(), count),
        "link": _repeat(capture.link, pa.int32(), count),
        "node": _repeat(capture.node, pa.int32(), count),
        "time_ns": pa.array(block.time_ns),
        "length": pa.array(block.length.astype(np.int32)),
        "destination": pa.array(destination),
        "type": pa.DictionaryArray.from_arrays(
            pa.array(np.where(header_ok, frames["type"], 0).astype(np.int8)), _TYPE_LABELS
        ).cast(pa.string()),
    }
    if capture.kind == "link":
        known_sender, receiver, known_receiver = _between_routers(sender, known_sender, capture)
        columns["direction"] = _repeat(None, pa.string(), count)
    else:
        from_router = known_sender & (sender == capture.node)
        to_controller = from_router & (destination == _CONTROLLER_DESTINATION)
        receiver = np.where(to_controller, np.int64(CONTROLLER), np.int64(capture.node or 0))
        known_receiver = ~from_router | to_controller
        columns["direction"] = pa.DictionaryArray.from_arrays(
            pa.array(np.where(from_router, 0, 1).astype(np.int8)), _DIRECTION_LABELS
        ).cast(pa.string())
    for row in np.flatnonzero(~known_sender).tolist():
        reasons[row] = reasons[row] or "bad_source"
    columns["from_node"] = pa.array(sender, mask=~known_sender).cast(pa.int32())
    columns["to_node"] = pa.array(receiver, mask=~known_receiver).cast(pa.int32())
    columns["undecodable"] = pa.array(reasons, pa.string())
    for name in SCHEMA.names:
        if name not in columns:
            values = frames[name].astype(np.int64)
            columns[name] = pa.array(values, mask=~header_ok).cast(SCHEMA.field(name).type)
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _fixed_part(block: Block) -> Any:
    """Ethernet and CBCB header of each frame, as a structured array; bytes not captured are zero."""
    raw = np.frombuffer(block.data, dtype=np.uint8)
    offsets = np.arange(_FIXED_LENGTH)
    index = np.minimum(block.start[:, np.newaxis] + offsets, len(raw) - 1)
    fixed = np.where(offsets < block.captured[:, np.newaxis], raw[index], 0).astype(np.uint8)
    return np.ascontiguousarray(fixed).view(_FRAME_DTYPE).reshape(-1)


def _check(block: Block, frames: Any) -> tuple[list[str | None], Mask]:
    """Why each frame does not decode (None: it does), and which headers do."""
    total, here = frames["total_length"].astype(np.int64), frames["payload_length"].astype(np.int64)
    whole = (frames["fragment_count"] == 1) & (frames["fragment_index"] == 0) & (here == total)
    plain = (
        (block.captured >= _FIXED_LENGTH + here)
        & (frames["ethertype"] == ETHERTYPE)
        & (frames["version"] == VERSION)
        & (frames["type"] >= 1)
        & (frames["type"] < len(_TYPE_LABELS))
        & (frames["reserved"] == 0)
        & whole
    )
    reasons: list[str | None] = [None] * len(plain)
    header_ok = plain.copy()
    starts, captured = block.start.tolist(), block.captured.tolist()
    # Fragments and damaged frames are rare: the codec itself says what they are.
    for row in np.flatnonzero(~plain).tolist():
        payload = block.data[starts[row] + ETHERNET_LENGTH : starts[row] + captured[row]]
        try:
            if frames["ethertype"][row] != ETHERTYPE:
                reasons[row] = "bad_ethertype"
            else:
                decode_header(payload)
                header_ok[row] = True
        except DecodeError as error:
            reasons[row] = error.reason.value
    kinds, lengths = frames["type"].tolist(), here.tolist()
    for row in np.flatnonzero(plain).tolist():
        start = starts[row] + _FIXED_LENGTH
        reasons[row] = _body_defect(kinds[row], block.data[start : start + lengths[row]])
    return reasons, header_ok


@lru_cache(maxsize=16_384)
def _body_defect(kind: int, body: bytes) -> str | None:
    """Why the body of a whole frame does not decode; None if it does."""
    try:
        decode_body(Header(FrameType(kind), 0, 0, 0, 0, 0, len(body), 0, 1, len(body)), body)
    except DecodeError as error:
        return error.reason.value
    return None


def _senders(frames: Any, has_source: Mask) -> tuple[Int64s, Mask]:
    """Sending node of each frame by its source address (-1: the controller), and where it is one of ours."""
    prefix, low = frames["source_prefix"].astype(np.int64), frames["source_node"].astype(np.int64)
    controller = (prefix << 32 | low) == _CONTROLLER_SOURCE
    node = (prefix == _NODE_PREFIX) & (low < 2**31)
    return np.where(controller, CONTROLLER, low), has_source & (controller | node)


def _between_routers(
    sender: Int64s, known_sender: Mask, capture: CaptureIdentity
) -> tuple[Mask, Int64s, Mask]:
    """Where the sender is an end of the link, the other end, and where that is known (the same)."""
    u, v = np.int64(capture.u or 0), np.int64(capture.v or 0)
    at_an_end = known_sender & ((sender == u) | (sender == v))
    return at_an_end, np.where(sender == u, v, u), at_an_end


def _repeat(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
