"""From captured bytes to columns: the Ethernet and CBCB headers of a block of frames, decoded at once.

Headers are gathered and taken apart by NumPy. The codec decodes each distinct body once; where there
is much to read, compiled code decodes messages and predicates. Fragments are reassembled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames import CaptureIdentity
from captures.frames.bodies import (
    BAD_ETHERTYPE,
    BAD_SOURCE,
    NOT_ETHERNET,
    REASON_NUMBERS,
    REASONS,
    BodyColumns,
)
from captures.frames.columns import (
    BODY_COLUMNS,
    COLUMNS,
    COMPLETING,
    CONTROLLER,
    FROM_ROUTER,
    PARTIAL,
    SCHEMA,
    TO_ROUTER,
    TYPE_LABELS,
    TYPES,
    WHOLE,
)
from captures.frames.parts import CapturedFragments, FilePart
from captures.pcap import LINKTYPE_ETHERNET, compiling
from captures.pcap.blocks import Block, JoinedBlocks, gather, gather_bytes, timestamps
from captures.pcap.walk import NO_TIME
from router.wire import header
from router.wire.format import HEADER, STANDS_FOR, VERSION, FrameType

_FRAME_DTYPE = np.dtype(
    [
        ("destination_high", ">u2"),
        ("destination_low", ">u4"),
        ("source_high", ">u2"),
        ("source_low", ">u4"),
        ("ethertype", ">u2"),
        *((field.name, f">u{header.SIZES[field.layout]}") for field in HEADER),
    ]
)
_FIXED_LENGTH = header.ETHERNET_HEADER_LENGTH + header.HEADER_LENGTH
_NODE_PREFIX = 0x02CB
_CONTROLLER_SOURCE = int.from_bytes(header.CONTROLLER_SOURCE, "big")
_CONTROLLER_DESTINATION = int.from_bytes(header.CONTROLLER_DESTINATION, "big")
#: Arrow takes small integers as indices into these.
_KNOWN_TYPES = np.isin(np.arange(256), list(TYPES))
_ENCODED = np.isin(np.arange(256), list(STANDS_FOR))
_DIRECTION_LABELS = pa.array([None, FROM_ROUTER, TO_ROUTER])
_FRAGMENT_LABELS = pa.array([None, WHOLE, PARTIAL, COMPLETING])
_WHOLE, _PARTIAL, _COMPLETING = 1, 2, 3
#: In place of a node that a capture has not: no frame is from it.
_NOBODY = -2
_REASON_LABELS = pa.array(REASONS)
#: Columns for which whole bodies are decoded.
_OF_BODIES = frozenset((*BODY_COLUMNS, "undecodable"))

Mask = npt.NDArray[np.bool_]
Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]


class FrameDecoder:
    """Decodes the blocks of one capture, in order, as Arrow batches with some columns of `COLUMNS`.

    Fragments are collected as a router does (`captures.frames.parts`).
    """

    def __init__(self, capture: CaptureIdentity, columns: Sequence[str] = tuple(COLUMNS)) -> None:
        self.capture = capture
        self.columns = columns
        self.fragments = CapturedFragments()

    def carry(self, part: FilePart) -> None:
        """Takes the fragments that were captured before `part` and are not whole at its start."""
        self.fragments.carry(part.path, part.carry)

    def pass_over(self, block: Block) -> None:
        """Takes the fragments of a block whose rows are not required."""
        self.fragments.see(block)

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
        frames, columns = _Frames(joined, decoders), decoders[0].columns
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        batch = pa.RecordBatch.from_arrays([frames.column(name) for name in columns], schema=schema)
        return batch if inside is None else batch.filter(pa.array(inside))


class _Frames:
    """The frames of a block: their headers, what follows from the headers and the capture, and their bodies.

    Attributes:
        fields: Ethernet and CBCB header of each frame; bytes not captured are zero.
        reason: why each frame does not decode, apart from its source: an index into `REASONS`.
        header_ok: frames whose header decodes.
        fragment: the state of each frame's body, as an index into `_FRAGMENT_LABELS`.
    """

    def __init__(self, joined: JoinedBlocks, decoders: Sequence[FrameDecoder]) -> None:
        self.joined = joined
        self.block = block = joined.block
        self.captures = [each.capture for each in decoders]
        self.fields: Any = gather(block, _FIXED_LENGTH).view(_FRAME_DTYPE).reshape(-1)
        plain = self.plain
        self.reason = np.zeros(len(plain), np.int8)
        self.reason[~plain & (self.fields["ethertype"] != header.ETHERTYPE)] = REASON_NUMBERS[BAD_ETHERTYPE]
        if block.link_type is not None:
            self.reason[block.link_type != LINKTYPE_ETHERNET] = REASON_NUMBERS[NOT_ETHERNET]
        self.header_ok = plain.copy()
        self.fragment = np.where(plain, np.int8(_WHOLE), np.int8(0))
        completed = self._check_odd_frames(decoders)
        columns = decoders[0].columns
        self._bodies = BodyColumns(len(plain), [name for name in BODY_COLUMNS if name in columns])
        if not _OF_BODIES.isdisjoint(columns):
            self._decode_bodies(completed, columns)

    def _check_odd_frames(self, decoders: Sequence[FrameDecoder]) -> dict[int, list[tuple[int, bytes]]]:
        """Fragments and damaged frames are rare: the codec itself says what they are.

        Returns:
            Type -> row and body of the fragments that make a body whole.
        """
        completed: dict[int, list[tuple[int, bytes]]] = {}
        for row in np.flatnonzero(~self.plain & (self.reason == 0)).tolist():
            number, frame, place = self.joined.packet(row)
            try:
                header.decode_header(frame[header.ETHERNET_HEADER_LENGTH :])
                self.header_ok[row] = True
                self.fragment[row] = _PARTIAL
                whole = decoders[number].fragments.add(frame, place)
            except header.DecodeError as error:
                self.reason[row] = REASON_NUMBERS[error.reason.value]
                continue
            if whole is not None:
                self.fragment[row] = _COMPLETING
                completed.setdefault(int(whole[0].type), []).append((row, whole[1]))
        return completed

    def _decode_bodies(
        self, completed: Mapping[int, Sequence[tuple[int, bytes]]], columns: Sequence[str]
    ) -> None:
        """The bodies of whole frames, and of the fragments that make a body whole."""
        data, types, left = self.block.data, self.fields["type"], self.plain
        start, length = self.block.start + _FIXED_LENGTH, self.fields["payload_length"].astype(np.int64)
        compiled = compiling.should_compile(len(data))
        if compiled:
            from captures.frames.messages import decode_messages

            of_messages = np.where(left & (types == FrameType.MSG), length, -1)
            accepted, attributes = decode_messages(
                data, start, of_messages, attributes="attributes" in columns
            )
            left = left & ~accepted
            if attributes is not None:
                decoded = np.flatnonzero(accepted)
                self._bodies.add("attributes", decoded, decoded, attributes)
        rows = np.flatnonzero(left)
        for number in {*np.unique(types[rows]).tolist(), *completed}:
            chosen = rows[types[rows] == number]
            bodies = gather_bytes(data, start[chosen], length[chosen])
            if number in completed:
                late, contents = zip(*completed[number], strict=True)
                chosen = np.append(chosen, late)
                bodies = pa.concat_arrays([bodies, pa.array(contents, pa.binary())])
            self.reason[chosen] = self._bodies.decode(number, chosen, bodies, compiled=compiled)

    def column(self, name: str) -> pa.Array:
        """A column of `COLUMNS`; those of the body only if the decoders were made for them."""
        if name in BODY_COLUMNS:
            return self._bodies.column(name)
        made = _MADE.get(name)
        return self._field(name) if made is None else made(self)

    def _field(self, name: str) -> pa.Array:
        """A header field, null where the header does not decode."""
        kind = SCHEMA.field(name).type
        return _masked(self.fields[name].astype(kind.to_pandas_dtype()), ~self.header_ok)

    @cached_property
    def plain(self) -> Mask:
        """Frames with a header that keeps every rule, and with their whole body."""
        fields = self.fields
        here = fields["payload_length"].astype(np.int64)
        plain: Mask = (
            (self.block.captured >= _FIXED_LENGTH + here)
            & (fields["ethertype"] == header.ETHERTYPE)
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
        has: Mask = self.block.captured >= header.ETHERNET_HEADER_LENGTH
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
        return self._of_kind("link", "tunnel")

    @cached_property
    def _of_host(self) -> Mask:
        return self._of_kind("host")

    def _of_kind(self, *kinds: str) -> Mask:
        return self.joined.spread([each.kind in kinds for each in self.captures]).astype(np.bool_)

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


def _masked(values: npt.NDArray[Any], nulls: Mask) -> pa.Array:
    """An array with nulls; without a mask where nothing is null, which is cheaper to send."""
    return pa.array(values, mask=nulls if nulls.any() else None)


def _labels(index: npt.NDArray[Any], labels: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int8)), labels).cast(pa.string())


def _of_capture(name: str) -> Callable[[_Frames], pa.Array]:
    kind = SCHEMA.field(name).type
    return lambda frames: frames.joined.repeated([getattr(each, name) for each in frames.captures], kind)


#: Column -> its array. Each further column is a field of the header, or of the body.
_MADE: dict[str, Callable[[_Frames], pa.Array]] = {
    "capture": lambda frames: frames.joined.repeated([each.name for each in frames.captures], pa.string()),
    **{name: _of_capture(name) for name in ("kind", "link", "node")},
    "packet": lambda frames: frames.joined.numbers(),
    "time": lambda frames: timestamps(frames.block),
    "time_ns": lambda frames: _masked(frames.block.time_ns, frames.block.time_ns == NO_TIME),
    "length": lambda frames: pa.array(frames.block.length),
    "captured": lambda frames: pa.array(frames.block.captured.astype(np.int32)),
    "destination": lambda frames: _masked(frames.destination, ~frames.has_addresses),
    "source_address": lambda frames: _masked(frames.source, ~frames.has_addresses),
    "ethertype": lambda frames: _masked(frames.fields["ethertype"].astype(np.int32), ~frames.has_addresses),
    "type": lambda frames: _labels(np.where(frames.header_ok, frames.fields["type"], 0), TYPE_LABELS),
    "encoded": lambda frames: _masked(_ENCODED[frames.fields["type"]], ~frames.header_ok),
    "fragment": lambda frames: _labels(frames.fragment, _FRAGMENT_LABELS),
    "direction": lambda frames: _labels(frames.direction, _DIRECTION_LABELS),
    "from_node": lambda frames: _masked(frames.sender.astype(np.int32), ~frames.known_sender),
    "to_node": lambda frames: _masked(frames.receiver.astype(np.int32), ~frames.known_receiver),
    # In the order of routers: header, source, body.
    "undecodable": lambda frames: _labels(
        np.where(frames.header_ok & ~frames.known_sender, np.int8(REASON_NUMBERS[BAD_SOURCE]), frames.reason),
        _REASON_LABELS,
    ),
}
