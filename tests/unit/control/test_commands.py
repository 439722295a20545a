"""Commands to a run: what they change, what is logged, and what is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import COMMANDS, lossy_links
from testbed.emulation.control.commands import LINE_LIMIT, Commands
from testbed.experiments.events import Ends
from testbed.experiments.workload.driver import Driver
from testbed.support.errors import InputError, RunError
from testbed.support.names import node_id
from tests.support.cases import cases_beside
from tests.support.polling import TIMEOUT
from topos import Link
from topos.generators import ring


class Changes:
    """A network that notes what is asked of it."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def set_link(self, u: int, v: int, up: bool) -> None:
        self.made.append((u, v, up))

    def set_node(self, node: int, up: bool) -> None:
        self.made.append((node, up))

    def shape(self, ends: Ends, properties: Mapping[str, float | None]) -> list[Link]:
        assert ends is not None
        self.made.append((*ends, dict(properties)))
        return self.shaped(ends, properties)

    def shaped(self, _ends: Ends, properties: Mapping[str, float | None]) -> list[Link]:
        """The ends of the link, of which a machine has each."""
        changed = replace(ring(5).links[0], **properties)  # type: ignore[arg-type]
        return [replace(changed, delay_ms=1.0), changed]


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    folder = RunLayout(tmp_path)
    folder.logs_folder.mkdir()
    return folder


def _commands(run: RunLayout, network: Changes) -> Commands:
    namespace: Callable[[int], str] = "/ns/{}".format
    asked = (namespace, network.shaped, lambda: "late", lambda: 0.25)
    return Commands(run.path / "control", run, ring(5), network, *asked)


def _ask(commands: Commands, **request: Any) -> dict[str, Any]:
    return commands.answer(json.dumps(request).encode())


def _impaired(u: int, v: int, **properties: float) -> dict[str, Any]:
    return {"action": "link_impair", "link": [u, v], **properties}


def test_a_command_is_carried_out_and_logged(run: RunLayout) -> None:
    network = Changes()
    commands = _commands(run, network)
    event = {"action": "link_down", "link": [0, 1]}
    assert _ask(commands, do="fault", event=event, command="link 0 1 down")["ok"]
    assert _ask(commands, do="fault", event={"action": "node_up", "node": 4}, command="node 4 up")["ok"]
    assert _ask(commands, do="enter", node=3, command="shell 3") == {"ok": True, "namespace": "/ns/3"}
    assert _ask(commands, do="trees") == {"ok": True, "fault": "late", "quiet_s": 0.25}
    assert network.made == [(0, 1, False), (4, True)]
    assert [one["command"] for one in COMMANDS.read_all(run)] == ["link 0 1 down", "node 4 up", "shell 3"]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        *cases_beside(__file__)["refused"],
        ({"do": "fault", "event": _impaired(0, 1)}, "no property is given; expected some of loss_percent"),
    ],
)
def test_a_command_that_is_refused_changes_and_logs_nothing(run: RunLayout, request_: Any, why: str) -> None:
    network = Changes()
    answer = _commands(run, network).answer(json.dumps(request_).encode())
    assert not answer["ok"] and why in answer["error"], answer
    assert (network.made, COMMANDS.read_all(run)) == ([], [])


def test_the_socket_serves_several_commands_and_ends_with_the_workload(run: RunLayout) -> None:
    commands = _commands(run, Changes())
    path = run.path / "control"
    with (
        closing(Driver({}, [])) as driver,
        socket.socket(socket.AF_UNIX) as user,
        socket.socket(socket.AF_UNIX) as idle,
    ):
        with commands.served(driver, lambda: 1.5):
            assert path.stat().st_mode & 0o777 == 0o600
            user.connect(str(path))
            idle.connect(str(path))
            user.sendall(b'{"do": "enter", "node": 1}\n' + b"x" * (LINE_LIMIT + 1) + b"\nnot JSON\n")
            user.settimeout(0)
            received = b""

            def answered() -> bool:
                nonlocal received
                with suppress(BlockingIOError):
                    received += user.recv(4096)
                return received.count(b"\n") == 3

            assert driver.drain(answered, TIMEOUT)
        first, second, third = map(json.loads, received.splitlines())
        assert first["ok"] and "line longer than" in second["error"] and "JSON" in third["error"]
        assert not path.exists()
        user.settimeout(TIMEOUT)
        assert user.recv(1) == b""
    assert COMMANDS.read_all(run)[0]["at_s"] == 1.5


def test_a_node_is_named_by_number_host_or_name() -> None:
    plain = ring(5)
    assert [node_id(text, plain) for text in ("3", "r3")] == [3, 3]
    for text in ("5", "r5", "-1", "", "r", "²"):
        with pytest.raises(InputError, match="expected 0 to 4, or r0 to r4"):
            node_id(text, plain)
    named = replace(plain, nodes=tuple(replace(node, name=f"r{4 - node.id}") for node in plain.nodes))
    assert node_id("r3", named) == 1
    with pytest.raises(InputError, match="unknown node '9'; expected one of: 0 to 4, or r0 to r4, or a name"):
        node_id("9", named)


def test_loss_and_doubling_are_logged_with_their_link_for_the_accounting(run: RunLayout) -> None:
    network = Changes()
    commands = _commands(run, network)
    assert _ask(commands, do="fault", event=_impaired(1, 0, bandwidth_mbps=5), command="w")["ok"]
    assert lossy_links(run) == frozenset()
    event = _impaired(1, 0, loss_percent=2, bandwidth_mbps=0)
    assert _ask(commands, do="fault", event=event, command="x")["ok"]
    assert lossy_links(run) == {0}
    assert _ask(commands, do="fault", event=_impaired(1, 0, loss_percent=0), command="y")["ok"]
    assert _ask(commands, do="fault", event=_impaired(1, 0, duplicate_percent=2), command="z")["ok"]
    # Frames were lost all the same.
    assert lossy_links(run) == {0}
    assert network.made == [
        (1, 0, {"bandwidth_mbps": 5.0}),
        (1, 0, {"loss_percent": 2.0, "bandwidth_mbps": None}),
        (1, 0, {"loss_percent": None}),
        (1, 0, {"duplicate_percent": 2.0}),
    ]
    assert [record.get("doubling", False) for record in COMMANDS.read_all(run)] == [False] * 3 + [True]


def test_a_link_of_which_a_machine_cannot_change_its_end_stays_as_it_is(
    run: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> list[Link]:
        raise InputError("needs the kernel's sch_netem")

    network = Changes()
    monkeypatch.setattr(network, "shaped", refuse)
    answer = _ask(_commands(run, network), do="fault", event=_impaired(0, 1, delay_ms=1), command="x")
    assert answer == {"ok": False, "error": "needs the kernel's sch_netem"}
    assert (network.made, COMMANDS.read_all(run)) == ([], [])


def test_a_property_that_the_kernel_refuses_is_an_answer_and_not_the_end_of_the_run(
    run: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> Link:
        raise RunError("tc: rate is 0")

    network = Changes()
    monkeypatch.setattr(network, "shape", refuse)
    event = _impaired(0, 1, bandwidth_mbps=1e-9)
    answer = _ask(_commands(run, network), do="fault", event=event, command="link 0 1 set x")
    assert answer == {"ok": False, "error": "tc: rate is 0"}
    # An end of the link may have lost frames meanwhile.
    (record,) = COMMANDS.read_all(run)
    assert (record["command"], record["failure"]) == ("link 0 1 set x", "tc: rate is 0")
    assert lossy_links(run) == {0}
