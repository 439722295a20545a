"""Applications with keys, and attention-limited applications, over a real router core without a network."""

from __future__ import annotations

import asyncio
import os
import threading
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.applications import read_applications, read_attention
from router.predicates import NOTHING, Message
from router.predicates.encoded import BloomPredicate
from router.predicates.parser import parse_predicate
from router.privacy import EncodingParameters, KeyRing, read_keys, write_keys
from router.privacy.application import PrivateApplication
from router.privacy.member import Member
from router.records.applications import ApplicationRecords
from router.runtime.async_client import AsyncClient
from router.runtime.client import Client, ClientError, RoundOver
from testbed import terminal
from testbed.cli import applications
from testbed.emulation.control.prompt import Prompt
from testbed.emulation.control.running import Running
from testbed.support import run_state
from testbed.support.errors import InputError
from tests.support.applications import failed
from tests.support.polling import TIMEOUT, wait_for
from tests.support.router_tables import predicates_of
from tests.support.served_router import Node, arrived
from topos.generators import line


def test_an_application_with_keys(private_node: Node) -> None:
    with private_node.client(key=KeyRing.new(EncodingParameters(bits=4_096))) as client:
        client.set_predicate("a = 1")
        # A request that is too long is not sent, and the next one has its number.
        for request in (client.subscribe, client.set_predicate):
            with pytest.raises(ValueError, match="a router accepts"):
                request(" or ".join(f"b = {number}" for number in range(1_100)))
        client.send_message("a = 1")
        client.send_message("b = 1")
        assert [delivery.attributes for delivery in arrived(client)] == [{"a": 1}]
        assert client.private is not None
        assert client.private.declared == "a = 1"


def test_sub_takes_the_keys_of_a_file_that_is_replaced(
    private_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, old = tmp_path / "ring.keys", KeyRing.new()
    write_keys(file, old)
    new = old.rotated()

    @contextmanager
    def connected(_arguments: Namespace) -> Iterator[Client]:
        with private_node.client(key=read_keys(file)) as client:
            yield client

    def suites() -> set[int]:
        own = predicates_of(private_node.router).get(0, BloomPredicate())
        assert isinstance(own, BloomPredicate)
        return {filter_.suite.key_id for filter_ in own.encoded}

    def rotate() -> None:
        wait_for(lambda: None if suites() == {old.sending} else str(suites()))
        file.chmod(0o644)
        write_keys(file, new, replacing=True)
        wait_for(lambda: None if suites() == {key.key_id for key in new.keys} else str(suites()))
        with private_node.client(key=new.rotated()) as sender:
            sender.send_message("x = 1")

    monkeypatch.setattr(applications, "connected", connected)
    monkeypatch.setattr(applications, "_RENEW_S", 0.01)
    rotation = threading.Thread(target=rotate)
    rotation.start()
    status = _subscribed("x = 1", "--count", "1", "--key-file", str(file))
    rotation.join()
    assert status == 0
    assert capsys.readouterr().out.endswith("x = 1\n")


def test_applications_of_a_private_run_record_what_its_routers_cannot_read(
    private_node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a Python program and of the prompt."""
    folder = private_node.folder
    monkeypatch.setattr(run_state, "STATE_ROOT", folder.parent)
    monkeypatch.setattr(Running, "topology", line(5))
    running = Running(run_state.RunState(folder.name, run_state.ProcessId.of(os.getpid()), str(folder)))
    assert running.keys() is None
    write_keys(RunLayout(folder).keys, KeyRing.new())
    with running.client(4, "program", running.keys()) as client:
        client.subscribe("a = 1")
        with Prompt(running, interactive=False) as prompt:
            prompt.onecmd("pub 4 a = 1")
        assert next(client.deliveries(TIMEOUT)).attributes == {"a": 1}
        records = client.private.records if client.private is not None else None
        assert records is not None

    async def received() -> Message | Any:
        async with running.async_client(4, "loop", running.keys()) as client:
            await client.subscribe("b = 1")
            await client.send_message("b = 1")
            return (await anext(aiter(client))).attributes

    assert asyncio.run(received()) == {"b": 1}
    # The file is closed with the connection.
    records.delivered(1, 4, "program", 4, 1)
    assert records.lost == 1
    RunLayout(folder).keys.chmod(0o644)
    with Prompt(running, interactive=False) as prompt:
        assert prompt.onecmd("pub 4 a = 1")
        assert prompt.status == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("4:")
    assert "mode 0644" in printed.err
    wait_for(lambda: "clients are connected" if len(private_node.applications) else None)
    counted = Counter(each["event"] for each in private_node.events())
    assert counted == {"connect": 3, "subscribe": 2, "send_message": 2, "deliver": 2, "disconnect": 3}


def test_the_records_of_a_member_and_of_its_router_add_up(private_node: Node) -> None:
    run, ring = RunLayout(private_node.folder), KeyRing.new()
    write_keys(run.keys, ring)
    records = ApplicationRecords(run.application_of_member(4, 1), failed)
    client = private_node.client("doomed", key=PrivateApplication(Member(ring), records))
    client.subscribe("a = 1")
    client.send_message("a = 1")
    client.send_message("b = 1")
    assert next(client.deliveries(TIMEOUT)).attributes == {"a": 1}
    records.close()
    # As the system does it for a process that was killed: the member writes nothing of it.
    client._lines.close()
    wait_for(lambda: "the member is connected" if len(private_node.applications) else None)
    events = [each["event"] for each in private_node.events()]
    assert (events[0], events[-1]) == ("connect", "disconnect")
    assert sorted(events[1:-1]) == ["deliver", "send_message", "send_message", "subscribe"]
    changes = [each.change.in_force for _, each in read_applications(run) if each.change is not None]
    assert changes == [parse_predicate("a = 1"), NOTHING]


def test_an_asynchronous_application_with_keys(private_node: Node) -> None:
    async def received() -> Message | Any:
        async with AsyncClient(private_node.path, key=KeyRing.new()) as client:
            number = await client.subscribe("a = 1")
            assert await client.subscriptions() == {number: parse_predicate("a = 1")}
            await client.set_keys(KeyRing.new())
            await client.send_message("a = 1")
            assert client.outcomes() == []
            return (await anext(aiter(client))).attributes

    assert asyncio.run(received()) == {"a": 1}


def test_with_keys_nothing_is_sent_in_the_clear(limited: Node) -> None:
    with limited.client(key=KeyRing.new()) as client:
        for request in (
            lambda: client.publish("secret = 1"),
            lambda: client.register("secret = 1", 1, 10.0, 10.0),
        ):
            with pytest.raises(ClientError, match="connect without keys"):
                request()


# The attention-limited service.


def test_the_attention_limited_service(limited: Node) -> None:
    with limited.client("a") as first, limited.client("b") as second:
        assert first.commands == {"register", "refresh", "unregister", "publish"}
        with pytest.raises(ValueError, match="finite"):
            first.register("x = 1", 2, float("nan"), 300)
        number = first.register("x = 1", 2, 60, 300)
        published = [second.publish("x = 1"), second.publish(Message({"x": 1, "y": 2}))]
        second.publish("x = 1")
        got = arrived(first)
        assert [(each.source, each.seq) for each in got] == published
        assert {(each.subscription, each.round, each.age_s) for each in got} == {(number, 0, 0.0)}
        assert first.outcomes() == [RoundOver(number, 0, "satisfied", 2)]
        # The third publication was one too many for the first round.
        assert first.refresh(number) == 1
        assert [each.seq & 0xFFFF_FFFF for each in arrived(first)] == [3]
        with pytest.raises(ClientError, match="round 1 is not over"):
            first.refresh(number)
        with pytest.raises(ClientError, match="is none of this application's"):
            second.unregister(number)
        first.unregister(number)
        # The line of the outcome comes before the answer to a further request.
        first.status()
        assert first.outcomes() == [RoundOver(number, 1, "withdrawn", 1)]
        first.register("x = 2", 2, 60, 300)
    wait_for(lambda: "applications are connected" if len(limited.applications) else None)
    limited.events()
    recorded = [each for _, each in read_attention(RunLayout(limited.folder))]
    assert [each["event"] for each in recorded] == [
        *("register", "upload", "deliver", "upload", "deliver", "outcome", "upload"),
        *("refresh", "deliver", "outcome", "unregister", "register", "outcome", "unregister"),
    ]
    assert {each.get("app") for each in recorded} == {"a", "b"}


@pytest.fixture
def on_limited(limited: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cbcb pub` and `cbcb sub` find the router."""

    @contextmanager
    def connected(_arguments: Namespace) -> Iterator[Client]:
        with limited.client() as client:
            yield client

    monkeypatch.setattr(applications, "connected", connected)


def _subscribed(*arguments: str) -> int:
    """The status of `cbcb sub 4` with arguments."""
    parser = ArgumentParser()
    applications.sub_arguments(parser)
    return applications.sub_command(parser.parse_args(["4", *arguments, "--timeout-s", str(TIMEOUT)]))


@pytest.mark.usefixtures("on_limited")
def test_sub_refreshes_subscriptions(capsys: pytest.CaptureFixture[str]) -> None:
    applications.pub_command(Namespace(message=["x = 1", "y = 2", "x = 1"]))
    capsys.readouterr()
    limits = ("--max", "1", "--lifetime", "60", "--freshness", "300")
    assert _subscribed("x = 1", *limits, "--refresh", "--count", "2") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["4:1 x = 1", "4:3 x = 1"]
    number = 1 << 32 | 1
    assert err.splitlines() == [
        f"cbcb: subscription {number}, round 0: x = 1",
        f"cbcb: subscription {number}, round 0 satisfied: 1 messages",
        f"cbcb: subscription {number}, round 1",
    ]
    # Without --refresh the command ends with the lifetimes of all subscriptions.
    assert _subscribed("y = 2", "y < 3", *limits) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["4:2 y = 2"] * 2
    assert err.splitlines()[2:] == [
        f"cbcb: subscription {number + 1}, round 0 satisfied: 1 messages",
        f"cbcb: subscription {number + 2}, round 0 satisfied: 1 messages",
    ]
    with pytest.raises(InputError, match="expected all three, or none"):
        _subscribed("x = 1", "--lifetime", "60", "--freshness", "300")
    with pytest.raises(InputError, match="--refresh: expected --max, --lifetime and --freshness beside it"):
        _subscribed("x = 1", "--refresh")


@pytest.mark.usefixtures("on_limited")
@pytest.mark.parametrize("refresh", [False, True])
def test_sub_says_that_a_lifetime_is_over(
    limited: Node, refresh: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --refresh the next round gets what is published in it."""
    applications.pub_command(Namespace(message=["x = 1"]))
    capsys.readouterr()

    def put(text: str, **options: Any) -> None:
        written(text, **options)
        if text.startswith("4:1 "):
            limited.advance(60)
        elif text.endswith(", round 1"):
            applications.pub_command(Namespace(message=["x = 1"]))

    written = terminal.put
    monkeypatch.setattr(applications, "put", put)
    limits = ("--max", "5", "--lifetime", "60", "--freshness", "300")
    assert _subscribed("x = 1", *limits, *(("--refresh", "--count", "2") if refresh else ())) == 0
    out, err = capsys.readouterr()
    deliveries, rounds = (["4:1 x = 1", "4:2 x = 1"], [", round 1"]) if refresh else (["4:1 x = 1"], [])
    assert [line for line in out.splitlines() if "x" in line] == deliveries
    subscription = f"cbcb: subscription {1 << 32 | 1}"
    expected = [", round 0: x = 1", ", round 0 expired: 1 messages", *rounds]
    assert err.splitlines() == [subscription + each for each in expected]
