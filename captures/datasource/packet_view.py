"""Views of any capture: `packets` (place, time, headers and bytes of packets), and `files`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.columns import COLUMNS, Columns
from captures.frames.parts import FilePart
from captures.pcap import LINKTYPE_ETHERNET, PcapError
from captures.pcap.blocks import Block, JoinedBlocks, gather, gather_bytes, timestamps
from captures.pcap.internet import internet_headers
from captures.pcap.links import VLAN_TAGS
from captures.pcap.opening import is_compressed
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME
from router.wire.header import ETHERNET_HEADER_LENGTH

#: Values of `undecodable`.
NOT_ETHERNET, TRUNCATED = "not_ethernet", "truncated"
_REASONS = pa.array([None, NOT_ETHERNET, TRUNCATED])

Mask = npt.NDArray[np.bool_]

#: The columns of view `packets`.
PACKET_COLUMNS: Columns = {
    "file": (pa.string(), "path or URI of the capture file"),
    "offset": (
        pa.int64(),
        "offset of the packet's first byte in the file, or in its decompressed content: with `file`, a key",
    ),
    "packet": COLUMNS["packet"],
    "interface": (pa.int32(), "pcapng: index of the interface in its section; pcap: 0"),
    "link_type": (pa.int32(), "link type (LINKTYPE_ number; 1: Ethernet)"),
    "time": COLUMNS["time"],
    "time_ns": (
        pa.int64(),
        "time of capture, ns since 1970 UTC; null: the file has none, or it does not fit 64 bits",
    ),
    "length": COLUMNS["length"],
    "captured": COLUMNS["captured"],
    "cut": (pa.bool_(), "whether fewer bytes were captured than sent (snapshot length)"),
    "eth_dst": (pa.int64(), "Ethernet destination address as a 48-bit number"),
    "eth_src": (pa.int64(), "Ethernet source address as a 48-bit number"),
    "eth_type": (pa.int32(), "Ethernet type (or length, up to 1,500), behind up to two VLAN tags"),
    "vlan": (pa.int32(), "VLAN identifier of the first tag (802.1Q, 802.1ad); null without one"),
    "vlan_inner": (pa.int32(), "VLAN identifier of the second tag (QinQ); null without one"),
    "ip_src": (
        pa.string(),
        "IPv4 or IPv6 source address; null: no such header, or not behind one of these link headers",
    ),
    "ip_dst": (pa.string(), "IPv4 or IPv6 destination address"),
    "ip_protocol": (
        pa.int32(),
        "protocol number (6: TCP, 17: UDP, ...), behind the extension headers of IPv6; null: cut off",
    ),
    "src_port": (pa.int32(), "source port of TCP, UDP, SCTP, ...; null in fragments after the first"),
    "dst_port": (pa.int32(), "destination port"),
    "ttl": (pa.int32(), "time to live of IPv4, hop limit of IPv6"),
    "tcp_flags": (
        pa.int32(),
        "flags of TCP: 1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK, 32 URG, 64 ECE, 128 CWR; null: no TCP, or cut off",
    ),
    "data": (pa.binary(), "the captured bytes"),
    "undecodable": (
        pa.string(),
        "why the Ethernet columns are null: `not_ethernet` (another link type), `truncated` (too short)",
    ),
}
#: The same for view `files`.
FILE_COLUMNS: Columns = {
    "file": (pa.string(), "path or URI"),
    "size": (pa.int64(), "bytes of the file"),
    "compressed": (pa.bool_(), "whether the file is compressed (gzip, zstd)"),
    "packets": (pa.int64(), "whole packets in the file"),
    "bytes": (pa.int64(), "bytes of the packets on the wire"),
    "packets_cut": (pa.int64(), "packets cut by the snapshot length"),
    "untimed": (pa.int64(), "packets without a time, such as a fraction of more than two seconds"),
    "link_types": (pa.list_(pa.int32()), "link types of the packets"),
    "first_ns": (pa.int64(), "least time, ns since 1970 UTC; null: no packet has one"),
    "last_ns": (pa.int64(), "greatest time, ns since 1970 UTC; null: no packet has one"),
    "defect": (pa.string(), "how the file ends inside a record, or where it is damaged; null: it is whole"),
    "error": (pa.string(), "why the file is no capture, or cannot be read; null: it is a capture"),
}


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
