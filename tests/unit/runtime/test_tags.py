"""Two live routers whose frames are tagged, and frames of before a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from router.predicates import Message
from router.privacy import write_keys
from router.protocol.options import RouterOptions
from router.runtime.client import Client
from router.runtime.process import RouterSpec
from router.security.signatures import make_signing_keys
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


def _dropped(client: Client, reason: str, expected: int) -> str | None:
    found = client.status(tables=False)["counters"]["dropped"].get(reason, 0)
    return None if found >= expected else f"{found} {reason}; expected {expected}"


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
            # Compiled code, which looks at no tag, would deliver the message.
            untagged = encode(Frame(FrameType.MSG, 0, 99, 1, 9, Message({"x": 3})))
            forged = head(TO_PORT, node_address(0)) + untagged
            wire.inject(1, forged)
            wait_for(lambda: _dropped(app, "untagged", 1))
            assert app.status(tables=False)["counters"]["messages_compiled"] == 0
    finally:
        routers.kill()
    wire.read()
    of_before = [data for data in wire.received[1] if data[6:12] == node_address(0) and data != forged]
    wire.received[0].clear()
    again = Routers([replace(specs[1], incarnation=INCARNATION + 1)], tmp_path)
    try:
        with Client(specs[1].socket_path) as app:
            for data in of_before:
                wire.inject(1, data)
            # Without its HELLOs and ACKs, which are for the controller.
            expected = sum(data[:2] != b"\x03\xff" for data in of_before)
            wait_for(lambda: _dropped(app, "replayed", expected))
            assert app.status(tables=False)["counters"]["messages_received"] == 0
    finally:
        again.stop()
