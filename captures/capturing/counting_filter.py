"""A socket filter in the kernel that passes frames of one EtherType and counts them by device.

One socket receives the frames of all devices of a namespace, and its own counter of lost frames does not say
whose they were. This filter (an eBPF program, bpf(2), of 17 instructions) counts every frame before the
kernel looks for room for it: a device has lost the frames that were counted and not read.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
from collections.abc import Collection

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
_libc = ctypes.CDLL(None, use_errno=True)


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
    result: int = _libc.syscall(number, command, padded, _ATTRIBUTES_BYTES)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result
