"""A live router woken for one frame at a time: the CPU time of a hop.

A real router process on a veth pair; the predicates and messages of `forwarding`. A frame comes every few
milliseconds, so that each has a wake-up of its own: a message, an RA with a new predicate, or an SR and the
URs of the other neighbours, which the router sums up for the one that asked; or an application of the router
sends a message. The bare loop beside the router serves an application as well, if the router does. Needs
root.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path
from statistics import median

from router.predicates import EVERYTHING, Message
from router.predicates.parser import parse_predicate
from router.runtime.client import Client
from router.runtime.commands import send_message
from router.wire.frames import Frame, FrameType, SenderRequest
from tests.bench.bare import bare_process
from tests.bench.forwarding import INTERFACES, cpu_s, live_router, workload
from tests.support.packets import ethernet
from tests.support.polling import TIMEOUT
from tests.support.runtime_wire import Wire

_PERIOD_S = 0.002
#: RAs come after those that set the router up.
_LATER = 1 << 20
_TIMEOUT_US = 1_000_000
_SEND = "send"
#: Bytes of a request of the default experiment.
_REQUEST_BYTES = 220


def main(frames: int = 1_000, type: str = "MSG", deliver: bool = False) -> None:
    """Prints the medians of the router and of the bare loop, which get each frame in turn.

    Args:
        type: what wakes the router: MSG, RA, UR (SRs with URs) or send (messages of an application).
        deliver: whether an application of the router gets each message.
    """
    predicates, contents = workload()
    costs, bare_costs = [], []
    sends = type == _SEND
    with ExitStack() as stack:
        wire, receiver, routers = stack.enter_context(live_router(predicates))
        pid = routers.pids[0]
        if deliver:
            receiver.set_predicate(EVERYTHING)
        sender = stack.enter_context(Client(routers.specs[0].socket_path, "sender"))
        bare_wire = stack.enter_context(Wire("b"))
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bare.sock"
        served = [path] if deliver or sends else []
        bare = stack.enter_context(bare_process(*bare_wire.place(0), "hops", 1, 1, *served))
        application = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        # A lost frame ends the measurement.
        application.settimeout(TIMEOUT)
        if served:
            application.connect(str(path))
        for number, data in enumerate(islice(_FRAMES.get(type, _messages)(contents), frames)):
            before = cpu_s(pid)
            if sends:
                sender.start(send_message(contents[number % len(contents)]))
            else:
                wire.inject(0, data)
            time.sleep(_PERIOD_S)
            costs.append(cpu_s(pid) - before)
            sender.read_events()
            wire.read()
            sent = bool(wire.received[1])
            wire.received[1].clear()
            before = cpu_s(bare.pid)
            if sends:
                application.send(bytes(_REQUEST_BYTES))
            else:
                bare_wire.inject(0, data[:-1] + bytes([sent]))
            time.sleep(_PERIOD_S)
            bare_costs.append(cpu_s(bare.pid) - before)
            if served:
                application.recv(65_536)
    plain, of_bare = median(costs) * 1e6, median(bare_costs) * 1e6
    print(f"{frames} frames ({type}), {_PERIOD_S * 1e3:.0f} ms apart; medians: ", end="")
    print(f"{plain:.1f} us of CPU a hop, ", end="")
    print(f"of a bare loop that gets them in turn {of_bare:.1f} us: {plain / of_bare:.2f} times")


def _messages(contents: Sequence[Message]) -> Iterator[bytes]:
    for number in count():
        message = Frame(FrameType.MSG, 1, number, 1, 9, contents[number % len(contents)])
        yield ethernet(message, 1)[0]


def _advertisements(_contents: Sequence[Message]) -> Iterator[bytes]:
    for number in count(1):
        predicate = parse_predicate(f"x{number % 7} = {number} or y < {number}")
        yield ethernet(Frame(FrameType.RA, 1, _LATER + number, 1, 9, predicate), 1)[0]


def _requests(_contents: Sequence[Message]) -> Iterator[bytes]:
    """An SR of neighbour 1, then the UR of each other neighbour."""
    for number in count(1):
        request = SenderRequest(_TIMEOUT_US)
        yield ethernet(Frame(FrameType.SR, 1, number, 1, 9, request), 1)[0]
        for neighbour in range(2, INTERFACES + 1):
            predicate = parse_predicate(f"x{neighbour} = {number} or y < {neighbour}")
            yield ethernet(Frame(FrameType.UR, 1, number, 1, 9, predicate), neighbour)[0]


_FRAMES: dict[str, Callable[[Sequence[Message]], Iterator[bytes]]] = {
    "MSG": _messages,
    "RA": _advertisements,
    "UR": _requests,
}
