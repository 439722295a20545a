"""A ring that the kernel shares with this process (PACKET_MMAP, TPACKET_V3): the frames of many devices.

The kernel fills blocks of the ring, and passes a block on when it is full or a quarter of a second old.
Nothing wakes this process for a frame. The header of a frame in the ring has the record header of a
nanosecond pcap file inside it.

One socket receives the frames of all devices of a namespace, and its own counter of lost frames does not say
whose they were. A filter in the kernel (an eBPF program, bpf(2), of 17 instructions) passes frames of one
EtherType, and counts each by device before the kernel looks for room for it: a device has lost the frames
that were counted and not read.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import socket
import struct
from collections.abc import Collection, Mapping
from fcntl import ioctl

from router.system import LIBC
from router.wire.header import ETHERTYPE

_SYSTEM_CALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _PROGRAM_LOAD = 0, 1, 2, 5
_MAP_TYPE_HASH = 1
_PROGRAM_TYPE_SOCKET_FILTER = 1
_SO_ATTACH_BPF = 50
_ATTRIBUTES_BYTES = 128
_LOG_BYTES = 65_536
#: Offsets in an Ethernet frame, and in the kernel's `struct __sk_buff`.
_TYPE_AT, _IFINDEX_AT = 12, 40
#: Bytes to keep of a frame: all.
WHOLE_FRAMES = -1


class CountingFilter:
    """The filter and its counters.

    Args:
        devices: indices of the devices whose frames pass.
        ethertype: EtherType of the frames that pass.
        most: bytes to keep of a frame.

    Raises:
        OSError: the kernel refuses the program, or has no bpf(2).
    """

    def __init__(
        self, devices: Collection[int], ethertype: int = ETHERTYPE, most: int = WHOLE_FRAMES
    ) -> None:
        self._devices = tuple(devices)
        attributes = struct.pack("=IIIII", _MAP_TYPE_HASH, 4, 8, max(1, len(self._devices)), 0)
        self._map = _bpf(_MAP_CREATE, attributes, "counters of a capture")
        try:
            for device in self._devices:
                self._entry(_MAP_UPDATE, device, 0)
            self._program = _load(_program(self._map, ethertype, most))
        except OSError:
            os.close(self._map)
            raise

    def attach(self, receiver: socket.socket) -> None:
        """Makes a packet socket receive only what passes."""
        receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_BPF, struct.pack("=i", self._program))

    def counts(self) -> dict[int, int]:
        """Returns the number of frames that have passed, by device."""
        return {device: self._entry(_MAP_LOOKUP, device, 0) for device in self._devices}

    def close(self) -> None:
        os.close(self._program)
        os.close(self._map)

    def _entry(self, command: int, device: int, value: int) -> int:
        key = ctypes.c_uint32(device)
        count = ctypes.c_uint64(value)
        pointers = (ctypes.addressof(key), ctypes.addressof(count))
        _bpf(command, struct.pack("=IxxxxQQQ", self._map, *pointers, 0), f"counter of device {device}")
        return count.value


def _program(counters: int, ethertype: int, most: int) -> bytes:
    """Returns the program, for a map from device index (32 bits) to count (64 bits).

    Register 1 is the frame; the result is the number of bytes to keep.
    """
    r0, r1, r2, r6, stack = 0, 1, 2, 6, 10

    def instruction(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
        return struct.pack("=BBhi", code, source << 4 | to, offset, value)

    return b"".join(
        [
            instruction(0xBF, r6, r1),  # r6 = frame, where the next instruction expects it
            instruction(0x28, value=_TYPE_AT),  # r0 = EtherType
            instruction(0x55, r0, offset=12, value=ethertype),  # another type: drop
            instruction(0x61, r0, r6, _IFINDEX_AT),  # r0 = device index
            instruction(0x63, stack, r0, -4),  # key = r0
            instruction(0x18, r1, 1, value=counters),  # r1 = map (two instructions)
            instruction(0x00),
            instruction(0xBF, r2, stack),
            instruction(0x07, r2, value=-4),  # r2 = address of key
            instruction(0x85, value=1),  # r0 = bpf_map_lookup_elem(r1, r2)
            instruction(0x15, r0, offset=4),  # another device: drop
            instruction(0xB7, r1, value=1),
            instruction(0xDB, r0, r1),  # *r0 += r1, atomically
            instruction(0xB4, r0, value=most),
            instruction(0x95),  # keep so many bytes
            instruction(0xB7, r0),
            instruction(0x95),  # drop
        ]
    )


def _load(program: bytes) -> int:
    instructions = ctypes.create_string_buffer(program, len(program))
    license_ = ctypes.create_string_buffer(b"MIT")
    log = ctypes.create_string_buffer(_LOG_BYTES)
    attributes = struct.pack(
        "=IIQQIIQI",
        _PROGRAM_TYPE_SOCKET_FILTER,
        len(program) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(license_),
        1,
        _LOG_BYTES,
        ctypes.addressof(log),
        0,
    )
    try:
        return _bpf(_PROGRAM_LOAD, attributes, "filter of a capture")
    except OSError as error:
        said = log.value.decode(errors="replace").strip()
        raise OSError(error.errno, f"{error.strerror}; {said}" if said else error.strerror) from error


def _bpf(command: int, attributes: bytes, what: str) -> int:
    number = _SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError(f"{what}: the number of bpf(2) on {platform.machine()} is not known")
    padded = ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES)
    result: int = LIBC.syscall(number, command, padded, _ATTRIBUTES_BYTES)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


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
    if LIBC.bind(receiver.fileno(), address, len(address)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bind: {os.strerror(error)}")
