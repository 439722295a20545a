"""A line of four nodes, cut in the middle, on two machines that are network namespaces on one kernel."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from captures.capturing.capture_set import CaptureSet
from captures.rundir import RunLayout
from router.system import enter_network_namespace, returning_to_its_namespace
from router.wire.header import ETHERTYPE
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.emulation.network.namespaces import Namespaces, run, run_inside
from testbed.emulation.network.tunnels import _HEADER, PORT, Tunnel
from testbed.emulation.run.site import capture_devices
from testbed.machine.probes import kernel_features
from testbed.support.run_state import ProcessId
from tests.support.polling import wait_for
from tests.support.runtime_wire import socket_in
from topos.generators import line

pytestmark = [pytest.mark.emulation, pytest.mark.root]


@pytest.fixture
def machines() -> Iterator[dict[str, EmulatedNetwork]]:
    """The namespaces of two machines, whose devices `u` are joined, and what each has of the network."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="cbcb-", dir="/run"))
        stack.callback(shutil.rmtree, folder)
        held = Namespaces()
        stack.callback(held.close)
        one, two = places = held.make(2)
        run(["ip", "link", "add", "u", "netns", one, "type", "veth", "peer", "name", "u", "netns", two])
        parts = {}
        for place, own, other in (one, "10.99.0.1", "10.99.0.2"), (two, "10.99.0.2", "10.99.0.1"):
            run_inside(place, ["ip", "-batch", "-"], f"address add {own}/24 dev u\nlink set u up\n")
            (folder / own).mkdir()
            nodes, tunnel = [[0, 1], [2, 3]][places.index(place)], Tunnel(own, other, 0xCBCB01)
            here = partial(EmulatedNetwork, nodes=nodes, tunnels={1: tunnel})
            part = parts[place] = here(line(4), folder / own, "user", kernel_features())
            stack.callback(part.stop)
            with returning_to_its_namespace():
                enter_network_namespace(place)
                part.start_hosts()
                part.start_links()
        yield parts


def test_a_full_frame_passes_or_is_missing(machines: dict[str, EmulatedNetwork]) -> None:
    for mtu, missing in ((1549, [1]), (1550, [])):
        for place in machines:
            run_inside(place, ["ip", "link", "set", "u", "mtu", str(mtu)])
        for part in machines.values():
            part.probes.send()
        assert [part.probes.missing() for part in machines.values()] == [missing, missing]


def test_a_tunnel_takes_frames_from_its_other_end_alone(machines: dict[str, EmulatedNetwork]) -> None:
    one, two = machines
    run_inside(one, ["ip", "address", "add", "10.99.0.3/24", "dev", "u"])
    frame = bytes.fromhex("08000000cbcb0100") + _HEADER.ljust(60, b"\0")
    for address, missing in ("10.99.0.3", [1]), ("10.99.0.1", []):
        with returning_to_its_namespace():
            enter_network_namespace(one)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((address, 0))
                sender.sendto(frame, ("10.99.0.2", PORT))
        assert machines[two].probes.missing() == missing
    for part in machines.values():
        part.stop()
    assert [run_inside(place, ["nft", "list", "ruleset"]) for place in machines] == ["", ""]


#: Frames by which the cost of a link is measured.
_MEASURED = 5_000


def _host(part: EmulatedNetwork, node: int) -> socket.socket:
    host = socket_in(Path(part.host_namespaces[node]), f"r{node}-eth0")
    host.settimeout(0.5)
    return host


def _come(sender: socket.socket, receiver: socket.socket, frames: int) -> int:
    """Returns how many frames of 1,000 bytes come that one host sends to the other."""
    header = receiver.getsockname()[4] + sender.getsockname()[4] + ETHERTYPE.to_bytes(2, "big")
    for _ in range(frames):
        sender.send(header.ljust(1000, b"\0"))
    came = 0
    with suppress(TimeoutError):
        while came < frames:
            came += bool(receiver.recv(1000))
    return came


def _cost(parts: Sequence[EmulatedNetwork], sender: socket.socket, receiver: socket.socket) -> str:
    """Sends frames, each when the one before has come; says what they cost on the way from host to host."""
    assert _come(receiver, sender, 1) == 1  # the switches learn the way
    switches = [psutil.Process(pid) for part in parts for pid in part.daemons.pids]
    began, before = time.perf_counter(), [each.cpu_times() for each in switches]
    assert sum(_come(sender, receiver, 1) for _ in range(_MEASURED)) == _MEASURED
    delay_s = (time.perf_counter() - began) / _MEASURED
    worked = sum(
        sum(each.cpu_times()[:2]) - sum(then[:2]) for each, then in zip(switches, before, strict=True)
    )
    return f"{1e6 * delay_s:.0f} us, of which switches work {1e6 * worked / _MEASURED:.0f} us"


#: Faults of the tunnel, and their ends.
_FAULTS: tuple[Callable[[EmulatedNetwork, bool], object], ...] = (
    lambda part, ends: part.set_link(1, 2, ends),
    lambda part, ends: part.set_node(2, ends),
    lambda part, ends: part.set_tunnel(1, 2, ends),
    lambda part, ends: part.shape((1, 2), {"loss_percent": None if ends else 100.0}),
)


def test_two_machines_carry_one_network_and_keep_nothing(
    machines: dict[str, EmulatedNetwork], tmp_path: Path
) -> None:
    one, two = parts = [*machines.values()]
    for part in parts:
        part.start_switches()
        part.shape_as_declared()
        for node in part.nodes:
            command = ["ovs-ofctl", "-O", "OpenFlow13", "add-flow", f"s{node}", "actions=normal"]
            subprocess.run(command, env={**os.environ, "OVS_RUNDIR": str(part.daemons.folder)}, check=True)
    processes = [ProcessId.of(pid) for part in parts for pid in part.daemons.pids]
    with _host(one, 0) as left, _host(two, 3) as right:
        # What a tunnel loses, the end that sends has captured.
        lose = "type filter hook input priority 0; udp dport 4789 numgen inc mod 5 == 0 drop"
        run_inside([*machines][1], ["nft", "-f", "-"], f"table ip lose {{ chain c {{ {lose}\n}}\n}}")
        sets = [CaptureSet(capture_devices(part), RunLayout(tmp_path / str(part.nodes))) for part in parts]
        for each in sets:
            each.start()
        assert (_come(left, right, 50), _come(right, left, 50)) == (40, 50)
        captured = {file.identity.name: file.captured for each in sets for file in each.stop()}
        assert [captured[name] for name in ("link-0-1", "link-1-2", "tunnel-2-1")] == [100, 100, 90]
        run_inside([*machines][1], ["nft", "delete", "table", "ip", "lose"])
        for part, node, port, received in (one, 1, 2, 50), (two, 2, 1, 40):
            counters = part.daemons.counters()
            assert sorted(counters) == part.nodes
            assert [counters[node][port][way] for way in ("rx_packets", "tx_packets")] == [received, 50]
    with _host(one, 0) as near, _host(one, 1) as cut, _host(two, 2) as far:
        print("a frame over a link of one machine:", _cost(parts, near, cut))
        print("a frame over a link between two machines:", _cost(parts, cut, far))
    with _host(one, 0) as left, _host(two, 3) as right:
        for fault in _FAULTS:
            for ends, come in ((False, 0), (True, 5)):
                for part in parts:
                    fault(part, ends)
                assert (_come(left, right, 5), _come(right, left, 5)) == (come, come)
        for part in parts:
            part.shape((1, 2), {"loss_percent": 20.0})
        # A frame that is lost takes none with it.
        came = _come(left, right, 320), _come(right, left, 320)
        counted = [
            (each.sender, each.counted.frames, each.counted.lost) for part in parts for each in part.spans()
        ]
        assert counted == [(1, 5, 5), (1, 320, 320 - came[0]), (2, 5, 5), (2, 320, 320 - came[1])]
        assert min(came) > 200
        for part in parts:
            part.shape((1, 2), {"loss_percent": None})
        for part in parts:
            part.shape((1, 2), {"bandwidth_mbps": 1.0})
        began = time.monotonic()
        assert _come(left, right, 40) == 40
        # 40,000 bytes, of which 16,384 pass at once.
        assert 0.18 < time.monotonic() - began < 1
    for part in parts:
        part.stop()
    assert [process for process in processes if process.alive()] == []
    # The kernel removes devices, and with them their UDP ports, in the background.
    wait_for(lambda: "".join(run_inside(place, ["ss", "-Hua"]) for place in machines) or None)
    assert [run_inside(place, ["ip", "-o", "link"]).count("\n") for place in machines] == [2, 2]
