"""The lag of the parts on one machine: their meters, the answers of its switches, and its idle processors."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import psutil

from captures.rundir.measures import PartLag, PartName
from router.clock.meter import Meter
from testbed.emulation.run.governor import EmulationClock

_REQUEST = b'{"id":0,"method":"version","params":[]}'


class SwitchProbe:
    """Asks each daemon for its version, one question at a time.

    The main thread of ovs-vswitchd answers between two rounds of forwarding (with the kernel datapath, of
    frames without a flow): an answer takes as long as a frame waits for its round.

    A daemon that is not there counts nothing: its supervision reports that.
    """

    def __init__(self, controls: Sequence[Path]) -> None:
        self._controls = list(controls)
        #: Daemon -> the connection on which it was asked, and when.
        self._asked: dict[Path, tuple[socket.socket, float]] = {}

    def lag_s(self, patience_s: float) -> float:
        """Wall seconds that the slowest answer takes, or has taken so far.

        Args:
            patience_s: wall seconds to wait for answers; the next call waits for those that are left.
        """
        for path in self._controls:
            self._ask(path)
        lag = 0.0
        deadline = time.monotonic() + patience_s
        while self._asked:
            paths: dict[Any, Path] = {connection: path for path, (connection, _) in self._asked.items()}
            # It polls: the descriptors of a large network exceed the 1,024 of select(2).
            ready = [paths[each] for each in wait([*paths], max(0.0, deadline - time.monotonic()))]
            now = time.monotonic()
            if not ready:
                return max(lag, *(now - asked for _, asked in self._asked.values()))
            for path in ready:
                connection, asked = self._asked.pop(path)
                connection.close()
                lag = max(lag, now - asked)
        return lag

    def close(self) -> None:
        for connection, _ in self._asked.values():
            connection.close()

    def _ask(self, path: Path) -> None:
        if path in self._asked:
            return
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.connect(str(path))
            connection.send(_REQUEST)
        except OSError:
            connection.close()
        else:
            self._asked[path] = connection, time.monotonic()


#: Wall seconds of lag with which a router keeps up with the opening predicates.
KEEPS_UP_S = 0.05
#: Wall seconds for which a look waits for Open vSwitch.
_PROBE_S = 0.1


class LagMeters:
    """The lag of parts.

    Args:
        meters: of the parts that measure themselves; a router with its node.
        switches: control sockets of the daemons of switches; None: there are none.
    """

    def __init__(
        self,
        clock: EmulationClock,
        meters: Mapping[tuple[PartName, int | None], Meter],
        switches: Sequence[Path] | None = None,
    ) -> None:
        self._clock = clock
        self._own = dict(meters)
        self._meters = list(meters.values())
        self._probe = SwitchProbe(switches or ())
        self._switches = Meter()
        if switches is not None:
            self._own["switches", None] = self._switches
        #: What was measured before the first part was away on purpose.
        self._before: list[list[float]] | None = None
        self._busy = psutil.cpu_times()

    def keep_up(self) -> bool:
        """Whether no part that measures itself was late since the last look."""
        return all(meter.recent < KEEPS_UP_S for meter in self._meters)

    def look(self) -> tuple[float, float]:
        """Returns what was since the last look: the greatest lag, wall seconds, and the share of the
        processors' time that was idle, 0 to 1."""
        self._switches.late(self._probe.lag_s(_PROBE_S), self._clock.clock)
        before, self._busy = self._busy, psutil.cpu_times()
        return max(meter.take_recent() for meter in self._own.values()), _idle(before, self._busy)

    def keep(self) -> None:
        """Keeps what was measured so far, for `restore`."""
        self._before = [meter.saved() for meter in self._own.values()]

    def restore(self) -> None:
        """Forgets the lag since `keep`."""
        if self._before is not None:
            for meter, slot in zip(self._own.values(), self._before, strict=True):
                meter.restore(slot)
            self._before = None

    def reset(self) -> None:
        for meter in self._own.values():
            meter.reset()

    def report(self) -> list[PartLag]:
        return [self._measured(part, node, meter) for (part, node), meter in self._own.items()]

    def close(self) -> None:
        self._probe.close()

    def _measured(self, part: PartName, node: int | None, meter: Meter) -> PartLag:
        """The lag of a part, and the turns of its loop."""
        measured, zero_s = meter.measured(), self._clock.zero_s
        found = PartLag(
            part=part,
            lag_s=measured.lag_s,
            lag_wall_s=measured.lag_wall_s,
            lag_at_s=measured.lag_at_s - zero_s if measured.lag_s else 0.0,
        )
        if node is not None:
            found["node"] = node
        if part != "switches":
            found["turn_s"], found["turn_of"] = measured.turn_s, measured.turn_of
            found["turn_at_s"] = measured.turn_at_s - zero_s if measured.turn_s else 0.0
            found["turn_cpu_s"] = measured.turn_cpu_s
        return found


def _idle(before: Sequence[float], after: Sequence[float]) -> float:
    """The share of the processors' time between two readings that was idle, or that of nicer processes: they
    give way."""
    # Behind the first eight: times of guests, which are part of the others.
    spent = [b - a for a, b in zip(before[:8], after[:8], strict=True)]
    _, nice, _, idle, waiting, *_ = spent
    total = sum(spent)
    return (nice + idle + waiting) / total if total > 0 else 1.0
