"""Relays of machines, which are processes beside this one, and the Unix sockets that they join."""

from __future__ import annotations

import os
import socket
import socketserver
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from testbed.emulation.machines.relay import CLOCK, Relay, contexts, make_identity
from testbed.support.run_state import find_process
from tests.support.polling import TIMEOUT, wait_for


class _Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.wfile.write(self.rfile.read() + b" and so on")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the sockets of a relay `near`, which forwards to `far` and to a `stranger`."""
    place = tmp_path_factory.mktemp("relays")
    for name in (names := ("near", "far", "stranger")):
        (place / name).mkdir()
    trusted = make_identity(place / "near") + make_identity(place / "far")
    make_identity(place / "stranger")
    with socketserver.ThreadingUnixStreamServer(str(place / "target"), _Echo) as server:
        server.socket.listen(512)
        Thread(target=server.serve_forever, daemon=True).start()
        near, far, stranger = (Relay("127.0.0.1", place / x, trusted, place / f"{x}.log") for x in names)
        far.add({"echo": place / "target", "gone": place / "nothing"}, {})
        targets = ("echo", "gone", "bad", CLOCK)
        near.add({}, {place / f"{name}.sock": ("127.0.0.1", far.port, name) for name in targets})
        near.add({}, {place / "stranger.sock": ("127.0.0.1", stranger.port, CLOCK)})
        (place / "port").write_text(str(far.port))
        yield place
        for each in (near, far, stranger):
            each.stop()
        server.shutdown()


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(TIMEOUT)
    connection.connect(str(path))
    return connection


@pytest.mark.parametrize("connections", [1, 300])
def test_each_way_ends_by_itself(place: Path, connections: int) -> None:
    data = os.urandom(3_000_000 // connections)
    for each in [_connected(place / "echo.sock") for _ in range(connections)]:
        with each, each.makefile("rb") as answer:
            each.sendall(data)
            each.shutdown(socket.SHUT_WR)
            assert answer.read() == data + b" and so on"


def test_the_clock_is_read_between_request_and_answer(place: Path) -> None:
    with _connected(place / f"{CLOCK}.sock") as connection:
        for _ in range(2):
            before = time.monotonic_ns(), time.time_ns()
            connection.sendall(bytes(8))
            answer = connection.recv(17)
            assert before[0] < int.from_bytes(answer[:8], "big") < time.monotonic_ns()
            assert before[1] < int.from_bytes(answer[8:], "big") < time.time_ns()


@pytest.mark.parametrize("name", ["gone", "bad", "stranger"])
def test_a_connection_that_reaches_no_target_ends(place: Path, name: str) -> None:
    assert (place / f"{name}.sock").stat().st_mode & 0o777 == 0o600
    with _connected(place / f"{name}.sock") as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("who", "reason"),
    [("nobody", "not return a certificate"), ("stranger", "verify failed"), ("near", "65537")],
)
def test_strangers_and_too_long_names_are_refused(place: Path, who: str, reason: str) -> None:
    certificate = (place / "far" / "identity.pem").read_bytes()
    client = ssl.create_default_context() if who == "nobody" else contexts(place / who, certificate)[1]
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", int((place / "port").read_text())), TIMEOUT)
    with client.wrap_socket(plain) as connection:
        connection.sendall(b"\0\1\0\1")
        wait_for(lambda: None if reason in (place / "far.log").read_text() else reason)


def test_a_relay_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, pathlib; from testbed.emulation.machines.relay import Relay, make_identity\n"
        "here = pathlib.Path.cwd(); relay = Relay('127.0.0.1', here, make_identity(here), here / 'log')\n"
        "relay.add({}, {here / 'f': ('127.0.0.1', relay.port, 'f')}); assert (here / 'f').is_socket()\n"
        "print(relay.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=-1, cwd=tmp_path, check=False)
    wait_for(lambda: "the relay runs" if find_process(int(done.stdout)) else None)
    assert (tmp_path / "log").read_text() == ""
    assert (tmp_path / "identity.pem").stat().st_mode & 0o777 == 0o600
