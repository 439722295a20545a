"""Two network namespaces joined by a veth pair, for tests of live routers."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from router.runtime.packet_socket import RECEIVE_BUFFER
from router.security.guard import Guard
from router.system import enter_network_namespace, returning_to_its_namespace
from router.wire.codec import fragment
from router.wire.frames import COUNTER_BITS, Ack, BroadcastTable, Commit, Frame, FrameType, Hello
from router.wire.header import CONTROLLER_SOURCE, ETHERTYPE, ROUTER_DESTINATION, node_address
from tests.support import tree_entries
from tests.support.packets import ethernet
from tests.support.polling import wait_for
from tests.support.whole_frames import decode

ETHERTYPE_BYTES = ETHERTYPE.to_bytes(2, "big")
#: Local experimental EtherType 2 (IEEE 802), which routers do not read.
_PROBE = 0x88B6
_SO_RCVBUFFORCE = 33


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def inside(namespace: Path) -> Iterator[None]:
    """Sockets that are made meanwhile belong to `namespace`."""
    with returning_to_its_namespace():
        enter_network_namespace(str(namespace))
        yield


def socket_in(namespace: Path, device: str, ethertype: int = ETHERTYPE) -> socket.socket:
    """A raw socket on a device of another namespace; it holds what nobody reads for a while."""
    with inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
        made.bind((device, ethertype))
    made.setblocking(False)
    return made


def await_both_ways(ends: Sequence[tuple[Path, str]]) -> None:
    """Waits until frames arrive at both ends, namespace and device, of a veth pair that is up.

    A device that came up before its peer gets its queue from a worker of the kernel, some time after both are
    up; what is sent before is dropped without an error.
    """
    arrived: set[int] = set()
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket_in(*end, _PROBE)) for end in ends]

        def silent() -> str | None:
            for number, each in enumerate(sockets):
                with contextlib.suppress(BlockingIOError):
                    each.recv(65_535)
                    arrived.add(number)
                if number not in arrived:
                    header = ROUTER_DESTINATION + CONTROLLER_SOURCE + _PROBE.to_bytes(2, "big")
                    sockets[1 - number].send(header)
            return None if len(arrived) == 2 else f"frames arrive at the ends {arrived} alone"

        wait_for(silent)


class Wire:
    """Two namespaces and the veth pair between them; side n holds the router of node n.

    Args:
        tag: is a part of the names, which are those of this process.

    Attributes:
        received: Ethernet frames that reached side 0 and 1 from the other.
    """

    def __init__(self, tag: str = "") -> None:
        self.names = [f"cbcbt{os.getpid()}{tag}{side}" for side in "ab"]
        self.devices = [f"ct{os.getpid()}{tag}{side}" for side in "ab"]
        self.namespaces = [Path("/run/netns") / name for name in self.names]
        self.received: list[list[bytes]] = [[], []]
        self._sockets: list[socket.socket] = []
        #: Tags the frames of the controller that the test plays.
        self.guard: Guard | None = None

    def place(self, side: int) -> tuple[str, str]:
        """Namespace and device of a side."""
        return str(self.namespaces[side]), self.devices[side]

    def inside(self, side: int) -> contextlib.AbstractContextManager[None]:
        """Sockets that are made meanwhile belong to that side."""
        return inside(self.namespaces[side])

    def up(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        first, second = self.devices
        ip("-n", self.names[0], "link", "add", first, "type", "veth", "peer", second, "netns", self.names[1])
        for name, device in zip(self.names, self.devices, strict=True):
            ip("netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
            ip("-n", name, "link", "set", device, "up")
        self._sockets = [socket_in(*side) for side in zip(self.namespaces, self.devices, strict=True)]
        await_both_ways(list(zip(self.namespaces, self.devices, strict=True)))

    def down(self) -> None:
        for each in self._sockets:
            each.close()
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def read(self) -> None:
        """Takes what has reached either side."""
        for side, each in enumerate(self._sockets):
            while select.select([each], [], [], 0)[0]:
                self.received[side].append(each.recv(65_535))

    def frames_of(self, node: int) -> list[Frame]:
        self.read()
        source = node_address(node)
        return [decode(data[14:]) for data in self.received[1 - node] if data[6:12] == source]

    def inject(self, node: int, ethernet: bytes) -> None:
        """Puts an Ethernet frame on the wire, and waits until the router of `node` can receive it.

        The kernel delivers a frame some time after it was sent, first to the socket that was bound last.
        """
        self.read()
        before = len(self.received[node])
        self._sockets[1 - node].send(ethernet)

        def missing() -> str | None:
            self.read()
            return None if ethernet in self.received[node][before:] else "the frame has not arrived"

        wait_for(missing)

    def pass_on(self, node: int, frame: Frame, sender: int = 1) -> None:
        """Puts a frame of a router, by which it reaches the router of `node`, on the wire."""
        for data in ethernet(frame, sender):
            self.inject(node, data)

    def control(self, node: int, frame: Frame) -> None:
        """Sends a frame of the controller to the present start of the router, whose HELLO is awaited."""
        wait_for(lambda: None if self._incarnation(node) is not None else f"node {node}: no HELLO")
        incarnation = self._incarnation(node)
        assert incarnation is not None
        frame = replace(frame, seq=incarnation << COUNTER_BITS | frame.seq)
        header = ROUTER_DESTINATION + CONTROLLER_SOURCE + ETHERTYPE_BYTES
        if self.guard is None:
            sent = [header + payload for payload in fragment(frame, 1400)]
        else:
            sent = self.guard.frames(header, self.guard.signed(frame), [node_address(node)], 1400)
        for data in sent:
            self.inject(node, data)

    def _incarnation(self, node: int) -> int | None:
        bodies = [frame.body for frame in self.frames_of(node)]
        return next((body.incarnation for body in reversed(bodies) if isinstance(body, Hello)), None)

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.down()

    def set_up_routers(self) -> None:
        """Plays the controller of a network of two nodes until both have committed epoch 1."""
        bodies: list[tuple[FrameType, Callable[[int], BroadcastTable | Commit]]] = [
            (FrameType.TABLE, table_of),
            (FrameType.COMMIT, lambda _node: Commit(1)),
        ]
        for kind, body_of in bodies:
            for node in (0, 1):
                self.control(node, Frame(kind, node, 7, 1, 1, body_of(node)))
            for node in (0, 1):
                wait_for(partial(self._unacknowledged, node, kind))

    def _unacknowledged(self, node: int, kind: FrameType) -> str | None:
        acknowledged = {frame.body for frame in self.frames_of(node) if frame.type is FrameType.ACK}
        return None if Ack(kind) in acknowledged else f"node {node}: {kind.name} is not acknowledged"


def table_of(node: int) -> BroadcastTable:
    """The table of one of two nodes that are neighbours on interface 1."""
    own, other = tree_entries.TreeEntry(node, 0, (1,), 0), tree_entries.TreeEntry(1 - node, 1, (), 1)
    return tree_entries.table_of(((1, 1 - node),), (own, other))
