"""Views of any capture: `packets` (place, time, headers and bytes of packets), and `files`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.columns import FILE_COLUMNS, PACKET_COLUMNS
from captures.frames.parts import FilePart
from captures.pcap import LINKTYPE_ETHERNET, PcapError
from captures.pcap.blocks import Block, JoinedBlocks, gather, gather_bytes, timestamps
from captures.pcap.internet import VLAN_TAGS, internet_headers
from captures.pcap.opening import is_compressed
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME
from router.wire.header import ETHERNET_HEADER_LENGTH

#: Values of `undecodable`.
NOT_ETHERNET, TRUNCATED = "not_ethernet", "truncated"
_REASONS = pa.array([None, NOT_ETHERNET, TRUNCATED])

Mask = npt.NDArray[np.bool_]


class PacketDecoder:
    """Makes Arrow batches of the blocks of a file.

    Args:
        file: value of the column `file`.
        columns: names of `PACKET_COLUMNS`, in order.
    """

    def __init__(self, file: str, columns: Sequence[str]) -> None:
        self._file = file
        self._columns = columns
        self.schema = pa.schema([(name, PACKET_COLUMNS[name][0]) for name in columns])

    def pass_over(self, block: Block) -> None:
        """Does nothing: no row depends on packets before it."""

    @staticmethod
    def together(
        decoders: Sequence[PacketDecoder], joined: JoinedBlocks, inside: Mask | None = None
    ) -> pa.RecordBatch:
        """The packets of blocks of several files, in order.

        Args:
            decoders: for each block, the decoder of its file; all have the same columns.
            inside: the packets that are required; None: all.
        """
        block, columns, schema = joined.block, decoders[0]._columns, decoders[0].schema
        ethernet = _Ethernet(block)
        made: dict[str, Callable[[], pa.Array]] = {
            "file": lambda: joined.repeated([each._file for each in decoders], pa.string()),
            "offset": joined.offsets,
            "packet": joined.numbers,
            "time": lambda: timestamps(block),
            "interface": lambda: _numbers(block.interface, block, 0),
            "link_type": lambda: _numbers(block.link_type, block, LINKTYPE_ETHERNET),
            "time_ns": lambda: pa.array(block.time_ns, mask=block.time_ns == NO_TIME),
            "length": lambda: pa.array(block.length),
            "captured": lambda: pa.array(block.captured.astype(np.int32)),
            "cut": lambda: pa.array(block.captured < block.length),
            "eth_dst": lambda: ethernet.address(0),
            "eth_src": lambda: ethernet.address(6),
            "eth_type": lambda: ethernet.type(),
            "vlan": lambda: ethernet.vlan(14, ethernet.tagged),
            "vlan_inner": lambda: ethernet.vlan(18, ethernet.tagged_twice),
            "data": lambda: gather_bytes(block.data, block.start, block.captured),
            "undecodable": lambda: ethernet.reasons(),
        }
        arrays = [made[name]() if name in made else ethernet.internet[name] for name in columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return batch if inside is None else batch.filter(pa.array(inside))


class _Ethernet:
    """The columns of a block's headers, which are read on the first use of a column."""

    def __init__(self, block: Block) -> None:
        self._block = block

    @cached_property
    def headers(self) -> npt.NDArray[np.uint8]:
        """Shape (packets, 22): header and two VLAN tags; bytes not captured are 0."""
        return gather(self._block, ETHERNET_HEADER_LENGTH + 8)

    @cached_property
    def internet(self) -> dict[str, pa.Array]:
        return internet_headers(self._block)

    def reason(self) -> npt.NDArray[np.int8]:
        short = self._block.captured < ETHERNET_HEADER_LENGTH + 4 * (
            self.tagged.astype(np.int64) + self.tagged_twice
        )
        reason = np.where(short, 2, 0)
        if self._block.link_type is not None:
            reason = np.where(self._block.link_type != LINKTYPE_ETHERNET, 1, reason)
        return reason.astype(np.int8)

    def reasons(self) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(self.reason()), _REASONS).cast(pa.string())

    def address(self, at: int) -> pa.Array:
        address = np.zeros(len(self.headers), np.int64)
        for column in range(at, at + 6):
            address = address << 8 | self.headers[:, column]
        return pa.array(address, mask=self.reason() != 0)

    def type(self) -> pa.Array:
        inner = np.where(
            self.tagged_twice, self._u16(20), np.where(self.tagged, self._u16(16), self._u16(12))
        )
        return pa.array(inner, mask=self.reason() != 0)

    def vlan(self, at: int, tagged: npt.NDArray[np.bool_]) -> pa.Array:
        return pa.array(self._u16(at) & 0x0FFF, mask=~tagged | (self.reason() != 0))

    @cached_property
    def tagged(self) -> npt.NDArray[np.bool_]:
        return np.isin(self._u16(12), VLAN_TAGS)

    @cached_property
    def tagged_twice(self) -> npt.NDArray[np.bool_]:
        return self.tagged & np.isin(self._u16(16), VLAN_TAGS)

    def _u16(self, at: int) -> npt.NDArray[np.int32]:
        high: npt.NDArray[np.int32] = self.headers[:, at].astype(np.int32)
        return high << 8 | self.headers[:, at + 1]


def _numbers(values: npt.NDArray[np.int64] | None, block: Block, constant: int) -> pa.Array:
    if values is None:
        return pa.repeat(pa.scalar(constant, pa.int32()), len(block.start))
    return pa.array(values.astype(np.int32))


def file_health(part: FilePart, columns: Sequence[str]) -> pa.RecordBatch:
    """The row of a file, which is read from start to end."""
    reader = PcapReader(part.path, link_type=None)
    row: dict[str, Any] = {"file": part.path, "size": part.size}
    row |= dict.fromkeys(("packets", "bytes", "packets_cut", "untimed"), 0)
    link_types: set[int] = set()
    first: list[int] = []
    last: list[int] = []
    try:
        row["compressed"] = is_compressed(part.path)
        for block in reader.blocks():
            row["packets"] += len(block.start)
            row["bytes"] += int(block.length.sum())
            row["packets_cut"] += int(np.count_nonzero(block.captured < block.length))
            types = [LINKTYPE_ETHERNET] if block.link_type is None else np.unique(block.link_type).tolist()
            link_types.update(types)
            times = block.time_ns[block.time_ns != NO_TIME]
            row["untimed"] += len(block.time_ns) - len(times)
            if len(times):
                first.append(int(times.min()))
                last.append(int(times.max()))
    except (PcapError, OSError) as error:
        row["error"] = str(error)
    row["link_types"] = sorted(link_types)
    row["first_ns"], row["last_ns"] = min(first, default=None), max(last, default=None)
    row["defect"] = reader.defect
    schema = pa.schema([(name, FILE_COLUMNS[name][0]) for name in columns])
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in columns}], schema)
