"""A ring that the kernel shares with this process (PACKET_MMAP, TPACKET_V3): the frames of many devices.

The kernel fills blocks of the ring, and passes a block on when it is full or a quarter of a second old.
Nothing wakes this process for a frame. The header of a frame in the ring has the record header of a
nanosecond pcap file inside it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
from collections.abc import Mapping
from fcntl import ioctl

from captures.capturing.counting_filter import WHOLE_FRAMES, CountingFilter
from router.wire.header import ETHERTYPE

#: A block, and the time after which a partly filled block is passed on.
BLOCK_BYTES = 64 << 10
BLOCK_MS = 250

_ETH_P_ALL = 3
_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 5, 6, 10
_TPACKET_V3 = 2
_SIOCGIFNAME = 0x8910
_FRAME_BYTES = 2048  # the kernel requires a size, and does not use it
#: struct tpacket_block_desc: status, number of frames, offset of the first.
_BLOCK = struct.Struct("=8xIII")
_STATUS_AT = 8
_KERNEL, _USER = 0, 1
_libc = ctypes.CDLL(None, use_errno=True)
#: struct tpacket3_hdr: offset of the next frame, …, bytes kept, …, offset of the bytes; the device index of
#: struct sockaddr_ll behind it.
_FRAME = struct.Struct("=I8xI8xH26xi")
_RECORD_AT, _RECORD_END = 4, 20


class Ring:
    """The ring of all devices of the calling thread's network namespace.

    Args:
        buffers: by device index, where its records in pcap format are appended.
        blocks: number of blocks.
        ethertype: EtherType of the frames.
        most: bytes to keep of a frame.

    Attributes:
        read: frames read so far, by device index.

    Raises:
        OSError: the kernel has no packet sockets or no memory for the ring, or refuses the filter.
    """

    def __init__(
        self,
        buffers: Mapping[int, bytearray],
        blocks: int,
        ethertype: int = ETHERTYPE,
        most: int = WHOLE_FRAMES,
    ) -> None:
        self.read = dict.fromkeys(buffers, 0)
        self._buffers = buffers
        self._blocks = blocks
        self._next = 0
        self._filter = CountingFilter(buffers, ethertype, most)
        # Protocol 0: the socket receives nothing until it is bound, with filter and ring in place.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._filter.attach(self._socket)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, struct.pack("=i", _TPACKET_V3))
        size = blocks * BLOCK_BYTES
        request = struct.pack("=7I", BLOCK_BYTES, blocks, _FRAME_BYTES, size // _FRAME_BYTES, BLOCK_MS, 0, 0)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._memory = mmap.mmap(self._socket.fileno(), size)
        _bind_to_all_devices(self._socket)

    def drain(self) -> int:
        """Appends the records of all blocks that the kernel has passed on; returns their number."""
        memory, buffers, read = self._memory, self._buffers, self.read
        frame = _FRAME.unpack_from
        blocks = 0
        while True:
            start = self._next * BLOCK_BYTES
            status, frames, first = _BLOCK.unpack_from(memory, start)
            if not status & _USER:
                return blocks
            at = start + first
            for _ in range(frames):
                following, kept, offset, device = frame(memory, at)
                buffer = buffers[device]
                buffer += memory[at + _RECORD_AT : at + _RECORD_END]
                buffer += memory[at + offset : at + offset + kept]
                read[device] += 1
                at += following
            struct.pack_into("=I", memory, start + _STATUS_AT, _KERNEL)
            self._next = (self._next + 1) % self._blocks
            blocks += 1

    def counts(self) -> dict[int, int]:
        """Returns the number of frames that the kernel had for the ring, lost frames too, by device."""
        return self._filter.counts()

    def lost(self) -> int:
        """Returns the number of frames for which the ring had no room since the last call."""
        counters = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 12)
        return int(struct.unpack("=III", counters)[1])

    def gone(self) -> int | None:
        """Returns the index of a device that no longer exists in the namespace; None: all exist."""
        for device in self._buffers:
            try:
                ioctl(self._socket, _SIOCGIFNAME, struct.pack("=16xi20x", device))
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
                return device
        return None

    def close(self) -> None:
        self._memory.close()
        self._socket.close()
        self._filter.close()


def _bind_to_all_devices(receiver: socket.socket) -> None:
    """Binds a packet socket to all protocols of all devices: Python's `bind` demands the name of a device."""
    address = struct.pack("=HHi12x", socket.AF_PACKET, socket.htons(_ETH_P_ALL), 0)
    if _libc.bind(receiver.fileno(), address, len(address)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bind: {os.strerror(error)}")
