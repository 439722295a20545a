"""The raw sockets of a router: Ethernet frames of EtherType 0x88B5 on one device.

See packet(7). Messages and publications (`router.wire.format.DATA`) have a socket of their own, and the
kernel sorts frames by their type: control frames never wait behind them, and never lack room in a buffer that
they have filled. Nothing else in this module interprets the frames.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import socket
import struct
import time

from router.forwarding.layout import FrameBuffers
from router.system import LIBC, SIOCGSTAMPNS
from router.wire.format import DATA
from router.wire.header import ETHERNET_HEADER_LENGTH, ETHERTYPE

# Linux constants that the socket module does not name.
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_PACKET_IGNORE_OUTGOING = 23
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SIOCGIFMTU = 0x8921
_STATISTICS = struct.Struct("II")
_IFREQ = struct.Struct("16si")
_TIMESPEC = struct.Struct("qq")

#: Bytes requested for each socket buffer; the kernel doubles them to account for its overhead.
RECEIVE_BUFFER = 16 * 1024 * 1024
SEND_BUFFER = 4 * 1024 * 1024
#: Frames read at one wake-up before other sockets are served.
BATCH = 64
#: MSG_TRUNC: the length is that of the frame on the wire, though its buffer may be shorter.
_RECEIVE_FLAGS = socket.MSG_DONTWAIT | socket.MSG_TRUNC
#: TC_PRIO_CONTROL.
_PRIORITY_CONTROL = 7

# Classic BPF.
_SO_ATTACH_FILTER = 26
_LOAD_LENGTH, _LOAD_BYTE, _JUMP_AT_LEAST, _JUMP_EQUAL, _RETURN = 0x80, 0x30, 0x35, 0x15, 0x06
_ACCEPT = 0xFFFF_FFFF
_INSTRUCTION = struct.Struct("=HBBI")
_PROGRAM = struct.Struct("@HP")
#: Offset of the frame type in an Ethernet frame.
_TYPE_AT = ETHERNET_HEADER_LENGTH + 1


class PacketSocket:
    """A non-blocking AF_PACKET socket on `device` in the current network namespace.

    Args:
        device: name of a network device.
        data: whether it receives the frames of `DATA`, or all others.
        buffers: where it receives them.

    Raises:
        OSError: the device does not exist, or the process has no permission for raw sockets.
    """

    def __init__(self, device: str, buffers: FrameBuffers, *, data: bool) -> None:
        self._drops = 0
        self._buffers = buffers
        # Protocol 0 until the socket is bound: otherwise it receives frames of all other devices first.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._socket.setblocking(False)
            _attach_filter(self._socket, data=data)
            grow_receive_buffer(self._socket, RECEIVE_BUFFER)
            _grow(self._socket, _SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BUFFER)
            # Older kernels lack the option; they show sent frames to other sockets only.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            if not data:
                # The first band of the device's queue, where it has one.
                with contextlib.suppress(OSError):
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, _PRIORITY_CONTROL)
            try:
                self._socket.bind((device, ETHERTYPE))
            except OSError as error:
                raise OSError(error.errno, f"device {device}: {error.strerror}") from error
        except BaseException:
            self._socket.close()
            raise
        self._descriptor = self._socket.fileno()
        # From the first question on, the kernel stamps frames for this socket.
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._socket, SIOCGSTAMPNS, bytes(_TIMESPEC.size))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def receive(self) -> list[bytes]:
        """Returns the frames that have arrived, as many as the buffers hold.

        No exception if none has: at a wake-up it would cost more than the frame.
        """
        buffers = self._buffers
        count = LIBC.recvmmsg(self._descriptor, buffers.address_in, buffers.slots, _RECEIVE_FLAGS, None)
        # -1 for no frame, and once when the device goes down; frames may arrive when it is up again.
        return [buffers.frame(number) for number in range(count)]

    def send(self, frame: bytes) -> None:
        """Sends one Ethernet frame.

        Raises:
            BlockingIOError: the socket buffer is full; wait until the socket is writable.
            OSError: ENOBUFS: the device's queue is full, and the socket does not report when it has room. Any
                other: the device is down or gone, or the frame exceeds its MTU.
        """
        self._socket.send(frame)

    def waited_s(self) -> float:
        """Returns how long the frame that is received next has waited, wall seconds; 0 if there is none."""
        try:
            # A look at the frame makes its stamp the one that the kernel gives.
            self._socket.recv(1, socket.MSG_PEEK)
            stamp = fcntl.ioctl(self._socket, SIOCGSTAMPNS, bytes(_TIMESPEC.size))
        except OSError:
            return 0.0
        seconds, ns = _TIMESPEC.unpack(stamp)
        waited_ns: int = time.time_ns() - seconds * 1_000_000_000 - ns
        # Not negative if the wall clock was set back.
        return max(0, waited_ns) / 1e9

    def drops(self) -> int:
        """Returns the number of frames that the kernel has dropped because the receive buffer was full."""
        self._drops += take_drops(self._socket)
        return self._drops


class PacketSockets:
    """Both sockets of a router on its device.

    Attributes:
        messages, control: each receives its frames alone.
        buffers: of a batch of either.
        mtu: of the device, bytes.

    Args:
        device: name of a network device.

    Raises:
        OSError: as `PacketSocket`.
    """

    def __init__(self, device: str) -> None:
        self.mtu = _mtu(device)
        self.buffers = FrameBuffers(BATCH, -(-(self.mtu + ETHERNET_HEADER_LENGTH) // 64) * 64)
        self.messages = PacketSocket(device, self.buffers, data=True)
        try:
            self.control = PacketSocket(device, self.buffers, data=False)
        except BaseException:
            self.messages.close()
            raise

    def drops(self) -> int:
        """As `PacketSocket.drops`, of both."""
        return self.messages.drops() + self.control.drops()

    def close(self) -> None:
        self.messages.close()
        self.control.close()


def _mtu(device: str) -> int:
    """Raises OSError: there is no such device."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
        request = _IFREQ.pack(device.encode(), 0).ljust(40, b"\0")
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, request)
        except OSError as error:
            raise OSError(error.errno, f"device {device}: {error.strerror}") from error
    return int(_IFREQ.unpack_from(answer)[1])


def _attach_filter(target: socket.socket, *, data: bool) -> None:
    """Makes the kernel pass frames of `DATA` to the socket, or all others: see bpf(4), socket(7)."""
    of_messages, of_others = (_ACCEPT, 0) if data else (0, _ACCEPT)
    types = sorted(DATA)
    # A jump skips so many instructions, if the comparison holds and if it does not.
    instructions = (
        (_LOAD_LENGTH, 0, 0, 0),
        (_JUMP_AT_LEAST, 0, len(types) + 1, _TYPE_AT + 1),
        (_LOAD_BYTE, 0, 0, _TYPE_AT),
        *((_JUMP_EQUAL, len(types) - index, 0, int(type_)) for index, type_ in enumerate(types)),
        (_RETURN, 0, 0, of_others),
        (_RETURN, 0, 0, of_messages),
    )
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*each) for each in instructions))
    program = _PROGRAM.pack(len(instructions), ctypes.addressof(code))
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def take_drops(target: socket.socket) -> int:
    """Returns the number of frames that found no room in a packet socket's buffer, and sets it to 0."""
    raw = target.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
    drops: int = _STATISTICS.unpack(raw)[1]
    return drops


def grow_receive_buffer(target: socket.socket, size: int) -> None:
    """Sets the size of a socket's receive buffer, in bytes: beyond the system's limit if permitted."""
    _grow(target, _SO_RCVBUFFORCE, socket.SO_RCVBUF, size)


def _grow(target: socket.socket, forced: int, ordinary: int, size: int) -> None:
    """Sets a buffer size, beyond the system's limit if permitted, otherwise up to it."""
    try:
        target.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        target.setsockopt(socket.SOL_SOCKET, ordinary, size)
