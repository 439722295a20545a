"""Emulations whose frames are tagged and a rogue host without the key, and those with private frames."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from router.predicates import EVERYTHING, Message
from router.privacy import read_keys
from router.runtime.client import Client
from router.security.guard import make_guard
from router.security.signatures import read_signer
from router.wire.authentication import covered
from router.wire.format import Flags
from router.wire.frames import COUNTER_BITS, Commit, Frame, FrameType, Hello
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ETHERNET_HEADER_LENGTH,
    ETHERTYPE,
    node_address,
    port_addresses,
)
from testbed.support.names import port_device
from tests.support.applications import application_events
from tests.support.command import PRIVATE_RING5, Cbcb, Held, accounted, elsewhere, output_of
from tests.support.guarded import head
from tests.support.packets import read_trailer
from tests.support.plaintext import captured_bytes, plain_forms
from tests.support.polling import poll
from tests.support.runtime_wire import socket_in
from tests.support.whole_frames import encode

pytestmark = pytest.mark.emulation

REPLAYS = 50

#: Sends the Ethernet frames that its arguments have, each in hex, by the device of the host.
_SEND = """
import os, socket, sys
made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
made.bind((f"r{os.environ['CBCB_NODE']}-eth0", 0x88B5))
for line in sys.argv[1:]:
    made.send(bytes.fromhex(line))
"""


@pytest.mark.parametrize("mode", ["mac", "signed"])
def test_the_verdict_holds_and_the_accounts_are_equal(
    cbcb: Callable[..., Cbcb], tmp_path: Path, mode: str
) -> None:
    chosen = ("--set", f"security.mode={mode}")
    cbcb("run", "ring5", "--engine", "duckdb", *chosen).ends()
    (manifest,) = tmp_path.glob("*/manifest.json")
    run = RunLayout(manifest.parent)
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    # Before convergence, which takes as long as the machine needs, a delivery may be missed.
    assert summary["deliveries_made"] >= summary["deliveries_decided"] > 0
    assert summary["false_negatives_after_convergence"] == 0
    assert summary["reconciliation"]["routers"]["differences"] == []
    assert summary["frames_dropped_by_switches"] == []
    assert run.network_keys.stat().st_mode & 0o777 == 0o600
    counters = json.loads(run.routers_counters.read_text())
    assert not any("refused" in each for each in counters.values())
    # The recordings repeat what the routers did, where there are no private keys.
    copied = elsewhere(cbcb, run, tmp_path)
    assert not list(copied.rglob("*keys.json")) + list(copied.rglob("*.key"))
    cbcb("replay", str(copied)).ends()


@pytest.mark.parametrize("mode", ["mac", "signed"])
def test_forged_and_replayed_frames_change_nothing(
    cbcb: Callable[..., Cbcb], held: Callable[..., Held], tmp_path: Path, mode: str
) -> None:
    """Those of an outsider in both modes; in mode `signed` those of a router of the network, too."""
    network = held("line,3", "--set", f"security.mode={mode}")
    run, own = network.folder, network.own
    at = [own / f"r{node}.sock" for node in range(3)]
    with Client(at[0], "victim") as victim, Client(at[1]) as middle, Client(at[2], "other") as other:
        victim.set_predicate("m any integer or forged any integer")
        other.set_predicate("m any integer")

        def spread() -> bool | None:
            # Both ends have their own predicate and that of the other, the node between them both.
            found = [each.status() for each in (victim, middle, other)]
            return all(each["idle"] and len(each["table"]) == 2 for each in found) or None

        poll(spread, 300, "the predicates of both ends are known everywhere")
        assert _shown_by_processes(_secrets(run)) == []
        assert _shown_by_processes([bytes(tmp_path)]) != [], "the command line of `cbcb run` has the folder"
        tables = [each.status()["table"] for each in (victim, other)]
        epoch = victim.status()["epoch"]
        # To all ports of its switch, in the name of its own router, as switches demand.
        # Both neighbours get the frames.
        (ports,) = port_addresses([1, 2])
        frames = [
            Frame(FrameType.MSG, 1, 7 << 32, epoch, 9, Message({"forged": 1})),
            Frame(FrameType.RA, 1, 7 << 32, epoch, 9, EVERYTHING),
            Frame(FrameType.MSG, 1, 8 << 32, epoch, 9, Message({"forged": 2}), Flags.TAGGED),
        ]
        data = [head(ports, node_address(1)) + encode(frame) for frame in frames]
        hello = Frame(FrameType.HELLO, 1, 1, 0, 1, Hello(2**32 - 1))
        data.append(head(CONTROLLER_DESTINATION, node_address(1)) + encode(hello))
        data += _for_the_switch(ports, frames[0], epoch)
        sent = cbcb(
            "exec", "--run", network.tag, "1", "--", sys.executable, "-c", _SEND, *map(bytes.hex, data)
        )
        sent.ends()
        counter = _replay_a_message(own)
        refused_there = {"replayed": REPLAYS, "untagged": 3}
        if mode == "signed":
            _forge_inside(run, own, epoch, counter)
            refused_there |= {"bad_signature": 2}
        expected = {victim: {"1": refused_there}, other: {"1": {"untagged": 3}}}
        for each, refused in expected.items():
            poll(partial(_refused, each, refused), 300, "the neighbours count the frames")
            assert next(each.deliveries(300)).attributes == {"m": 1}
            assert each.status()["counters"]["messages_delivered"] == 1
        assert [each.status()["table"] for each in (victim, other)] == tables
        assert victim.status()["epoch"] == epoch
    network.run.interrupt()
    network.run.ends()
    summary = accounted(run.path)
    assert summary["deliveries_made"] == summary["deliveries_expected"] == 2
    named = "in the name of node 1"
    untagged = [f"router {n} refused 3 frames {named}: untagged" for n in (0, 2)]
    inside = [f"router 0 refused 2 frames {named}: bad_signature"] if mode == "signed" else []
    by_controller = [f"the controller refused 1 frames {named}: untagged"]
    assert sorted(summary["frames_refused"]) == sorted(untagged + inside + by_controller)
    assert summary["frames_replayed"] == [f"router 0 refused {REPLAYS} frames {named}: replayed"]
    assert summary["frames_dropped_by_switches"] == [
        "the switch of node 1 dropped 1 frames with the address of the controller",
        "the switch of node 1 dropped 2 frames that no rule forwards",
    ]
    reasons = [text for text in summary["verdict_reasons"] if "not authentic" in text]
    assert reasons == [f"not authentic: {text}" for text in summary["frames_refused"]]
    (counters,) = [event for event in _controller_events(run) if event["event"] == "counters"]
    assert counters["rejected"] == {"untagged": 1}


def _secrets(run: RunLayout) -> list[bytes]:
    """The network keys and the private signing keys of a run, raw and as text."""
    raw = [key.secret for key in read_keys(run.network_keys).keys]
    signing = sorted(run.signing_keys.glob("*.key")) if run.signing_keys.exists() else []
    raw += [bytes.fromhex(path.read_text()) for path in signing]
    return [form for key in raw for form in (key, key.hex().encode(), b64encode(key).rstrip(b"="))]


def _shown_by_processes(texts: list[bytes]) -> list[Path]:
    """The command lines and environments on this machine that have one of the texts."""
    found = []
    for path in (each for name in ("cmdline", "environ") for each in Path("/proc").glob(f"[0-9]*/{name}")):
        with suppress(OSError):  # the process has ended
            shown = path.read_bytes()
            found += [path for text in texts if text in shown]
    return found


def _for_the_switch(ports: bytes, message: Frame, epoch: int) -> list[bytes]:
    """Frames of host 1 that its switch drops: a VLAN tag, a HELLO of node 2, a COMMIT of the controller."""
    tagged = ports + node_address(1) + bytes.fromhex("81000001") + ETHERTYPE.to_bytes(2, "big")
    hello = Frame(FrameType.HELLO, 2, 1, 0, 1, Hello(2**32 - 1))
    commit = Frame(FrameType.COMMIT, 0, 1, epoch + 1, 1, Commit(epoch + 1))
    return [
        tagged + encode(message),
        head(CONTROLLER_DESTINATION, node_address(2)) + encode(hello),
        head(ports, CONTROLLER_SOURCE) + encode(commit),
    ]


def _refused(client: Client, expected: dict[str, dict[str, int]]) -> bool | None:
    return client.status()["counters"].get("refused") == expected or None


def _end_of_link(folder: Path, node: int) -> socket.socket:
    """A raw socket on the device of node 0 or 1 that leads to the other."""
    daemon = int((folder / "switches" / "0.pid").read_text())
    return socket_in(Path(f"/proc/{daemon}/ns/net"), port_device(node, 1))


def _forge_inside(run: RunLayout, folder: Path, epoch: int, counter: int) -> None:
    """Sends node 0 two frames in the name of node 2, with tags and signatures under the keys of node 1."""
    insider = make_guard(node_address(1), run.network_keys, 0, None, run.signing_keys)
    # Above what the router has sent, and so near that the router may go on below.
    insider._counters = [(counter >> COUNTER_BITS << COUNTER_BITS) + 500] * 2
    key = read_signer(run.signing_keys, 1)._key
    number = (counter >> COUNTER_BITS << COUNTER_BITS) + 9
    (port,) = port_addresses([1])
    with _end_of_link(folder, 1) as link:
        for frame in (
            Frame(FrameType.RA, 2, number, epoch, 9, EVERYTHING),
            Frame(FrameType.MSG, 2, number, epoch, 9, Message({"forged": 3})),
        ):
            signed = replace(frame, signature=key.sign(covered(frame)))
            for data in insider.frames(head(port, node_address(1)), signed, [node_address(0)], 1500):
                link.send(data)


def _replay_a_message(folder: Path) -> int:
    """Sends a message from node 1; its frame on the link to node 0 crosses the link `REPLAYS` times more.

    Returns the counter of the hop that the frame has.
    """
    with (
        _end_of_link(folder, 0) as end,
        _end_of_link(folder, 1) as beginning,
        Client(folder / "r1.sock", "genuine") as genuine,
    ):
        genuine.send_message("m = 1")

        def of_message() -> bytes | None:
            while select.select([end], [], [], 0)[0]:
                data: bytes = end.recv(65_535)
                if data[15] == FrameType.MSG and data[16] & Flags.TAGGED:
                    return data
            return None

        data = poll(of_message, 300, "the message crosses the link")
        for _ in range(REPLAYS):
            beginning.send(data)
    trailer = read_trailer(data[ETHERNET_HEADER_LENGTH:])
    assert trailer is not None
    return trailer.hop_counter


def _controller_events(run: RunLayout) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.controller_log.read_text().splitlines()]


#: A ring whose controller is killed and started again, after which a link fails, with frames all the time.
_ROTATED = Path(__file__).with_name("rotated.toml")
#: Longer than routers and controller take to read a file of keys again, at each frame.
_LOOKED_S = 2.0


def test_keys_are_rotated_and_a_controller_takes_over(cbcb: Callable[..., Cbcb]) -> None:
    """The restarted controller begins above the routers, and takes their frames all the same."""
    running = cbcb("run", str(_ROTATED), "--no-account")
    run = RunLayout(Path(running.state()["run_dir"]))
    poll(lambda: run.clock.exists() or None, 300, "the clock of the workload runs")
    keys = [read_keys(run.network_keys)]
    for _ in range(3):
        cbcb("keys", "rotate", str(run.network_keys)).ends()
        keys.append(read_keys(run.network_keys))
        _all_look()
    first, last = keys[0].sending, keys[-1].sending
    assert first != last
    assert first not in {key.key_id for key in keys[-1].keys}
    running.ends()
    summary = accounted(run.path)
    assert (summary["verdict"], summary["frames_refused"], summary["frames_replayed"]) == ("holds", [], [])
    assert summary["deliveries_made"] > 20
    events = _controller_events(run)
    names = [event["event"] for event in events]
    assert "taken_over" in names
    # Epochs of the controller that took over, which needs HELLOs and ACKs of all routers.
    assert "committed" in names[names.index("taken_over") :]
    assert not any("refused" in event for event in events)
    used = _keys_used(run)
    assert used[0] == first
    assert used[-1] == last


def _all_look() -> None:
    until = time.monotonic() + _LOOKED_S
    poll(lambda: time.monotonic() > until or None, 60, "all have looked at the file of keys")


def _keys_used(run: RunLayout) -> list[int]:
    """The numbers of the network keys under which the frames of a link are tagged, in order of time."""
    path = min(run.captures_folder.glob("link-*.pcap"))
    found = (read_trailer(record.data[ETHERNET_HEADER_LENGTH:]) for record in PcapReader(path).records())
    return [trailer.hop_key for trailer in found if trailer is not None]


# Private frames.


def test_the_verdict_holds_and_captures_have_no_plaintext(
    cbcb: Callable[..., Cbcb], emulated: Callable[..., Path], tmp_path: Path
) -> None:
    run = RunLayout(emulated(*PRIVATE_RING5))
    summary = json.loads(run.summary.read_text())
    assert summary["verdict"] == "holds"
    # Near a change of a predicate, which takes as long as the machine needs, either outcome is right.
    assert summary["deliveries_made"] >= summary["deliveries_decided"] > 0
    assert summary["false_negatives_after_convergence"] == 0
    assert summary["reconciliation"]["routers"]["differences"] == []
    events = application_events(run.path)
    causes = {event["cause"] for event in events if event["event"] == "discard"}
    assert causes <= {"operator", "hash", "stale"}
    exact = plain_forms(events)
    captured = captured_bytes(run)
    assert exact
    assert not [form for form in exact if form in captured]
    # The recordings repeat what the routers did, where there are no private keys.
    copied = elsewhere(cbcb, run, tmp_path)
    assert not list(copied.rglob("*keys.json")) + list(copied.rglob("*.key"))
    output_of("replay", str(copied))


def test_members_from_outside_publish_and_subscribe_with_the_keys_of_the_run(
    cbcb: Callable[..., Cbcb], held: Callable[..., Held]
) -> None:
    running = held("line,3", more='[privacy]\nmode = "bloom"\n[workload]\nmessages_per_minute = 1\n')
    run = running.folder
    key = ("--run", running.tag, "--key-file", str(run.keys))
    wanted = 'product = "extension lead" and amount > 123456'
    subscriber = cbcb("sub", "2", wanted, "--count", "1", "--app", "outside", *key, "--timeout-s", "200")

    def subscribed() -> bool | None:
        events = application_events(run.path)
        return any((each["app"], each["event"]) == ("outside", "subscribe") for each in events) or None

    poll(subscribed, 300, "the subscription is recorded while the member runs")

    def received() -> bool | None:
        # The advertisement travels while we publish.
        output_of("pub", "0", 'product = "extension lead", amount = 123457', *key)
        return True if subscriber.process.poll() is not None else None

    poll(received, 120, "the message arrives")
    printed = subscriber.ends()
    assert 'product = "extension lead"' in printed.splitlines()[-1]

    summary = running.end()
    assert summary["private"]["kept"] == summary["deliveries_made"] >= 1
    exact = plain_forms(application_events(run.path))
    assert {b"extension lead", b"123457"} <= exact
    captured = captured_bytes(run)
    assert not [form for form in exact if form in captured]
