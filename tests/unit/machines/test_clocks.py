"""Clocks of other machines, and files that come back from them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import SHUT_RDWR, socket, socketpair
from struct import pack
from threading import Thread

import numpy as np
import pytest

from captures.pcap import FILE_HEADER, record_header
from captures.rundir import RunLayout
from router.clock import NS, Piece
from router.protocol.events import Started
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder
from router.records.applications import APPLICATION_EVENTS
from router.records.attention import ATTENTION_EVENTS
from router.records.forms import fields
from router.runtime.lines import Log
from testbed.emulation.machines import clocks
from testbed.emulation.machines.clocks import ClockFit, Clocks, Offset, map_files, measure
from tests.support.applications import records_in, service_records_in

#: Of a machine that is 300 ms ahead and gains 50 ppm, and whose wall clock is 2 s behind.
_BEGAN, _WALL = 10**12, 1_800_000_000 * NS
_STEADY = [
    Offset(_BEGAN + at, 300_000_000 + at // 20_000, _WALL - 2_300_000_000, _WALL, 20_000)
    for at in range(0, 60 * NS, 5 * NS)
]


@contextmanager
def _machine(monotonic: Callable[[int], int] = lambda ns: ns, delay_s: float = 0.0) -> Iterator[socket]:
    own, other = socketpair()

    def answer() -> None:
        while other.recv(8):
            answer = pack(">QQ", monotonic(time.monotonic_ns()), time.time_ns())
            if delay_s:
                time.sleep(delay_s)
            other.sendall(answer)

    thread = Thread(target=answer)
    thread.start()
    with other, own:
        yield own
        own.shutdown(SHUT_RDWR)
        thread.join()


def test_offset_and_drift_are_measured_within_the_bound() -> None:
    def there(own: int) -> int:
        return own + 300_000_000 + (own - began) // 20_000

    began = time.monotonic_ns()
    with _machine(there) as connection:
        offsets = [measure(connection) for _ in range(200)]
    fit, since, until = ClockFit("m", offsets), offsets[0].own_ns, offsets[-1].own_ns
    assert fit.bound_ns < NS and not fit.steps
    assert abs(fit.drift - 50e-6) * (until - since) <= 3 * fit.bound_ns
    for own in range(since, until, (until - since) // 50):
        assert abs(fit.to_other(own) - there(own)) <= fit.bound_ns
        now = own + time.time_ns() - time.monotonic_ns()
        assert abs(fit.to_driver(np.array([now]))[0] - now) <= 2 * fit.bound_ns
    with _machine(delay_s=0.001) as connection:
        late = measure(connection)
    assert late.bound_ns >= 500_000 and -late.bound_ns <= late.ahead_ns < 0


def test_lines_join_measurements_and_the_wall_clock_is_not_set() -> None:
    bent = [each._replace(ahead_ns=each.ahead_ns // (1 + at // 6)) for at, each in enumerate(_STEADY)]
    fit, steady = ClockFit("m", bent), ClockFit("m", _STEADY)
    assert [fit.to_other(each.own_ns) - each.own_ns for each in bent] == [each.ahead_ns for each in bent]
    assert fit.bound_ns > steady.bound_ns == 20_001
    piece, end = Piece(_BEGAN + 7 * NS, 3.0, 2.0), _BEGAN + 90 * NS
    assert abs(steady.piece(piece).experiment_at(steady.to_other(end)) - piece.experiment_at(end)) < 1e-8
    for field, whose in (("wall_ns", "m"), ("own_wall_ns", "the driver")):
        late = [each._replace(**{field: getattr(each, field) - 100_000}) for each in _STEADY[7:]]
        fit = ClockFit("m", _STEADY[:7] + late)
        assert fit.steps == [f"the wall clock of {whose} was set by -0.000100 s by second 35"]
        assert fit.bound_ns == steady.bound_ns + 100_000
        busy = late[-1]._replace(**{field: getattr(late[-1], field) - NS, "bound_ns": 200_000})
        assert ClockFit("m", [*_STEADY[:-1], busy]).bound_ns > NS


@pytest.mark.parametrize(("first", "last"), [(100, 620), (300, 302)])
def test_a_busy_hour_widens_the_bound_and_a_busy_moment_does_not(first: int, last: int) -> None:
    measured = [
        Offset(_BEGAN + at * 5 * NS, 1000 * min(at, 720 - at), _WALL, _WALL, bound)
        for at in range(720)
        for bound in [300_000 if first <= at < last else 20_000]
    ]
    fit = ClockFit("m", measured)
    errors = [abs(fit.to_other(each.own_ns) - each.own_ns - each.ahead_ns) for each in measured]
    assert max(errors) <= fit.bound_ns
    assert (fit.bound_ns < 30_000) == (last - first < 12)


@pytest.mark.root
def test_machines_are_measured_until_they_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "INTERVAL_S", 0.05)
    monkeypatch.setattr(clocks, "EXCHANGES", 10)
    tell = "import socket, struct, time; s = socket.socket(fileno=0)\nwhile s.recv(8): s.sendall("
    tell += "struct.pack('>QQ', time.monotonic_ns(), time.time_ns()))"
    apart = ["unshare", "--time", "--monotonic", "1000", "--fork", "--kill-child", sys.executable, "-c", tell]
    delays_s = list[float]()

    def there(ns: int) -> int:
        time.sleep(delays_s.pop() if delays_s else 0)
        return ns

    def measured() -> None:
        if "far" in both.lost and not delays_s:  # the next measurements are the last, of a busy machine
            delays_s.extend([0.05] * 20)
            monkeypatch.setattr(clocks, "INTERVAL_S", 3600.0)

    (own, other), (gone, end) = socketpair(), socketpair()
    end.close()
    with gone, own, _machine(there) as near, subprocess.Popen(apart, stdin=other.fileno()) as process:
        other.close()
        both = Clocks({"far": own, "near": near, "gone": gone}, measured)
        process.kill()
        while not delays_s:
            assert both.is_alive()
        both.end()
        assert not delays_s
    far, now, here = both.fit("far"), time.time_ns(), time.monotonic_ns()
    assert abs(far.to_other(here) - here - 1000 * NS) <= 10 * far.bound_ns < NS
    assert abs(far.to_driver(np.array([now]))[0] - now) <= 10 * far.bound_ns
    assert list(both.lost) == ["gone", "far"] and len(both.fit("near").steps) == 0


def _write(run: RunLayout, ahead: int, wall: int, patch: pytest.MonkeyPatch) -> None:
    """The files of a part; attributes of messages, too, have the names of stamps."""

    def at(ms: int) -> int:
        return _BEGAN + ms * 1_000_000 + ahead * (300_000_000 + ms * 50) + wall

    for each in ("applications", "service", "routers", "captures", "recordings"):
        getattr(run, f"{each}_folder").mkdir(parents=True, exist_ok=True)
    patch.setattr(time, "monotonic", lambda: 7.0)
    patch.setattr(time, "time_ns", lambda: at(20))
    content = {"attributes": {"t_ns": _WALL, "requested_ns": _WALL}, "source": 3, "seq": 1}
    records, service = records_in(run.path, 3), service_records_in(run.path, 3)
    records.connected(at(20), 3, 'a{"t_ns": 1\\')
    records.served(at(60), 3, 'a"{', at(40), {"op": "send_message"}, content)
    records.delivered(at(80), 3, "a", 3, 1)
    records.disconnected(at(120), 3, "a", at(100))
    records.close()
    service.write(at(140), 3, "a", {"event": "upload", "at_s": 1.5, **content})
    service.close()
    with run.router_log(3).open("w") as log:
        Log(log, 3).write_always("dropped", {"reason": "x"})
        log.write(f'Traceback: {{"t_ns": {_WALL}}}\n{{"t_ns": {at(20)}, "ev')
    frames = [record_header(at(ms), ms) + bytes(ms) for ms in range(20, 2_000, 20)]
    run.capture("link-0-1").write_bytes(FILE_HEADER + b"".join(frames)[:-30])
    recorder = Recorder(run.recording(3), Origin(3, RouterOptions(), "naive", 1, 1))
    recorder.event(Started(), 7.0)
    recorder.close()


def test_files_come_back_by_the_drivers_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = (f.name for form in (APPLICATION_EVENTS | ATTENTION_EVENTS).values() for f in fields(form))
    assert {name for name in stamps if name.endswith("_ns")} == {"t_ns", "requested_ns"}
    part, expected, run = (RunLayout(tmp_path / name) for name in ("part", "expected", "run"))
    _write(part, 1, _WALL - 2_300_000_000, monkeypatch)
    _write(expected, 0, _WALL, monkeypatch)
    map_files(part, run, ClockFit("m", _STEADY))
    files = [path.relative_to(run.path) for path in run.path.rglob("*") if path.is_file()]
    assert len(files) == 5
    assert [(run.path / each).read_bytes() for each in files] == [
        (expected.path / each).read_bytes() for each in files
    ]
