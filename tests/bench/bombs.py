"""The longest turn of a live router under predicates made to be expensive, by shape and size.

A router process as an emulation starts it, with its recording, on a veth pair; this process plays its
neighbours and its controller. Needs root.

The router receives one RA of the size, in Ethernet frames of 1,500 bytes, and works it off (*RA*). Then it
receives messages that p_i has to be searched for, until the matching engine has all of p_i: short ones, and
ones with a text of 60,000 letters (*MSG*). Another neighbour sends the same predicate as its UR, with which a
third is answered (*UR*). A further router with `max_filters` over-simplifies p_i after the RA (*max*). The
predicate of an application is bounded and joined as that of an RA is.

A bomb of 0 bytes has as many filters as a router reads with its default bounds.

The shapes whose names begin with *bits* are of encoded predicates and messages (`[privacy] mode = "bloom"`).

A turn goes from the end of a wait of the router's loop to its next wait; its time is that of the processor,
in milliseconds, as the router measures it for `lag.json` (`turn_cpu_s`). The columns are the longest turns
until the router is idle; *wall* is the longest of all in wall time, which other processes lengthen. *CPU s*
is what both routers took in all, *MB* the greatest resident memory of one, *rec MB* the size of the
recordings.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from router.clock import ClockPage, Piece
from router.clock.meter import Meter
from router.protocol.options import RouterOptions, content_of
from router.runtime.client import Client
from router.wire.frames import EncodedPredicate, Frame, FrameType, SenderRequest
from tests.bench.bomb_shapes import AT_BOUNDS, ENCODED, EVERY_SHAPE, bomb, encoded, messages
from tests.bench.forwarding import cpu_s, live_router
from tests.support.packets import ethernet
from tests.support.runtime_wire import Wire, socket_in
from tests.support.tree_entries import TreeEntry, table_of

_COLUMNS = ("RA", "MSG", "UR", "max")
#: `max_filters` of the column *max*.
_MAX_FILTERS = 50
#: The router is node 0; its interfaces 1, 2, 3 lead to nodes 1, 2, 3, and node 4 lies beyond node 1.
_TABLE = table_of(
    ((1, 1), (2, 2), (3, 3)),
    (
        TreeEntry(0, 0, (1, 2, 3), 0),
        TreeEntry(1, 1, (2, 3), 1),
        TreeEntry(4, 1, (2,), 2),
        TreeEntry(2, 2, (1,), 3),
        TreeEntry(3, 3, (), 4),
    ),
)
#: Microseconds for which an SR waits: longer than any router here takes.
_TIMEOUT_US = 3_600_000_000
#: Seconds after which a router that is not idle has failed, between two looks at a router, and CPU seconds
#: that a router which has nothing to do takes in between.
_LIMIT_S, _LOOK_S, _QUIET_S = 120.0, 0.05, 0.01
#: Frames that are sent before the router has had time to read them: far less than its socket holds.
_BURST, _PAUSE_S = 256, 0.01


@dataclass
class _Found:
    """The longest turns of a bomb's routers, seconds: by column in CPU time, and of all in wall time.

    Attributes:
        cpu_s: CPU seconds of all.
        peak_mb: resident MB of the largest.
        recorded: bytes of the recordings.
    """

    turns: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_COLUMNS, 0.0))
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: int = 0
    recorded: int = 0

    def row(self) -> str:
        longest = " ".join(f"{1e3 * turn:>7,.1f}" for turn in (*self.turns.values(), self.wall_s))
        return f"{longest} {self.cpu_s:>7,.1f} {self.peak_mb:>5} {self.recorded / 1e6:>6,.1f}"


class _Measured:
    """A router whose turns are measured, and a client of its."""

    def __init__(self, found: _Found, meter: Meter, wire: Wire, client: Client, pid: int) -> None:
        self._found, self._meter, self._client, self._pid = found, meter, client, pid
        self.link = socket_in(wire.namespaces[1], wire.devices[1])
        self.link.settimeout(_LIMIT_S)
        self._sent: Counter[str] = Counter()

    def send(self, sender: int, frame: Frame) -> None:
        """Sends a frame of a neighbour, in Ethernet frames."""
        sent = ethernet(frame, sender)
        for number, data in enumerate(sent):
            if number % _BURST == _BURST - 1:
                time.sleep(_PAUSE_S)
            self.link.send(data)
        self._sent[frame.type.name] += len(sent)

    def longest(self, column: str, cause: Callable[[], object]) -> None:
        """Notes the longest turn from a cause until the router has had all frames and is idle.

        It is idle also in work that nobody waits for.
        """
        self._meter.reset()
        cause()
        deadline, before = time.monotonic() + _LIMIT_S, cpu_s(self._pid)
        while not self._is_done(before):
            assert time.monotonic() < deadline, f"the router is not idle after {_LIMIT_S:g} s"
            before = cpu_s(self._pid)
            time.sleep(_LOOK_S)
        measured = self._meter.measured()
        self._found.turns[column] = max(measured.turn_cpu_s, self._found.turns[column])
        self._found.wall_s = max(measured.turn_s, self._found.wall_s)

    def _is_done(self, cpu_before_s: float) -> bool:
        if cpu_s(self._pid) - cpu_before_s >= _QUIET_S:
            return False
        status = self._client.status(tables=False)
        assert status["counters"]["socket_drops"] == 0, "frames were sent faster than the router reads"
        received = status["counters"]["frames_received"]
        return status["idle"] and all(received.get(kind, 0) == count for kind, count in self._sent.items())


@contextmanager
def _running(options: RouterOptions, found: _Found) -> Iterator[_Measured]:
    """A router in epoch 1; its costs are noted at the end."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"records_path": f"{folder}/r.jsonl", "clock_path": f"{folder}/clock"}
        page = ClockPage.create(Path(files["clock_path"]), 1, Piece(time.monotonic_ns(), 0.0, 1.0))
        with live_router([], _TABLE, options=options, **files) as (wire, client, routers):
            measured = _Measured(found, Meter(page.slot(0)), wire, client, routers.pids[0])
            with measured.link:
                yield measured
            status = Path(f"/proc/{routers.pids[0]}/status").read_text()
            peak_mb = int(status.partition("VmHWM:")[2].split()[0]) // 1024
            found.peak_mb = max(found.peak_mb, peak_mb)
            found.cpu_s += cpu_s(routers.pids[0])
            found.recorded += Path(str(routers.specs[0].recording_path)).stat().st_size


def measure(shape: str, size: int) -> _Found:
    """The longest turns of a bomb, and what it took."""
    options = RouterOptions(privacy="bloom") if shape in ENCODED else RouterOptions()
    content, found = content_of(options.covering, options.privacy), _Found()
    body = encoded(bomb(shape, size))

    def of_bomb(kind: FrameType, issuer: int) -> Frame:
        return Frame(kind, issuer, 1, 1, 9, EncodedPredicate(kind, body))

    advertisement = of_bomb(content.advertisement_frame, 1)
    with _running(options, found) as router:
        router.longest("RA", partial(router.send, 1, advertisement))
        for number, message in enumerate(messages(shape)):
            sent = Frame(content.message_frame, 2, number, 1, 9, message)
            router.longest("MSG", partial(router.send, 2, sent))

        def exchange() -> None:
            router.send(1, Frame(FrameType.SR, 4, 1, 1, 9, SenderRequest(_TIMEOUT_US)))
            router.send(2, of_bomb(content.reply_frame, 4))

        router.longest("UR", exchange)
    with _running(replace(options, max_filters=_MAX_FILTERS), found) as router:
        router.longest("max", partial(router.send, 1, advertisement))
    return found


def main(
    sizes: Sequence[int] = (20_000, 200_000, 2_000_000, AT_BOUNDS), shapes: Sequence[str] = EVERY_SHAPE
) -> None:
    """Prints a row for each bomb."""
    columns = " ".join(f"{column + ' ms':>7}" for column in (*_COLUMNS, "wall"))
    print(f"{'shape':28} {'bytes':>9} {columns} {'CPU s':>7} {'MB':>5} {'rec MB':>6}", flush=True)
    for size in sizes:
        for shape in shapes:
            print(f"{shape:28} {size:>9,} {measure(shape, size).row()}", flush=True)
