"""The control sockets of Open vSwitch: answers, counters, and failed upcalls of a daemon that is killed."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from testbed.emulation.network.switch_daemons import SWITCHES, Daemon
from testbed.emulation.network.switch_sockets import JsonRpc, difference, parse_drops, parse_lost, parse_ports
from testbed.support.errors import RunError
from tests.support.polling import TIMEOUT

#: As `ovs-appctl dpctl/show -s` prints datapaths.
_FILES = Path(__file__).with_name("files")
PRINTED = (_FILES / "user-datapath.txt").read_text()
#: As Open vSwitch 3.1 prints a datapath of Linux 6.1 without handler threads, after 490 frames to its port 2.
KERNEL = (_FILES / "kernel-datapath.txt").read_text()
#: As Open vSwitch 3.1 prints the rules of a switch (`ovs-appctl bridge/dump-flows s0`).
RULES = (_FILES / "rules.txt").read_text()


def test_switch_ports_are_read_and_other_devices_are_left_out() -> None:
    switches = parse_ports([PRINTED, KERNEL])
    assert {node: set(ports) for node, ports in switches.items()} == {18: {3, 65000}, 0: {1, 65000}}
    assert switches[18][3] == {
        "rx_packets": 12,
        "tx_packets": 34,
        "rx_bytes": 1200,
        "tx_bytes": 3400,
        "rx_dropped": 0,
        "tx_dropped": 1,
    }


def test_a_counter_that_is_not_kept_is_zero() -> None:
    assert parse_ports([PRINTED])[18][65000]["rx_dropped"] == 0


def test_upcalls_that_failed_are_read_from_both_datapaths() -> None:
    assert (parse_lost(KERNEL), parse_lost(PRINTED)) == (496, 0)
    # The ports count none of these frames as dropped.
    ports = parse_ports([KERNEL])[0]
    assert {counters["rx_dropped"] + counters["tx_dropped"] for counters in ports.values()} == {0}
    with pytest.raises(RunError, match="expected a line `lookups"):
        parse_lost("system@ovs-system:\n  flows: 0\n")


def test_the_difference_is_counter_by_counter() -> None:
    start = parse_ports([PRINTED])
    end = {n: {p: {k: v + 2 for k, v in c.items()} for p, c in ports.items()} for n, ports in start.items()}
    assert difference(start, end)[18][3] == dict.fromkeys(end[18][3], 2)


def test_the_drops_of_table_0_are_read_and_no_others() -> None:
    assert parse_drops(RULES) == {"controller_source": 5, "no_rule": 7}
    assert parse_drops("") == {"controller_source": 0, "no_rule": 0}


Serve = Callable[[list[bytes]], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server that answers the first request by the given pieces, one send each, and no more."""
    threads = []

    def start(pieces: list[bytes]) -> Path:
        path = tmp_path / "socket"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()

        def answer() -> None:
            connection, _ = server.accept()
            with server, connection:
                connection.recv(65_536)
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join()


def test_an_answer_may_come_in_pieces_after_other_messages(serve: Serve) -> None:
    answer = json.dumps({"id": 1, "result": {"found": [1, 2]}, "error": None}).encode()
    echo = b'{"method": "echo", "params": [7], "id": "echo"}'
    with closing(JsonRpc(serve([echo[:9], echo[9:] + answer[:5], answer[5:]]), TIMEOUT)) as client:
        assert client.call("ask", []) == {"found": [1, 2]}


def test_an_error_of_the_server_is_raised(serve: Serve) -> None:
    with (
        closing(JsonRpc(serve([b'{"id": 1, "result": null, "error": "no such thing"}']), TIMEOUT)) as client,
        pytest.raises(RunError, match="ask: no such thing"),
    ):
        client.call("ask", [])


def test_a_server_that_closes_is_named(serve: Serve) -> None:
    path = serve([b'{"id": 1,'])
    with closing(JsonRpc(path, TIMEOUT)) as client, pytest.raises(RunError, match=f"{path}: ask: .*closed"):
        client.call("ask", [])


def test_what_was_lost_before_a_kill_is_not_forgotten(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, 0, "/proc/self/ns/net", {0: [1]}, "system@ovs-system")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(daemon.path("ctl")))
        server.listen()

        def answer() -> None:
            for lost in (3, 10, 2):
                connection, _ = server.accept()
                with connection:
                    asked = json.loads(connection.recv(4096))
                    text = f"  lookups: hit:1 missed:2 lost:{lost}"
                    connection.sendall(
                        json.dumps({"id": asked["id"], "result": text, "error": None}).encode()
                    )

        answers = threading.Thread(target=answer)
        answers.start()
        assert daemon.take_lost() == 0
        daemon.processes.append(subprocess.Popen(["sleep", "60"]))
        daemon.kill(SWITCHES)
        daemon.lost_upcalls = 0  # of the next ovs-vswitchd, with a datapath of its own
        assert daemon.take_lost() == 7 + 2
        answers.join()
