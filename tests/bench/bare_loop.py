"""The least that forwarding can cost: a process that receives and sends frames in batches, and no more.

``python -m tests.bench.bare_loop NAMESPACE DEVICE SHARE``: waits in epoll, receives up to 64 frames by
recvmmsg, sends the first SHARE of them (0 to 1) by sendmmsg. Ends with its standard input.
"""

from __future__ import annotations

import ctypes
import select
import socket
import sys

from router.forwarding.layout import FrameBuffers
from router.runtime.packet_socket import BATCH, RECEIVE_BUFFER
from router.system import LIBC, enter_network_namespace
from router.wire.header import ETHERTYPE

_SO_RCVBUFFORCE = 33
_IGNORE_OUTGOING = (263, 23, 1)


def main(namespace: str, device: str, share: float) -> None:
    enter_network_namespace(namespace)
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
    packets.setsockopt(*_IGNORE_OUTGOING)
    packets.bind((device, ETHERTYPE))
    buffers = FrameBuffers(BATCH, 1536)
    receive, send = LIBC.recvmmsg, LIBC.sendmmsg
    send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    outgoing, descriptor = int(buffers.headers_out.ctypes.data), packets.fileno()
    poll = select.epoll()
    poll.register(descriptor, select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    print("ready", flush=True)
    owed = 0.0
    for row in range(BATCH):
        buffers.pieces_out[row] = buffers.frames.ctypes.data + row * buffers.room, 0
    while True:
        for ready, _ in poll.poll():
            if ready != descriptor:
                return
            count = receive(descriptor, buffers.address_in, BATCH, socket.MSG_DONTWAIT, None)
            owed += count * share
            going = min(count, int(owed))
            owed -= going
            if going:
                # Frames of the workload are of about one length: that of the first stands for all.
                buffers.pieces_out[:going, 1] = buffers.length(0)
                send(descriptor, outgoing, going, socket.MSG_DONTWAIT)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
