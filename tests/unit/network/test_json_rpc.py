"""The JSON-RPC client against a server of the test's own on a real Unix socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from testbed.emulation.network.switch_sockets import JsonRpc
from testbed.support.errors import RunError
from tests.support.polling import TIMEOUT

Serve = Callable[[list[bytes]], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server that answers the first request by the given pieces, one send each, and no more."""
    threads = []

    def start(pieces: list[bytes]) -> Path:
        path = tmp_path / "socket"
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.listen()

        def answer() -> None:
            connection, _ = server.accept()
            with server, connection:
                connection.recv(65_536)
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join()


def test_an_answer_may_come_in_pieces_after_other_messages(serve: Serve) -> None:
    answer = json.dumps({"id": 1, "result": {"found": [1, 2]}, "error": None}).encode()
    echo = b'{"method": "echo", "params": [7], "id": "echo"}'
    with closing(JsonRpc(serve([echo[:9], echo[9:] + answer[:5], answer[5:]]), TIMEOUT)) as client:
        assert client.call("ask", []) == {"found": [1, 2]}


def test_an_error_of_the_server_is_raised(serve: Serve) -> None:
    with (
        closing(JsonRpc(serve([b'{"id": 1, "result": null, "error": "no such thing"}']), TIMEOUT)) as client,
        pytest.raises(RunError, match="ask: no such thing"),
    ):
        client.call("ask", [])


def test_a_server_that_closes_is_named(serve: Serve) -> None:
    path = serve([b'{"id": 1,'])
    with closing(JsonRpc(path, TIMEOUT)) as client, pytest.raises(RunError, match=f"{path}: ask: .*closed"):
        client.call("ask", [])
