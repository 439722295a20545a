"""Live routers in network namespaces, joined by one veth pair; the test plays the controller."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.privacy import write_keys
from router.protocol.options import RouterOptions
from router.recording.replay import check
from router.records.json_file import to_json, write_json
from router.runtime.client import Client, ClientError
from router.runtime.process import RouterSpec
from router.security.signatures import make_signing_keys
from router.system import namespace_path
from router.wire.codec import fragment
from router.wire.frames import Commit, Frame, FrameType
from router.wire.header import (
    CONTROLLER,
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    DecodeError,
    decode_header,
    node_address,
    port_addresses,
)
from tests.support import live_routers
from tests.support.guarded import INCARNATION, RING, guard, head, private_key
from tests.support.live_routers import PARENT, Routers, spec_of
from tests.support.polling import TIMEOUT, wait_for
from tests.support.runtime_wire import ETHERTYPE_BYTES, Wire
from tests.support.whole_frames import decode, encode

pytestmark = pytest.mark.root


def _specs(wire: Wire, tmp_path: Path) -> list[RouterSpec]:
    options = RouterOptions(hello_interval_s=0.05)
    return [
        spec_of(wire, tmp_path, node, options=options, records_path=str(tmp_path / f"r{node}.jsonl"))
        for node in (0, 1)
    ]


@pytest.fixture
def routers(wire: Wire, tmp_path: Path) -> Iterator[Routers]:
    with Routers(_specs(wire, tmp_path), tmp_path) as made:
        yield made


def _heard(frames: list[bytes], counters: dict[str, Any]) -> list[bytes]:
    """Without the HELLOs that came before the router opened its socket or after it closed it."""
    hellos = [data for data in frames if _type_of(data[14:]) == "HELLO"]
    assert len(set(map(len, hellos))) == 1
    missed = len(frames) - sum(counters["frames_received"].values())
    assert 0 <= missed <= len(hellos)
    return hellos[missed:] + [data for data in frames if _type_of(data[14:]) != "HELLO"]


def _records(spec: RouterSpec) -> list[str]:
    return Path(spec.records_path).read_text().splitlines()


def _has_heard(client: Client) -> bool:
    """Whether the router's table has a row for interface 1."""
    return any(row["interface"] == 1 for row in client.status()["table"])


def test_messages_travel_and_every_frame_is_counted(wire: Wire, routers: Routers) -> None:
    with (
        Client(routers.specs[0].socket_path, "sender") as sender,
        Client(routers.specs[1].socket_path, "receiver") as receiver,
    ):
        wait_for(lambda: None if len(wire.frames_of(0)) > 2 else "no HELLO is repeated")
        assert {frame.type for frame in wire.frames_of(0)} == {FrameType.HELLO}
        # Held until there is an epoch.
        receiver.set_predicate("x > 1")
        early = sender.send_message("x = 2")
        wire.set_up_routers()
        wait_for(lambda: None if _has_heard(sender) else str(sender.status()))
        late = [sender.send_message(f'x = {x}, text = "é"') for x in (0, 1, 2, 3)]
        got = [next(receiver.deliveries(TIMEOUT)) for _ in range(2)]
        assert [(each.source, each.seq) for each in got] == late[2:]
        assert got[0].attributes == {"x": 2, "text": "é"}
        status = receiver.status()
        (row,) = status["table"]
        assert (row["interface"], row["scope"], row["predicate"]) == (0, "", "x > 1")
        expected = {"node": 1, "epoch": 1, "interfaces": {"1": 0}, "idle": True}
        assert {name: status[name] for name in expected} == expected
        assert "table" not in receiver.status(tables=False)
        assert early[1] + 1 == late[0][1]
    counters = routers.stop()
    # Complete once the router has ended.
    sent, received = ([json.loads(line) for line in _records(spec)] for spec in routers.specs)
    assert [line["event"] for line in sent] == ["connect", *["send_message"] * 5, "disconnect"]
    assert [(line["source"], line["seq"]) for line in sent[1:-1]] == [early, *late]
    assert [line["event"] for line in received] == [
        *("connect", "set_predicate", "deliver", "deliver", "disconnect")
    ]
    assert [(line["source"], line["seq"]) for line in received[2:4]] == late[2:]
    wire.read()
    for node in (0, 1):
        seen = _heard(wire.received[node], counters[node])
        assert counters[node]["frames_received"] == Counter(_type_of(data[14:]) for data in seen)
        assert counters[node]["bytes_received"] == sum(len(data) for data in seen)
        sent = [data for data in wire.received[1 - node] if data[6:12] == node_address(node)]
        assert counters[node]["frames_sent"] == Counter(decode(data[14:]).type.name for data in sent)
        assert counters[node]["bytes_sent"] == sum(len(data) for data in sent)
        assert counters[node]["socket_drops"] == 0
    assert counters[0]["messages_unmatched"] == 3
    assert counters[1]["messages_delivered"] == 2


def test_a_large_predicate_crosses_in_fragments(wire: Wire, routers: Routers) -> None:
    wire.set_up_routers()
    wanted = Predicate(
        tuple(
            Filter((Constraint("name", Type.STRING, Operator.EQ, f"{number:04d}" + "x" * 200),))
            for number in range(50)
        )
    )
    with Client(routers.specs[0].socket_path) as sender, Client(routers.specs[1].socket_path) as receiver:
        receiver.set_predicate(wanted)
        wait_for(lambda: None if _has_heard(sender) else str(sender.status()))
        sender.send_message(Message({"name": "0042" + "x" * 200}))
        assert next(receiver.deliveries(TIMEOUT)).source == 0
        assert sender.status()["counters"]["frames_received"]["RA"] > 5
        assert sender.status()["counters"]["ras_received"] == 1


def test_hostile_frames_are_counted_and_do_no_harm(wire: Wire, routers: Routers) -> None:
    wire.set_up_routers()
    rng = random.Random(1)
    good = fragment(Frame(FrameType.MSG, 0, 1, 1, 5, Message({"a": 1, "b": "text"})), 1500)[0]
    sources = [node_address(0), node_address(77), CONTROLLER_SOURCE, rng.randbytes(6)]
    for number in range(3000):
        payload = bytearray(good) if number % 2 else bytearray(rng.randbytes(rng.randrange(46, 300)))
        for _ in range(rng.randrange(4)):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        if number % 3 == 0:
            payload = payload[: rng.randrange(len(payload))]
        wire.inject(1, CONTROLLER_DESTINATION + rng.choice(sources) + ETHERTYPE_BYTES + payload)
        wire.read()
    wait_for(lambda: _behind(routers, 3000))
    with Client(routers.specs[1].socket_path) as client:
        before = client.status()["counters"]["dropped"]["bad_source"]
    forged = Frame(FrameType.COMMIT, 1, 99, 2**32 - 1, 1, Commit(2**32 - 1))
    wire.inject(1, port_addresses([1])[0] + CONTROLLER_SOURCE + ETHERTYPE_BYTES + fragment(forged, 1500)[0])
    wait_for(lambda: _behind(routers, 3001))
    with Client(routers.specs[1].socket_path) as client:
        client.set_predicate("a = 1")
        status = client.status()
        assert (status["epoch"], status["counters"]["dropped"]["bad_source"]) == (1, before + 1)
        assert client.send_message("a = 1")[0] == 1
        assert next(client.deliveries(TIMEOUT)).attributes == {"a": 1}
    counters = routers.stop()[1]
    wire.read()
    seen = _heard(wire.received[1], counters)
    assert counters["frames_received"] == Counter(_type_of(data[14:]) for data in seen)
    assert counters["frames_received"]["undecodable"] > 500
    replayed = check(Path(str(routers.specs[1].recording_path)))
    assert (replayed.difference, replayed.cut) == (None, None)
    assert replayed.router.counters.as_dict().items() <= counters.items()


def test_a_recording_that_cannot_go_on_is_given_up(wire: Wire, routers: Routers) -> None:
    wire.set_up_routers()
    spec, pid = routers.specs[1], routers.pids[1]
    recording = Path(str(spec.recording_path))
    # The room that is allocated is used; more than that cannot be had.
    room = recording.stat().st_size
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, before[1]))
    with Client(spec.socket_path) as client:
        for number in range(room // 40_000 + 1):
            client.set_predicate(f'x = 1 or text = "{number}{"y" * 40_000}"')
        wait_for(lambda: None if "recording_failed" in Path(spec.log_path).read_text() else "not given up")
        client.send_message("x = 1")
        assert next(client.deliveries(TIMEOUT)).attributes == {"x": 1}
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    routers.stop()
    assert room / 2 < recording.stat().st_size <= room
    replayed = check(recording)
    assert (replayed.difference, replayed.cut) == (None, "the router did not end in order")


def test_a_recording_that_cannot_begin_is_given_up(wire: Wire, tmp_path: Path) -> None:
    spec = spec_of(wire, tmp_path, 0, recording_path="/dev/full")
    with Routers([spec], tmp_path) as routers:
        with Client(spec.socket_path) as client:
            assert client.status()["epoch"] == 0
        assert '"event": "recording_failed"' in Path(spec.log_path).read_text()
        routers.stop()


def _type_of(payload: bytes) -> str:
    try:
        return decode_header(payload).type.name
    except DecodeError:
        return "undecodable"


def _behind(routers: Routers, injected: int) -> str | None:
    with Client(routers.specs[1].socket_path) as client:
        read = sum(client.status()["counters"]["frames_received"].values())
    return None if read >= injected else f"{read} of {injected} frames read"


def test_terminal_interrupt_is_ignored_and_the_end_of_input_stops(routers: Routers) -> None:
    for pid in (routers.process.pid, *routers.pids.values()):
        os.kill(pid, signal.SIGINT)
    with Client(routers.specs[0].socket_path) as client:
        assert client.status()["epoch"] == 0
    assert routers.stop()[0]["frames_sent"]["HELLO"] >= 1
    assert not Path(routers.specs[0].socket_path).exists()


def test_a_router_that_dies_is_reported(routers: Routers) -> None:
    os.kill(routers.pids[1], signal.SIGKILL)
    exited = {"event": "exited", "node": 1, "pid": routers.pids[1], "status": -signal.SIGKILL}
    assert routers.event() == exited
    with Client(routers.specs[0].socket_path) as client:
        assert client.node == 0


def test_routers_die_with_their_parent(routers: Routers) -> None:
    routers.process.kill()
    for pid in routers.pids.values():
        wait_for(partial(_still_alive, pid))
    with pytest.raises(ClientError):
        Client(routers.specs[0].socket_path)


def _still_alive(pid: int) -> str | None:
    with suppress(psutil.NoSuchProcess):
        return f"router {pid} lives" if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE else None
    return None


def test_routers_share_no_socket_with_others_nor_with_their_parent(wire: Wire, tmp_path: Path) -> None:
    # More than the parent makes before it forks the first.
    specs = [spec_of(wire, tmp_path, node) for node in range(56)]
    with Routers(specs, tmp_path) as routers:
        of_routers = [_open_files(pid) for pid in routers.pids.values()]
        # Two for frames, one for applications, two by which a signal wakes the router.
        assert {sum(name.startswith("socket:") for name in files) for files in of_routers} == {5}
        sockets = [name for files in of_routers for name in files if name.startswith("socket:")]
        assert len(sockets) == len(set(sockets))
        of_parent = _open_files(routers.process.pid)
        assert of_parent.isdisjoint(sockets)
        assert not any(name.endswith((".rec", ".log")) for name in of_parent)
        for node, pid in routers.pids.items():
            inside = Path(f"/proc/{pid}/ns/net").stat().st_ino
            assert inside == namespace_path(str(wire.namespaces[node % 2])).stat().st_ino
        stopped = routers.stop()
        assert len(stopped) == 56
        for spec in specs:
            assert spec.recording_path is not None
            assert check(Path(spec.recording_path)).difference is None


def _open_files(pid: int) -> set[str]:
    folder = Path(f"/proc/{pid}/fd")
    return {str(each.readlink()) for each in folder.iterdir()}


def test_a_missing_device_is_named_in_the_log(wire: Wire, tmp_path: Path) -> None:
    spec = spec_of(wire, tmp_path, 0, device="nosuch0")
    path = tmp_path / "specs.json"
    write_json(path, [spec])
    ended = subprocess.run(
        [*PARENT, str(path)], stdin=subprocess.PIPE, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert json.loads(ended.stdout)["status"] == 1
    assert ended.returncode == 1
    assert "device nosuch0" in Path(spec.log_path).read_text()


def test_a_router_that_is_killed_on_request_is_started_again(routers: Routers) -> None:
    ended = routers.request(kill=1)
    assert (ended["event"], ended["node"], ended["status"]) == ("exited", 1, -signal.SIGKILL)
    started = routers.request(start=json.loads(to_json(replace(routers.specs[1], incarnation=2**32 - 1))))
    assert (started["event"], started["node"]) == ("ready", 1)
    assert started["pid"] != routers.pids[1]
    with Client(routers.specs[1].socket_path) as client:
        assert client.node == 1
    # The parent ends well, though a router ended with another status than 0.
    routers.stop()


def test_a_parent_ends_that_had_to_kill_its_last_router_after_one_was_killed_on_request(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the runner is killed: the parent must not stay behind."""
    hasty = (
        "import sys; from router.runtime import parent; parent._STOP_TIMEOUT_S = 0.2;"
        " sys.exit(parent.main(sys.argv[1:]))"
    )
    monkeypatch.setattr(live_routers, "PARENT", [sys.executable, "-c", hasty])
    with Routers(_specs(wire, tmp_path), tmp_path) as routers:
        assert routers.request(kill=1)["node"] == 1
        # A router that is stopped does not hear that it is to end.
        os.kill(routers.pids[0], signal.SIGSTOP)
        output, _ = routers.process.communicate(timeout=TIMEOUT)
        assert json.loads(output)["status"] == -signal.SIGKILL
        assert routers.process.returncode == 1


# Frames with tags.


(TO_PORT,) = port_addresses([1])


@pytest.fixture(params=["mac", "signed"])
def specs(wire: Wire, tmp_path: Path, request: pytest.FixtureRequest) -> list[RouterSpec]:
    keys, signing_keys = tmp_path / "network.keys", tmp_path / "signing-keys"
    signs = request.param == "signed"
    write_keys(keys, RING)
    private = map(private_key, (CONTROLLER, 0, 1))
    make_signing_keys(signing_keys, 2, lambda _: next(private))
    wire.guard = guard(CONTROLLER_SOURCE, signs=signs)
    return [
        spec_of(
            *(wire, tmp_path, node),
            options=RouterOptions(hello_interval_s=0.05),
            incarnation=INCARNATION,
            security=request.param,
            network_keys_path=str(keys),
            windows_path=str(tmp_path / f"r{node}.windows"),
            signing_keys_path=str(signing_keys) if signs else None,
        )
        for node in (0, 1)
    ]


def _dropped(client: Client, reason: str, expected: int) -> str | None:
    found = client.status(tables=False)["counters"]["dropped"].get(reason, 0)
    return None if found >= expected else f"{found} {reason}; expected {expected}"


@pytest.mark.attack("frames from before a restart")
def test_a_router_that_is_killed_and_restarted_takes_no_frame_of_before(
    wire: Wire, specs: list[RouterSpec], tmp_path: Path
) -> None:
    with Routers(specs, tmp_path):
        wire.set_up_routers()
        with Client(specs[0].socket_path) as sender, Client(specs[1].socket_path) as app:
            app.set_predicate("x > 1")
            wait_for(lambda: None if sender.status()["table"] else "no RA")
            sender.send_message("x = 2")
            assert next(app.deliveries(TIMEOUT)).attributes == {"x": 2}
            # Compiled code, which looks at no tag, would deliver the message.
            untagged = encode(Frame(FrameType.MSG, 0, 99, 1, 9, Message({"x": 3})))
            forged = head(TO_PORT, node_address(0)) + untagged
            wire.inject(1, forged)
            wait_for(lambda: _dropped(app, "untagged", 1))
            assert app.status(tables=False)["counters"]["messages_compiled"] == 0
    wire.read()
    of_before = [data for data in wire.received[1] if data[6:12] == node_address(0) and data != forged]
    wire.received[0].clear()
    again = Routers([replace(specs[1], incarnation=INCARNATION + 1)], tmp_path)
    with again, Client(specs[1].socket_path) as app:
        for data in of_before:
            wire.inject(1, data)
        # Without its HELLOs and ACKs, which are for the controller.
        expected = sum(data[:2] != b"\x03\xff" for data in of_before)
        wait_for(lambda: _dropped(app, "replayed", expected))
        assert app.status(tables=False)["counters"]["messages_received"] == 0
        again.stop()
