"""Two live routers whose frames are tagged, and a rogue on the wire between them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from router.predicates import Message
from router.privacy import write_keys
from router.protocol.options import RouterOptions
from router.recording.replay import check
from router.runtime.client import Client
from router.runtime.process import RouterSpec
from router.security.signatures import make_signing_keys
from router.wire.format import Flags
from router.wire.frames import Frame, FrameType
from router.wire.header import CONTROLLER, CONTROLLER_SOURCE, node_address, port_addresses
from tests.support.guarded import INCARNATION, RING, guard, head, private_key
from tests.support.live_routers import Routers, spec_of
from tests.support.polling import TIMEOUT, wait_for
from tests.support.runtime_wire import Wire
from tests.support.whole_frames import encode

pytestmark = pytest.mark.root

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


def dropped(client: Client, reason: str, count: int) -> str | None:
    found = client.status(tables=False)["counters"]["dropped"].get(reason, 0)
    return None if found >= count else f"{found} {reason}; expected {count}"


def messages_of_0(wire: Wire) -> list[bytes]:
    """The Ethernet frames of messages that node 0 has sent: some, if node 1 has received some."""

    def found() -> list[bytes]:
        wire.read()
        return [
            data for data in wire.received[1] if data[15] == FrameType.MSG and data[6:12] == node_address(0)
        ]

    wait_for(lambda: None if found() else "no message")
    return found()


def test_a_rogue_changes_nothing_and_is_counted_by_the_name_that_it_took(
    wire: Wire, specs: list[RouterSpec], tmp_path: Path
) -> None:
    routers = Routers(specs, tmp_path)
    try:
        wire.set_up_routers()
        with Client(specs[0].socket_path, "sender") as sender, Client(specs[1].socket_path, "app") as app:
            app.set_predicate("x > 1")
            wait_for(lambda: None if sender.status()["table"] else "no RA")
            accepted = sender.send_message("x = 2")
            assert next(app.deliveries(TIMEOUT)).seq == accepted[1]
            (genuine,) = messages_of_0(wire)
            assert all(data[16] & Flags.TAGGED for side in wire.received for data in side)
            for _ in range(500):
                wire.inject(1, genuine)
            forged = Frame(FrameType.MSG, 0, 99, 1, 9, Message({"x": 3}))
            wire.inject(1, head(TO_PORT, node_address(0)) + encode(forged))
            wait_for(lambda: dropped(app, "replayed", 500) or dropped(app, "untagged", 1))
            later = sender.send_message("x = 4")
            assert next(app.deliveries(TIMEOUT)).seq == later[1]
    finally:
        routers.stop()
    counters = json.loads(Path(specs[1].counters_path).read_text())
    # No switch keeps HELLOs and ACKs of the other router away; their tag is for the controller.
    del counters["refused"]["0"]["bad_tag"], counters["dropped"]["bad_tag"]
    assert counters["refused"] == {"0": {"replayed": 500, "untagged": 1}}
    assert counters["dropped"] == {"replayed": 500, "untagged": 1}
    assert counters["messages_compiled"] == 0
    assert check(tmp_path / "r1.rec").difference is None


@pytest.mark.attack("frames from before a restart")
def test_a_router_that_is_killed_and_restarted_takes_no_frame_of_before(
    wire: Wire, specs: list[RouterSpec], tmp_path: Path
) -> None:
    routers = Routers(specs, tmp_path)
    try:
        wire.set_up_routers()
        with Client(specs[0].socket_path) as sender, Client(specs[1].socket_path) as app:
            app.set_predicate("x > 1")
            wait_for(lambda: None if sender.status()["table"] else "no RA")
            sender.send_message("x = 2")
            assert next(app.deliveries(TIMEOUT)).attributes == {"x": 2}
    finally:
        routers.kill()
    wire.read()
    of_before = [data for data in wire.received[1] if data[6:12] == node_address(0)]
    wire.received[0].clear()
    again = Routers([replace(specs[1], incarnation=INCARNATION + 1)], tmp_path)
    try:
        with Client(specs[1].socket_path) as app:
            for data in of_before:
                wire.inject(1, data)
            wait_for(
                lambda: dropped(app, "replayed", len([1 for data in of_before if data[:2] != b"\x03\xff"]))
            )
            assert app.status(tables=False)["counters"]["messages_received"] == 0
    finally:
        again.stop()
