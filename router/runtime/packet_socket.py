"""The raw socket of a router: Ethernet frames of EtherType 0x88B5 on one device.

See packet(7). This module does not interpret the frames.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import socket
import struct
import time
from enum import Enum

from router.wire.addresses import ETHERNET_HEADER_LENGTH, ETHERTYPE

# Linux constants that the socket module does not name.
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_PACKET_IGNORE_OUTGOING = 23
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SIOCGIFMTU = 0x8921
_SIOCGSTAMPNS = 0x8907
_STATISTICS = struct.Struct("II")
_IFREQ = struct.Struct("16si")
_TIMESPEC = struct.Struct("qq")

#: Bytes requested for each socket buffer; the kernel doubles them to account for its overhead.
RECEIVE_BUFFER = 16 * 1024 * 1024
SEND_BUFFER = 4 * 1024 * 1024
_MAX_FRAME = 65_535 + ETHERNET_HEADER_LENGTH


class SendResult(Enum):
    SENT = "sent"
    #: The socket buffer is full; wait until the socket is writable.
    WOULD_BLOCK = "would_block"
    #: The device's queue is full; the socket does not report when it has room.
    NO_BUFFERS = "no_buffers"
    #: The frame cannot be sent: the device is down or gone, or the frame exceeds its MTU.
    FAILED = "failed"


class PacketSocket:
    """A non-blocking AF_PACKET socket on `device` in the current network namespace.

    Args:
        device: name of a network device.
        receive_buffer: bytes of receive buffer to request.

    Raises:
        OSError: the device does not exist, or the process has no permission for raw sockets.
    """

    def __init__(self, device: str, receive_buffer: int = RECEIVE_BUFFER) -> None:
        self.device = device
        self._drops = 0
        # Protocol 0 until the socket is bound: otherwise it receives frames of all other devices first.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._socket.setblocking(False)
            _grow(self._socket, _SO_RCVBUFFORCE, socket.SO_RCVBUF, receive_buffer)
            _grow(self._socket, _SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER)
            # Older kernels lack the option; they show sent frames to other sockets only.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            try:
                self._socket.bind((device, ETHERTYPE))
            except OSError as error:
                raise OSError(error.errno, f"device {device}: {error.strerror}") from error
            self.mtu = self._read_mtu()
        except BaseException:
            self._socket.close()
            raise
        self._buffer = bytearray(_MAX_FRAME)
        self._view = memoryview(self._buffer)
        # The first question makes the kernel stamp frames for this socket.
        self.waited_s()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> bytes | None:
        """Returns the next Ethernet frame, or None if none has arrived."""
        while True:
            try:
                length = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return None
            except OSError as error:
                # Reported once when the device goes down; frames may arrive when it is up again.
                if error.errno in (errno.ENETDOWN, errno.EINTR):
                    continue
                raise
            return bytes(self._view[:length])

    def send(self, frame: bytes) -> SendResult:
        """Sends one Ethernet frame."""
        try:
            self._socket.send(frame)
        except BlockingIOError:
            return SendResult.WOULD_BLOCK
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return SendResult.NO_BUFFERS
            return SendResult.FAILED
        return SendResult.SENT

    def waited_s(self) -> float:
        """Returns how long the frame that was received last had waited in the socket, wall seconds."""
        try:
            stamp = fcntl.ioctl(self._socket, _SIOCGSTAMPNS, bytes(_TIMESPEC.size))
        except OSError:  # no frame has been received
            return 0.0
        seconds, ns = _TIMESPEC.unpack(stamp)
        waited_ns: int = time.time_ns() - seconds * 1_000_000_000 - ns
        # Not negative if the wall clock was set back.
        return max(0, waited_ns) / 1e9

    def drops(self) -> int:
        """Returns the number of frames that the kernel has dropped because the receive buffer was full."""
        raw = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        # Reading resets the kernel's count.
        self._drops += _STATISTICS.unpack(raw)[1]
        return self._drops

    def _read_mtu(self) -> int:
        request = _IFREQ.pack(self.device.encode(), 0).ljust(40, b"\0")
        answer = fcntl.ioctl(self._socket, _SIOCGIFMTU, request)
        return int(_IFREQ.unpack_from(answer)[1])


def _grow(target: socket.socket, forced: int, ordinary: int, size: int) -> None:
    """Sets a buffer size, beyond the system's limit if permitted, otherwise up to it."""
    try:
        target.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        target.setsockopt(socket.SOL_SOCKET, ordinary, size)
