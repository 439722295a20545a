"""The clients of applications: blocking, with a listener, asynchronous, and the prompt."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import threading
from pathlib import Path

import pytest

from router.predicates.lexer import ParseError
from router.runtime import commands
from router.runtime.async_client import AsyncClient
from router.runtime.client import Client, ClientError, Delivery
from router.runtime.lines import REQUEST_LIMIT
from router.runtime.listener import Listener
from testbed.emulation.control.prompt import Prompt
from testbed.emulation.control.running import Running
from testbed.support import run_state
from tests.support.polling import TIMEOUT, wait_for
from tests.support.served_router import Node
from topos.generators import line


def test_the_prompt_waits_for_no_message_that_it_has_shown(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_state, "STATE_ROOT", node.folder.parent)
    monkeypatch.setattr(Running, "topology", line(5))
    running = Running(
        run_state.RunState(node.folder.name, run_state.ProcessId.of(os.getpid()), str(node.folder))
    )
    printed = ""

    def shown() -> str | None:
        nonlocal printed
        prompt.onecmd("")
        printed += capsys.readouterr().out
        return None if printed.endswith("got 4:1 a = 1\n") else printed

    with Prompt(running, interactive=True) as prompt:
        prompt.onecmd("sub 4 a = 1")
        prompt.onecmd("pub 4 a = 1")
        wait_for(shown)
        prompt.onecmd("wait 1 0")
        assert capsys.readouterr() == ("", "")
        prompt.onecmd("wait 1 0")
        assert capsys.readouterr().err == "cbcb: 0 of 1 messages in 0 s\n"


@pytest.mark.parametrize("said", [b"{", b"[]", b"{}", b'{"id": 9, "ok": true}', b'{"id": 1, "ok": true}'])
def test_a_router_that_says_what_it_should_not_is_an_error(tmp_path: Path, said: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "odd.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.send(said + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ClientError, match="unexpected line from the router"):
            Client(tmp_path / "odd.sock")
        thread.join()


def test_a_client_says_why_it_cannot_go_on(node: Node, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="No such file"):
        Client(tmp_path / "nobody.sock")
    with node.client("a"), pytest.raises(ClientError, match="'a' is in use"):
        node.client("a")
    with node.client() as client:
        with pytest.raises(ValueError, match="a router accepts"):
            client.request("status", padding="x" * REQUEST_LIMIT)
        node.events()
        with pytest.raises(ClientError, match="closed the connection"):
            client.status()


def test_a_function_is_called_for_each_delivery_while_the_program_goes_on(node: Node) -> None:
    got: list[Delivery] = []
    with Client(node.path, "sender") as sender:
        with Listener(Client(node.path, "a"), "x > 1", got.append) as listener:
            assert (listener.app, listener.node) == ("a", 4)
            for number in range(1, 6):
                sender.send_message(f"x = {number}")
            wait_for(lambda: None if len(got) == 4 else f"{len(got)} deliveries")
            assert not listener.wait(0)
        assert [each.attributes for each in got] == [{"x": number} for number in range(2, 6)]
        # Its predicate has gone with it, and its name is free.
        sender.send_message("x = 9")
        with Listener(Client(node.path, "a"), "x > 1", got.append):
            pass
    assert len(got) == 4


def test_what_the_function_raises_ends_the_listener_and_is_raised_by_close(node: Node) -> None:
    def fails(delivery: Delivery) -> None:
        raise ValueError(f"{delivery.attributes}")

    with Client(node.path) as sender:
        listener = Listener(Client(node.path, "a"), "x > 1", fails)
        sender.send_message("x = 2")
        assert listener.wait(TIMEOUT)
        with pytest.raises(ValueError, match="'x': 2"):
            listener.close()
        listener.close()
        # The error of the block says more than that of the listener.
        with pytest.raises(KeyError), Listener(Client(node.path, "b"), "x > 1", fails) as listener:
            sender.send_message("x = 2")
            assert listener.wait(TIMEOUT)
            raise KeyError
        client = Client(node.path, "c")
        with pytest.raises(ParseError):
            Listener(client, "x >", fails)
        with pytest.raises(ClientError):
            client.status()


def test_a_listener_says_that_its_router_has_ended(node: Node) -> None:
    listener = Listener(Client(node.path, "a"), "x > 1", print)
    node.events()
    assert listener.wait(TIMEOUT)
    with pytest.raises(ClientError, match="closed the connection"):
        listener.close()


def test_an_asyncio_program_gets_deliveries_until_the_router_ends(node: Node) -> None:
    async def program() -> list[Delivery]:
        got = []
        async with AsyncClient(node.path, "a") as client:
            await client.subscribe("x > 1")
            sent = [await client.send_message(f"x = {number}") for number in (1, 2, 3)]
            async for delivery in client:
                got.append(delivery)
                if len(got) == 2:
                    break
            assert [(each.source, each.seq) for each in got] == sent[1:]
            node.events()
            for _ in range(2):
                with pytest.raises(ClientError, match="closed"):
                    async with asyncio.timeout(TIMEOUT):
                        async for _delivery in client:
                            pass
        return got

    assert [each.attributes for each in asyncio.run(program())] == [{"x": 2}, {"x": 3}]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_methods_of_commands_are_documented(kind: type) -> None:
    for name in Client.__dict__.keys() & vars(commands).keys() - {"Command"}:
        assert inspect.getdoc(getattr(kind, name))
    assert str(inspect.signature(kind.subscribe)) == "(self, /, predicate: 'Predicate | str') -> 'int'"  # type: ignore[attr-defined]
    assert {name for name in vars(Client) if name in vars(commands)} <= vars(kind).keys()


def test_who_leaves_at_once_knows_what_it_has_sent(node: Node) -> None:
    client = node.client("a")
    request = client.start(commands.send_message("x = 1"))
    client.request("no such operation")
    client.close()  # as after Ctrl-C: nobody has waited for the answer
    assert request.answer is not None and request.answer["seq"] & 0xFFFF_FFFF == 1
