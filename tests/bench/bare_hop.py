"""The least that a hop can cost: a Python process that waits in epoll, receives a frame and sends it on.

``python -m tests.bench.bare_hop NAMESPACE DEVICE NODE PORT,... [SOCKET]``: takes the place of the router of
NODE. The last byte of a frame says how many hops it has left; with one more it goes out of the next of the
PORTs. With a SOCKET it serves one application there: each frame makes a line for it, each line of it a frame
and a line that answers. At the end of its standard input, prints ``{"hops": received, "cpu_s": seconds}``.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from itertools import cycle

from router.system import enter_network_namespace
from router.wire.header import ETHERTYPE, node_address, port_addresses

#: Bytes of a frame: those of a message of the default experiment.
FRAME_BYTES = 150
#: Lines to an application: of a delivery and of an answer of the default experiment.
_DELIVERY, _ANSWER = b"d" * 219 + b"\n", b"a" * 39 + b"\n"


def frame(node: int, port: int, hops: int) -> bytes:
    """A frame of `node` that leaves by a port of its switch."""
    head = port_addresses([port])[0] + node_address(node) + ETHERTYPE.to_bytes(2, "big")
    return head + bytes(FRAME_BYTES - len(head) - 1) + bytes([hops])


def main(namespace: str, device: str, node: int, ports: list[int], path: str = "") -> None:
    enter_network_namespace(namespace)
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    # The kernel would show the process what it sends.
    packets.setsockopt(263, 23, 1)
    packets.bind((device, ETHERTYPE))
    following = cycle([frame(node, port, 0)[:-1] for port in ports])
    poll = select.epoll()
    poll.register(packets.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN)
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


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        [int(port) for port in sys.argv[4].split(",")],
        *sys.argv[5:],
    )
