"""The least that forwarding can cost: Python processes that receive and send frames, and no more.

``python -m tests.bench.bare NAMESPACE DEVICE batches SHARE``: receives up to 64 frames by recvmmsg, sends the
first SHARE of them (0 to 1) by sendmmsg.

``python -m tests.bench.bare NAMESPACE DEVICE hops NODE PORT,... [SOCKET]``: takes the place of the router of
NODE. The last byte of a frame says how many hops it has left; with one more it goes out of the next of the
PORTs. With a SOCKET it serves one application there: each frame makes a line for it, each line of it a frame
and a line that answers. At the end prints ``{"hops": received, "cpu_s": seconds}``.

Each waits in epoll, and ends with its standard input.
"""

from __future__ import annotations

import ctypes
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

from router.forwarding.layout import FrameBuffers
from router.runtime.packet_socket import BATCH, RECEIVE_BUFFER
from router.system import LIBC, enter_network_namespace
from router.wire.header import ETHERTYPE, node_address, port_addresses

_SO_RCVBUFFORCE = 33
_IGNORE_OUTGOING = (263, 23, 1)
#: Bytes of a frame: those of a message of the default experiment.
FRAME_BYTES = 150
#: Lines to an application: of a delivery and of an answer of the default experiment.
_DELIVERY, _ANSWER = b"d" * 219 + b"\n", b"a" * 39 + b"\n"


def frame(node: int, port: int, hops: int) -> bytes:
    """A frame of `node` that leaves by a port of its switch."""
    head = port_addresses([port])[0] + node_address(node) + ETHERTYPE.to_bytes(2, "big")
    return head + bytes(FRAME_BYTES - len(head) - 1) + bytes([hops])


@contextmanager
def bare_process(namespace: str, device: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process of this module that is ready; it ends with the context, unless it has ended before."""
    command = [sys.executable, "-m", "tests.bench.bare", namespace, device, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.stdin.close()
        process.wait(20)


def _batches(packets: socket.socket, poll: select.epoll, share: float) -> None:
    buffers = FrameBuffers(BATCH, 1536)
    receive, send = LIBC.recvmmsg, LIBC.sendmmsg
    send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    outgoing, descriptor = int(buffers.headers_out.ctypes.data), packets.fileno()
    for row in range(BATCH):
        buffers.pieces_out[row] = buffers.frames.ctypes.data + row * buffers.room, 0
    print("ready", flush=True)
    owed = 0.0
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


def _hops(packets: socket.socket, poll: select.epoll, node: int, ports: list[int], path: str = "") -> None:
    following = cycle([frame(node, port, 0)[:-1] for port in ports])
    application = None
    if path:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()
    print("ready", flush=True)
    if path:
        application, _ = listener.accept()
        poll.register(application.fileno(), select.EPOLLIN)
    hops, began, ended = 0, time.process_time(), False
    while not ended:
        for ready, _ in poll.poll():
            if ready == packets.fileno():
                data = packets.recv(2048)
                hops += 1
                if data[-1]:
                    packets.send(next(following) + bytes([data[-1] - 1]))
                if application is not None:
                    application.send(_DELIVERY)
            elif application is not None and ready == application.fileno():
                ended = not application.recv(65_536)
                if not ended:
                    hops += 1
                    packets.send(next(following) + b"\0")
                    application.send(_ANSWER)
            else:
                ended = True
    print(json.dumps({"hops": hops, "cpu_s": time.process_time() - began}))


def main(namespace: str, device: str, what: str, *arguments: str) -> None:
    enter_network_namespace(namespace)
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
    # The kernel would show the process what it sends.
    packets.setsockopt(*_IGNORE_OUTGOING)
    packets.bind((device, ETHERTYPE))
    poll = select.epoll()
    poll.register(packets.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
    if what == "batches":
        _batches(packets, poll, float(arguments[0]))
    else:
        node, ports, *path = arguments
        _hops(packets, poll, int(node), [int(port) for port in ports.split(",")], *path)


if __name__ == "__main__":
    main(*sys.argv[1:])
