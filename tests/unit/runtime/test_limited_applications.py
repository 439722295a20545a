"""The attention-limited service through the application socket, and `cbcb sub` and `cbcb pub`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.applications import read_attention
from router.predicates import Message
from router.runtime.client import Client, ClientError, RoundOver
from testbed import terminal
from testbed.cli import applications
from testbed.support.errors import InputError
from tests.support.polling import TIMEOUT, wait_for
from tests.support.served_router import Node, arrived


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
