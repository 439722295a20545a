"""IP beside CBCB: programs on hosts reach each other, and the accounting of CBCB is as without them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.command import CBCB, Held, output_of
from tests.support.paths import ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.emulation

#: Ends with status 0 when the host of an address refuses a connection: it is there.
_REACH = """
import errno, socket, sys
with socket.socket() as asking:
    asking.settimeout(1)
    sys.exit(asking.connect_ex((sys.argv[1], 7)) != errno.ECONNREFUSED)
"""
#: A megabyte over TCP, from the address to whoever connects, and its receiver.
_SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as server:
    print("listening", flush=True)
    with server.accept()[0] as connection:
        connection.sendall(bytes(1 << 20))
"""
_FETCH = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=30) as connection:
    size = 0
    while data := connection.recv(65536):
        size += len(data)
print(size)
"""
_MORE = """\
[network]
ip = true
[workload]
messages_per_minute = 600
first_message_s = 0
"""


def test_hosts_talk_while_cbcb_runs_and_the_verdict_holds(held: Callable[..., Held]) -> None:
    run = held("ring,5", more=_MORE)
    tag, folder = run.tag, run.folder

    def on(node: str, code: str, address: str) -> list[str]:
        return [*CBCB, "exec", "--run", tag, node, "--", sys.executable, "-c", code, address]

    def reaches(node: str, address: str) -> bool:
        command = on(node, _REACH, address)
        return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=240).returncode == 0

    def answers(node: str, address: str) -> None:
        poll(lambda: reaches(node, address) or None, 240, f"{address} answers {node}")

    for address in ("10.0.0.2", "10.0.0.3", "10.0.0.5"):
        answers("r0", address)
    with subprocess.Popen(
        on("r2", _SERVE, "10.0.0.3"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        fetched = subprocess.run(
            on("r0", _FETCH, "10.0.0.3"), cwd=ROOT, capture_output=True, text=True, timeout=120
        )
    assert fetched.stdout == f"{1 << 20}\n", fetched.stderr
    # The link of the way is gone, and a longer way serves; a node that was cut off has its address again.
    for words in (["link", "0", "1", "down"], ["node", "4", "down"], ["node", "4", "up"]):
        output_of(words[0], "--run", tag, *words[1:])
    answers("r0", "10.0.0.2")
    answers("r4", "10.0.0.3")
    summary = run.end()
    compared = summary["reconciliation"]["ovs"]
    assert compared["expected"] == compared["found"] > 0
    assert compared["differences"] == []
    # A megabyte in segments, over two links.
    assert summary["ip_frames"] > 2 * (1 << 20) / 1500
    assert sorted(path.name for path in folder.ip_captures_folder.iterdir()) == sorted(
        path.name for path in folder.captures_folder.glob("*.pcap")
    )
