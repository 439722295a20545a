"""A JSON-RPC 1.0 client on a Unix socket: the protocol of ovsdb-server (RFC 7047) and of `ovs-appctl`."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.support.errors import RunError

_CHUNK = 1 << 20


class JsonRpc:
    """A connection; a context manager.

    Args:
        path: the socket.
        timeout_s: wall seconds that one call may take.

    Raises:
        OSError: nobody listens at the socket.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._calls = 0
        self._text = ""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, params: list[Any]) -> Any:
        """Calls a method and returns its result.

        Raises:
            RunError: the server answered with an error, not in time, or not at all.
        """
        self._calls += 1
        request = {"method": method, "params": params, "id": self._calls}
        try:
            self._send(request)
            while True:
                message = self._receive()
                if message.get("method") == "echo":  # the server checks that this client is alive
                    self._send({"result": message["params"], "error": None, "id": message["id"]})
                elif message.get("id") == self._calls:
                    break
        except OSError as error:
            raise RunError(f"{self._path}: {method}: {error or type(error).__name__}") from error
        if message.get("error"):
            raise RunError(f"{self._path}: {method}: {message['error']}")
        return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode())

    def _receive(self) -> dict[str, Any]:
        """Returns the next message: JSON objects follow each other without a separator."""
        while True:
            self._text = self._text.lstrip()
            try:
                message, end = json.JSONDecoder().raw_decode(self._text)
            except ValueError:
                chunk = self._socket.recv(_CHUNK)
                if not chunk:
                    raise ConnectionResetError("the server has closed the connection") from None
                self._text += chunk.decode()
                continue
            self._text = self._text[end:]
            if not isinstance(message, dict):
                raise ConnectionAbortedError(f"expected a JSON object, got {message!r}")
            return message
