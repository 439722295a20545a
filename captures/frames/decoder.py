"""From captured bytes to columns: the Ethernet and CBCB headers of a block of frames, decoded at once.

Headers are gathered and taken apart by NumPy. Compiled code checks bodies and writes them into the columns;
the few bodies that it does not accept, and all bodies without numba, go through the codec, once for each
distinct body. Fragments are reassembled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.bodies import NOTHING, BodyValues, body_columns, body_values
from captures.frames.columns import (
    BODY_COLUMNS,
    COLUMNS,
    COMPLETING,
    CONTROLLER,
    FROM_ROUTER,
    PARTIAL,
    SCHEMA,
    SPARK_SCHEMA,
    TO_ROUTER,
    TYPE_LABELS,
    TYPES,
    WHOLE,
)
from captures.frames.fragments import CapturedFragments, Carried
from captures.frames.identity import CaptureIdentity
from captures.frames.parts import FilePart, PartState
from captures.pcap.compiling import should_compile
from captures.pcap.gather import gather, timestamps
from captures.pcap.joined import JoinedBlocks
from captures.pcap.reader import LINKTYPE_ETHERNET, NO_TIME, Block
from router.wire.addresses import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, ETHERNET_HEADER_LENGTH, ETHERTYPE
from router.wire.format import HEADER, STANDS_FOR, VERSION, DecodeReason
from router.wire.header import HEADER_LENGTH, SIZES, DecodeError, Header, decode_header

__all__ = ["COLUMNS", "FROM_ROUTER", "SCHEMA", "SPARK_SCHEMA", "TO_ROUTER", "decode_block"]

#: Reasons that are not the codec's: no CBCB frame at all, or from a node that is at no end of the link.
NOT_ETHERNET, BAD_ETHERTYPE, BAD_SOURCE = "not_ethernet", "bad_ethertype", "bad_source"
_REASONS = [None, NOT_ETHERNET, BAD_ETHERTYPE, BAD_SOURCE, *(reason.value for reason in DecodeReason)]
_REASON_NUMBERS = {reason: number for number, reason in enumerate(_REASONS)}

_FRAME_DTYPE = np.dtype(
    [
        ("destination_high", ">u2"),
        ("destination_low", ">u4"),
        ("source_high", ">u2"),
        ("source_low", ">u4"),
        ("ethertype", ">u2"),
        *((field.name, f">u{SIZES[field.layout]}") for field in HEADER),
    ]
)
_FIXED_LENGTH = ETHERNET_HEADER_LENGTH + HEADER_LENGTH
_NODE_PREFIX = 0x02CB
_CONTROLLER_SOURCE = int.from_bytes(CONTROLLER_SOURCE, "big")
_CONTROLLER_DESTINATION = int.from_bytes(CONTROLLER_DESTINATION, "big")
#: Arrow takes small integers as indices into these.
_KNOWN_TYPES = np.isin(np.arange(256), list(TYPES))
_ENCODED = np.isin(np.arange(256), list(STANDS_FOR))
_DIRECTION_LABELS = pa.array([None, FROM_ROUTER, TO_ROUTER])
_FRAGMENT_LABELS = pa.array([None, WHOLE, PARTIAL, COMPLETING])
_WHOLE, _PARTIAL, _COMPLETING = 1, 2, 3
#: In place of a node that a capture has not: no frame is from it.
_NOBODY = -2
_REASON_LABELS = pa.array(_REASONS)
_BODY_COLUMNS = frozenset(BODY_COLUMNS)

Mask = npt.NDArray[np.bool_]
Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]


class FrameDecoder:
    """Decodes the blocks of one capture, in order, as Arrow batches with some columns of `COLUMNS`.

    Fragments are collected as a router does (`captures.frames.fragments`).
    """

    def __init__(self, capture: CaptureIdentity, columns: Sequence[str] = tuple(COLUMNS)) -> None:
        self.capture = capture
        self.columns = columns
        self._fragments = CapturedFragments()

    def carry(self, part: FilePart) -> None:
        """Takes the fragments that were captured before `part` and are not whole at its start."""
        self._fragments.carry(part.path, part.carry)

    def pass_over(self, block: Block) -> None:
        """Takes the fragments of a block whose rows are not required."""
        PartState(self._fragments).see(block)

    def decode(self, block: Block) -> pa.RecordBatch:
        """The frames of a block, in order."""
        return self.together([self], JoinedBlocks([block]))

    @staticmethod
    def together(
        decoders: Sequence[FrameDecoder], joined: JoinedBlocks, inside: Mask | None = None
    ) -> pa.RecordBatch:
        """The frames of blocks of several captures, in order.

        Args:
            decoders: for each block, the decoder of its capture; all have the same columns.
            inside: the frames that are required; None: all.
        """
        frames = _Frames(joined, [each.capture for each in decoders])
        checked = _check(decoders, joined, frames)
        batch = _batch(frames, checked, decoders[0].columns)
        return batch if inside is None else batch.filter(pa.array(inside))

    def take(self, frame: bytes, place: Carried) -> tuple[Header, bytes] | None:
        """As `CapturedFragments.add`."""
        return self._fragments.add(frame, place)


def _check(decoders: Sequence[FrameDecoder], joined: JoinedBlocks, frames: _Frames) -> _Checked:
    block, plain = joined.block, frames.plain
    checked = _Checked(
        np.zeros(len(plain), np.int8),
        plain.copy(),
        np.where(plain, np.int8(_WHOLE), np.int8(0)),
        np.zeros(len(plain), np.int64),
    )
    checked.reason[~plain & (frames.fields["ethertype"] != ETHERTYPE)] = _REASON_NUMBERS[BAD_ETHERTYPE]
    if block.link_type is not None:
        checked.reason[block.link_type != LINKTYPE_ETHERNET] = _REASON_NUMBERS[NOT_ETHERNET]
    # Fragments and damaged frames are rare: the codec itself says what they are.
    for row in np.flatnonzero(~plain & (checked.reason == 0)).tolist():
        number, frame, place = joined.packet(row)
        _check_one(decoders[number], frame, place, row, checked)
    _check_bodies(block, frames, np.flatnonzero(plain), decoders[0].columns, checked)
    return checked


def _check_one(decoder: FrameDecoder, frame: bytes, place: Carried, row: int, checked: _Checked) -> None:
    try:
        decode_header(frame[ETHERNET_HEADER_LENGTH:])
        checked.header_ok[row] = True
        checked.fragment[row] = _PARTIAL
        whole = decoder.take(frame, place)
        if whole is not None:
            checked.fragment[row] = _COMPLETING
            checked.take(row, body_values(int(whole[0].type), whole[1]))
    except DecodeError as error:
        checked.reason[row] = _REASON_NUMBERS[error.reason.value]


def _check_bodies(
    block: Block, frames: _Frames, rows: Int64s, columns: Sequence[str], checked: _Checked
) -> None:
    """The bodies of whole frames."""
    start = block.start[rows] + _FIXED_LENGTH
    length = frames.fields["payload_length"][rows].astype(np.int64)
    kind = frames.fields["type"][rows].astype(np.int64)
    if not should_compile(len(block.data)):
        for row, at, here, number in zip(
            rows.tolist(), start.tolist(), length.tolist(), kind.tolist(), strict=True
        ):
            checked.take(row, body_values(number, bytes(block.data[at : at + here])))
        return
    from captures.frames.compiled_bodies import compiled_columns
    from captures.frames.loops import group_bodies

    raw = np.frombuffer(block.data, np.uint8)
    whole = np.full(len(frames.plain), -1, np.int64)
    whole[rows] = length
    types = frames.fields["type"].astype(np.int64)
    wanted = _BODY_COLUMNS.intersection(columns)
    checked.compiled, left = compiled_columns(block, block.start + _FIXED_LENGTH, whole, types, wanted)
    rows = np.flatnonzero(left)
    if not len(rows):
        return
    start, length, kind = block.start[rows] + _FIXED_LENGTH, whole[rows], types[rows]
    group, first = group_bodies(raw, start, length, kind)
    found = [
        body_values(int(kind[one]), bytes(block.data[start[one] : start[one] + length[one]]))
        for one in first.tolist()
    ]
    numbers = np.array([checked.number(values) for values in found], np.int64)
    reasons = np.array([_REASON_NUMBERS[values.reason] for values in found], np.int8)
    checked.body[rows] = numbers[group]
    checked.reason[rows] = reasons[group]


def _batch(frames: _Frames, checked: _Checked, columns: Sequence[str]) -> pa.RecordBatch:
    """Some of `COLUMNS`. Columns of the body are null unless the decoder was made for one of them."""
    made = {**_of_file(frames), **_of_headers(frames, checked)}
    bodies = body_columns(checked.bodies, checked.body, _BODY_COLUMNS.intersection(columns), checked.compiled)
    made |= {name: partial(_itself, column) for name, column in bodies.items()}
    arrays = [made[name]() if name in made else frames.field(name, checked.header_ok) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in columns]))


def _of_file(frames: _Frames) -> dict[str, Callable[[], pa.Array]]:
    captures, repeated = frames.captures, frames.joined.repeated
    return {
        "capture": lambda: repeated([each.name for each in captures], pa.string()),
        "kind": lambda: repeated([each.kind for each in captures], pa.string()),
        "link": lambda: repeated([each.link for each in captures], pa.int32()),
        "node": lambda: repeated([each.node for each in captures], pa.int32()),
    }


def _of_headers(frames: _Frames, checked: _Checked) -> dict[str, Callable[[], pa.Array]]:
    block, unaddressed = frames.block, ~frames.has_addresses
    return {
        "number": frames.joined.numbers,
        "time": lambda: timestamps(block),
        "time_ns": lambda: pa.array(block.time_ns, mask=_mask(block.time_ns == NO_TIME)),
        "length": lambda: pa.array(np.minimum(block.length, 2**31 - 1).astype(np.int32)),
        "captured": lambda: pa.array(block.captured.astype(np.int32)),
        "destination": lambda: pa.array(frames.destination, mask=_mask(unaddressed)),
        "source_address": lambda: pa.array(frames.source, mask=_mask(unaddressed)),
        "ethertype": lambda: pa.array(frames.fields["ethertype"].astype(np.int32), mask=_mask(unaddressed)),
        "type": lambda: _labels(np.where(checked.header_ok, frames.fields["type"], 0), TYPE_LABELS),
        "encoded": lambda: pa.array(_ENCODED[frames.fields["type"]], mask=_mask(~checked.header_ok)),
        "fragment": lambda: _labels(checked.fragment, _FRAGMENT_LABELS),
        "direction": lambda: _labels(frames.direction, _DIRECTION_LABELS),
        "from_node": lambda: pa.array(frames.sender.astype(np.int32), mask=_mask(~frames.known_sender)),
        "to_node": lambda: pa.array(frames.receiver.astype(np.int32), mask=_mask(~frames.known_receiver)),
        "undecodable": lambda: _labels(_reason(frames, checked), _REASON_LABELS),
    }


def _reason(frames: _Frames, checked: _Checked) -> Int8s:
    """Why each frame does not decode, as an index into `_REASONS`."""
    # In the order of routers: header, source, body.
    bad_source = checked.header_ok & ~frames.known_sender
    return np.where(bad_source, np.int8(_REASON_NUMBERS[BAD_SOURCE]), checked.reason)


def decode_block(block: Block, capture: CaptureIdentity) -> pa.RecordBatch:
    """The frames of a block that stands alone."""
    return FrameDecoder(capture).decode(block)


@dataclass(slots=True)
class _Checked:
    """Of each frame: why it does not decode (an index into `_REASONS`), whether its header does, the state of
    its body (an index into `_FRAGMENT_LABELS`), and the index in `bodies` of a body that the codec decoded.

    `compiled` has the body columns of the frames that compiled code decoded; empty: the codec decoded all.
    """

    reason: Int8s
    header_ok: Mask
    fragment: Int8s
    body: Int64s
    bodies: list[BodyValues] = field(default_factory=lambda: [NOTHING])
    compiled: dict[str, pa.Array] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=lambda: {id(NOTHING): 0})

    def number(self, values: BodyValues) -> int:
        """The index of a body in `bodies`, where it is kept."""
        number = self._numbers.setdefault(id(values), len(self.bodies))
        if number == len(self.bodies):
            self.bodies.append(values)
        return number

    def take(self, row: int, values: BodyValues) -> None:
        """A row's body."""
        self.body[row] = self.number(values)
        self.reason[row] = _REASON_NUMBERS[values.reason]


class _Frames:
    """The headers of the frames of a block, and what follows from them and the capture."""

    def __init__(self, joined: JoinedBlocks, captures: Sequence[CaptureIdentity]) -> None:
        self.joined = joined
        self.block = block = joined.block
        self.captures = captures
        #: Ethernet and CBCB header of each frame; bytes not captured are zero.
        self.fields: Any = gather(block, _FIXED_LENGTH).view(_FRAME_DTYPE).reshape(-1)

    def field(self, name: str, header_ok: Mask) -> pa.Array:
        """A header field, null where the header does not decode."""
        kind = SCHEMA.field(name).type
        values = self.fields[name].astype(np.int64 if kind == pa.int64() else kind.to_pandas_dtype())
        return pa.array(values, kind, mask=_mask(~header_ok))

    @cached_property
    def plain(self) -> Mask:
        """Frames with a header that keeps every rule, and with their whole body."""
        fields = self.fields
        here = fields["payload_length"].astype(np.int64)
        plain: Mask = (
            (self.block.captured >= _FIXED_LENGTH + here)
            & (fields["ethertype"] == ETHERTYPE)
            & (fields["version"] == VERSION)
            & _KNOWN_TYPES[fields["type"]]
            & (fields["reserved"] == 0)
            & (fields["fragment_count"] == 1)
            & (fields["fragment_index"] == 0)
            & (here == fields["total_length"])
        )
        if self.block.link_type is not None:
            plain &= self.block.link_type == LINKTYPE_ETHERNET
        return plain

    @cached_property
    def has_addresses(self) -> Mask:
        has: Mask = self.block.captured >= ETHERNET_HEADER_LENGTH
        if self.block.link_type is not None:
            has &= self.block.link_type == LINKTYPE_ETHERNET
        return has

    @cached_property
    def destination(self) -> Int64s:
        return self._address("destination")

    @cached_property
    def source(self) -> Int64s:
        return self._address("source")

    def _address(self, name: str) -> Int64s:
        address: Int64s = (self.fields[f"{name}_high"].astype(np.int64) << 32) | self.fields[f"{name}_low"]
        return address

    @cached_property
    def sender(self) -> Int64s:
        """Sending node by the source address; -1: the controller."""
        controller = self.source == _CONTROLLER_SOURCE
        return np.where(controller, CONTROLLER, self.fields["source_low"].astype(np.int64))

    @cached_property
    def known_sender(self) -> Mask:
        """Where the sender is one of ours, and on a link one of its ends."""
        node: Mask = (self.fields["source_high"] == _NODE_PREFIX) & (self.fields["source_low"] < 2**31)
        known: Mask = self.has_addresses & (node | (self.source == _CONTROLLER_SOURCE))
        known &= ~self._of_link | (self.sender == self._of("u")) | (self.sender == self._of("v"))
        return known

    def _of(self, name: str) -> Int64s:
        """The number of a node in each capture; `_NOBODY`: the capture has none."""
        nodes = [getattr(each, name) for each in self.captures]
        return self.joined.spread([_NOBODY if node is None else node for node in nodes])

    @cached_property
    def _of_link(self) -> Mask:
        return self._of_kind("link")

    @cached_property
    def _of_host(self) -> Mask:
        return self._of_kind("host")

    def _of_kind(self, kind: str) -> Mask:
        return self.joined.spread([each.kind == kind for each in self.captures]).astype(np.bool_)

    @cached_property
    def _from_router(self) -> Mask:
        from_router: Mask = self.known_sender & (self.sender == self._of("node"))
        return from_router

    @cached_property
    def _to_controller(self) -> Mask:
        to_controller: Mask = self._from_router & (self.destination == _CONTROLLER_DESTINATION)
        return to_controller

    @cached_property
    def direction(self) -> Int8s:
        """An index into `_DIRECTION_LABELS`."""
        of_host = np.where(self._from_router, np.int8(1), np.int8(2))
        return np.where(self._of_host, of_host, np.int8(0))

    @cached_property
    def receiver(self) -> Int64s:
        of_link = np.where(self.sender == self._of("u"), self._of("v"), self._of("u"))
        of_host = np.where(self._to_controller, np.int64(CONTROLLER), self._of("node"))
        return np.where(self._of_link, of_link, of_host)

    @cached_property
    def known_receiver(self) -> Mask:
        of_host = self._of_host & (~self._from_router | self._to_controller)
        return np.where(self._of_link, self.known_sender, of_host)


def _mask(nulls: Mask) -> Mask | None:
    """The mask for Arrow; None where nothing is null, which is cheaper to send."""
    return nulls if nulls.any() else None


def _itself(column: pa.Array) -> pa.Array:
    return column


def _labels(index: npt.NDArray[Any], labels: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int8)), labels).cast(pa.string())
