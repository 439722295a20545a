"""Captures on real veth pairs: ready, complete, counted, and gone when their starter is."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captures.capturing.capture_set import CaptureError, CaptureSet, Device
from captures.frames import CaptureIdentity
from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from testbed.support.run_state import find_process
from tests.support.polling import wait_for
from tests.support.runtime_wire import await_both_ways, ip, socket_in

FRAME = bytes.fromhex("03000000000102cb0000000088b5") + bytes(60)
OTHER = bytes.fromhex("03000000000102cb0000000088b6") + bytes(60)


OWN = Path("/proc/self/ns/net")
#: packet(7): the frames that a socket was given, and those that it had no room for, since the last question.
SOL_PACKET, PACKET_STATISTICS = 263, 6


def _records(file: Path) -> int:
    return len(list(PcapReader(file).records()))


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    names = (f"cf{os.getpid()}a", f"cf{os.getpid()}b")
    ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
    try:
        for name in names:
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            ip("link", "set", name, "up")
        await_both_ways([(OWN, name) for name in names])
        yield names
    finally:
        # A test may have moved the other end to a namespace that is gone, and both ends with it.
        subprocess.run(["ip", "link", "delete", names[0]], check=False, capture_output=True)


def _await_arrivals(at: socket.socket, wanted: int) -> None:
    """Waits until a socket was given so many frames more, which it need not have room for."""
    found = 0

    def missing() -> str | None:
        nonlocal found
        found += struct.unpack("II", at.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[0]
        return None if found == wanted else f"{found} of {wanted} frames have arrived"

    wait_for(missing)


LINK = CaptureIdentity("link-0-1", "link", 0, 0, 1)
FAR = CaptureIdentity("host-1", "host", node=1)


@pytest.mark.root
def test_missing_device_is_named_and_nothing_is_left(tmp_path: Path, pair: tuple[str, str]) -> None:
    missing = CaptureIdentity("host-9", "host", node=9)
    captures = CaptureSet({LINK: Device(pair[0]), missing: Device("nosuchdev0")}, RunLayout(tmp_path))
    with pytest.raises(CaptureError, match=r"host-9 on nosuchdev0: no such device"):
        captures.start()
    assert captures.pids == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda _, device: ip("link", "delete", device), "link-0-1: its network device is gone"),
        (
            lambda captures, _: os.kill(captures.pids[0], signal.SIGKILL),
            r"captures died during the run: it said nothing \(exit status -9\)",
        ),
    ],
    ids=["device", "process"],
)
def test_captures_that_end_during_the_run_name_the_cause(
    tmp_path: Path, pair: tuple[str, str], end: Callable[[CaptureSet, str], object], message: str
) -> None:
    captures = CaptureSet({LINK: Device(pair[0])}, RunLayout(tmp_path))
    captures.start()
    captures.check()
    end(captures, pair[1])

    def noticed() -> str:
        captures.check()
        return "the captures go on"

    try:
        with pytest.raises(CaptureError, match=message):
            wait_for(noticed)
        with pytest.raises(CaptureError):
            captures.stop()
    finally:
        captures.kill()
    assert not RunLayout(tmp_path).captures.exists()


@pytest.mark.root
def test_no_frame_sent_before_stop_is_missing(tmp_path: Path, pair: tuple[str, str]) -> None:
    captures = CaptureSet({LINK: Device(pair[0])}, RunLayout(tmp_path))
    captures.start()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((pair[1], 0))
        for _ in range(500):
            sender.send(FRAME)
        sender.send(OTHER)
    (result,) = captures.stop()
    assert (result.captured, result.received_by_filter, result.dropped_by_kernel) == (500, 500, 0)
    assert _records(tmp_path / result.file) == 500
    (entry,) = json.loads(RunLayout(tmp_path).captures.read_text())
    assert (entry["file"], entry["device"], entry["captured"]) == ("pcap/link-0-1.pcap", pair[0], 500)
    assert captures.pids == []


@pytest.mark.root
def test_frames_without_room_in_the_ring_are_counted(tmp_path: Path, pair: tuple[str, str]) -> None:
    captures = CaptureSet({LINK: Device(pair[0]), FAR: Device(pair[1])}, RunLayout(tmp_path))
    captures.start()
    whole = FRAME + bytes(1400)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((pair[1], 0))
        sender.send(FRAME)
        os.kill(captures.pids[0], signal.SIGSTOP)
        sent = 60_000  # of 64 MiB, of which each frame takes twice 1.5 KiB
        with socket_in(OWN, pair[0]) as arrivals:
            for number in range(1, sent + 1):
                sender.send(whole)
                # No more than the kernel keeps for a device when it delivers late.
                if number % 500 == 0:
                    _await_arrivals(arrivals, 500)
        os.kill(captures.pids[0], signal.SIGCONT)
    near, far = captures.stop()
    for result in (near, far):
        assert result.received_by_filter == sent + 1
        assert 0 < result.dropped_by_kernel == result.received_by_filter - result.captured
        assert _records(tmp_path / result.file) == result.captured


@pytest.mark.root
def test_captures_end_with_their_starter(tmp_path: Path, pair: tuple[str, str]) -> None:
    script = (
        "import os, signal, pathlib\n"
        "from captures.capturing.capture_set import CaptureSet, Device\n"
        "from captures.frames import CaptureIdentity\n"
        "from captures.rundir import RunLayout\n"
        f"run = RunLayout(pathlib.Path({str(tmp_path)!r}))\n"
        f"c = CaptureSet({{CaptureIdentity('l', 'link'): Device({pair[0]!r})}}, run)\n"
        "c.start()\n"
        "print(c.pids[0], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    starter = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
    assert starter.returncode == -signal.SIGKILL
    recorder = int(starter.stdout)
    wait_for(lambda: f"the recorder {recorder} lives" if find_process(recorder) is not None else None)
