"""The clocks of the other machines of a run, and the wall times in the files of their parts, by the driver's.

A machine answers 8 bytes with its CLOCK_MONOTONIC and CLOCK_REALTIME (ns, 64 bits each, big-endian). NTP
slews both alike: on a machine they keep their distance until somebody sets the wall clock.
"""

from __future__ import annotations

import re
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from socket import socket
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captures.pcap import FILE_HEADER
from captures.rundir import RunLayout
from router.clock import NS, Piece
from router.recording.file import Recording, RecordingError
from testbed.support.errors import RunError

#: Exchanges of a measurement, of which the fastest counts; wall seconds to the next one, and for an answer.
EXCHANGES, INTERVAL_S, _ANSWER_S = 100, 5.0, 10.0
_ANSWER = struct.Struct(">QQ")
#: A measurement whose error may be `_BUSY` times that of the best came while a machine was busy. `_MINUTE`:
#: measurements in a minute. `_LAST`: most further measurements at the end, until one is not busy.
_BUSY, _MINUTE, _LAST = 4, 12, 20
#: How far before the first measurement, and after the last, clocks are mapped.
_FAR_NS = 10**15
#: A wall time in a log: a field of a record, before its objects. It has 19 digits until the year 2286.
_STAMP = rb'^\{(?:[^"{\n]++|"(?:[^"\\\n]++|\\.)*+")*?"%b": ?(\d{19})\b'
_STAMPS = [re.compile(_STAMP % name, re.MULTILINE) for name in (b"t_ns", b"requested_ns")]
Int64s = npt.NDArray[np.int64]


class Offset(NamedTuple):
    """A measurement, in ns."""

    own_ns: int  # when: the driver's CLOCK_MONOTONIC
    ahead_ns: int  # the machine's CLOCK_MONOTONIC less the driver's
    wall_ns: int  # CLOCK_REALTIME less CLOCK_MONOTONIC of the machine
    own_wall_ns: int  # that of the driver
    bound_ns: int  # half a round trip: the greatest error, however unequal its ways are


def measure(connection: socket) -> Offset:
    """Measures the clocks of a machine over a stream; raises OSError."""
    connection.settimeout(_ANSWER_S)
    before = sys.getswitchinterval()
    # Busy threads give way to an answer at once: with Python's 5 ms, all answers were read some ms too late.
    sys.setswitchinterval(1e-5)
    try:
        return min((_exchange(connection) for _ in range(EXCHANGES)), key=lambda each: each.bound_ns)
    finally:
        sys.setswitchinterval(before)


def _exchange(connection: socket) -> Offset:
    began_ns = time.monotonic_ns()
    connection.sendall(bytes(8))
    if len(answer := connection.recv(_ANSWER.size)) != _ANSWER.size:
        raise ConnectionError("the machine tells its clock no more")
    own_real_ns, ended_ns = time.time_ns(), time.monotonic_ns()
    monotonic_ns, real_ns = _ANSWER.unpack(answer)
    own_ns, bound_ns = (began_ns + ended_ns) // 2, (ended_ns - began_ns + 1) // 2
    return Offset(own_ns, monotonic_ns - own_ns, real_ns - monotonic_ns, own_real_ns - ended_ns, bound_ns)


class ClockFit:
    """The map between the clocks of a machine and the driver's, by one measurement or more.

    Lines join the measurements, for NTP changes the drift; outside, that of the line through all holds.

    Attributes:
        drift: ns that the machine gains in a ns, by the line through all measurements.
        bound_ns: the greatest error between the first and the last measurement: the greatest half round trip,
            distance of a measurement from the line between its neighbours, and variation of the wall clocks.
        steps: settings of a wall clock, in words.
    """

    def __init__(self, machine: object, offsets: Sequence[Offset]) -> None:
        best = self._best = min(offsets, key=lambda each: each.bound_ns)
        own, ahead, wall, own_wall, bound = every = np.array(offsets, np.int64).T
        moved = np.maximum(np.abs(wall - best.wall_ns), np.abs(own_wall - best.own_wall_ns))
        # Measurements of a busy machine are left out, but for those that show that a wall clock was set, and
        # the best of each minute or two: in a time without any, a drift may have changed.
        kept = (bound <= _BUSY * best.bound_ns) | (moved > 2 * (bound + best.bound_ns))
        for minute in np.array_split(np.arange(len(kept)), max(1, len(kept) // _MINUTE)):
            kept[minute[np.argmin(bound[minute])]] = True
        own, ahead, wall, own_wall, bound = every[:, kept]
        self._since, own = np.array([own[0], own[0] + ahead[0]]), own - own[0]
        other = own + ahead - ahead[0]
        self.drift = float(np.polyfit(own, other - own, 1)[0]) if len(own) > 1 else 0.0
        #: Knots of the map, since the first measurement.
        self._own, self._other = (
            np.concatenate([[-far], since, [since[-1] + far]])
            for since, far in ((own, _FAR_NS), (other, _FAR_NS * (1 + self.drift)))
        )
        share = (own[1:-1] - own[:-2]) / (own[2:] - own[:-2])
        bend = np.abs(other[1:-1] - other[:-2] - share * (other[2:] - other[:-2])).max(initial=0)
        self.bound_ns = 1 + int(bound.max() + bend + np.ptp(wall) + np.ptp(own_wall))
        self.steps = [
            f"the wall clock of {whose} was set by {jumps[at] / NS:+.6f} s by second {own[at + 1] / NS:.0f}"
            for whose, jumps in ((machine, np.diff(wall)), ("the driver", np.diff(own_wall)))
            for at in np.flatnonzero(np.abs(jumps) > 2 * (bound[1:] + bound[:-1]))
        ]

    def to_other(self, own_ns: int) -> int:
        """The machine's CLOCK_MONOTONIC at a time of the driver's."""
        passed = float(np.interp(own_ns - self._since[0], self._own, self._other))
        return int(self._since[1]) + round(passed)

    def to_driver(self, wall_ns: Int64s) -> Int64s:
        """The driver's wall clock at times of the machine's."""
        passed = np.interp(wall_ns - self._best.wall_ns - self._since[1], self._other, self._own)
        own: Int64s = self._since[0] + self._best.own_wall_ns + np.rint(passed).astype(np.int64)
        return own

    def piece(self, piece: Piece) -> Piece:
        """A piece of the experiment clock of the driver's page, for the machine's page."""
        return Piece(self.to_other(piece.start_ns), piece.experiment_s, piece.rate / (1 + self.drift))


class Clocks(Thread):
    """Measures machines over a connection to each, at once, every `INTERVAL_S`, and at the end.

    Args:
        measured: is called after each measurement but the first, in this thread; it may raise RunError.

    Attributes:
        lost: machines that answer no more, and why.
    """

    def __init__(self, connections: Mapping[Any, socket], measured: Callable[[], None]) -> None:
        super().__init__(name="clocks", daemon=True)
        self._connections, self._measured = connections, measured
        self.lost, self._over = dict[Any, OSError](), Event()
        self._offsets: dict[Any, list[Offset]] = {machine: [] for machine in connections}
        self._measure()
        self.start()

    def run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(INTERVAL_S)  # the last measurement comes after `end` was called
            self._measure()
            with suppress(RunError):  # a machine is lost, which the runner finds out
                self._measured()

    def _measure(self) -> None:
        for machine in self._connections.keys() - self.lost.keys():
            try:
                self._offsets[machine].append(measure(self._connections[machine]))
            except OSError as error:
                self.lost[machine] = error

    def fit(self, machine: object) -> ClockFit:
        """The map by the measurements so far."""
        return ClockFit(machine, tuple(self._offsets[machine]))

    def end(self) -> None:
        """Measures for the last time, and once more while a machine is busy: no line goes beyond the last."""
        self._over.set()
        self.join()
        for _ in range(_LAST):
            left = [self._offsets[machine] for machine in self._offsets.keys() - self.lost.keys()]
            bounds = [[offset.bound_ns for offset in each] for each in left]
            if all(each[-1] <= _BUSY * min(each) for each in bounds):
                break
            self._measure()


def map_files(part: RunLayout, run: RunLayout, fit: ClockFit) -> None:
    """Moves the files with wall times of a part into the run folder, mapped, each whole or not at all.

    What is not a recording, where recordings are, stays as it is.
    """
    for mapped, *folders in (
        (_map_log, part.applications_folder, part.service_folder, part.routers_folder),
        (_map_capture, part.captures_folder, part.ip_captures_folder),
        (_map_recording, part.recordings_folder),
    ):
        for path in [path for folder in folders for path in folder.glob("*")]:
            if path.stat().st_size > len(FILE_HEADER):
                with suppress(RecordingError):
                    mapped(path, np.memmap(path, np.uint8, "r+"), fit)
            target = run.path / part.relative(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)


def _map_log(_: Path, data: Any, fit: ClockFit) -> None:
    stamps = np.ndarray(len(data) - 18, "S19", data, strides=(1,))
    for at in _together(match.start(1) for field in _STAMPS for match in field.finditer(data)):
        stamps[at] = fit.to_driver(stamps[at].astype(np.int64))


def _map_capture(_: Path, data: Any, fit: ClockFit) -> None:
    """A record begins with seconds, ns, captured bytes and bytes of the frame, of 32 bits each."""
    numbers = np.ndarray(len(data) - 3, "<u4", data, strides=(1,))

    def records() -> Iterator[int]:
        at = len(FILE_HEADER)
        while at + 16 <= len(data):
            yield at
            at += 16 + numbers.item(at + 8)

    for at in _together(records()):
        time_ns = numbers[at].astype(np.int64) * NS + numbers[at + 4]
        numbers[at], numbers[at + 4] = np.divmod(fit.to_driver(time_ns), NS)


def _map_recording(path: Path, data: Any, fit: ClockFit) -> None:
    numbers = np.ndarray(len(data) - 7, "<i8", data, strides=(1,))
    at = np.fromiter(Recording(path).wall_clocks(), np.int64)
    numbers[at] = fit.to_driver(numbers[at])


def _together(places: Iterator[int]) -> Iterator[Int64s]:
    while len(some := np.fromiter(islice(places, 65_536), np.int64)):
        yield some
