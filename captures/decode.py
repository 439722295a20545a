"""From captured bytes to columns: the Ethernet and CBCB headers of a block of frames, decoded at once.

The fixed fields are taken by numpy; bodies go through the codec, once for each distinct body, so that a
message is decoded once however many links it crosses. Fragments are put together again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.bodies import NOTHING, BodyValues, body_columns, body_values
from captures.columns import (
    COLUMNS,
    COMPLETING,
    CONTROLLER,
    FROM_ROUTER,
    PARTIAL,
    SCHEMA,
    SPARK_SCHEMA,
    TO_ROUTER,
    WHOLE,
)
from captures.pcap import Block
from router.wire.addresses import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, ETHERTYPE
from router.wire.fragments import Reassembler
from router.wire.frames import VERSION
from router.wire.header import HEADER_LENGTH, TYPE_NAMES, DecodeError, decode_header

__all__ = ["COLUMNS", "FROM_ROUTER", "SCHEMA", "SPARK_SCHEMA", "TO_ROUTER", "CaptureIdentity", "decode_block"]

ETHERNET_LENGTH = 14
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
_FRAGMENT_LABELS = pa.array([None, WHOLE, PARTIAL, COMPLETING])
_WHOLE, _PARTIAL, _COMPLETING = 1, 2, 3

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


class FrameDecoder:
    """Decodes the blocks of one capture, in order, as Arrow batches with the columns of `SCHEMA`.

    Fragments are collected per pair of Ethernet addresses as a router does (`router.wire.fragments`), by the
    time of their capture.
    """

    def __init__(self, capture: CaptureIdentity) -> None:
        self.capture = capture
        self._reassembler = Reassembler()

    def decode(self, block: Block) -> pa.RecordBatch:
        """The frames of a block, in order."""
        capture, count = self.capture, len(block.start)
        frames = _fixed_part(block)
        checked = self._check(block, frames)
        reasons, header_ok = checked.reasons, checked.header_ok
        has_addresses = block.captured >= ETHERNET_LENGTH
        sender, known_sender = _senders(frames, has_addresses)
        destination = _address(frames, "destination_high", "destination_low")
        columns: dict[str, pa.Array] = {
            "capture": _repeat(capture.name, pa.string(), count),
            "kind": _repeat(capture.kind, pa.string(), count),
            "link": _repeat(capture.link, pa.int32(), count),
            "node": _repeat(capture.node, pa.int32(), count),
            "time_ns": pa.array(block.time_ns),
            "length": pa.array(block.length.astype(np.int32)),
            "captured": pa.array(block.captured.astype(np.int32)),
            "destination": pa.array(destination, mask=~has_addresses),
            "source_address": pa.array(_address(frames, "source_prefix", "source_node"), mask=~has_addresses),
            "ethertype": pa.array(frames["ethertype"].astype(np.int32), mask=~has_addresses),
            "type": _labels(np.where(header_ok, frames["type"], 0), _TYPE_LABELS),
            "fragment": _labels(checked.fragment, _FRAGMENT_LABELS),
            **body_columns(checked.bodies, checked.body),
        }
        if capture.kind == "link":
            known_sender, receiver, known_receiver = _between_routers(sender, known_sender, capture)
            columns["direction"] = _repeat(None, pa.string(), count)
        else:
            from_router = known_sender & (sender == capture.node)
            to_controller = from_router & (destination == _CONTROLLER_DESTINATION)
            receiver = np.where(to_controller, np.int64(CONTROLLER), np.int64(capture.node or 0))
            known_receiver = ~from_router | to_controller
            columns["direction"] = _labels(np.where(from_router, 0, 1), _DIRECTION_LABELS)
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

    def _check(self, block: Block, frames: Any) -> _Checked:
        here = frames["payload_length"].astype(np.int64)
        plain = (
            (block.captured >= _FIXED_LENGTH + here)
            & (frames["ethertype"] == ETHERTYPE)
            & (frames["version"] == VERSION)
            & (frames["type"] >= 1)
            & (frames["type"] < len(_TYPE_LABELS))
            & (frames["reserved"] == 0)
            & (frames["fragment_count"] == 1)
            & (frames["fragment_index"] == 0)
            & (here == frames["total_length"])
        )
        checked = _Checked([None] * len(plain), plain.copy(), np.where(plain, _WHOLE, 0), plain * 0)
        starts, captured = block.start.tolist(), block.captured.tolist()
        kinds, lengths = frames["type"].tolist(), here.tolist()

        def take(row: int, kind: int, body: bytes) -> None:
            values = body_values(kind, body)
            number = checked.number.setdefault(id(values), len(checked.bodies))
            if number == len(checked.bodies):
                checked.bodies.append(values)
            checked.body[row] = number
            checked.reasons[row] = values.reason

        for row in range(len(plain)):
            payload_start, end = starts[row] + ETHERNET_LENGTH, starts[row] + captured[row]
            if plain[row]:
                start = starts[row] + _FIXED_LENGTH
                take(row, kinds[row], block.data[start : start + lengths[row]])
            elif frames["ethertype"][row] != ETHERTYPE:
                checked.reasons[row] = "bad_ethertype"
            else:
                payload = block.data[payload_start:end]
                try:
                    # Fragments and damaged frames are rare: the codec itself says what they are.
                    decode_header(payload)
                    checked.header_ok[row] = True
                    checked.fragment[row] = _PARTIAL
                    addresses = block.data[starts[row] : starts[row] + 12]
                    whole = self._reassembler.add(addresses, payload, int(block.time_ns[row]) / 1e9)
                    if whole is not None:
                        checked.fragment[row] = _COMPLETING
                        take(row, int(whole[0].type), whole[1])
                except DecodeError as error:
                    checked.reasons[row] = error.reason.value
        return checked


def decode_block(block: Block, capture: CaptureIdentity) -> pa.RecordBatch:
    """The frames of a block that stands alone."""
    return FrameDecoder(capture).decode(block)


@dataclass(slots=True)
class _Checked:
    """Of each frame: why it does not decode (None: it does), whether its header does, the state of its body
    (an index into `_FRAGMENT_LABELS`), and the index of its body in `bodies`."""

    reasons: list[str | None]
    header_ok: Mask
    fragment: Int64s
    body: Int64s
    bodies: list[BodyValues] = field(default_factory=lambda: [NOTHING])
    number: dict[int, int] = field(default_factory=lambda: {id(NOTHING): 0})


def _fixed_part(block: Block) -> Any:
    """Ethernet and CBCB header of each frame, as a structured array; bytes not captured are zero."""
    raw = np.frombuffer(block.data, dtype=np.uint8)
    offsets = np.arange(_FIXED_LENGTH)
    index = np.minimum(block.start[:, np.newaxis] + offsets, len(raw) - 1)
    fixed = np.where(offsets < block.captured[:, np.newaxis], raw[index], 0).astype(np.uint8)
    return np.ascontiguousarray(fixed).view(_FRAME_DTYPE).reshape(-1)


def _address(frames: Any, high: str, low: str) -> Int64s:
    address: Int64s = (frames[high].astype(np.int64) << 32) | frames[low]
    return address


def _labels(index: npt.NDArray[Any], labels: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int8)), labels).cast(pa.string())


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
